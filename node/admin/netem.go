package admin

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// NewImpairmentView converts the impairment of one port to the type of the API. An impairment is a
// fault that the chip or the kernel injects into the datagrams that the port sends.
func NewImpairmentView(i *node.Impairment) api.ImpairmentView {
	o := i.Options
	v := api.ImpairmentView{Chip: i.Local.Node, Channel: i.Local.Channel, Peer: i.Peer.Node, PeerChan: i.Peer.Channel, Plane: i.Plane,
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

// percent converts a share between 0 and 1 to percent. percent rounds to nine decimals, because a
// share in binary has meaningless digits behind the ninth decimal.
func percent(share float64) float64 { return math.Round(share*1e11) / 1e9 }

// secondsTo returns the number of seconds until t. If t is the zero time or has passed, secondsTo
// returns 0.
func secondsTo(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(time.Until(t).Seconds(), 0)
}

// faultCounters returns the number of datagrams that passed, and the number that each kind of fault
// hit, by name.
func faultCounters(c *fault.Counts) map[string]uint64 {
	return map[string]uint64{"passed": c.Passed, "lost": c.Lost, "burst_lost": c.BurstLost, "cut_off": c.CutOff,
		"overflowed": c.Overflowed, "duplicated": c.Duplicated, "reordered": c.Reordered, "corrupted": c.Corrupted}
}

// faultEvent writes into v that the fault injected into a port, a chip's gossip or a chip's process
// has changed.
func faultEvent(v *api.EventView, e *node.FaultEvent) {
	v.Type, v.Action = "fault", e.Kind.String()
	if e.Kind >= fault.KindKilled {
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
	out := []api.ImpairmentView{}
	for _, i := range s.n.Impairments() {
		v := NewImpairmentView(&i)
		v.Labels = s.n.Topology().Labels(i.Local)
		out = append(out, v)
	}
	answer(w, out)
}

func (s *Server) setNetem(w http.ResponseWriter, r *http.Request) {
	var b api.NetemBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
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

// checkNetem returns an error for a body without channels, and for a body that changes nothing.
// checkNetem also returns an error if the body names a channel without a cable.
func (s *Server) checkNetem(b *api.NetemBody) error {
	if len(b.Channels) == 0 {
		return errors.New("no channels: name the channels of the ports to change")
	}
	if len(b.Options) == 0 && b.Seed == nil && b.Cut == nil {
		return errors.New("nothing to change: name options, seed or cut; DELETE removes the impairments in force")
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

// tellFault publishes an event about a fault of another chip's process, because a killed or paused
// process cannot report its own fault. tellFault also publishes events about impairments that the
// kernel injects at a port of this chip.
func (s *Server) tellFault(w http.ResponseWriter, r *http.Request) {
	var b api.FaultBody
	if err := decode(r, &b); err != nil {
		badBody(w, err)
		return
	}
	if b.Kind == fault.KindSet || b.Kind == fault.KindReset {
		o, err := b.Options.Apply(fault.Options{})
		if err == nil {
			err = s.n.TellImpairment(b.Kind, b.Channel, o, time.Duration(b.ForS*float64(time.Second)))
		}
		if err != nil {
			problem(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		answer(w, api.OK{OK: true})
		return
	}
	if _, ok := s.n.Topology().Chip(b.Chip); !ok || b.Kind < fault.KindKilled {
		problem(w, http.StatusUnprocessableEntity, fmt.Sprintf("fault %q of chip %s: want a fault of a process, and a chip of this fabric", b.Kind, b.Chip))
		return
	}
	s.n.TellFault(b.Kind, b.Chip)
	answer(w, api.OK{OK: true})
}
