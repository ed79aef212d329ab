package api

import (
	"context"

	"ttfabric/node/losses"
)

// Losses returns the packet counts of the chip since its start, as [losses.Merge] needs them.
func (c *Client) Losses(ctx context.Context) (v losses.Chip, err error) {
	return v, c.call(ctx, "GET", "/v1/losses", nil, &v)
}
