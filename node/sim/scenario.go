package sim

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/scenario"
	"ttfabric/node/traffic"
	"ttfabric/node/traffic/client"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// sampleEvery is the virtual time between two samples of the fabric in a scenario.
const sampleEvery = 10 * time.Millisecond

// scenarioLag is the longest time from the arrival of a datagram until the chip reads the datagram,
// in a scenario.
const scenarioLag = 20 * time.Microsecond

// restartTime is the time for which a chip is dead during a restart. A real process needs about
// this time to start.
const restartTime = 200 * time.Millisecond

// noGossip is the reason that a report states for parts of a scenario that need gossip. The
// simulator skips these parts.
const noGossip = "skipped (live only): scenarios in the simulator have no gossip"

// ScenarioDriver lists the verbs and metrics of scenarios that the simulator cannot carry out, with
// the reasons.
var ScenarioDriver = scenario.Driver{
	Name:    "sim",
	Verbs:   map[scenario.Verb]string{scenario.GossipSet: noGossip},
	Metrics: map[string]string{"members": noGossip, "events(member)": noGossip},
}

// PlayConfig holds the settings of a scenario's run in virtual time.
type PlayConfig struct {
	Scenario *scenario.Scenario
	Topology *topo.Topology
	Seed     uint64    // seed of the scenario's random choices and of every delay
	Trace    io.Writer // gets a line for each event; nil: no trace
}

// stage is a simulated fabric on which a scenario runs.
type stage struct {
	s       *Sim
	run     *scenario.Run
	clients []*client.Client // traffic clients, by machine; nil: the machine has no traffic
	faults  map[end]*endFault
}

// endFault is the fault injected into the datagrams that one end of a cable sends. The fields
// correspond to those of a live port's fault in package node.
type endFault struct {
	kept         fault.Options // options without a set duration
	passing      fault.Change  // changes of the options in kept, with a set duration
	cut          bool
	passID, cuts int // number of changes of passing and of cut; a planned end has no effect after a later change
}

// Play runs a scenario in virtual time. The report, with its trace, depends on cfg alone. Play
// returns an error if the scenario, or the fabric options in the scenario, do not fit the topology.
// Play also returns an error if the fabric does not come up. Failures during the run are in the
// report.
func Play(cfg PlayConfig) (scenario.Report, error) {
	s, err := newSim(Config{Topology: cfg.Topology, Seed: cfg.Seed, Quick: true, Trace: cfg.Trace})
	if err != nil {
		return scenario.Report{}, err
	}
	if err := s.around.of(cfg.Scenario.Fabric); err != nil {
		return scenario.Report{}, fmt.Errorf("%s: %w", cfg.Scenario.File, err)
	}
	if s.routes, err = route.New(cfg.Topology, s.around.route); err != nil {
		return scenario.Report{}, err
	}
	s.scripted, s.ttl = true, uint16(cfg.Scenario.Fabric.TTL)
	run, err := scenario.New(cfg.Scenario, cfg.Topology, cfg.Seed, ScenarioDriver)
	if err != nil {
		return scenario.Report{}, err
	}
	g := &stage{s: s, run: run, clients: make([]*client.Client, len(s.machines)), faults: map[end]*endFault{}}
	for _, e := range s.byPort {
		g.faults[e] = &endFault{}
	}
	s.begin()
	if !s.runUntil(s.now.Add(SettleTime), g.intact) {
		return scenario.Report{}, fmt.Errorf("%s does not come up: %d of %d links are up after %v", cfg.Topology, g.linksUp(), len(s.cables), SettleTime)
	}
	s.onEvent = g.event
	g.play()
	rep := run.Report(s.now)
	rep.Trace = fmt.Sprintf("%016x", uint64(s.hash))
	return rep, nil
}

// The method "of" sets the options that a scenario's file states about its fabric. All other
// options get the defaults of 'ttfabric up'.
func (a *surroundings) of(f scenario.Fabric) error {
	*a = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: wire.PadTo(wire.MaxPacket), window: ttlink.DefaultWindow, lag: scenarioLag}
	var err error
	if a.timeout, err = router.ParseTimeout(cmp.Or(f.Stuck, scenario.DefaultStuck)); err != nil {
		return err
	}
	a.timeout.After, a.localFirst = cmp.Or(f.StuckAfter, scenario.DefaultStuckIn), f.LocalFirst
	if f.Profile == ttlink.ProfileCrowded.Name {
		a.profile = ttlink.ProfileCrowded
	}
	for _, p := range router.SlotProfiles {
		if p.Name == f.Slots {
			a.slots = p
		}
	}
	a.strictTTL = f.StrictTTL
	if f.Frame > 0 {
		a.maxPayload = min(a.maxPayload, f.Frame/wire.PadUnit*wire.PadUnit)
	}
	a.route, err = f.Route()
	return err
}

// play runs the scenario to its end, in the loop that scenario.Run describes for drivers.
func (g *stage) play() {
	s, r := g.s, g.run
	r.Begin(s.now)
	look := s.now
	for !r.Over(s.now) {
		for a, ok := r.Due(s.now); ok; a, ok = r.Due(s.now) {
			s.tracef("-- %s", &a)
			r.Done(s.now, a, g.do(&a))
		}
		g.order(r.Order(s.now))
		if !s.now.Before(look) {
			r.Observe(s.now, g.sample())
			look = s.now.Add(sampleEvery)
		}
		s.runUntil(mono.Min(look, r.Next()), func() bool { return false })
		if s.failure != nil {
			r.Fail(s.failure)
		}
	}
}

func (g *stage) machine(n wire.FabricNodeID) *machine {
	for _, m := range g.s.machines {
		if m.node == n {
			return m
		}
	}
	return nil
}

// do carries out an action of the scenario.
func (g *stage) do(a *scenario.Action) error {
	for _, l := range a.Links {
		for _, p := range []wire.PortID{l.A, l.B} {
			e := g.s.byPort[p]
			var err error
			switch a.Verb {
			case scenario.LinkDown, scenario.LinkUp:
				g.cut(e, a.Verb == scenario.LinkDown, a.For)
			case scenario.LinkReroute, scenario.LinkRestore:
				if m := e.cable.chips[e.side]; m.chip != nil && m.stalled == 0 {
					m.chip.Avoid(g.s.now, p.Channel, a.Verb == scenario.LinkReroute)
					g.s.run(m)
				}
			case scenario.NetemReset:
				g.reset(e)
			case scenario.NetemSet:
				if d := a.Step.Direction; d == "both" || (d == "a-to-b") == (p == l.A) {
					err = g.impair(e, a)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	for _, n := range a.Chips {
		m := g.machine(n)
		switch a.Verb {
		case scenario.ChipKill:
			g.kill(m)
			g.run.Event("fault", "killed", "", n.String())
		case scenario.ChipStart:
			g.s.start(m)
		case scenario.ChipRestart:
			g.kill(m)
			g.s.runUntil(g.s.now.Add(restartTime), func() bool { return false })
			g.s.start(m)
			g.run.Event("fault", "restarted", "", n.String())
		case scenario.ChipPause:
			m.stalled = 1
			g.run.Event("fault", "paused", "", n.String())
		case scenario.ChipResume:
			m.stalled = 0
			g.run.Event("fault", "resumed", "", n.String())
			g.s.run(m)
		case scenario.ClockJump:
			m.skew += a.Step.Jump
			g.s.run(m)
		}
	}
	return nil
}

func (g *stage) kill(m *machine) {
	g.s.stop(m, false)
	m.stalled, g.clients[m.index] = 0, nil
}

func (g *stage) cut(e end, on bool, d time.Duration) {
	f := g.faults[e]
	if f.cuts++; !on && !f.cut {
		return
	}
	f.cut = on
	g.s.cutWay(e.cable, e.side, on, true)
	kind := "restored"
	if on {
		kind = "cut"
	}
	g.run.Event("fault", kind, "", e.cable.String())
	if id := f.cuts; on && d > 0 {
		g.s.after(d, func() {
			if f.cuts == id {
				g.cut(e, false, 0)
			}
		})
	}
}

// impair changes the impairment of one end of a cable. impair follows the rules of
// node.Node.SetImpairment for a live port.
func (g *stage) impair(e end, a *scenario.Action) error {
	f := g.faults[e]
	if a.For > 0 {
		if f.passing == nil {
			f.passing = fault.Change{}
		}
		maps.Copy(f.passing, a.Step.Netem)
		f.passID++
		id := f.passID
		g.s.after(a.For, func() {
			if f.passID == id {
				f.passing = nil
				_ = g.enforce(e, "reset") // no error is possible, because the earlier options were valid
			}
		})
	} else {
		var err error
		if f.kept, err = a.Step.Netem.Apply(f.kept); err != nil {
			return err
		}
		maps.DeleteFunc(f.passing, func(k, _ string) bool { _, named := a.Step.Netem[k]; return named })
	}
	if a.Step.Dice != nil {
		e.cable.way[e.side].Seed(*a.Step.Dice + uint64(e.cable.ports[e.side].Node.Chip)<<16 + uint64(e.cable.ports[e.side].Channel))
	}
	return g.enforce(e, "set")
}

func (g *stage) reset(e end) {
	f := g.faults[e]
	if f.kept == (fault.Options{}) && len(f.passing) == 0 {
		return
	}
	f.kept, f.passing = fault.Options{}, nil
	f.passID++
	_ = g.enforce(e, "reset") // no error is possible, because zero options are valid
}

func (g *stage) enforce(e end, kind string) error {
	f := g.faults[e]
	o, err := f.passing.Apply(f.kept)
	if err != nil {
		return err
	}
	o.Delay += cleanDelay
	g.s.set(e.cable, e.side, o)
	g.run.Event("fault", kind, "", e.cable.String())
	return nil
}

// event reports an event of a link, a packet or tables to the scenario's run, which counts events.
// event leaves out other events.
func (g *stage) event(_ *machine, e chip.Event) {
	at := fmt.Sprintf("%s channel %d at %v", e.Local.Node, e.Local.Channel, g.s.now)
	switch {
	case e.Stuck != nil:
		g.run.Event("packet", "stuck", "", at)
	case e.Drop != 0:
		g.run.Event("packet", "dropped", e.Drop.String(), at)
	case e.Tables != nil && e.Tables.Refused:
		g.run.Event("tables", "refused", "", at)
	case e.Tables != nil:
		g.run.Event("tables", "installed", "", at)
	case e.Link.Kind == ttlink.EventDown:
		g.run.Event("link", "down", e.Link.Reason.String(), at)
	case e.Link.Kind != 0:
		g.run.Event("link", e.Link.Kind.String(), "", at)
	}
}

func (g *stage) linksUp() (n int) {
	for _, c := range g.s.cables {
		if c.bothUp() {
			n++
		}
	}
	return n
}

// intact reports whether all chips live, and all links are up, each by its own cable.
func (g *stage) intact() bool {
	for _, m := range g.s.machines {
		if m.chip == nil {
			return false
		}
		for _, p := range m.chip.Status().Ports {
			if p.Link.State != ttlink.StateUp || p.Link.Path != ttlink.Own {
				return false
			}
		}
	}
	return true
}

// sample returns the state of the fabric as an operator sees it. The drop counts and traffic
// reports of dead and paused chips are left out, because these chips would not answer.
func (g *stage) sample() scenario.Sample {
	p := scenario.Sample{LinksUp: g.linksUp(), Dropped: map[wire.FabricNodeID]map[string]uint64{}}
	for i, m := range g.s.machines {
		if m.chip == nil || m.stalled > 0 {
			continue
		}
		d := map[string]uint64{}
		for r, n := range m.chip.Status().Counters.Dropped {
			if n > 0 {
				d[wire.DropReason(r).String()] = n
			}
		}
		p.Dropped[m.node] = d
		if c := g.clients[i]; c != nil {
			p.Reports = append(p.Reports, traffic.NewReport(c.Gen, c.Ver))
		}
	}
	return p
}

// order begins a round of traffic at all living chips, or makes all chips stop sending.
func (g *stage) order(o scenario.Order) {
	switch o.Kind {
	case scenario.Hold:
		for _, c := range g.clients {
			if c != nil {
				c.Sending = false
			}
		}
	case scenario.Begin:
		for i, m := range g.s.machines {
			if m.chip == nil {
				continue
			}
			c := client.New(o.Spec, m.node, o.Pairs, g.s.cfg.Topology)
			c.Sending = true
			g.clients[i] = c
			m.chip.SetClient(c)
		}
		for _, m := range g.s.machines {
			if m.chip != nil {
				g.s.run(m)
			}
		}
	}
}
