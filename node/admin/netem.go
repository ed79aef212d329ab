package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"ttfabric/node"
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

// NewImpairmentView renders what is done to one port, by the chip or by the kernel.
func NewImpairmentView(i *node.Impairment) ImpairmentView {
	o := i.Options
	v := ImpairmentView{Chip: i.Local.Node, Channel: i.Local.Channel, Peer: i.Peer.Node, PeerChan: i.Peer.Channel, Plane: i.Plane,
		Active: !i.Since.IsZero(), PacketLoss: percent(o.Loss), Rate: o.Rate / 1000, Corruption: percent(o.Corrupt),
		Duplicate: percent(o.Duplicate), Reorder: percent(o.Reorder), Options: o.String(), Seed: i.Seed, Cut: i.Cut,
		EndsInS: secondsTo(i.Until), CutEndsInS: secondsTo(i.CutUntil), Counters: faultCounters(&i.Counts)}
	for _, k := range fault.Knobs {
		switch k.Name {
		case "delay":
			v.Delay = k.Text(o)
		case "jitter":
			v.Jitter = k.Text(o)
		case "loss-gemodel":
			v.GEModel = k.Text(o)
		}
	}
	if v.Active {
		v.ForS = time.Since(i.Since).Seconds()
	}
	v.Counters["overfull"] = i.Overfull
	return v
}

// percent is a share without what binary fractions add to it.
func percent(share float64) float64 { return math.Round(share*1e11) / 1e9 }

// secondsTo is how long it is to a time, 0 for no time.
func secondsTo(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(time.Until(t).Seconds(), 0)
}

func faultCounters(c *fault.Counts) map[string]uint64 {
	return map[string]uint64{"passed": c.Passed, "lost": c.Lost, "burst_lost": c.BurstLost, "cut_off": c.CutOff,
		"overflowed": c.Overflowed, "duplicated": c.Duplicated, "reordered": c.Reordered, "corrupted": c.Corrupted}
}

func faultEvent(v *EventView, e *node.FaultEvent) {
	v.Type, v.Action = "fault", e.Kind.String()
	if e.Kind >= node.FaultKilled {
		v.Actor = e.Chip.String()
		return
	}
	if e.Gossip {
		gossipFaultEvent(v, e)
	} else {
		v.Actor = fmt.Sprintf("%s channel %d", e.Local.Node, e.Local.Channel)
		v.Detail["peer"] = fmt.Sprintf("%s channel %d", e.Peer.Node, e.Peer.Channel)
	}
	if s := e.Options.String(); s != "" {
		v.Detail["options"] = s
	}
	if e.For > 0 {
		v.Detail["for"] = e.For.String()
	}
	if e.Kernel {
		v.Detail["backend"] = "kernel"
	}
	if e.Expired {
		v.Detail["by"] = "its duration"
	}
	for k, n := range faultCounters(&e.Counts) {
		if n > 0 {
			v.Detail[k] = fmt.Sprint(n)
		}
	}
}

func (s *Server) netem(w http.ResponseWriter, _ *http.Request) {
	out := []ImpairmentView{}
	for _, i := range s.n.Impairments() {
		v := NewImpairmentView(&i)
		v.Labels = s.n.Topology().Labels(i.Local)
		out = append(out, v)
	}
	answer(w, out)
}

// NetemBody changes what is done to what some ports send.
type NetemBody struct {
	Channels []wire.Channel `json:"channels"`
	Options  fault.Change   `json:"options,omitempty"`     // such as {"delay":"10ms"}; what is not named stays
	Seed     *uint64        `json:"seed,omitempty"`        // throws the dice anew
	Cut      *bool          `json:"cut,omitempty"`         // takes the cable away in this direction, or puts it back
	ForS     float64        `json:"for_seconds,omitempty"` // puts back what is changed; 0: it stays
}

func (s *Server) setNetem(w http.ResponseWriter, r *http.Request) {
	var b NetemBody
	if err := decode(r, &b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := s.checkNetem(&b); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	d := time.Duration(b.ForS * float64(time.Second))
	for _, ch := range b.Channels {
		var errs [2]error
		if len(b.Options) > 0 || b.Seed != nil {
			errs[0] = s.n.SetImpairment(ch, b.Options, b.Seed, d)
		}
		if b.Cut != nil {
			errs[1] = s.n.Cut(ch, *b.Cut, d)
		}
		if err := errors.Join(errs[:]...); err != nil {
			problem(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
	}
	s.netem(w, r)
}

// checkNetem refuses what would change nothing, or only some of what it names.
func (s *Server) checkNetem(b *NetemBody) error {
	if len(b.Channels) == 0 {
		return errors.New("no channels: name those whose ports are meant")
	}
	if len(b.Options) == 0 && b.Seed == nil && b.Cut == nil {
		return errors.New("nothing to change: name options, seed or cut; DELETE takes away what is in force")
	}
	for _, ch := range b.Channels {
		if !slices.ContainsFunc(s.n.Impairments(), func(i node.Impairment) bool { return i.Local.Channel == ch }) {
			return fmt.Errorf("chip %s has no cable at channel %d", s.n.Self(), ch)
		}
	}
	return nil
}

func (s *Server) resetNetem(w http.ResponseWriter, r *http.Request) {
	var channels []wire.Channel
	for _, x := range r.URL.Query()["channel"] {
		ch, err := strconv.ParseUint(x, 10, 8)
		if err != nil {
			problem(w, http.StatusBadRequest, fmt.Sprintf("channel=%s: want a number below %d", x, wire.MaxChannels))
			return
		}
		channels = append(channels, wire.Channel(ch))
	}
	if len(channels) == 0 {
		for _, i := range s.n.Impairments() {
			channels = append(channels, i.Local.Channel)
		}
	}
	for _, ch := range channels {
		if err := s.n.ResetImpairment(ch); err != nil {
			problem(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
	}
	s.netem(w, r)
}

// FaultBody tells of a fault that somebody injects into a chip's process, or
// that the kernel does to what ports of the asked chip send.
type FaultBody struct {
	Kind node.FaultKind    `json:"kind"` // killed, paused, resumed, restarted, removed; set, reset
	Chip wire.FabricNodeID `json:"chip"`

	Channel wire.Channel `json:"channel,omitempty"`     // of set and reset
	Options fault.Change `json:"options,omitempty"`     // in force from now on
	ForS    float64      `json:"for_seconds,omitempty"` // after which it is put back; 0: it stays
}

func (s *Server) tellFault(w http.ResponseWriter, r *http.Request) {
	var b FaultBody
	if err := decode(r, &b); err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if b.Kind == node.FaultSet || b.Kind == node.FaultReset {
		o, err := b.Options.Apply(fault.Options{})
		if err == nil {
			err = s.n.TellImpairment(b.Kind, b.Channel, o, time.Duration(b.ForS*float64(time.Second)))
		}
		if err != nil {
			problem(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		answer(w, map[string]bool{"ok": true})
		return
	}
	if _, ok := s.n.Topology().Chip(b.Chip); !ok || b.Kind < node.FaultKilled {
		problem(w, http.StatusUnprocessableEntity, fmt.Sprintf("%s of chip %s: want a fault of a process of a chip of this machine", b.Kind, b.Chip))
		return
	}
	s.n.TellFault(b.Kind, b.Chip)
	answer(w, map[string]bool{"ok": true})
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
func (c *Client) TellFault(ctx context.Context, k node.FaultKind, chip wire.FabricNodeID) error {
	return c.call(ctx, "POST", "/v1/faults", FaultBody{Kind: k, Chip: chip}, nil)
}

// TellImpairment lets the chip tell that the kernel does o to what a channel sends; none: that it does nothing any more.
func (c *Client) TellImpairment(ctx context.Context, ch wire.Channel, o fault.Options, d time.Duration) error {
	b := FaultBody{Kind: node.FaultReset, Chip: c.self, Channel: ch, Options: fault.Change{}, ForS: d.Seconds()}
	for _, k := range fault.Knobs {
		if s := k.Text(o); s != "" {
			b.Kind, b.Options[k.Name] = node.FaultSet, s
		}
	}
	return c.call(ctx, "POST", "/v1/faults", b, nil)
}
