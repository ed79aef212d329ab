package reliable

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"ttfabric/wire"
)

// Config describes a network of Reliable Routers.
type Config struct {
	Mesh      Mesh
	Rule      Rule
	Policy    Policy
	NoTokens  bool    // plain wormhole routing: one copy of each flit, no token; faults must come before packets
	NoPadding bool    // the routers never turn off the crossbar
	Phase     Phase   // how the clocks of the routers lie to each other
	Drift     float64 // each clock differs from 100 MHz by at most this many parts per million; 0 to maxDrift
	Seed      uint64
}

// Phase says how the clocks of the routers lie to each other at the start.
type Phase uint8

const (
	AnyPhase    Phase = iota // each router has a phase of its own, from 0 up to a flit time
	WholeCycles              // each router's flit times begin in one cycle or in the other
	OnePhase                 // all flit times begin at once
)

// maxDrift is the largest [Config.Drift], in parts per million.
const maxDrift = 10_000

// warmUp is the number of flit times before the first packet, in which the front ends lock.
const warmUp = 16

// node is a router with its clock and the lines that leave it.
type node struct {
	Router
	cycle Time // clock cycle
	tick  Time // the router's next flit time begins
	dead  bool
	out   [wire.NumDirections]*line // nil at the edge of the mesh
	in    [wire.NumDirections]*line
}

// Hops are the latencies of head flits from flit register to flit register.
type Hops struct {
	N        int
	Min, Max Time
	Sum      float64 // femtoseconds
	Late     int     // hops with a cycle of synchronisation (RR Table 3, cycle 2)
}

// Network runs the routers of a mesh.
type Network struct {
	cfg   Config
	nodes []node
	queue []int32 // heap of the nodes that live, by the time of their next flit time
	now   Time
	Hops  Hops
	ready []Delivery
	lost  []uint64
}

// New returns a network of idle routers at a time at which all front ends have locked.
func New(cfg Config) (*Network, error) {
	m := cfg.Mesh
	if m.W < 1 || m.H < 1 || m.W > MaxSide || m.H > MaxSide {
		return nil, fmt.Errorf("a mesh of %d columns and %d rows; each is 1 to %d", m.W, m.H, MaxSide)
	}
	if !(cfg.Drift >= 0 && cfg.Drift <= maxDrift) {
		return nil, fmt.Errorf("a clock drift of %v ppm; the drift is 0 to %d ppm", cfg.Drift, maxDrift)
	}
	n := &Network{cfg: cfg, nodes: make([]node, m.Nodes())}
	n.Hops.Min = math.MaxInt64
	seeds := rand.New(rand.NewPCG(cfg.Seed, 1))
	for i := range n.nodes {
		x := &n.nodes[i]
		at := m.Place(i)
		x.cycle = Cycle
		switch cfg.Phase {
		case AnyPhase:
			x.tick = Time(seeds.Int64N(int64(FlitTime)))
		case WholeCycles:
			x.tick = Cycle * Time(seeds.IntN(FlitCycles))
		}
		if cfg.Drift > 0 {
			x.cycle += Time(math.Round((2*seeds.Float64() - 1) * cfg.Drift * 1e-6 * float64(Cycle)))
		}
		var up Dirs
		for d := range wire.Direction(wire.NumDirections) {
			if m.Has(at.Step(d)) {
				up = up.With(d)
				x.out[d] = &line{cut: math.MaxInt64, cycle: x.cycle, wave: wave{last: -1}}
			}
		}
		x.Router = *newRouter(at, &n.cfg, rand.New(rand.NewPCG(cfg.Seed, uint64(i)+2)), up)
		x.host.plain = cfg.NoTokens
		n.queue = append(n.queue, int32(i))
	}
	for i := range n.nodes {
		for d := range wire.Direction(wire.NumDirections) {
			if to := n.nodes[i].at.Step(d); m.Has(to) {
				n.nodes[m.Index(to)].in[d.Opposite()] = n.nodes[i].out[d]
			}
		}
	}
	for i := len(n.queue)/2 - 1; i >= 0; i-- {
		n.sift(i)
	}
	n.RunUntil(warmUp * FlitTime)
	return n, nil
}

// sift restores the heap below position i.
func (n *Network) sift(i int) {
	q := n.queue
	for {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(q); k++ {
			if n.before(q[k], q[least]) {
				least = k
			}
		}
		if least == i {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

func (n *Network) before(a, b int32) bool {
	x, y := n.nodes[a].tick, n.nodes[b].tick
	return x < y || x == y && a < b
}

// Now returns the time up to which the network has run.
func (n *Network) Now() Time { return n.now }

// RunUntil runs all routers up to time t.
func (n *Network) RunUntil(t Time) {
	for len(n.queue) > 0 {
		x := &n.nodes[n.queue[0]]
		if x.tick > t {
			break
		}
		if x.dead {
			last := len(n.queue) - 1
			n.queue[0] = n.queue[last]
			n.queue = n.queue[:last]
			n.sift(0)
			continue
		}
		n.flitTime(x)
		x.tick += FlitCycles * x.cycle
		n.sift(0)
	}
	n.now = max(n.now, t)
}

// flitTime runs one flit time of a router.
func (n *Network) flitTime(x *node) {
	t := x.tick
	for d, l := range x.in {
		if l == nil {
			continue
		}
		s, dead := l.sample(t)
		switch {
		case dead:
			x.fail(wire.Direction(d))
		case s == nil || s.pad:
		default:
			n.receive(x, wire.Direction(d), s, t)
		}
	}
	x.host.now = t
	x.step()
	for d, l := range x.out {
		if l == nil {
			continue
		}
		s := &x.send[d]
		f, err := s.Encode()
		if err != nil {
			panic(fmt.Sprintf("router %v sends %+v: %v", x.at, s, err))
		}
		l.put(sentSlot{ready: t + assembledAfter*x.cycle, sent: t, frames: f, pad: s.Kind == Padding, head: s.Kind.Head()})
	}
	if len(x.host.inbox) > 0 {
		n.ready = append(n.ready, x.host.inbox...)
		x.host.inbox = x.host.inbox[:0]
	}
	if len(x.drops) > 0 {
		n.lost = append(n.lost, x.drops...)
		x.drops = x.drops[:0]
	}
}

// receive decodes a slot, and gives it to the router.
func (n *Network) receive(x *node, d wire.Direction, s *sentSlot, t Time) {
	slot, err := DecodeSlot(s.frames)
	switch {
	case errors.Is(err, ErrParity):
		x.parityError(d)
	case err != nil:
		panic(fmt.Sprintf("router %v received %#x: %v", x.at, s.frames, err))
	default:
		if s.head {
			n.Hops.add(t-s.sent, x.in[d].wave.late)
		}
		x.receive(d, &slot)
	}
}

func (h *Hops) add(t Time, late bool) {
	h.N++
	h.Min, h.Max, h.Sum = min(h.Min, t), max(h.Max, t), h.Sum+float64(t)
	if late {
		h.Late++
	}
}

// Mean returns the mean latency of a hop in cycles of 10 ns.
func (h *Hops) Mean() float64 { return h.Sum / float64(h.N) / float64(Cycle) }

// Send queues a packet at its source. Bad fields, a full queue or a dead source are an error.
func (n *Network) Send(p *Packet) error {
	for _, at := range []Place{p.Src, p.Dst} {
		if !n.cfg.Mesh.Has(at) {
			return fmt.Errorf("packet %d from %v to %v: %v is not in %v", p.Seq, p.Src, p.Dst, at, n.cfg.Mesh)
		}
	}
	x := &n.nodes[n.cfg.Mesh.Index(p.Src)]
	if x.dead {
		return fmt.Errorf("node %v is dead", p.Src)
	}
	return x.host.push(p)
}

// PollDelivery returns the next packet that an endpoint has received.
func (n *Network) PollDelivery() (d Delivery, ok bool) {
	if len(n.ready) == 0 {
		return d, false
	}
	d, n.ready = n.ready[0], n.ready[1:]
	return d, true
}

// PollDrop returns the identifier of the next packet, or piece, that a router has dropped because it
// had no route.
func (n *Network) PollDrop() (id uint64, ok bool) {
	if len(n.lost) == 0 {
		return 0, false
	}
	id, n.lost = n.lost[0], n.lost[1:]
	return id, true
}

// Cut breaks the link that leaves a node in direction d, in both directions, at the present time.
// Slots that the other end has not assembled are lost.
func (n *Network) Cut(at Place, d wire.Direction) error {
	if !n.cfg.Mesh.Has(at) || d >= wire.NumDirections || !n.cfg.Mesh.Has(at.Step(d)) {
		return fmt.Errorf("no link leaves %v in direction %v in %v", at, d, n.cfg.Mesh)
	}
	x := &n.nodes[n.cfg.Mesh.Index(at)]
	x.out[d].cut = min(x.out[d].cut, n.now)
	x.in[d].cut = min(x.in[d].cut, n.now)
	return nil
}

// Kill stops a node at the present time. Its links carry nothing more, and its endpoint is gone.
func (n *Network) Kill(at Place) error {
	if !n.cfg.Mesh.Has(at) {
		return fmt.Errorf("no node %v in %v", at, n.cfg.Mesh)
	}
	x := &n.nodes[n.cfg.Mesh.Index(at)]
	x.dead = true
	for d := range wire.Direction(wire.NumDirections) {
		if x.out[d] != nil {
			_ = n.Cut(at, d) // the link exists
		}
	}
	return nil
}

// Corrupt inverts one of the 24 lines of one frame of the slot that leaves a node last in direction d.
func (n *Network) Corrupt(at Place, d wire.Direction, frame, number int) error {
	if !n.cfg.Mesh.Has(at) || d >= wire.NumDirections || !n.cfg.Mesh.Has(at.Step(d)) || frame < 0 || frame >= NumFrames || number < 0 || number > FrameBits {
		return fmt.Errorf("no line %d of frame %d leaves %v in direction %v in %v", number, frame, at, d, n.cfg.Mesh)
	}
	s := n.nodes[n.cfg.Mesh.Index(at)].out[d]
	last := s.at(s.next - 1)
	last.frames[frame] ^= 1 << number
	last.pad = false // the receiver does not take a damaged slot for padding
	return nil
}

// Idle reports whether no packet waits at a living endpoint and none is in a living router.
func (n *Network) Idle() bool {
	for i := range n.nodes {
		x := &n.nodes[i]
		if !x.dead && (x.occupied() > 0 || x.host.busy()) {
			return false
		}
	}
	return true
}

// Total returns the sum of the counters of all routers.
func (n *Network) Total() (c Counters) {
	for i := range n.nodes {
		s := &n.nodes[i].Stats
		c.Heads += s.Heads
		c.Bodies += s.Bodies
		c.Tokens += s.Tokens
		for k := range c.OnClass {
			c.OnClass[k] += s.OnClass[k]
		}
		c.Refused += s.Refused
		c.LongestRefusal = max(c.LongestRefusal, s.LongestRefusal)
		c.Promoted += s.Promoted
		c.Padded += s.Padded
		c.Dropped += s.Dropped
		c.Backups += s.Backups
		c.Generated += s.Generated
		c.ParityErrors += s.ParityErrors
		c.Violations += s.Violations
	}
	return c
}

// Check returns the first broken invariant of the routers.
func (n *Network) Check() error {
	for i := range n.nodes {
		x := &n.nodes[i]
		if x.dead {
			continue
		}
		if s := x.check(); s != "" {
			return fmt.Errorf("at %v, time %d fs: %s", x.at, n.now, s)
		}
		if x.host.Damaged+x.host.Forgotten > 0 {
			return fmt.Errorf("endpoint %v has %d damaged and %d forgotten packets", x.at, x.host.Damaged, x.host.Forgotten)
		}
	}
	return nil
}
