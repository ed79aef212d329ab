package sim

import (
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/scenario"
	"ttfabric/node/snapshot"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Hosts does for the chips of a [Hosted] fabric what a live node does for its chip. The simulator calls the
// methods while it runs a chip, with the chip's place in the topology.
type Hosts interface {
	// Feed hands requests of programs to the chip, as many as the chip has room for. Feed reports whether
	// the chip must run again.
	Feed(chip int) (more bool)
	// Send takes datagrams that the chip sends. Send calls [Hosted.Carry] for the datagrams that go into the cable.
	Send(chip int, ch wire.Channel, t ttlink.Transmit)
	// Received gets each datagram that the chip receives. The bytes are valid until Received returns.
	Received(chip int, ch wire.Channel, b []byte)
	// Result gets the results of the chip's requests.
	Result(chip int, r flow.Result)
	// Event gets the chip's events.
	Event(chip int, e chip.Event)
	// Stepped is called after each step of the chip.
	Stepped(chip int)
}

// Hosted is a simulated fabric whose chips have hosts outside the simulator. The hosts use the chips as live
// nodes do: a host calls the inputs of its chip, and then [Hosted.Step]. A run depends on the Config and on the
// calls of the hosts alone.
type Hosted struct {
	*Driven
	ends map[end]*hostedEnd
}

// hostedEnd is the fault that a host injects into the datagrams of one end of a cable.
type hostedEnd struct {
	options fault.Options
	before  fault.Counts // counts of the model when the fault began
}

// hostedLate is the longest time until news of a life comes to a chip. A live pool takes about as long.
const hostedLate = 300 * time.Millisecond

// NewHosted starts a fabric, and returns when all links are up. The chips have the behaviour b, and the largest
// payload of a frame is maxPayload bytes, a multiple of [wire.PadUnit]; 0: the default.
func NewHosted(cfg Config, b chip.Behaviour, maxPayload int, h Hosts) (*Hosted, error) {
	d, err := newDriven(cfg, func(s *Sim) error {
		a := &s.around
		err := a.of(scenario.Fabric{})
		a.profile, a.slots, a.route, a.timeout = b.Profile, b.Slots, b.Route, b.Timeout
		a.localFirst, a.keepUnreliable, a.strictTTL, s.ttl = b.LocalFirst, b.KeepUnreliable, b.StrictTTL, b.TTL
		if maxPayload > 0 {
			a.maxPayload = min(a.maxPayload, maxPayload)
		}
		a.gossip = gossip{on: true, late: hostedLate}
		return err
	}, func(s *Sim) func() bool { return (&stage{s: s}).intact })
	if err != nil {
		return nil, err
	}
	return d.host(h), nil
}

// LoadHosted starts a fabric with the state of a snapshot, as [Load] does. The open requests of the snapshot go
// on, and the hosts get results of requests that they did not make.
func LoadHosted(f *snapshot.File, cfg Config, h Hosts) (*Hosted, Loaded, error) {
	d, l, err := load(f, cfg)
	if err != nil {
		return nil, l, err
	}
	d.s.around.gossip = gossip{on: true, late: hostedLate}
	return d.host(h), l, nil
}

// host gives the chips their hosts.
func (d *Driven) host(h Hosts) *Hosted {
	x := &Hosted{Driven: d, ends: map[end]*hostedEnd{}}
	s := d.s
	for _, m := range s.machines {
		m.chip.SetClient(nil)
	}
	for _, e := range s.byPort {
		x.ends[e] = &hostedEnd{}
	}
	s.onFeed = func(m *machine) bool { return h.Feed(m.index) }
	s.onSend = func(m *machine, ch wire.Channel, t ttlink.Transmit) { h.Send(m.index, ch, t) }
	s.onReceive = func(m *machine, ch wire.Channel, b []byte) { h.Received(m.index, ch, b) }
	s.onResult = func(m *machine, r flow.Result) { h.Result(m.index, r) }
	s.onEvent = func(m *machine, e chip.Event) { h.Event(m.index, e) }
	s.onStep = func(m *machine) { h.Stepped(m.index) }
	return x
}

// Chip returns a living chip; nil: the chip is dead.
func (h *Hosted) Chip(i int) *chip.Chip { return h.s.machines[i].chip }

// Step runs a chip until nothing moves, as a live node does after an input. A dead or paused chip does not run.
func (h *Hosted) Step(i int) {
	if m := h.s.machines[i]; m.chip != nil {
		h.s.run(m)
	}
}

// Carry sends consecutive datagrams of seg bytes each into the cable of a port. The last datagram may be shorter.
func (h *Hosted) Carry(i int, ch wire.Channel, data []byte, seg int) {
	m := h.s.machines[i]
	for b := data; len(b) > 0; b = b[min(seg, len(b)):] {
		h.s.carry(m, ch, b[:min(seg, len(b))])
	}
}

// Once carries out the next event if its time is at most "until", and reports whether it did. Otherwise the
// virtual time becomes "until". If a chip is wrong, the error is a [*Failure].
func (h *Hosted) Once(until mono.Time) (bool, error) {
	s := h.s
	if s.failure != nil {
		return false, s.failure
	}
	if h.Next() > until {
		s.now = max(s.now, until)
		return false, nil
	}
	s.now = max(s.now, h.Next())
	w := s.queue.take()
	s.report.Events += w.count()
	s.happens(w)
	if s.failure != nil {
		return true, s.failure
	}
	return true, nil
}

// Wait lets virtual time pass up to an instant before the next event.
func (h *Hosted) Wait(until mono.Time) { h.s.now = max(h.s.now, min(until, h.Next())) }

// Impair sets the fault of the datagrams that a port sends. If seed is not nil, the random numbers of the fault
// start anew.
func (h *Hosted) Impair(p wire.PortID, o fault.Options, cut bool, seed *uint64) error {
	e := h.s.byPort[p]
	f, way := h.ends[e], e.cable.way[e.side]
	if f.options == (fault.Options{}) {
		f.before = way.Counts()
	}
	f.options = o
	o.Delay += cleanDelay
	if err := way.Set(o); err != nil {
		return err
	}
	if seed != nil {
		way.Seed(*seed)
	}
	way.Cut(cut)
	return nil
}

// Faults returns how many datagrams the fault of a port has hit since the fault began.
func (h *Hosted) Faults(p wire.PortID) fault.Counts {
	e := h.s.byPort[p]
	return e.cable.way[e.side].Counts().Since(h.ends[e].before)
}

// Start starts a dead chip, with empty memory.
func (h *Hosted) Start(i int) { h.s.start(h.s.machines[i]) }

// Pause stops a chip, as SIGSTOP stops a process, or lets the chip run again.
func (h *Hosted) Pause(i int, on bool) {
	m := h.s.machines[i]
	if m.stalled = 0; on {
		m.stalled = 1
	} else if m.chip != nil {
		h.s.run(m)
	}
}

// Paused reports whether a chip is paused.
func (h *Hosted) Paused(i int) bool { return h.s.machines[i].stalled > 0 }

// End ends a chip. If goodbye is true, the chip tells its neighbours. Otherwise the chip ends as kill -9 ends a process.
func (h *Hosted) End(i int, goodbye bool) { h.s.stop(h.s.machines[i], goodbye) }

// After calls f at a time from now.
func (h *Hosted) After(d time.Duration, f func()) { h.s.after(d, f) }

// LinkUp reports whether a link is up at both ends.
func (h *Hosted) LinkUp(l topo.Link) bool { return h.s.byPort[l.A].cable.bothUp() }
