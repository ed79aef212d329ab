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
	lookEvery = 100 * time.Millisecond // time between two looks at the fabric
	lookTime  = time.Second            // longest time for a chip's answer to one look
	homeTime  = 10 * time.Second       // longest wait, before a timeline begins, until every link uses its own cable
)

// stage is a fabric on which a scenario runs.
type stage struct {
	f      *fabric.Fabric
	t      *topo.Topology
	run    *scenario.Run
	origin time.Time // zero of the run's clock
	began  time.Time // time at which the timeline began

	chips  *fabric.Chips                      // chips that run and are not paused
	paused map[wire.FabricNodeID]*api.Client  // paused chips
	views  map[wire.FabricNodeID]api.ChipView // each chip's latest answer
	first  []wire.FabricNodeID                // chips that ran when the stage was made
	links  []topo.Link                        // links that the scenario has cut or impaired
	gossip map[wire.FabricNodeID]bool         // chips whose gossip the scenario has cut or impaired

	mu     sync.Mutex
	events []api.EventView // events that the stage has not told the run yet
}

// newStage prepares a fabric for a run.
func newStage(f *fabric.Fabric, run *scenario.Run) (*stage, error) {
	chips, err := f.Chips()
	if err != nil {
		return nil, err
	}
	return &stage{f: f, t: f.Topology, run: run, origin: time.Now(), chips: chips, first: chips.All(),
		paused: map[wire.FabricNodeID]*api.Client{}, views: map[wire.FabricNodeID]api.ChipView{}, gossip: map[wire.FabricNodeID]bool{}}, nil
}

// now returns the present time on the run's clock.
func (g *stage) now() mono.Time { return mono.Time(time.Since(g.origin)) }

// play drives the run until the run is over or ctx ends; see [scenario.Run].
func (g *stage) play(ctx context.Context, playing func(done, of int, at, length time.Duration)) {
	r := g.run
	for ; ctx.Err() == nil && time.Since(g.origin) < homeTime && !g.intact(ctx); time.Sleep(lookEvery) {
		// The first of two parallel cables that comes up carries the frames of both links for a while.
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
	fabric.StopTraffic(ctx, g.chips.Clients())
}

// listen collects a chip's events as long as the chip runs.
func (g *stage) listen(ctx context.Context, cl *api.Client) {
	go func() {
		_ = cl.Events(ctx, func(e api.EventView) { // the stream ends with the chip
			g.mu.Lock()
			defer g.mu.Unlock()
			if !e.Time.Before(g.began) {
				g.events = append(g.events, e)
			}
		})
	}()
}

// tell gives the run all collected events.
func (g *stage) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.events {
		about := fmt.Sprintf("%s at %.3fs", e.Actor, e.Time.Sub(g.began).Seconds())
		g.run.Event(e.Type, e.Action, e.Detail["reason"], about)
	}
	g.events = nil
}

// obey begins a round of the traffic, or ends the sending of a round.
func (g *stage) obey(ctx context.Context, o scenario.Order) error {
	start := func(send bool) error {
		ctx, cancel := context.WithTimeout(ctx, fabric.AskTime)
		defer cancel()
		return fabric.StartTraffic(ctx, g.chips.Clients(), o.Spec, o.Pairs, send)
	}
	switch o.Kind {
	case scenario.Begin: // all chips can receive before the first chip sends
		return errors.Join(start(false), start(true))
	case scenario.Hold:
		return start(false)
	}
	return nil
}

// seen is a chip's answer to one look at the fabric.
type seen struct {
	view    api.ChipView
	traffic *traffic.Report // report of the chip's traffic; nil: the chip has no traffic
}

// sample asks all running chips for their state. If a chip does not answer, sample uses
// the chip's latest answer. If a chip has ended that the scenario did not end, the
// run fails.
func (g *stage) sample(ctx context.Context) scenario.Sample {
	answers := fabric.Each(ctx, g.chips.Clients(), lookTime, func(ctx context.Context, cl *api.Client) (s seen, err error) {
		if s.view, err = cl.Chip(ctx); err != nil {
			return s, err
		}
		if rep, err := cl.Traffic(ctx); err == nil {
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

// missEnded fails the run if a chip has ended that the scenario did not end.
func (g *stage) missEnded() {
	runs := map[wire.FabricNodeID]bool{}
	for _, c := range g.f.Running() {
		runs[c.Chip] = true
	}
	for _, n := range g.chips.All() {
		if !runs[n] {
			g.run.Fail(fmt.Errorf("chip %s has ended, although the scenario did not end it; the last line of its log is: %s", n, g.f.LastWords(n)))
		}
	}
}

// linksUp returns the number of cables with two ends that report that they are up. The
// end at a paused chip counts as up, so the other end decides.
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

// intact reports whether all links are up, and each link uses its own cable.
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
