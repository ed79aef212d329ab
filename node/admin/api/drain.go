package api

import (
	"context"
)

// DrainBody lets a chip take no new requests, or take them again.
type DrainBody struct {
	On bool `json:"on"` // the chip takes no new requests
}

// Drain lets the chip take no new requests, or take them again. Requests that
// were started go on.
func (c *Client) Drain(ctx context.Context, on bool) error {
	return c.call(ctx, "PUT", "/v1/leaving", DrainBody{on}, nil)
}
