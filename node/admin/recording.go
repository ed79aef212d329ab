package admin

import (
	"context"
	"fmt"
	"net/http"

	"ttfabric/node"
)

// RecordingView is a recording that has ended.
type RecordingView struct {
	File string `json:"file"`
}

// recordEvent renders the begin or end of a recording.
func recordEvent(v *EventView, e *node.RecordEvent) {
	v.Type, v.Action, v.Actor = "recording", "began", v.Chip.String()
	v.Detail["file"] = e.File
	if e.Ended {
		v.Action = "ended"
		v.Detail["reason"], v.Detail["bytes"] = e.Why, fmt.Sprint(e.Bytes)
	}
}

func (s *Server) endRecording(w http.ResponseWriter, _ *http.Request) {
	file, err := s.n.EndRecording()
	if err != nil {
		problem(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, RecordingView{file})
}

// EndRecording ends the recording of the chip's calls; its file is complete then.
func (c *Client) EndRecording(ctx context.Context) (v RecordingView, err error) {
	return v, c.call(ctx, "DELETE", "/v1/recording", nil, &v)
}
