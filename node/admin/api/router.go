package api

import (
	"context"

	"ttfabric/router"
	"ttfabric/wire"
)

// RouterActions are the commands for the routers of ports, by name. They are
// commands of tt-metal's. The further action [FlushAction] is our own.
var RouterActions = map[string]router.Command{
	"resume": router.CommandRun, "pause": router.CommandPause, "drain": router.CommandDrain, "retrain": router.CommandRetrain,
}

// FlushAction is the name of the action by which a port gives up, once, the
// packets that wait in its sender channels.
const FlushAction = "flush"

// RouterBody tells the routers of some ports what to do.
type RouterBody struct {
	Channels Channels `json:"channels"` // the ports, by ethernet channel; none: all ports of the chip
	Action   string   `json:"action"`   // resume, pause, drain, retrain, flush
}

// RouterView is what the router of a port does.
type RouterView struct {
	Chip     wire.FabricNodeID `json:"chip"`         // the chip of the port
	Channel  wire.Channel      `json:"channel"`      // the ethernet channel of the port
	Peer     wire.FabricNodeID `json:"peer"`         // the chip at the other end of the cable
	PeerChan wire.Channel      `json:"peer_channel"` // the ethernet channel at the other end of the cable
	Plane    wire.Plane        `json:"plane"`        // the routing plane of the port
	State    string            `json:"state"`        // initializing, running, paused, draining, retraining
	Code     uint32            `json:"state_code"`   // 0 to 4, as tt-metal's RouterState has it
	Waiting  int               `json:"waiting"`      // packets in its sender and receiver channels
	Flushed  int               `json:"flushed"`      // packets that the port gave up in this call
}

// Routers returns what the router of each port of the chip does.
func (c *Client) Routers(ctx context.Context) (v []RouterView, err error) {
	return v, c.call(ctx, "GET", "/v1/router", nil, &v)
}

// CommandRouter tells the routers of some ports what to do, or the routers of all
// ports if the body names none.
func (c *Client) CommandRouter(ctx context.Context, b RouterBody) (v []RouterView, err error) {
	return v, c.call(ctx, "POST", "/v1/router", b, &v)
}
