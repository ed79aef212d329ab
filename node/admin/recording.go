package admin

import (
	"fmt"
	"net/http"

	"ttfabric/node"
	"ttfabric/node/admin/api"
)

// recordEvent writes into v that a recording of the chip's calls has begun or ended.
func recordEvent(v *api.EventView, e *node.RecordEvent) {
	v.Type, v.Action, v.Actor = "recording", "began", v.Chip.String()
	v.Detail["file"] = e.File
	if e.Ended {
		v.Action = "ended"
		v.Detail["reason"], v.Detail["bytes"] = e.Why, fmt.Sprint(e.Bytes)
	}
}

// endRecording ends the recording of the chip's calls.
func (s *Server) endRecording(w http.ResponseWriter, _ *http.Request) {
	file, err := s.n.EndRecording()
	if err != nil {
		problem(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, api.RecordingView{File: file})
}
