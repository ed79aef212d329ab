package api

import (
	"context"

	"ttfabric/router"
	"ttfabric/wire"
)

// RouterActions holds the commands of tt-metal for the router at a port, by name. tt-metal has no
// command for [FlushAction].
var RouterActions = map[string]router.Command{
	"resume": router.CommandRun, "pause": router.CommandPause, "drain": router.CommandDrain, "retrain": router.CommandRetrain,
}

// FlushAction is the name of the action that makes a port drop the packets in its sender channels.
const FlushAction = "flush"

// RouterBody gives a command to the router at some ports of a chip.
type RouterBody struct {
	Channels Channels `json:"channels"` // the ports, by ethernet channel; an empty list means all ports of the chip
	Action   string   `json:"action"`   // the command: resume, pause, drain, retrain or flush
}

// RouterView is the state of a chip's router at one port.
type RouterView struct {
	Chip     wire.FabricNodeID `json:"chip"`         // the chip of the port
	Channel  wire.Channel      `json:"channel"`      // the ethernet channel of the port
	Peer     wire.FabricNodeID `json:"peer"`         // the chip at the other end of the cable
	PeerChan wire.Channel      `json:"peer_channel"` // the ethernet channel at the other end of the cable
	Plane    wire.Plane        `json:"plane"`        // the routing plane of the port
	State    string            `json:"state"`        // the state: initializing, running, paused, draining or retraining
	Code     uint32            `json:"state_code"`   // the state by its number in tt-metal's enumeration RouterState, 0 to 4
	Waiting  int               `json:"waiting"`      // the number of packets in the port's sender and receiver channels
	Flushed  int               `json:"flushed"`      // the number of packets that the port dropped because of this call
}

// Routers returns the state of the chip's router at each port.
func (c *Client) Routers(ctx context.Context) (v []RouterView, err error) {
	return v, c.call(ctx, "GET", "/v1/router", nil, &v)
}

// CommandRouter gives a command to the router at some ports. If b names no ports, the command
// applies to all ports of the chip.
func (c *Client) CommandRouter(ctx context.Context, b RouterBody) (v []RouterView, err error) {
	return v, c.call(ctx, "POST", "/v1/router", b, &v)
}
