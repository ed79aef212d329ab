package api

import (
	"context"
	"fmt"

	"ttfabric/router"
	"ttfabric/wire"
)

// RouterActions holds the commands for the router at a port, by name. tt-metal has no commands for raw,
// ttlink and [FlushAction].
var RouterActions = map[string]router.Command{
	"resume": router.CommandRun, "pause": router.CommandPause, "drain": router.CommandDrain, "retrain": router.CommandRetrain,
	"raw": router.CommandRaw, "ttlink": router.CommandTTLink,
}

// FlushAction is the name of the action that makes a port drop the packets in its sender channels.
const FlushAction = "flush"

// RouterBody gives a command to the router at some ports of a chip.
type RouterBody struct {
	Channels Channels `json:"channels"` // the ports, by ethernet channel; an empty list means all ports of the chip
	Action   string   `json:"action"`   // the command: resume, pause, drain, retrain, raw, ttlink or flush
}

// RouterView is the state of a chip's router at one port.
type RouterView struct {
	Chip     wire.FabricNodeID `json:"chip"`         // the chip of the port
	Channel  wire.Channel      `json:"channel"`      // the ethernet channel of the port
	Peer     wire.FabricNodeID `json:"peer"`         // the chip at the other end of the cable
	PeerChan wire.Channel      `json:"peer_channel"` // the ethernet channel at the other end of the cable
	Plane    wire.Plane        `json:"plane"`        // the routing plane of the port
	State    string            `json:"state"`        // the state: initializing, running, paused, draining, retraining or compliance mode
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

// ChannelView is a sender or receiver channel of a port that holds packets.
type ChannelView struct {
	Chip     wire.FabricNodeID `json:"chip"`             // the chip of the port
	Channel  wire.Channel      `json:"channel"`          // the ethernet channel of the port
	Peer     wire.FabricNodeID `json:"peer"`             // the chip at the other end of the cable
	PeerChan wire.Channel      `json:"peer_channel"`     // the ethernet channel at the other end of the cable
	Link     string            `json:"link_state"`       // the state of the port's link: off, training, up or closed
	Router   string            `json:"router_state"`     // the state of the router at the port: initializing, running, paused, draining or retraining
	Credits  int               `json:"credits"`          // the number of packets of this virtual channel that the port may send now
	VC       string            `json:"vc"`               // the virtual channel
	Side     string            `json:"side"`             // receiver: packets that came in by the port; sender: packets that wait to leave by the port
	Sender   *int              `json:"sender,omitempty"` // the number of the sender channel, 0 for the chip's own packets; absent for a receiver channel
	Slots    int               `json:"slots"`            // the number of packets for which the channel has room
	Waiting  int               `json:"waiting"`          // the number of packets in the channel
	Packets  []HeldView        `json:"packets"`          // the first packets in the order in which they leave, at most 16
}

// Name returns the name of the channel at its port, such as "sender 0", for people.
func (v *ChannelView) Name() string {
	if v.Sender == nil {
		return v.Side
	}
	return fmt.Sprintf("%s %d", v.Side, *v.Sender)
}

// HeldView is a packet that waits in a channel.
type HeldView struct {
	Type string            `json:"type"`        // the type of the packet
	Src  wire.FabricNodeID `json:"src"`         // the source
	Dst  wire.FabricNodeID `json:"dst"`         // the destination; for a multicast, the source
	ID   string            `json:"id"`          // the id of the packet's request, 16 hexadecimal digits
	TTL  uint16            `json:"ttl"`         // the number of hops that the packet may still make
	Size int               `json:"bytes"`       // the length of the packet
	AgeS float64           `json:"age_seconds"` // the time since the packet entered the channel
}

// RouterChannels returns the channels of the chip's router that hold packets.
func (c *Client) RouterChannels(ctx context.Context) (v []ChannelView, err error) {
	return v, c.call(ctx, "GET", "/v1/router/channels", nil, &v)
}
