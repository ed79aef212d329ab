package api

import (
	"context"

	"ttfabric/node/flow"
)

// Moment returns how many of the chip's requests have ended up to now, by destination and fate.
// With the method Moment, a Client implements session.Counter. A session over a Client can
// therefore take checkpoints.
func (c *Client) Moment(ctx context.Context) (m flow.Moment, err error) {
	return m, c.call(ctx, "GET", "/v1/ends", nil, &m)
}
