package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/scenario"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Times of a live run.
const (
	lookEvery = 100 * time.Millisecond // time between two samples
	lookTime  = time.Second            // longest time that a chip may take to answer for a sample
	homeTime  = 10 * time.Second       // longest wait, before the timeline begins, for every link to use its own cable
)

// stage is a fabric during the run of a scenario.
type stage struct {
	f      *fabric.Fabric
	t      *topo.Topology
	run    *scenario.Run
	owner  uint64    // owner of the run's traffic at the chips
	origin time.Time // time at which the run's clock had the value 0
	began  time.Time // time at which the timeline began

	chips  *fabric.Chips                      // chips that run and are not paused
	paused map[wire.FabricNodeID]*api.Client  // paused chips
	views  map[wire.FabricNodeID]api.ChipView // latest answer of each chip
	first  []wire.FabricNodeID                // chips that ran before the run
	gossip map[wire.FabricNodeID]bool         // chips whose gossip the scenario has cut or impaired

	cut, impaired, rerouted []topo.Link // links that the scenario has cut, impaired or taken out of service; rerouted has no links that were out of service before

	mu     sync.Mutex
	events []api.EventView // events that the run has not counted yet
}

// newStage returns a stage for a run on a running fabric.
func newStage(f *fabric.Fabric, run *scenario.Run) (*stage, error) {
	chips, err := f.Chips()
	if err != nil {
		return nil, err
	}
	return &stage{f: f, t: f.Topology, run: run, owner: fabric.NewRun(), origin: time.Now(), chips: chips, first: chips.All(),
		paused: map[wire.FabricNodeID]*api.Client{}, views: map[wire.FabricNodeID]api.ChipView{}, gossip: map[wire.FabricNodeID]bool{}}, nil
}

// now returns the present time on the run's clock.
func (g *stage) now() mono.Time { return mono.Time(time.Since(g.origin)) }

// play drives the run until the run is over or ctx ends, as [scenario.Run] describes.
func (g *stage) play(ctx context.Context, playing func(done, of int, at, length time.Duration)) {
	r := g.run
	for ; ctx.Err() == nil && time.Since(g.origin) < homeTime && !g.intact(ctx); time.Sleep(lookEvery) {
		// After one of two parallel cables has come up, both links use this cable until the
		// other cable comes up.
	}
	g.began = time.Now()
	r.Begin(g.now())
	for _, cl := range g.chips.Clients() {
		g.listen(ctx, cl)
	}
	look := g.now()
	for ctx.Err() == nil && !r.Over(g.now()) {
		for a, ok := r.Due(g.now()); ok && ctx.Err() == nil; a, ok = r.Due(g.now()) {
			err := g.do(ctx, &a)
			r.Done(g.now(), a, err)
		}
		if err := g.obey(ctx, r.Order(g.now())); err != nil {
			r.Fail(err)
		}
		if !g.now().Before(look) {
			s := g.sample(ctx)
			g.tell()
			r.Observe(g.now(), s)
			look = g.now().Add(lookEvery)
			if playing != nil {
				playing(r.Progress())
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(mono.Min(look, r.Next()).Sub(g.now())):
		}
	}
	fabric.StopTraffic(ctx, g.chips.Clients(), g.owner)
}

// listen starts to collect the events of a chip since the start of the timeline. The
// collection ends when the chip or ctx ends.
func (g *stage) listen(ctx context.Context, cl *api.Client) {
	go func() {
		_ = cl.Events(ctx, func(e api.EventView) { // the stream ends when the chip ends
			g.mu.Lock()
			defer g.mu.Unlock()
			if !e.Time.Before(g.began) {
				g.events = append(g.events, e)
			}
		})
	}()
}

// tell passes all collected events to the run.
func (g *stage) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.events {
		about := fmt.Sprintf("%s at %.3fs", e.Actor, e.Time.Sub(g.began).Seconds())
		g.run.Event(e.Type, e.Action, e.Detail["reason"], about)
	}
	g.events = nil
}

// obey carries out an order of the run about the traffic.
func (g *stage) obey(ctx context.Context, o scenario.Order) error {
	start := func(send bool) error {
		ctx, cancel := context.WithTimeout(ctx, fabric.AskTime)
		defer cancel()
		return fabric.StartTraffic(ctx, g.chips.Clients(), g.owner, o.Spec, o.Pairs, send)
	}
	switch o.Kind {
	case scenario.Begin: // all chips must receive before the first chip sends
		return errors.Join(start(false), start(true))
	case scenario.Hold:
		return start(false)
	}
	return nil
}

// seen is a chip's answer for a sample.
type seen struct {
	view    api.ChipView
	traffic *traffic.Report // report of the chip's traffic; nil: the chip gave no report
}

// sample asks all running chips for their state, and returns a sample of the fabric. If a
// chip does not answer, sample uses the latest state of the chip, but no traffic report.
func (g *stage) sample(ctx context.Context) scenario.Sample {
	answers := fabric.Each(ctx, g.chips.Clients(), lookTime, func(ctx context.Context, cl *api.Client) (s seen, err error) {
		if s.view, err = cl.Chip(ctx); err != nil {
			return s, err
		}
		if rep, err := cl.Traffic(ctx, g.owner); err == nil {
			s.traffic = &rep
		}
		return s, nil
	})
	s := scenario.Sample{Members: len(g.t.Chips), Dropped: map[wire.FabricNodeID]map[string]uint64{}}
	for _, a := range answers {
		if a.Err != nil {
			continue
		}
		g.views[a.Chip] = a.Value.view
		if a.Value.traffic != nil {
			s.Reports = append(s.Reports, *a.Value.traffic)
		}
	}
	if ctx.Err() == nil {
		g.missEnded()
	}
	s.LinksUp = g.linksUp()
	for n, v := range g.views {
		s.Dropped[n] = v.Dropped
		if g.paused[n] == nil {
			s.Members = min(s.Members, v.Members)
		}
	}
	return s
}

// missEnded fails the run if a chip has ended, although the scenario did not kill the chip.
func (g *stage) missEnded() {
	runs := map[wire.FabricNodeID]bool{}
	for _, c := range g.f.Running() {
		runs[c.Chip] = true
	}
	for _, n := range g.chips.All() {
		if !runs[n] {
			g.run.Fail(fmt.Errorf("chip %s has ended, although the scenario did not kill the chip; the last line of the chip's log is: %s", n, g.f.LastWords(n)))
		}
	}
}

// linksUp returns the number of cables whose links are up at both ends. A paused chip cannot report
// a link. The link's end at a paused chip therefore counts as up.
func (g *stage) linksUp() (n int) {
	up := map[wire.PortID]bool{}
	for _, v := range g.views {
		for _, l := range v.Links {
			up[wire.PortID{Node: v.Chip, Channel: l.Channel}] = l.State == "up" || g.paused[v.Chip] != nil
		}
	}
	for _, c := range g.t.Cables {
		if !c.Unused && up[c.A] && up[c.B] {
			n++
		}
	}
	return n
}

// intact takes a sample, and reports whether all links are up and use their own cables.
func (g *stage) intact(ctx context.Context) bool {
	g.sample(ctx)
	for _, v := range g.views {
		for _, l := range v.Links {
			if l.State != "up" || l.By != nil {
				return false
			}
		}
	}
	return len(g.views) == len(g.t.Chips)
}
