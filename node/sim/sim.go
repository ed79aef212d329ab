// Package sim simulates a whole fabric in virtual time. A live node drives a [chip.Chip] with
// sockets and a clock. The simulator drives the same [chip.Chip] with a heap of events. Simulated
// cables lose, delay, double, reorder and corrupt datagrams, and the simulator cuts and swaps
// cables. Simulated chips stall, die and restart.
//
// A run depends on its [Config] alone. The seed decides the chips' options, the faults, the load
// and every delay. A developer can therefore repeat a failed run exactly. A run has four parts:
//
//  1. Chips start and send requests, and faults begin and end (plan.go, load.go).
//  2. All faults end, and dead chips restart.
//  3. The fabric must come to rest: every request has ended, every link is up,
//     every credit is at its sender, and no packet is left anywhere.
//  4. Every pair of chips must reach each other on every plane. If the load uses both directions
//     round rings of even length, opposite chips must reach each other in both directions.
//
// During the whole run, checkers compare the events with the rules that check.go lists. The first
// violation of a rule ends the run.
package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits and times of a run.
const (
	lifeTick   = mono.Time(10 * time.Microsecond) // an incarnation that starts at time t begins with flow epoch t/lifeTick + 1
	MaxInbox   = 4096                             // largest number of datagrams that wait in a chip's socket; the socket drops further datagrams
	MaxEvents  = 20_000_000                       // largest number of events of one run; a run with more events fails, because it is probably a livelock
	SettleTime = 45 * time.Second                 // longest time that the fabric may need from the end of the faults until it is at rest
	startSpan  = 100 * time.Millisecond           // time within which all chips start for the first time
	cleanDelay = 20 * time.Microsecond            // delay of a cable without injected faults
)

// Config holds the settings of a run.
type Config struct {
	Topology *topo.Topology
	Seed     uint64
	Only     []int        // numbers of the planned faults that the run injects; nil: all planned faults
	Quick    bool         // whether to check a chip's invariants only after every 16th step; false: after every step
	Hosts    int          // number of hosts at each chip, which use the queues of the chip's base firmware; at most 16
	Trace    io.Writer    // gets a line for each event; nil: no trace
	Kernels  kernel.Table // kernels that the chips of a [Driven] can run; nil: none

	// The simulator calls Record at each start of a chip. Record returns the argument of
	// [chip.Chip.Wrap] for the chip, such as a recorder's method Wrap. If Record or its result is
	// nil, the simulator does not call Wrap.
	Record func(now mono.Time, cfg chip.Config) func(chip.Inputs) chip.Inputs

	bare     bool     // for speed, leave out the costly checks (invariants after each step, losses at the end of an incarnation), and leave the datagrams out of the hash
	sabotage sabotage // error that the run makes on purpose, to test the checkers
}

// Report holds the results of a run.
type Report struct {
	Seed   uint64
	Faults int
	Events int
	Time   mono.Time                // virtual time at the end of the run, from the start
	Fates  [flow.FatePosted + 1]int // number of ended requests, by flow.Fate
	Doubts [flow.NumDoubts]int      // number of requests of unknown fate, by the reason
	Anew   int                      // requests of the last part that a restarted destination refused at first; the simulator sent each again
	Multicasts
	Other   int // number of ended requests with the flag OTHER
	Hosts   HostReport
	Orphans int    // number of requests that were open when their source died
	Refused int    // number of requests that a chip refused to start, because it had no route
	Starts  int    // number of restarts of chips
	Downs   int    // number of times that a link went down
	Ended   int    // number of ends of sessions that chips reported
	Tables  int    // number of times that a chip installed new tables
	Resent  uint64 // number of data frames that links sent again, in the chips' last incarnations
	Gone    int    // number of incarnations whose sessions have ended, and that neighbours still know at the end
	Dropped uint64 // number of packets that routers dropped, in the chips' last incarnations
	Hash    uint64 // hash of all events
}

// Multicasts counts multicasts of a run.
type Multicasts struct {
	Many   int // number of ended multicasts
	Partly int // number of multicasts that ended as done at some destinations, but not at all
}

// Failure is the error of a run in which a rule was violated.
type Failure struct {
	Seed uint64
	At   mono.Time
	Rule string
	What string
	Plan []string // descriptions of the planned faults, with their numbers
}

// Error returns a text with the seed, the virtual time, the rule, and the violation of the rule.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d at %v: %s: %s", f.Seed, f.At, f.Rule, f.What)
}

// machine is the place of a chip in the topology, with the chip's present incarnation.
type machine struct {
	index   int
	ends    [wire.MaxChannels]end // ends of cables, by channel
	node    wire.FabricNodeID
	chip    *chip.Chip // nil while the chip is dead
	life    *life
	inbox   []*flight
	waiting int           // number of datagrams in the inbox
	wake    mono.Time     // time of the chip's next planned step; mono.Never: no step is planned
	wakeID  int           // number of the chip's latest planned step; events of earlier numbers have no effect
	cut     uint16        // cables that the chip itself cuts, as its present incarnation should know; bit k stands for channel k
	knows   uint16        // the part of cut that the chip has been told
	refused uint16        // channels of which a host has refused a datagram since the chip's last step
	stalled int           // number of stalls in force; the chip runs only if the number is 0
	skew    time.Duration // time by which the chip's clock is ahead
	steps   int
	greedy  []*op // ops that the client inside the chip offers to the chip
	taken   int   // number of ops in greedy that the chip has taken
	backlog []*op // ops that wait for room in the chip; the simulator hands these ops over with HandleRequest
	program program
}

// Sim is one run.
type Sim struct {
	cfg      Config
	rng      *rand.Rand
	now      mono.Time
	queue    events
	machines []*machine
	cables   []*cable
	byPort   map[wire.PortID]end
	around   surroundings
	model    *model
	hosts    *hosts // nil: none
	routing
	report  Report
	hash    digest
	failure *Failure
	plan    []mishap
	healed  bool
	hooks
	scripted bool   // whether a scenario makes the load; false: the simulator draws the load
	ttl      uint16 // TTL of new packets; see chip.Config
}

// routing holds the routes of a run, and the proofs that the chips share.
type routing struct {
	routes *route.Plan
	tied   bool                         // whether the load uses both directions round rings of even length
	proofs map[[2]uint32]route.Conflict // results of the chips' proofs; see chip.Chip.ShareProofs
}

// surroundings holds the options that all chips of a run share. In a run without a scenario, the
// seed decides all options except localFirst and timeout, which keep their zero values.
type surroundings struct {
	profile               ttlink.Profile
	slots                 router.SlotProfile
	route                 route.Config
	maxPayload            int
	window                int
	localFirst, strictTTL bool           // see chip.Behaviour
	keepUnreliable        bool           // see chip.Behaviour
	timeout               router.Timeout // what routers do with packets that cannot move
	dark                  bool           // whether the host of a dead chip answers nothing, as if the host were off; false: the host refuses datagrams
	untold                bool           // whether the network cuts cables, of which no chip is told; false: the chips cut their cables themselves
	lag                   time.Duration  // longest time from the arrival of a datagram until the chip reads the datagram
	kernels               kernel.Table   // kernels that the chips can run; nil: none
	gossip                gossip         // how the chips learn each other's lives
}

// Run simulates a fabric. If a rule was violated, the error is a [*Failure].
func Run(cfg Config) (Report, error) {
	s, err := newSim(cfg)
	if err != nil {
		return Report{}, err
	}
	s.around.dark, s.around.untold = cfg.Seed%3 == 0, cfg.Seed%2 == 1
	s.drawGossip()
	s.begin()
	if cfg.Hosts > 0 {
		s.hosts = newHosts(s, min(cfg.Hosts, wire.MaxChannels))
		s.hosts.begin()
	}
	faultsEnd := s.now.Add(time.Second + time.Duration(s.rng.Int64N(int64(2*time.Second))))
	s.drawPlan(faultsEnd)
	s.drawLoad(faultsEnd)
	s.runUntil(faultsEnd, func() bool { return false })
	s.heal()
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		s.fail("progress", "%s", s.unrest())
	}
	s.provePairs()
	s.hosts.prove()
	s.finalChecks()
	s.report.Time = s.now
	s.report.Hash = uint64(s.hash)
	if s.failure != nil {
		return s.report, s.failure
	}
	return s.report, nil
}

func newSim(cfg Config) (*Sim, error) {
	s := &Sim{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x73696d)), byPort: map[wire.PortID]end{}, routing: routing{proofs: map[[2]uint32]route.Conflict{}}}
	s.report.Seed = cfg.Seed
	s.drawSurroundings()
	for i, c := range cfg.Topology.Chips {
		s.machines = append(s.machines, &machine{index: i, node: c.Node, wake: mono.Never})
	}
	var err error
	if s.routes, err = route.New(cfg.Topology, s.around.route); err != nil {
		return nil, err
	}
	if n := cfg.Topology.Planes(); n < 1 || n > maxPlanes {
		return nil, fmt.Errorf("sim: %s: want 1 to %d planes", cfg.Topology, maxPlanes)
	}
	s.tied = s.routes.Other() != s.routes && cfg.Topology.Planes() <= maxTied
	s.model = newModel(cfg.Topology)
	return s, s.layCables()
}

func (s *Sim) drawSurroundings() {
	r, a := s.rng, &s.around
	a.profile = []ttlink.Profile{ttlink.ProfileLAN, ttlink.ProfileCrowded}[r.IntN(2)]
	a.route = route.Config{Order: route.Order(r.IntN(2))}
	if slices.ContainsFunc(s.cfg.Topology.Meshes, func(m topo.Mesh) bool { return m.WrapX || m.WrapY }) {
		a.route.Ring = []route.Ring{route.Dateline, route.Bubble}[r.IntN(2)]
	}
	switch r.IntN(4) {
	case 0:
		a.slots = router.SlotFast
	case 1: // the smallest numbers of slots that a router can have
		a.slots = router.SlotProfile{Name: "tight"}
		for v := range a.slots.Sender {
			a.slots.Sender[v], a.slots.Receiver[v] = 1, 1
			if a.route.Ring == route.Bubble {
				a.slots.Receiver[v] = 2
			}
		}
	default:
		a.slots = router.SlotSpec
	}
	most := []int{ttlink.MinPayload, 512, 1408, 4480, wire.MaxFramePayload}[r.IntN(5)]
	a.maxPayload = most / wire.PadUnit * wire.PadUnit
	a.window = []int{ttlink.MinWindow, ttlink.DefaultWindow}[r.IntN(2)]
	a.lag = []time.Duration{0, 20 * time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond}[r.IntN(4)]
	s.tracef("surroundings: profile %s, slots %s, order %s, payload %d B, window %d B, lag %v", a.profile.Name, a.slots.Name, a.route.Order, a.maxPayload, a.window, a.lag)
}

func (s *Sim) begin() {
	for _, m := range s.machines {
		s.after(time.Duration(s.rng.Int64N(int64(startSpan))), func() { s.start(m) })
	}
}

// start begins a new incarnation of a chip, with empty memory.
func (s *Sim) start(m *machine) {
	if m.chip != nil || s.failure != nil {
		return
	}
	now := s.clock(m)
	cfg := chip.Config{
		Node: m.node, Incarnation: wire.Incarnation(s.rng.Uint64() | 1), FlowEpoch: uint32(s.now/lifeTick) + 1, Topology: s.cfg.Topology,
		Behaviour:  chip.Behaviour{Route: s.around.route, Profile: s.around.profile, Slots: s.around.slots, LocalFirst: s.around.localFirst, KeepUnreliable: s.around.keepUnreliable, Timeout: s.around.timeout, TTL: s.ttl, StrictTTL: s.around.strictTTL},
		MaxPayload: s.around.maxPayload, Window: s.around.window, Seed: s.rng.Uint64(),
	}
	s.relive(m, &cfg)
	if s.around.kernels != nil {
		cfg.Kernels, cfg.KernelSeed = s.around.kernels, s.rng.Uint64()|1
	}
	c, err := chip.New(now, cfg)
	if err != nil {
		s.fail("start", "%v", err)
		return
	}
	c.ShareProofs(s.proofs)
	if s.cfg.Record != nil {
		if wrap := s.cfg.Record(s.now, cfg); wrap != nil {
			c.Wrap(wrap)
		}
	}
	if m.life != nil {
		s.report.Starts++
	}
	m.chip, m.inbox, m.waiting, m.wake, m.steps = c, nil, 0, mono.Never, 0
	m.cut, m.knows, m.refused = 0, 0, 0
	m.life = s.model.begin(m.index, s.now)
	m.program = program{s: s, m: m}
	if !s.scripted {
		c.SetClient(&m.program)
	}
	s.tracef("%s starts as %#x", m.node, uint64(c.Incarnation()))
	for _, p := range c.Channels() {
		c.SetPath(now, p.Local.Channel, true)
	}
	s.spread(m)
	s.run(m)
}

// clock returns the present time on a chip's own clock.
func (s *Sim) clock(m *machine) mono.Time { return s.now.Add(m.skew) }

// stop ends an incarnation of a chip. If goodbye is true, the chip tells its neighbours that it
// closes. Otherwise the chip ends silently, like a process after kill -9.
func (s *Sim) stop(m *machine, goodbye bool) {
	if m.chip == nil {
		return
	}
	s.tracef("%s stops (goodbye: %v)", m.node, goodbye)
	if goodbye {
		m.chip.Close(s.clock(m))
		s.transmit(m)
	}
	s.checkMemory(m)
	dead := m.chip
	m.life.account = dead.Account()
	s.report.Orphans += s.model.orphan(m)
	m.chip, m.inbox, m.waiting = nil, nil, 0
	m.backlog, m.greedy, m.taken = nil, nil, 0
	m.life.end = s.now
	s.spread(m)
	s.markCables(m)
	if !s.cfg.bare {
		s.checkLosses()
	}
	if s.around.kernels != nil {
		dead.Close(s.clock(m)) // ends the coroutines of the kernels; nobody takes the outputs
	}
}

// arrive puts the datagrams of a flight into a chip's socket. The host of a dead chip refuses or
// drops all datagrams, and a full socket drops the rest. For each datagram in the socket, arrive
// draws a time, and plans a step of the chip for this time. The chip reads all datagrams in its
// socket in its next step.
func (s *Sim) arrive(f *flight) {
	m := f.to
	s.queue.land(f)
	if m.chip == nil {
		s.refuse(m, f.ch)
	}
	if f.ends = f.ends[:min(len(f.ends), MaxInbox-m.waiting)]; m.chip == nil || len(f.ends) == 0 {
		s.queue.done(f)
		return
	}
	m.inbox = append(m.inbox, f)
	m.waiting += len(f.ends)
	for range f.ends {
		at := s.now
		if s.around.lag > 0 {
			at = at.Add(time.Duration(s.rng.Int64N(int64(s.around.lag))))
		}
		s.wakeAt(m, at)
	}
}

// wakeAt plans a chip's next step for the time "at". If a step is planned for this time or an
// earlier time already, wakeAt does nothing.
func (s *Sim) wakeAt(m *machine, at mono.Time) {
	if m.wake <= at {
		return
	}
	m.wake = at
	m.wakeID++
	s.queue.add(max(at, s.now), what{m: m, wake: m.wakeID})
}

// run runs one step of a chip, unless the chip is stalled. In a step, the chip does the same work
// as when a live node wakes it.
func (s *Sim) run(m *machine) {
	if m.stalled > 0 {
		return
	}
	now := s.clock(m)
	for _, f := range m.inbox {
		begin := 0
		for _, end := range f.ends {
			b := f.data[begin:end:end]
			begin = end
			if !s.cfg.bare {
				s.note(uint64(m.index), uint64(f.ch))
				s.hash.bytes(b)
			}
			if s.onReceive != nil {
				s.onReceive(m, f.ch, b)
			}
			m.chip.HandleDatagram(now, f.ch, b)
		}
		s.queue.done(f)
	}
	m.inbox, m.waiting = m.inbox[:0], 0
	if m.cut != m.knows || m.refused != 0 {
		s.tell(m, now)
	}
	s.tellLives(m)
	m.chip.Tick(now)
	s.submit(m)
	m.chip.Pump(now)
	for s.onFeed != nil && s.onFeed(m) {
		m.chip.Pump(now)
	}
	s.transmit(m)
	s.hosts.transfer(m)
	for r, ok := m.chip.PollResult(); ok; r, ok = m.chip.PollResult() {
		s.ended(m, r)
	}
	for e, ok := m.chip.PollEvent(); ok; e, ok = m.chip.PollEvent() {
		s.linkEvent(m, e)
	}
	s.checkStep(m)
	if s.onStep != nil {
		s.onStep(m)
	}
	if at, ok := m.chip.Deadline(); ok {
		if m.steps++; at.Before(now) {
			at = now
		}
		s.wakeAt(m, at.Add(-m.skew))
	}
}

// transmit takes the chip's outgoing datagrams, and sends them into the cables.
func (s *Sim) transmit(m *machine) {
	now := s.clock(m)
	for ch, t, ok := m.chip.PollTransmit(now); ok; ch, t, ok = m.chip.PollTransmit(now) {
		if s.onSend != nil {
			s.onSend(m, ch, t)
			continue
		}
		for b := t.Data; len(b) > 0; b = b[min(t.Seg, len(b)):] {
			s.carry(m, ch, b[:min(t.Seg, len(b))])
		}
	}
}

// linkEvent handles an event of a chip, and keeps the state of the cables up to date.
func (s *Sim) linkEvent(m *machine, e chip.Event) {
	s.note(uint64(m.index), uint64(e.Local.Channel), uint64(e.Link.Kind), uint64(e.Drop))
	if s.onEvent != nil {
		s.onEvent(m, e)
	}
	if e.Tables != nil {
		s.report.Tables++
		s.tracef("%s goes by tables %08x: %d ports out of service, %d chips unreachable, strict: %v, refused: %v",
			m.node, e.Tables.Epoch, len(e.Tables.Out), len(e.Tables.Unreachable), e.Tables.Strict, e.Tables.Refused)
		return
	}
	if e.Link.Kind == 0 {
		s.tracef("%s drops %d packets from %s to %s: %s", m.node, e.Count, e.Src, e.Dst, e.Drop)
		return
	}
	s.tracef("%s channel %d: %s %s session %#x", m.node, e.Local.Channel, e.Link.Kind, e.Link.Reason, uint32(e.Link.Session))
	c := s.byPort[e.Local]
	switch e.Link.Kind {
	case ttlink.EventUp:
		c.cable.up[c.side] = true
	case ttlink.EventSessionEnded:
		c.cable.renewed = true
		s.report.Ended++
	case ttlink.EventDown:
		s.report.Downs++
		c.cable.up[c.side] = false
	}
	c.cable.lastBad = s.now
}

func (s *Sim) fail(rule, format string, args ...any) {
	if s.failure != nil {
		return
	}
	s.failure = &Failure{Seed: s.cfg.Seed, At: s.now, Rule: rule, What: fmt.Sprintf(format, args...)}
	for i, f := range s.plan {
		s.failure.Plan = append(s.failure.Plan, fmt.Sprintf("%3d: %s", i, f))
	}
	s.tracef("BROKEN %s: %s", rule, s.failure.What)
}
