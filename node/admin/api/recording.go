package api

import (
	"context"
)

// RecordingView is a recording that has ended.
type RecordingView struct {
	File string `json:"file"`
}

// EndRecording ends the recording of the chip's calls; its file is complete then.
func (c *Client) EndRecording(ctx context.Context) (v RecordingView, err error) {
	return v, c.call(ctx, "DELETE", "/v1/recording", nil, &v)
}
