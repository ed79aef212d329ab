package api

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// ImpairmentView is what is done on purpose to what a port sends. delay to
// corruption are named and measured as containerlab's "tools netem show" has them.
type ImpairmentView struct {
	Chip       wire.FabricNodeID `json:"chip"`
	Channel    wire.Channel      `json:"channel"`
	Peer       wire.FabricNodeID `json:"peer"`
	PeerChan   wire.Channel      `json:"peer_channel"`
	Plane      wire.Plane        `json:"plane"`
	Active     bool              `json:"active"`      // something is in force
	Delay      string            `json:"delay"`       // such as 10ms; "" for none
	Jitter     string            `json:"jitter"`      // the same
	PacketLoss float64           `json:"packet_loss"` // percent
	Rate       int64             `json:"rate"`        // kbit/s; 0 for no limit
	Corruption float64           `json:"corruption"`  // percent
	Duplicate  float64           `json:"duplicate"`   // percent
	Reorder    float64           `json:"reorder"`     // percent
	GEModel    string            `json:"loss_gemodel,omitempty"`
	Options    string            `json:"options"` // all of it, as "up --netem" reads it
	Seed       uint64            `json:"seed"`
	Cut        bool              `json:"cut"`
	EndsInS    float64           `json:"ends_in_seconds,omitempty"`     // until the options that were set for a time are put back
	CutEndsInS float64           `json:"cut_ends_in_seconds,omitempty"` // the same of the cut
	ForS       float64           `json:"for_seconds"`                   // that something has been in force, and counted
	Counters   map[string]uint64 `json:"counters"`

	Labels []string `json:"labels,omitempty"` // of the cable, in the topology file

	Interface string `json:"interface,omitempty"` // whose netem does it, where the kernel does
}

// NetemBody changes what is done to what some ports send.
type NetemBody struct {
	Channels Channels     `json:"channels"`
	Options  fault.Change `json:"options,omitempty"`     // such as {"delay":"10ms"}; what is not named stays
	Seed     *uint64      `json:"seed,omitempty"`        // throws the dice anew
	Cut      *bool        `json:"cut,omitempty"`         // takes the cable away in this direction, or puts it back
	ForS     float64      `json:"for_seconds,omitempty"` // puts back what is changed; 0: it stays
}

// FaultBody tells of a fault that somebody injects into a chip's process, or
// that the kernel does to what ports of the asked chip send.
type FaultBody struct {
	Kind fault.Kind        `json:"kind"` // killed, paused, resumed, restarted, removed; set, reset
	Chip wire.FabricNodeID `json:"chip"`

	Channel wire.Channel `json:"channel,omitempty"`     // of set and reset
	Options fault.Change `json:"options,omitempty"`     // in force from now on
	ForS    float64      `json:"for_seconds,omitempty"` // after which it is put back; 0: it stays
}

// Netem says of each port of the chip what is done on purpose to what it sends.
func (c *Client) Netem(ctx context.Context) (v []ImpairmentView, err error) {
	return v, c.call(ctx, "GET", "/v1/netem", nil, &v)
}

// SetNetem changes it for some ports.
func (c *Client) SetNetem(ctx context.Context, b NetemBody) error {
	return c.call(ctx, "PUT", "/v1/netem", b, nil)
}

// ResetNetem takes it away from some ports, or from all where none is named. A cut stays.
func (c *Client) ResetNetem(ctx context.Context, channels ...wire.Channel) error {
	q := url.Values{}
	for _, ch := range channels {
		q.Add("channel", fmt.Sprint(ch))
	}
	return c.call(ctx, "DELETE", "/v1/netem?"+q.Encode(), nil, nil)
}

// TellFault lets the chip tell of a fault in another chip's process.
func (c *Client) TellFault(ctx context.Context, k fault.Kind, chip wire.FabricNodeID) error {
	return c.call(ctx, "POST", "/v1/faults", FaultBody{Kind: k, Chip: chip}, nil)
}

// TellImpairment lets the chip tell that the kernel does o to what a channel sends; none: that it does nothing any more.
func (c *Client) TellImpairment(ctx context.Context, ch wire.Channel, o fault.Options, d time.Duration) error {
	b := FaultBody{Kind: fault.KindReset, Chip: c.self, Channel: ch, Options: fault.Change{}, ForS: d.Seconds()}
	for _, k := range fault.Knobs {
		if s := k.Text(o); s != "" {
			b.Kind, b.Options[k.Name] = fault.KindSet, s
		}
	}
	return c.call(ctx, "POST", "/v1/faults", b, nil)
}
