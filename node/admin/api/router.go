package api

import (
	"context"

	"ttfabric/router"
	"ttfabric/wire"
)

// RouterActions are what the routers of ports can be told, by name. Flush is no
// command of tt-metal's: it gives up what waits to be sent by a port, once.
var RouterActions = map[string]router.Command{
	"resume": router.CommandRun, "pause": router.CommandPause, "drain": router.CommandDrain, "retrain": router.CommandRetrain,
}

// FlushAction is the name of the action that is none of [RouterActions].
const FlushAction = "flush"

// RouterBody tells the routers of some ports what to do.
type RouterBody struct {
	Channels Channels `json:"channels"` // none: all of the chip
	Action   string   `json:"action"`   // resume, pause, drain, retrain, flush
}

// RouterView is what the router of a port does.
type RouterView struct {
	Chip     wire.FabricNodeID `json:"chip"`
	Channel  wire.Channel      `json:"channel"`
	Peer     wire.FabricNodeID `json:"peer"`
	PeerChan wire.Channel      `json:"peer_channel"`
	Plane    wire.Plane        `json:"plane"`
	State    string            `json:"state"`      // initializing, running, paused, draining, retraining
	Code     uint32            `json:"state_code"` // 0 to 4, as tt-metal's RouterState has it
	Waiting  int               `json:"waiting"`    // packets in its sender and receiver channels
	Flushed  int               `json:"flushed"`    // packets given up by this call
}

// Routers says what the router of each of the chip's ports does.
func (c *Client) Routers(ctx context.Context) (v []RouterView, err error) {
	return v, c.call(ctx, "GET", "/v1/router", nil, &v)
}

// CommandRouter tells the routers of some ports, or of all where none is named, what to do.
func (c *Client) CommandRouter(ctx context.Context, b RouterBody) (v []RouterView, err error) {
	return v, c.call(ctx, "POST", "/v1/router", b, &v)
}
