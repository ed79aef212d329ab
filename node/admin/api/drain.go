package api

import (
	"context"
)

// DrainBody says whether a chip refuses or accepts new requests.
type DrainBody struct {
	On bool `json:"on"` // true: the chip refuses new requests; false: the chip accepts new requests
}

// Drain makes the chip refuse new requests, or accept new requests again. Requests that
// the chip has started continue.
func (c *Client) Drain(ctx context.Context, on bool) error {
	return c.call(ctx, "PUT", "/v1/leaving", DrainBody{on}, nil)
}
