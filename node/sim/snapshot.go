package sim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/node/scenario"
	"ttfabric/node/snapshot"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Snapshot returns the state of the fabric at this instant. If "payload" is true, the packets have their
// payloads. If "memory" is true, the snapshot has the memory of the tiles.
func (d *Driven) Snapshot(payload, memory bool) *snapshot.File { return d.s.snapshot(payload, memory) }

func (s *Sim) snapshot(payload, memory bool) *snapshot.File {
	t := s.cfg.Topology
	f := &snapshot.File{Format: snapshot.Format, Version: snapshot.Version, Source: snapshot.FromSimulator, Time: int64(s.now), Payloads: payload, Memory: memory,
		Topology: snapshot.Topology{Name: t.String(), Hash: snapshot.Hex64(t.Hash()), Text: string(t.Encode())}, Chips: []snapshot.Chip{}, NoAnswer: []wire.FabricNodeID{}}
	for _, m := range s.machines {
		if m.chip == nil {
			f.NoAnswer = append(f.NoAnswer, m.node)
			continue
		}
		f.Options = m.chip.Options()
		f.Chips = append(f.Chips, *m.chip.Save(s.clock(m), payload, memory).Routes())
	}
	f.Join()
	return f
}

// Loaded says what a simulator could not load from a snapshot.
type Loaded struct {
	Anew    []wire.FabricNodeID // chips without a state, which have started anew
	Kernels int                 // kernels that do not run again
	Host    int                 // the chips' own requests to host memory, which are lost
}

// Load starts a simulated fabric with the state of a snapshot that [snapshot.File.Check] has accepted.
// The fabric goes on from the cut as soon as virtual time runs. Load first brings up a fabric without
// requests, in which the cables are cut that the tables of the snapshot do not use. When all other links
// are up, Load gives all chips their states at one instant. At this instant, Load cuts the cables whose
// links were down at the cut. Load also pauses or drains the ports that were paused or drained, and takes
// cables out of service as operators did. The trace gets a line for each event; nil: no trace. If a field of
// the snapshot does not fit, the error names the field.
func Load(f *snapshot.File, trace io.Writer) (*Driven, Loaded, error) {
	return load(f, Config{Trace: trace})
}

// load does what Load does. The fields Topology and Seed of cfg are not used.
func load(f *snapshot.File, cfg Config) (*Driven, Loaded, error) {
	l := &loader{f: f, states: map[wire.FabricNodeID]*snapshot.Chip{}, ports: map[wire.PortID]*snapshot.PortState{}}
	t, err := topo.Load("topology.text", []byte(f.Topology.Text))
	if err != nil {
		return nil, l.Loaded, fmt.Errorf("snapshot: %w", err)
	}
	if h := snapshot.Hex64(t.Hash()); h != f.Topology.Hash {
		return nil, l.Loaded, fmt.Errorf("snapshot: topology.hash: %016x, but the topology has the hash %016x", uint64(f.Topology.Hash), uint64(h))
	}
	if err := l.index(t); err != nil {
		return nil, l.Loaded, fmt.Errorf("snapshot: %w", err)
	}
	around, err := l.options()
	if err != nil {
		return nil, l.Loaded, fmt.Errorf("snapshot: options.%w", err)
	}
	cfg.Topology, cfg.Seed = t, 0
	d, err := newDriven(cfg, func(s *Sim) error {
		s.around, s.ttl, s.lives = around, uint16(f.Options.TTL), l.lives()
		return nil
	}, l.cutOut)
	if err != nil {
		return nil, l.Loaded, fmt.Errorf("snapshot: the fabric of the snapshot does not come up: %w", err)
	}
	if err := l.restore(d.s); err != nil {
		return nil, l.Loaded, fmt.Errorf("snapshot: %w", err)
	}
	return d, l.Loaded, nil
}

// loader loads a snapshot.
type loader struct {
	Loaded
	f      *snapshot.File
	states map[wire.FabricNodeID]*snapshot.Chip
	ports  map[wire.PortID]*snapshot.PortState
}

// index finds the chips and ports of the file, which must be those of the topology.
func (l *loader) index(t *topo.Topology) error {
	for i := range l.f.Chips {
		k := &l.f.Chips[i]
		if _, ok := t.Chip(k.Node); !ok {
			return fmt.Errorf("chips[%d].chip: %s is not in the topology", i, k.Node)
		}
		if n := len(t.Ports(k.Node)); n != len(k.Ports) {
			return fmt.Errorf("chips[%d].ports: %d ports, but the topology has %d", i, len(k.Ports), n)
		}
		l.states[k.Node] = k
		for j := range k.Ports {
			l.ports[wire.PortID{Node: k.Node, Channel: k.Ports[j].Channel}] = &k.Ports[j]
		}
		for _, j := range k.Jobs {
			l.Kernels += len(j.Kernels)
		}
		l.Host += k.OwnHost
	}
	for _, c := range t.Chips {
		if l.states[c.Node] == nil {
			l.Anew = append(l.Anew, c.Node)
		}
	}
	return nil
}

// options returns the options of the file as surroundings of a run.
func (l *loader) options() (a surroundings, err error) {
	o := &l.f.Options
	dimensions := ""
	if o.Lines {
		dimensions = "1d"
	}
	if o.Engine != "" && !slices.ContainsFunc(route.Engines, func(e route.Engine) bool { return e.Name == o.Engine }) {
		return a, fmt.Errorf("engine: %q: this program has no such routing engine", o.Engine)
	}
	if err := a.of(scenario.Fabric{Slots: o.Slots, Order: o.Order, Ring: o.Ring, Engine: o.Engine, Stuck: o.Stuck, Exits: o.Exits, Dimensions: dimensions,
		StrictTTL: o.StrictTTL, LocalFirst: o.LocalFirst}); err != nil {
		return a, err
	}
	a.timeout.After = time.Duration(max(0, o.StuckAfter))
	known := false
	for _, p := range []ttlink.Profile{ttlink.ProfileLAN, ttlink.ProfileCrowded, ttlink.ProfilePaced} {
		if p.Name == o.Profile {
			a.profile, known = p, true
		}
	}
	if !known {
		return a, fmt.Errorf("profile: %q: want lan, crowded or paced", o.Profile)
	}
	if a.maxPayload = o.MaxPayload; a.maxPayload < ttlink.MinPayload || a.maxPayload > wire.MaxFramePayload || a.maxPayload%wire.PadUnit != 0 {
		return a, fmt.Errorf("frame_payload: %d: want a multiple of %d from %d to %d", o.MaxPayload, wire.PadUnit, ttlink.MinPayload, wire.MaxFramePayload)
	}
	a.slots = router.SlotProfile{Name: cmp.Or(o.Slots, "snapshot")}
	for i := range l.f.Chips {
		for j := range l.f.Chips[i].Ports {
			for _, v := range l.f.Chips[i].Ports[j].VCs {
				a.slots.Sender[v.VC], a.slots.Receiver[v.VC] = v.SenderSlots, v.ReceiverSlots
			}
		}
	}
	return a, nil
}

// incarnation is the identity of a chip in a snapshot.
type incarnation struct {
	number wire.Incarnation
	epoch  uint32
}

func (l *loader) lives() map[wire.FabricNodeID]incarnation {
	m := map[wire.FabricNodeID]incarnation{}
	for n, k := range l.states {
		m[n] = incarnation{k.Incarnation, k.FlowEpoch}
	}
	return m
}

// out reports whether the tables of a chip in the file do not use a cable.
func (l *loader) out(c *cable) bool {
	for i := range l.f.Chips {
		for _, p := range l.f.Chips[i].Tables.Out {
			if wire.PortID(p) == c.ports[0] || wire.PortID(p) == c.ports[1] {
				return true
			}
		}
	}
	return false
}

// relive gives a chip that starts for the first time its identity from a snapshot.
func (s *Sim) relive(m *machine, cfg *chip.Config) {
	if l, ok := s.lives[m.node]; ok && m.life == nil {
		cfg.Incarnation, cfg.FlowEpoch = l.number, l.epoch
	}
}

// cutOut cuts the cables that the tables of the file do not use. cutOut returns a function that reports
// whether the fabric is ready for its state: all other links are up and have all credits, the tables are
// those of the file, and no packet is under way.
func (l *loader) cutOut(s *Sim) (ready func() bool) {
	for _, c := range s.cables {
		if c.gone = l.out(c); c.gone {
			s.cutWay(c, 0, true, false)
			s.cutWay(c, 1, true, false)
		}
	}
	return func() bool {
		for _, c := range s.cables {
			if !c.gone && !c.bothUp() {
				return false
			}
		}
		for _, m := range s.machines {
			if m.chip == nil || !m.chip.Quiet() || m.chip.InFlight() {
				return false
			}
			st := m.chip.Status()
			if k := l.states[m.node]; k != nil && snapshot.Hex32(st.Epoch) != k.Tables.Epoch {
				return false
			}
			for i := range st.Ports {
				if q := &st.Ports[i].Link; q.State == ttlink.StateUp && q.Credits != q.PeerSlots {
					return false
				}
			}
		}
		return true
	}
}

// restore gives all chips their states.
func (l *loader) restore(s *Sim) error {
	for i := range l.f.Chips {
		m := (&stage{s: s}).machine(l.f.Chips[i].Node)
		if err := m.chip.Restore(s.clock(m), &l.f.Chips[i], func(p wire.PortID) *snapshot.PortState { return l.ports[p] }); err != nil {
			return fmt.Errorf("chips[%d].%w", i, err)
		}
		if err := m.chip.CheckInvariants(); err != nil {
			return fmt.Errorf("chips[%d]: %w", i, err)
		}
	}
	for _, c := range s.cables {
		p, q := l.ports[c.ports[0]], l.ports[c.ports[1]]
		for side, st := range []*snapshot.PortState{p, q} {
			if st == nil {
				continue
			}
			m, now := c.chips[side], s.clock(c.chips[side])
			if st.Avoided {
				m.chip.Avoid(now, st.Channel, true)
			}
			cmd := map[string]router.Command{router.StatePaused.String(): router.CommandPause, router.StateDraining.String(): router.CommandDrain}[st.Router]
			if err := m.chip.Command(now, st.Channel, cmd); err != nil {
				return err
			}
		}
		if p != nil && p.Link != ttlink.StateUp.String() || q != nil && q.Link != ttlink.StateUp.String() {
			for side := range 2 {
				s.cutWay(c, side, true, true)
			}
		}
	}
	for _, m := range s.machines {
		s.wakeAt(m, s.now)
	}
	return nil
}

// OnResult sets a function that gets the results of requests that a loaded snapshot held open. The
// function gets the place of the chip that sent the request.
func (d *Driven) OnResult(f func(chip int, r flow.Result)) {
	d.s.onResult = func(m *machine, r flow.Result) { f(m.index, r) }
}

// OnPerformed sets a function that gets each command that a chip performs for another chip. The first
// argument is the place of the chip that performs the command.
func (d *Driven) OnPerformed(f func(chip int, src wire.FabricNodeID, cmd *wire.Command)) {
	for i, o := range d.outs {
		o.performed = func(src wire.FabricNodeID, cmd *wire.Command) { f(i, src, cmd) }
	}
}

// Performed implements [chip.Client].
func (o *outside) Performed(_ mono.Time, src wire.FabricNodeID, _ wire.Plane, _ bool, cmd *wire.Command, _ *noc.Memory) {
	if o.performed != nil {
		o.performed(src, cmd)
	}
}

// Quiet reports whether the fabric is at rest: no chip has an open request, and no chip holds a packet.
func (d *Driven) Quiet() bool {
	return !slices.ContainsFunc(d.s.machines, func(m *machine) bool { return m.chip != nil && (!m.chip.Quiet() || m.chip.InFlight()) })
}

// Drain runs until the fabric is at rest, see [Driven.Quiet], but at most for the given time. Drain reports
// whether the fabric is at rest.
func (d *Driven) Drain(most time.Duration) (bool, error) {
	done := d.s.runUntil(d.s.now.Add(most), d.Quiet)
	if d.s.failure != nil {
		return false, d.s.failure
	}
	return done, nil
}
