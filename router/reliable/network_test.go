package reliable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/router/reliable/nexthop"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// tick is the time of one step of the network of this file. A link takes one packet in a tick.
const tick = mono.Time(time.Microsecond)

// Latencies of a link, and the time after which an end notices a failure, in ticks.
const (
	linkTime   = 4
	detectTime = 20
)

// message is what a line carries: a frame, or the acknowledgement of a packet, or the news that the
// link has failed.
type message struct {
	at     int // tick of the arrival
	frame  []byte
	stored bool
	down   bool
}

// node is a router with the lines that lead away from it.
type node struct {
	*Router
	dead  bool
	lines [wire.NumDirections]struct {
		msgs []message
		cut  bool
	}
}

// network runs the routers of a mesh. Links deliver frames in order, after random times.
type network struct {
	t     *testing.T
	m     nexthop.Mesh
	rng   *rand.Rand
	nodes []*node
	now   int
}

func newNetwork(t *testing.T, m nexthop.Mesh, seed uint64, change func(*Config)) *network {
	t.Helper()
	n := &network{t: t, m: m, rng: rand.New(rand.NewPCG(seed, 3))}
	for i := range m.Nodes() {
		cfg := Config{At: m.Place(i), Mesh: m, Epoch: uint32(seed), Seed: seed + uint64(i)}
		if change != nil {
			change(&cfg)
		}
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		x := &node{Router: r}
		for d := range x.lines {
			if m.Has(cfg.At.Step(wire.Direction(d))) {
				r.LinkUp(0, wire.Direction(d))
			} else {
				x.lines[d].cut = true
			}
		}
		n.nodes = append(n.nodes, x)
	}
	return n
}

func (n *network) at(p nexthop.Place) *node { return n.nodes[n.m.Index(p)] }

func (n *network) time() mono.Time { return mono.Time(n.now) * tick }

// put puts a message on a line. Messages of one line stay in order.
func (n *network) put(x *node, d wire.Direction, m message) {
	l := &x.lines[d]
	if l.cut {
		return
	}
	m.at = n.now + 1 + n.rng.IntN(linkTime)
	if k := len(l.msgs); k > 0 {
		m.at = max(m.at, l.msgs[k-1].at)
	}
	l.msgs = append(l.msgs, m)
}

// step runs one tick: all messages that are due, and then each router.
func (n *network) step() {
	n.now++
	for i, x := range n.nodes {
		for d := range wire.Direction(wire.NumDirections) {
			to := n.m.Place(i).Step(d)
			if !n.m.Has(to) {
				continue
			}
			y, back := n.at(to), d.Opposite()
			for l := &x.lines[d]; len(l.msgs) > 0 && l.msgs[0].at <= n.now; {
				m := l.msgs[0]
				l.msgs = l.msgs[1:]
				switch {
				case y.dead:
				case m.down:
					y.LinkDown(n.time(), back)
				case m.stored:
					y.HandleStored(n.time(), back, 1)
				default:
					y.HandleFrame(n.time(), back, m.frame)
					if Kind(m.frame[0]) == KindData {
						n.put(y, back, message{stored: true})
					}
				}
			}
		}
	}
	for _, x := range n.nodes {
		if x.dead {
			continue
		}
		x.Tick(n.time())
		x.Step(n.time(), 0xf)
		for d := range wire.Direction(wire.NumDirections) {
			for f, ok := x.PollTransmit(d); ok; f, ok = x.PollTransmit(d) {
				n.put(x, d, message{frame: f})
			}
		}
	}
}

// cut breaks one direction of a link. The receiver gets any part of what is under way, the oldest
// messages first, and then notices the failure.
func (n *network) cut(x *node, d wire.Direction) {
	l := &x.lines[d]
	if l.cut {
		return
	}
	keep := n.rng.IntN(len(l.msgs) + 1)
	at := n.now + 1 + n.rng.IntN(detectTime)
	if l.msgs = l.msgs[:keep]; keep > 0 {
		at = max(at, l.msgs[keep-1].at)
	}
	l.msgs, l.cut = append(l.msgs, message{at: at, down: true}), true
}

// fail breaks a link or kills a node.
func (n *network) fail(f nexthop.Failure) {
	x := n.at(f.At)
	for d := range wire.Direction(wire.NumDirections) {
		if to := f.At.Step(d); n.m.Has(to) && (f.Node || f.Link && d == f.Dir) {
			n.cut(x, d)
			n.cut(n.at(to), d.Opposite())
		}
	}
	x.dead = x.dead || f.Node
}

// heal begins a new session of a link that has failed.
func (n *network) heal(f nexthop.Failure) {
	x, y := n.at(f.At), n.at(f.At.Step(f.Dir))
	x.lines[f.Dir].cut, y.lines[f.Dir.Opposite()].cut = false, false
	x.LinkUp(n.time(), f.Dir)
	y.LinkUp(n.time(), f.Dir.Opposite())
}

// idle reports whether no message is under way, and no living router has a packet.
func (n *network) idle() bool {
	for _, x := range n.nodes {
		for d := range x.lines {
			if len(x.lines[d].msgs) > 0 {
				return false
			}
		}
		if all, _ := x.Copies(); all > 0 && !x.dead {
			return false
		}
		if _, waits := x.Deadline(); waits && !x.dead {
			return false
		}
	}
	return true
}

// settle runs until nothing is under way.
func (n *network) settle(most int) error {
	for end := n.now + most; !n.idle(); n.step() {
		if n.now > end {
			return fmt.Errorf("packets are under way after %d ticks", most)
		}
	}
	for _, x := range n.nodes {
		if err := x.Check(); err != nil && !x.dead {
			return err
		}
	}
	return nil
}

// workload is the traffic of a run: packets that wait at their sources, and what has become of them.
type workload struct {
	n        *network
	todo     []Packet
	state    map[string]int // by payload: 1 injected, 2 accepted, and 4 for each delivery
	wrong    []string
	last     map[flowID]uint64 // number of the last packet of a flow that came in order, and one
	disorder int
	drops    []Drop
}

func newWorkload(n *network) *workload {
	return &workload{n: n, state: map[string]int{}, last: map[flowID]uint64{}}
}

// add adds a packet.
func (w *workload) add(src, dst nexthop.Place, priority uint8) {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(w.todo)))
	w.todo = append(w.todo, Packet{Src: src, Dst: dst, Priority: priority, Payload: append(b, bytes.Repeat([]byte{byte(len(w.todo))}, len(w.todo)%40)...)})
}

// step injects packets, runs the network, and takes what the routers give.
func (w *workload) step(inject int) {
	kept := w.todo[:0]
	for _, p := range w.todo {
		x := w.n.at(p.Src)
		if inject > 0 && !x.dead && w.n.rng.IntN(3) == 0 {
			if err := x.Inject(w.n.time(), p); err == nil {
				w.state[string(p.Payload)] |= 1
				inject--
				continue
			}
		}
		if !x.dead {
			kept = append(kept, p)
		}
	}
	w.todo = kept
	w.n.step()
	w.collect()
}

func (w *workload) collect() {
	for i, x := range w.n.nodes {
		for p, ok := x.PollAccepted(); ok; p, ok = x.PollAccepted() {
			w.state[string(p.Payload)] |= 2
		}
		for d, ok := x.PollDrop(); ok; d, ok = x.PollDrop() {
			w.drops = append(w.drops, d)
		}
		for p, ok := x.PollDeliver(); ok; p, ok = x.PollDeliver() {
			key := string(p.Payload)
			if w.state[key]&1 == 0 || w.state[key]&4 != 0 || p.Dst != w.n.m.Place(i) {
				w.wrong = append(w.wrong, fmt.Sprintf("packet %d of %v to %v came twice, changed or astray", p.Seq, p.Src, p.Dst))
			}
			w.state[key] |= 4
			f := p.flow()
			f.src.X += 100 * (i + 1) // the flows of all destinations
			if p.Seq < w.last[f] {
				w.disorder++
			}
			w.last[f] = max(w.last[f], p.Seq+1)
		}
	}
}

// run injects all packets, and runs until nothing is under way.
func (w *workload) run(each func()) error {
	for len(w.todo) > 0 {
		if w.n.now > 20_000 {
			return fmt.Errorf("%d packets cannot be injected", len(w.todo))
		}
		if each != nil {
			each()
		}
		w.step(math.MaxInt)
	}
	for end := w.n.now + 20_000; !w.n.idle(); w.step(0) {
		if each != nil {
			each()
		}
		if w.n.now > end {
			return fmt.Errorf("packets are under way after %d ticks", 20_000)
		}
	}
	w.collect()
	if len(w.wrong) > 0 {
		return fmt.Errorf("%s, and %d more", w.wrong[0], len(w.wrong)-1)
	}
	return w.n.settle(0)
}
