package api

import (
	"context"

	"ttfabric/wire"
)

// Traces returns the traced packets that came to the chip, oldest first.
func (c *Client) Traces(ctx context.Context) (v []SightingView, err error) {
	return v, c.call(ctx, "GET", "/v1/traces", nil, &v)
}

// SightingView is a traced packet that came to a chip, as the API tells it.
type SightingView struct {
	Src     wire.FabricNodeID `json:"src"`
	Dst     wire.FabricNodeID `json:"dst"`
	ID      string            `json:"id"`
	Channel wire.Channel      `json:"channel"` // that it came in by
	VC      string            `json:"vc"`
	TTL     uint16            `json:"ttl"`
	Plane   wire.Plane        `json:"plane"`
}
