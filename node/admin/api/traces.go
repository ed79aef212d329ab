package api

import (
	"context"

	"ttfabric/wire"
)

// Traces lists the traced packets that came to the chip, oldest first.
func (c *Client) Traces(ctx context.Context) (v []SightingView, err error) {
	return v, c.call(ctx, "GET", "/v1/traces", nil, &v)
}

// SightingView is a traced packet that came to a chip.
type SightingView struct {
	Src     wire.FabricNodeID `json:"src"`     // the packet's source
	Dst     wire.FabricNodeID `json:"dst"`     // the packet's destination
	ID      string            `json:"id"`      // the packet's id, 16 hexadecimal digits
	Channel wire.Channel      `json:"channel"` // the ethernet channel by which the packet came in
	VC      string            `json:"vc"`      // the virtual channel by which the packet came in, such as data or reply
	TTL     uint16            `json:"ttl"`     // the number of hops that the packet may still take
	Plane   wire.Plane        `json:"plane"`   // the packet's routing plane
}
