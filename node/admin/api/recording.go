package api

import (
	"context"
)

// RecordingView is a recording of a chip's calls that has ended.
type RecordingView struct {
	File string `json:"file"` // the path of the recording on the chip's machine
}

// EndRecording ends the recording of the chip's calls. The file is complete when
// EndRecording returns.
func (c *Client) EndRecording(ctx context.Context) (v RecordingView, err error) {
	return v, c.call(ctx, "DELETE", "/v1/recording", nil, &v)
}
