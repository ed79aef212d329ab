package api

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// ImpairmentView is what is done on purpose to the datagrams that a port sends.
// The fields from delay to corruption have the names and units of containerlab's
// "tools netem show".
type ImpairmentView struct {
	Chip       wire.FabricNodeID `json:"chip"`                          // the chip of the port
	Channel    wire.Channel      `json:"channel"`                       // the ethernet channel of the port
	Peer       wire.FabricNodeID `json:"peer"`                          // the chip at the other end of the cable
	PeerChan   wire.Channel      `json:"peer_channel"`                  // the ethernet channel at the other end of the cable
	Plane      wire.Plane        `json:"plane"`                         // the routing plane of the port
	Active     bool              `json:"active"`                        // an impairment or a cut is in force
	Delay      string            `json:"delay"`                         // such as 10ms; "" for none
	Jitter     string            `json:"jitter"`                        // such as 1ms; "" for none
	PacketLoss float64           `json:"packet_loss"`                   // percent
	Rate       int64             `json:"rate"`                          // kbit/s; 0 for no limit
	Corruption float64           `json:"corruption"`                    // percent
	Duplicate  float64           `json:"duplicate"`                     // percent
	Reorder    float64           `json:"reorder"`                       // percent
	GEModel    string            `json:"loss_gemodel,omitempty"`        // losses in bursts by the Gilbert-Elliott model, as 'ttfabric netem' reads them
	Options    string            `json:"options"`                       // all impairments, as 'ttfabric up --netem' reads them
	Seed       uint64            `json:"seed"`                          // of the dice of the impairments
	Cut        bool              `json:"cut"`                           // the port sends nothing
	EndsInS    float64           `json:"ends_in_seconds,omitempty"`     // until the chip takes back the impairments that were set for a time
	CutEndsInS float64           `json:"cut_ends_in_seconds,omitempty"` // until the chip takes back the cut that was made for a time
	ForS       float64           `json:"for_seconds"`                   // how long something has been in force; the counters are of this time
	Counters   map[string]uint64 `json:"counters"`                      // datagrams, by what was done to them

	Labels []string `json:"labels,omitempty"` // the labels of the cable in the topology file

	Interface string `json:"interface,omitempty"` // the network interface whose netem does this, if the kernel does this and not the chip
}

// NetemBody changes what is done to the datagrams that some ports send.
type NetemBody struct {
	Channels Channels     `json:"channels"`              // the ports, by ethernet channel; at least one
	Options  fault.Change `json:"options,omitempty"`     // impairments, such as {"delay":"10ms"}; those that are not named stay
	Seed     *uint64      `json:"seed,omitempty"`        // starts the dice of the impairments anew
	Cut      *bool        `json:"cut,omitempty"`         // takes the cable away in this direction, or puts the cable back
	ForS     float64      `json:"for_seconds,omitempty"` // after so many seconds the chip takes back the change; 0: the change stays
}

// FaultBody tells of a fault that somebody injects into a chip's process. It also
// tells what the kernel does to the datagrams that a port of the asked chip sends.
type FaultBody struct {
	Kind fault.Kind        `json:"kind"` // of a process: killed, paused, resumed, restarted, removed; of a port: set, reset
	Chip wire.FabricNodeID `json:"chip"` // of the faults of a process: the chip

	Channel wire.Channel `json:"channel,omitempty"`     // of set and reset: the port
	Options fault.Change `json:"options,omitempty"`     // of set: the impairments that are in force from now on
	ForS    float64      `json:"for_seconds,omitempty"` // of set: after so many seconds the kernel takes back the change; 0: the change stays
}

// Netem returns what is done on purpose to the datagrams that each port of the chip sends.
func (c *Client) Netem(ctx context.Context) (v []ImpairmentView, err error) {
	return v, c.call(ctx, "GET", "/v1/netem", nil, &v)
}

// SetNetem changes what is done to the datagrams that some ports send.
func (c *Client) SetNetem(ctx context.Context, b NetemBody) error {
	return c.call(ctx, "PUT", "/v1/netem", b, nil)
}

// ResetNetem takes away the impairments of some ports, or of all ports if it is
// given none. Cuts stay.
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

// TellImpairment lets the chip tell that the kernel impairs what a channel sends,
// by o, for the time d; 0: without an end. An empty o tells that the kernel
// impairs the channel no more.
func (c *Client) TellImpairment(ctx context.Context, ch wire.Channel, o fault.Options, d time.Duration) error {
	b := FaultBody{Kind: fault.KindReset, Chip: c.self, Channel: ch, Options: fault.Change{}, ForS: d.Seconds()}
	for _, k := range fault.Knobs {
		if s := k.Text(o); s != "" {
			b.Kind, b.Options[k.Name] = fault.KindSet, s
		}
	}
	return c.call(ctx, "POST", "/v1/faults", b, nil)
}
