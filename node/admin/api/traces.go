package api

import (
	"context"

	"ttfabric/wire"
)

// Traces returns the traced packets that the chip has seen, oldest first.
func (c *Client) Traces(ctx context.Context) (v []SightingView, err error) {
	return v, c.call(ctx, "GET", "/v1/traces", nil, &v)
}

// SightingView is a traced packet that a chip has seen.
type SightingView struct {
	Src     wire.FabricNodeID `json:"src"`     // the packet's source
	Dst     wire.FabricNodeID `json:"dst"`     // the packet's destination
	ID      string            `json:"id"`      // the packet's id, 16 hexadecimal digits
	Channel wire.Channel      `json:"channel"` // the ethernet channel by which the packet came in
	VC      string            `json:"vc"`      // the virtual channel by which the packet came in, such as data or reply
	TTL     uint16            `json:"ttl"`     // the packet's TTL at this chip: the number of routers that may still forward the packet
	Plane   wire.Plane        `json:"plane"`   // the packet's routing plane
}
