package api

import (
	"context"

	"ttfabric/node/chip"
)

// Moment is how the chip's requests have ended up to now. It makes the client
// a session.Counter, so that a session on it can take checkpoints.
func (c *Client) Moment(ctx context.Context) (m chip.Moment, err error) {
	return m, c.call(ctx, "GET", "/v1/ends", nil, &m)
}
