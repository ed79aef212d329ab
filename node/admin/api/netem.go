package api

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// ImpairmentView describes the faults that the chip or the kernel injects into the datagrams that a
// port sends. The fields from delay to corruption have the names and units of containerlab's
// command "tools netem show".
type ImpairmentView struct {
	Chip       wire.FabricNodeID `json:"chip"`                          // the chip of the port
	Channel    wire.Channel      `json:"channel"`                       // the ethernet channel of the port
	Peer       wire.FabricNodeID `json:"peer"`                          // the chip at the other end of the cable
	PeerChan   wire.Channel      `json:"peer_channel"`                  // the ethernet channel at the other end of the cable
	Plane      wire.Plane        `json:"plane"`                         // the routing plane of the port
	Active     bool              `json:"active"`                        // whether an impairment or a cut is in force
	Delay      string            `json:"delay"`                         // the added delay of each datagram, such as 10ms; "": none
	Jitter     string            `json:"jitter"`                        // the largest random change of the delay, such as 1ms; "": none
	PacketLoss float64           `json:"packet_loss"`                   // the share of lost datagrams, in percent
	Rate       int64             `json:"rate"`                          // the limit of the port's data rate, in kbit/s; 0: no limit
	Corruption float64           `json:"corruption"`                    // the share of corrupted datagrams, in percent
	Duplicate  float64           `json:"duplicate"`                     // the share of duplicated datagrams, in percent
	Reorder    float64           `json:"reorder"`                       // the share of reordered datagrams, in percent
	GEModel    string            `json:"loss_gemodel,omitempty"`        // the parameters of the Gilbert-Elliott model for losses in bursts, in the notation of 'ttfabric netem'
	Options    string            `json:"options"`                       // all impairments, in the notation of 'ttfabric up --netem'
	Seed       uint64            `json:"seed"`                          // the seed of the impairments' random numbers
	Cut        bool              `json:"cut"`                           // whether the cable is cut in this direction; if the cable is cut, the port sends nothing
	EndsInS    float64           `json:"ends_in_seconds,omitempty"`     // the time until the chip removes impairments that have a set duration
	CutEndsInS float64           `json:"cut_ends_in_seconds,omitempty"` // the time until the chip ends a cut that has a set duration
	ForS       float64           `json:"for_seconds"`                   // the time for which an impairment or a cut has been in force; the counters cover this time
	Counters   map[string]uint64 `json:"counters"`                      // the numbers of datagrams that passed or that a fault hit, by the name of the fault

	Labels []string `json:"labels,omitempty"` // the labels of the cable in the topology file

	Interface string `json:"interface,omitempty"` // the network interface whose netem impairs the datagrams; absent if the chip injects the faults
}

// NetemBody changes the impairments of the datagrams that some ports send.
type NetemBody struct {
	Channels Channels     `json:"channels"`              // the ports, by ethernet channel; at least one
	Options  fault.Change `json:"options,omitempty"`     // impairments to change, such as {"delay":"10ms"}; other impairments stay in force
	Seed     *uint64      `json:"seed,omitempty"`        // restarts the impairments' random numbers with this seed
	Cut      *bool        `json:"cut,omitempty"`         // true: cuts the cable in this direction; false: repairs the cable in this direction
	ForS     float64      `json:"for_seconds,omitempty"` // the time after which the chip undoes the change; 0: the change has no set end
}

// FaultBody reports a fault that somebody injected into a chip's process. A FaultBody can also
// report that the kernel impairs the datagrams of a port of the called chip.
type FaultBody struct {
	Kind fault.Kind        `json:"kind"` // the kind of fault; for a process: killed, paused, resumed, restarted, removed; for a port: set, reset
	Chip wire.FabricNodeID `json:"chip"` // for a fault of a process: the chip that the process runs

	Channel wire.Channel `json:"channel,omitempty"`     // for set and reset: the port
	Options fault.Change `json:"options,omitempty"`     // for set: the kernel's impairments that are in force from now on
	ForS    float64      `json:"for_seconds,omitempty"` // for set: the time after which the impairments end; 0: no set end
}

// Netem returns the impairments of each port of the chip.
func (c *Client) Netem(ctx context.Context) (v []ImpairmentView, err error) {
	return v, c.call(ctx, "GET", "/v1/netem", nil, &v)
}

// SetNetem changes the impairments of the datagrams that some ports send.
func (c *Client) SetNetem(ctx context.Context, b NetemBody) error {
	return c.call(ctx, "PUT", "/v1/netem", b, nil)
}

// ResetNetem removes the impairments of the ports with the given channels. If no channels are
// given, ResetNetem removes the impairments of all ports. Cut cables stay cut.
func (c *Client) ResetNetem(ctx context.Context, channels ...wire.Channel) error {
	q := url.Values{}
	for _, ch := range channels {
		q.Add("channel", fmt.Sprint(ch))
	}
	return c.call(ctx, "DELETE", "/v1/netem?"+q.Encode(), nil, nil)
}

// TellFault makes the client's chip publish an event about a fault in another chip's process.
func (c *Client) TellFault(ctx context.Context, k fault.Kind, chip wire.FabricNodeID) error {
	return c.call(ctx, "POST", "/v1/faults", FaultBody{Kind: k, Chip: chip}, nil)
}

// TellImpairment makes the chip publish an event that the kernel impairs the datagrams of a
// channel. The options o name the impairment. The impairment ends after the duration d; if d is 0,
// the impairment has no set end. If o is empty, the event says that the kernel no longer impairs
// the channel.
func (c *Client) TellImpairment(ctx context.Context, ch wire.Channel, o fault.Options, d time.Duration) error {
	b := FaultBody{Kind: fault.KindReset, Chip: c.self, Channel: ch, Options: fault.Change{}, ForS: d.Seconds()}
	for _, k := range fault.Knobs {
		if s := k.Text(o); s != "" {
			b.Kind, b.Options[k.Name] = fault.KindSet, s
		}
	}
	return c.call(ctx, "POST", "/v1/faults", b, nil)
}
