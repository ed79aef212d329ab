package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/scenario"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Times of a live run.
const (
	lookEvery   = 100 * time.Millisecond // between two looks at the fabric
	lookTime    = time.Second            // that a chip gets to answer one
	homeTime    = 10 * time.Second       // that links may take to their own cables before a timeline begins
	noClockJump = "skipped (simulator only): no process can move the clock of another one without privilege"
)

// liveStage is a fabric of processes with a scenario running on it.
type liveStage struct {
	c      *cobra.Command
	dir    runDir
	t      *topo.Topology
	token  string
	run    *scenario.Run
	origin time.Time
	began  time.Time                          // of the timeline
	chips  *chipSet                           // those that run
	paused map[wire.FabricNodeID]*api.Client  // not among chips.clients
	views  map[wire.FabricNodeID]api.ChipView // as last seen
	order  scenario.Order                     // the round of the traffic at hand
	links  []topo.Link                        // that something was done to
	mu     sync.Mutex
	events []api.EventView
}

// runLive runs a scenario on processes: on a fabric of its own, or on one that runs.
func runLive(c *cobra.Command, s *scenario.Scenario, f scenarioFlags, seed uint64) (rep scenario.Report, err error) {
	dir, end, err := liveFabric(c, s, f)
	if err != nil {
		return rep, err
	}
	g := &liveStage{c: c, dir: dir, paused: map[wire.FabricNodeID]*api.Client{}, views: map[wire.FabricNodeID]api.ChipView{}}
	defer func() { err = errors.Join(err, end(g)) }()
	if _, g.t, g.token, err = dir.mesh(); err != nil {
		return rep, err
	}
	if g.chips, err = openChips(dir); err != nil {
		return rep, err
	}
	if g.run, err = scenario.New(s, g.t, seed, g.driver()); err != nil {
		return rep, spec.AsUsage(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	bar := newProgress(c.ErrOrStderr(), s.Name, 0)
	defer bar.stop()
	g.play(ctx, bar)
	if interrupted(c.Context()) {
		return rep, c.Context().Err()
	}
	return g.run.Report(g.now()), nil
}

// liveFabric is the fabric that a scenario runs on, and what to do with it at the end.
func liveFabric(c *cobra.Command, s *scenario.Scenario, f scenarioFlags) (runDir, func(*liveStage) error, error) {
	if f.running {
		dir, err := dirOf(c)
		if err != nil {
			return "", nil, err
		}
		m, _, _, err := dir.mesh()
		if err != nil {
			return "", nil, err
		}
		return dir, (*liveStage).putBack, fitsRunning(s, &m)
	}
	arg, _, err := scenarioTopology(c.Context(), s, f.topology)
	if err != nil {
		return "", nil, err
	}
	name := fmt.Sprintf("scenario-%d", os.Getpid())
	dir, err := dirFor(name)
	if err != nil {
		return "", nil, err
	}
	w := s.Fabric
	up := upFlags{fabricFlags: fabricFlags{profile: w.Profile, slots: cmp.Or(w.Slots, "spec"), stuck: cmp.Or(w.Stuck, scenario.DefaultStuck), stuckAfter: cmp.Or(w.StuckAfter, scenario.DefaultStuckIn), ttl: w.TTL, localFirst: w.LocalFirst,
		routes: routeFlags{unsafe: w.Unsafe(), order: cmp.Or(w.Order, "xy"), ring: cmp.Or(w.Ring, "dateline"), engine: cmp.Or(w.Engine, "dor"), fabric: "2d"}}}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	if err := makeRoot(runRoot()); err != nil {
		return "", nil, err
	}
	t, _, err := prepare(c, dir, name, arg, up)
	if err != nil {
		return "", nil, err
	}
	sup := &supervisor{dir: dir, t: t, out: c.ErrOrStderr(), exits: make(chan exit, len(t.Chips))}
	if _, err := sup.start(ctx); err != nil {
		if interrupted(c.Context()) {
			err = c.Context().Err()
		}
		return "", nil, errors.Join(err, sup.remove())
	}
	return dir, func(*liveStage) error { return dir.host().remove() }, nil
}

// fitsRunning finds what a scenario wants of its fabric and a running one does not have.
func fitsRunning(s *scenario.Scenario, m *spec.Spec) error {
	w, local := s.Fabric, ""
	if w.LocalFirst {
		local = "true"
	}
	for _, x := range []struct{ what, want, have string }{
		{"local_first", local, fmt.Sprint(m.LocalFirst)},
		{"slots", w.Slots, m.Slots}, {"profile", w.Profile, m.Profile}, {"order", w.Order, m.Order}, {"ring", w.Ring, m.Ring}, {"engine", w.Engine, m.Engine},
		{"stuck", w.Stuck, m.Stuck}, {"ttl", zeroless(int64(w.TTL)), fmt.Sprint(m.TTL)}, {"stuck_after", zeroless(w.StuckAfter.Milliseconds()), fmt.Sprint(m.StuckMS)},
	} {
		if x.want != "" && x.want != x.have {
			return spec.Usagef("%s wants %s %s, and the running fabric has %s; leave --running out, or start it so", s.File, x.what, x.want, x.have)
		}
	}
	return nil
}

// zeroless is a number as text, "" for 0.
func zeroless(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// driver says what this fabric cannot do.
func (g *liveStage) driver() scenario.Driver {
	return scenario.Driver{Name: "live", Verbs: map[scenario.Verb]string{scenario.ClockJump: noClockJump}}
}

func (g *liveStage) now() mono.Time { return mono.Time(time.Since(g.origin)) }

// play is the driver's loop, see scenario.Run.
func (g *liveStage) play(ctx context.Context, bar *progress) {
	g.origin = time.Now()
	r := g.run
	for ; ctx.Err() == nil && time.Since(g.origin) < homeTime && !g.intact(ctx); time.Sleep(lookEvery) {
		// Where one of two cables came up first, it carries the frames of both for a while.
	}
	g.began = time.Now()
	r.Begin(g.now())
	for _, cl := range g.chips.clients {
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
			done, of, at, length := r.Progress()
			bar.label = fmt.Sprintf("%s: %d of %s, seconds", r.Name(), done, topo.Count(of, "action"))
			bar.total = int(length.Seconds())
			bar.set(min(int(at.Seconds()), bar.total))
		}
		select {
		case <-ctx.Done():
		case <-time.After(mono.Min(look, r.Next()).Sub(g.now())):
		}
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	_ = each(g.clients(), func(cl *api.Client) error { return cl.StopTraffic(stop) }) // a chip that died has nothing to stop
}

func (g *liveStage) clients() (cs []*api.Client) {
	for _, c := range g.t.Chips {
		if cl := g.chips.clients[c.Node]; cl != nil {
			cs = append(cs, cl)
		}
	}
	return cs
}

// listen takes a chip's events, as long as it lives.
func (g *liveStage) listen(ctx context.Context, cl *api.Client) {
	go func() {
		_ = cl.Events(ctx, func(e api.EventView) { // it ends with the chip
			g.mu.Lock()
			defer g.mu.Unlock()
			if !e.Time.Before(g.began) {
				g.events = append(g.events, e)
			}
		})
	}()
}

// tell counts the events that have come.
func (g *liveStage) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.events {
		about := fmt.Sprintf("%s at %.3fs", e.Actor, e.Time.Sub(g.began).Seconds())
		g.run.Event(e.Type, e.Action, e.Detail["reason"], about)
	}
	g.events = nil
}

// obey begins a round of the traffic, or ends the sending of one.
func (g *liveStage) obey(ctx context.Context, o scenario.Order) error {
	start := func(send bool) error {
		return each(g.clients(), func(cl *api.Client) error {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			return cl.StartTraffic(ctx, api.TrafficStart{Spec: o.Spec, Pairs: o.Pairs, Send: send})
		})
	}
	switch o.Kind {
	case scenario.Begin: // all listen before the first speaks
		g.order = o
		return errors.Join(start(false), start(true))
	case scenario.Hold:
		return start(false)
	}
	return nil
}

// sample asks all chips that run.
func (g *liveStage) sample(ctx context.Context) scenario.Sample {
	var mu sync.Mutex
	var reports []traffic.Report
	_ = each(g.clients(), func(cl *api.Client) error {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		v, err := cl.Chip(ctx)
		if err != nil {
			return err
		}
		rep, err := cl.Traffic(ctx)
		mu.Lock()
		defer mu.Unlock()
		g.views[cl.Self()] = v
		if err == nil {
			reports = append(reports, rep)
		}
		return nil
	}) // who does not answer is taken to be as before, unless its process is gone
	if ctx.Err() == nil {
		alive := g.dir.chips()
		for n := range g.chips.clients {
			if !slices.ContainsFunc(alive, func(f chipFile) bool { return f.Chip == n }) {
				sup := supervisor{dir: g.dir}
				g.run.Fail(fmt.Errorf("chip %s has ended, and the scenario did not do it; the last line of its log: %s", n, sup.lastWords(n)))
			}
		}
	}
	s := scenario.Sample{Reports: reports, LinksUp: g.linksUp(), Members: len(g.t.Chips), Dropped: map[wire.FabricNodeID]map[string]uint64{}}
	for n, v := range g.views {
		s.Dropped[n] = v.Dropped
		if g.paused[n] == nil {
			s.Members = min(s.Members, v.Members)
		}
	}
	return s
}

// linksUp counts the cables whose ends both say that they are up. Of a paused chip's the other end alone is asked.
func (g *liveStage) linksUp() (n int) {
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

// intact reports whether all links are up, each by its own cable.
func (g *liveStage) intact(ctx context.Context) bool {
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

// do carries out an action.
func (g *liveStage) do(ctx context.Context, a *scenario.Action) error {
	if len(a.Links) > 0 {
		return g.doLinks(a)
	}
	for _, n := range a.Chips {
		if err := g.doChip(ctx, a, n); err != nil {
			return err
		}
	}
	return nil
}

func (g *liveStage) doLinks(a *scenario.Action) error {
	links := toLinks(a.Links)
	for _, l := range links {
		if !slices.Contains(g.links, l) {
			g.links = append(g.links, l)
		}
	}
	quiet := &cobra.Command{} // chips that don't run are part of the plan
	quiet.SetContext(g.c.Context())
	quiet.SetErr(io.Discard)
	body := api.NetemBody{Options: a.Step.Netem, Seed: a.Step.Dice, ForS: a.For.Seconds()}
	switch a.Verb {
	case scenario.LinkDown, scenario.LinkUp:
		return g.chips.cut(quiet, links, a.Verb == scenario.LinkDown, a.For)
	case scenario.NetemReset:
		where, _ := spec.Ends(links, "both")
		return g.chips.at(quiet, where, func(ctx context.Context, cl *api.Client, chs []wire.Channel) error {
			return cl.ResetNetem(ctx, chs...)
		})
	}
	where, err := spec.Ends(links, a.Step.Direction)
	if err != nil {
		return err
	}
	return g.chips.at(quiet, where, func(ctx context.Context, cl *api.Client, chs []wire.Channel) error {
		b := body
		b.Channels = chs
		return cl.SetNetem(ctx, b)
	})
}

func (g *liveStage) doChip(ctx context.Context, a *scenario.Action, n wire.FabricNodeID) error {
	switch a.Verb {
	case scenario.ChipKill:
		g.forget(n)
		tellFault(ctx, g.dir, fault.KindKilled, n)
		return killChip(ctx, g.dir, n)
	case scenario.ChipStart:
		return errors.Join(startChip(g.c, g.dir, n, false, recordFlags{}), g.meet(ctx, n))
	case scenario.ChipRestart:
		g.forget(n)
		tellFault(ctx, g.dir, fault.KindRestarted, n)
		return errors.Join(startChip(g.c, g.dir, n, true, recordFlags{}), g.meet(ctx, n))
	case scenario.ChipPause:
		g.paused[n] = g.chips.clients[n]
		delete(g.chips.clients, n)
		return signalChip(ctx, g.dir, n, fault.KindPaused)
	case scenario.ChipResume:
		if err := signalChip(ctx, g.dir, n, fault.KindResumed); err != nil {
			return err
		}
		g.chips.clients[n] = g.paused[n]
		delete(g.paused, n)
	case scenario.GossipSet:
		return g.gossip(ctx, n, a)
	}
	return nil
}

// forget takes a chip that is about to die off the list.
func (g *liveStage) forget(n wire.FabricNodeID) {
	delete(g.chips.clients, n)
	delete(g.paused, n)
	delete(g.views, n)
}

// meet puts a chip that was started on the list.
func (g *liveStage) meet(ctx context.Context, n wire.FabricNodeID) error {
	cl, err := g.dir.client(n)
	if err == nil {
		g.chips.clients[n] = cl
		g.listen(ctx, cl)
	}
	return err
}

// putBack leaves a fabric that ran before as it was, but for what chips forgot that were started anew.
func (g *liveStage) putBack() error {
	c := &cobra.Command{}
	c.SetContext(context.Background()) // after Ctrl-C, too
	c.SetErr(g.c.ErrOrStderr())
	var errs []error
	for n := range g.paused {
		errs = append(errs, signalChip(c.Context(), g.dir, n, fault.KindResumed))
	}
	if g.t == nil || g.chips == nil {
		return errors.Join(errs...)
	}
	for _, x := range g.t.Chips {
		if _, ok := g.dir.chip(x.Node); !ok && g.run != nil {
			errs = append(errs, startChip(c, g.dir, x.Node, false, recordFlags{}), g.meet(context.Background(), x.Node))
		}
	}
	if len(g.links) > 0 {
		where, _ := spec.Ends(g.links, "both")
		errs = append(errs, g.chips.cut(c, g.links, false, 0), g.chips.at(c, where, func(ctx context.Context, cl *api.Client, chs []wire.Channel) error {
			return cl.ResetNetem(ctx, chs...)
		}))
	}
	return errors.Join(errs...)
}
