package api

import (
	"context"

	"ttfabric/node/losses"
)

// Losses returns what the chip has counted of packets in its present life, for [losses.Merge].
func (c *Client) Losses(ctx context.Context) (v losses.Chip, err error) {
	return v, c.call(ctx, "GET", "/v1/losses", nil, &v)
}
