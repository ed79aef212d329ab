package api

import (
	"context"

	"ttfabric/node/flow"
)

// Moment returns how the chip's requests have ended up to now, by destination.
// With this method a Client is a session.Counter: a session on the client can
// take checkpoints.
func (c *Client) Moment(ctx context.Context) (m flow.Moment, err error) {
	return m, c.call(ctx, "GET", "/v1/ends", nil, &m)
}
