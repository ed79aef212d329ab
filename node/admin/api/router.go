package api

import (
	"context"

	"ttfabric/router"
	"ttfabric/wire"
)

// RouterActions holds the commands for the routers of ports, by name. The commands are
// those of tt-metal. The further action [FlushAction] is our own.
var RouterActions = map[string]router.Command{
	"resume": router.CommandRun, "pause": router.CommandPause, "drain": router.CommandDrain, "retrain": router.CommandRetrain,
}

// FlushAction is the name of an action. The action makes a port give up the packets
// that now wait in its sender channels.
const FlushAction = "flush"

// RouterBody gives the routers of some ports a command.
type RouterBody struct {
	Channels Channels `json:"channels"` // the ports, by ethernet channel; an empty list means all ports of the chip
	Action   string   `json:"action"`   // the command: resume, pause, drain, retrain or flush
}

// RouterView is the state of a port's router.
type RouterView struct {
	Chip     wire.FabricNodeID `json:"chip"`         // the chip of the port
	Channel  wire.Channel      `json:"channel"`      // the ethernet channel of the port
	Peer     wire.FabricNodeID `json:"peer"`         // the chip at the other end of the cable
	PeerChan wire.Channel      `json:"peer_channel"` // the ethernet channel at the other end of the cable
	Plane    wire.Plane        `json:"plane"`        // the routing plane of the port
	State    string            `json:"state"`        // the state: initializing, running, paused, draining or retraining
	Code     uint32            `json:"state_code"`   // the state as a number of tt-metal's RouterState, 0 to 4
	Waiting  int               `json:"waiting"`      // the number of packets in the port's sender and receiver channels
	Flushed  int               `json:"flushed"`      // the number of packets that the port gave up in this call
}

// Routers returns the state of the router of each port of the chip.
func (c *Client) Routers(ctx context.Context) (v []RouterView, err error) {
	return v, c.call(ctx, "GET", "/v1/router", nil, &v)
}

// CommandRouter gives the routers of some ports a command. If the body names no ports,
// CommandRouter gives the command to the routers of all ports.
func (c *Client) CommandRouter(ctx context.Context, b RouterBody) (v []RouterView, err error) {
	return v, c.call(ctx, "POST", "/v1/router", b, &v)
}
