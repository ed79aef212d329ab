package reliable

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ttfabric/router/reliable/nexthop"
	"ttfabric/wire"
)

var each = flag.Int("reliable.each", 397, "try one of so many runs of a failure, an instant and a pattern; 1 tries all")

const (
	faultInstants = 64
	sends         = 6  // packets of each node
	span          = 96 // ticks within which the failures come
)

// patterns are patterns of traffic: the destination of packet k of a source.
var patterns = []struct {
	name string
	dst  func(m nexthop.Mesh, src nexthop.Place, rng *rand.Rand) nexthop.Place
}{
	{"uniform", func(m nexthop.Mesh, _ nexthop.Place, rng *rand.Rand) nexthop.Place {
		return m.Place(rng.IntN(m.Nodes()))
	}},
	{"transpose", func(m nexthop.Mesh, p nexthop.Place, _ *rand.Rand) nexthop.Place {
		return m.Place(p.X*m.H + p.Y)
	}},
	{"bit-complement", func(m nexthop.Mesh, p nexthop.Place, _ *rand.Rand) nexthop.Place {
		return nexthop.Place{X: m.W - 1 - p.X, Y: m.H - 1 - p.Y}
	}},
	{"tornado", func(m nexthop.Mesh, p nexthop.Place, _ *rand.Rand) nexthop.Place {
		return nexthop.Place{X: (p.X + (m.W+1)/2 - 1) % m.W, Y: (p.Y + (m.H+1)/2 - 1) % m.H}
	}},
	{"neighbour", func(m nexthop.Mesh, p nexthop.Place, _ *rand.Rand) nexthop.Place {
		return nexthop.Place{X: (p.X + 1) % m.W, Y: (p.Y + 1) % m.H}
	}},
	{"hotspot", func(m nexthop.Mesh, _ nexthop.Place, rng *rand.Rand) nexthop.Place {
		if rng.IntN(2) == 0 {
			return nexthop.Place{X: m.W / 2, Y: m.H / 2}
		}
		return m.Place(rng.IntN(m.Nodes()))
	}},
}

// outcome counts what happened in runs with a failure.
type outcome struct {
	runs, packets, replicas, duplicates, endpoints, resent, expired, skipped, late, most int
}

func (o *outcome) add(p outcome) {
	o.runs, o.packets, o.replicas, o.duplicates = o.runs+p.runs, o.packets+p.packets, o.replicas+p.replicas, o.duplicates+p.duplicates
	o.endpoints, o.resent, o.expired, o.skipped, o.late, o.most = o.endpoints+p.endpoints, o.resent+p.resent, o.expired+p.expired, o.skipped+p.skipped, o.late+p.late, max(o.most, p.most)
}

// traffic adds the packets of a pattern.
func (w *workload) traffic(pattern int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 77))
	m := w.n.m
	for range sends {
		for i := range m.Nodes() {
			src := m.Place(i)
			if dst := patterns[pattern].dst(m, src, rng); dst != src {
				w.add(src, dst, uint8(rng.IntN(Priorities)))
			}
		}
	}
}

// survive runs a pattern with one failure. Every packet between living endpoints must arrive exactly
// once, unchanged, and in the order of its flow.
func survive(t *testing.T, m nexthop.Mesh, pattern int, f nexthop.Failure, instant int, seed uint64) (o outcome) {
	t.Helper()
	n := newNetwork(t, m, seed, func(c *Config) {
		c.Slots, c.Escape = 2+int(seed%3), 1+int(seed%2)
		c.Patience = 20 * time.Millisecond // longer than a run: nothing may be skipped
	})
	w := newWorkload(n)
	w.traffic(pattern, seed)
	packets := append([]Packet{}, w.todo...)
	err := w.run(func() {
		if n.now == instant {
			n.fail(f)
		}
	})
	what := fmt.Sprintf("%v, %s, %v at tick %d, seed %d", m, patterns[pattern].name, f, instant, seed)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !f.Node && w.disorder > 0 {
		t.Fatalf("%s: %d packets came out of order", what, w.disorder)
	}
	o.runs, o.packets = 1, len(packets)
	for _, p := range packets {
		state := w.state[string(p.Payload)]
		switch {
		case state == 7 || state == 5 && f.Node && p.Src == f.At:
		case f.Node && (p.Src == f.At || p.Dst == f.At):
			o.endpoints++
		default:
			t.Fatalf("%s: packet from %v to %v has state %d", what, p.Src, p.Dst, state)
		}
	}
	for _, x := range n.nodes {
		o.replicas += x.Stats.Replicas
		o.duplicates += x.Stats.Duplicates
		o.resent += x.Stats.Resent
		o.expired += x.Stats.Expired
		o.skipped += x.order.skipped
		o.late += x.order.late
		o.most = max(o.most, x.order.most)
	}
	if o.expired > 0 || o.late > 0 || !f.Node && o.skipped > 0 || o.skipped > 0 && o.endpoints == 0 {
		t.Fatalf("%s: %+v", what, o)
	}
	return o
}

// TestEveryFault breaks each link and each node of 4×4 and 8×4 at 64 instants under six patterns. The
// flag -reliable.each sets the sample.
func TestEveryFault(t *testing.T) {
	var sum outcome
	var mu sync.Mutex
	runs := 0
	t.Run("runs", func(t *testing.T) {
		for _, m := range []nexthop.Mesh{{W: 4, H: 4}, {W: 4, H: 8}} {
			for p := range patterns {
				first := runs
				faults := nexthop.Failures(m)
				runs += len(faults) * faultInstants
				t.Run(fmt.Sprint(m, " ", patterns[p].name), func(t *testing.T) {
					t.Parallel()
					var o outcome
					for i := range len(faults) * faultInstants {
						if (first+i)%*each == 0 {
							o.add(survive(t, m, p, faults[i/faultInstants], 1+i%faultInstants*span/faultInstants, uint64(first+i)))
						}
					}
					mu.Lock()
					defer mu.Unlock()
					sum.add(o)
				})
			}
		}
	})
	t.Logf("%d of %d runs: %+v", sum.runs, runs, sum)
	if !t.Failed() && (sum.resent == 0 || sum.replicas == 0 || sum.duplicates == 0) {
		t.Errorf("the failures have met no packets: %+v", sum)
	}
}

// TestNoFault runs each pattern without a failure. No packet may have a replica token.
func TestNoFault(t *testing.T) {
	for p := range patterns {
		o := survive(t, nexthop.Mesh{W: 5, H: 3}, p, nexthop.Failure{}, 1, uint64(p))
		if o.replicas+o.resent+o.skipped > 0 {
			t.Errorf("%s: %+v", patterns[p].name, o)
		}
	}
}

// marked reports whether a living router or a line has what a failure has left: replicas and detours.
func (n *network) marked() bool {
	for _, x := range n.nodes {
		if _, marked := x.Copies(); marked > 0 && !x.dead {
			return true
		}
		for d := range x.lines {
			for _, m := range x.lines[d].msgs {
				if m.down || m.frame != nil && Kind(m.frame[0]) == KindReplica {
					return true
				}
			}
		}
	}
	return false
}

// TestHeal cuts links and heals them again under traffic, one at a time. A link heals after any time,
// and the next one is cut when no replica and no detour is left. Every packet arrives exactly once, in order.
func TestHeal(t *testing.T) {
	m := nexthop.Mesh{W: 4, H: 4}
	var links []nexthop.Failure
	for _, f := range nexthop.Failures(m) {
		if f.Link {
			links = append(links, f)
		}
	}
	n := newNetwork(t, m, 1, func(c *Config) { c.Slots, c.Escape = 3, 2 })
	w := newWorkload(n)
	for k := range uint64(30) {
		w.traffic(int(k)%len(patterns), k)
	}
	packets := append([]Packet{}, w.todo...)
	var cut nexthop.Failure
	cuts, healAt := 0, 0
	err := w.run(func() {
		switch {
		case cut.Link && n.now > healAt:
			n.heal(cut)
			cut = nexthop.Failure{}
		case !cut.Link && !n.marked() && len(w.todo) > 0:
			cut = links[n.rng.IntN(len(links))]
			n.fail(cut)
			cuts, healAt = cuts+1, n.now+detectTime+linkTime+n.rng.IntN(40)
		}
	})
	resent := 0
	for _, x := range n.nodes {
		resent += x.Stats.Resent
	}
	t.Logf("%d ticks, %d cuts, %d packets, %d sent again", n.now, cuts, len(packets), resent)
	if err != nil || cuts < 5 || resent == 0 || w.disorder > 0 {
		t.Fatalf("%d cuts, %d packets sent again, %d out of order: %v", cuts, resent, w.disorder, err)
	}
	for _, p := range packets {
		if s := w.state[string(p.Payload)]; s != 7 {
			t.Fatalf("packet from %v to %v has state %d after %d cuts", p.Src, p.Dst, s, cuts)
		}
	}
}

// TestDeadDestination sends to a dead node. Each packet must be given up within the hops of the proof.
func TestDeadDestination(t *testing.T) {
	m := nexthop.Mesh{W: 4, H: 4}
	dead := nexthop.Place{X: 1, Y: 1}
	n := newNetwork(t, m, 2, nil)
	n.fail(nexthop.Failure{Node: true, At: dead})
	for range 2 * detectTime {
		n.step()
	}
	w := newWorkload(n)
	for i := range m.Nodes() {
		if src := m.Place(i); src != dead {
			w.add(src, dead, 0)
		}
	}
	if err := w.run(nil); err != nil {
		t.Fatal(err)
	}
	unique := 0
	for _, d := range w.drops {
		if d.Token == Unique {
			unique++
		}
	}
	if unique != m.Nodes()-1 || len(w.drops) != unique {
		t.Errorf("%d of %d packets were given up, %d with a unique token", len(w.drops), m.Nodes()-1, unique)
	}
}

// TestBadInput gives a router what no correct neighbour sends. The router counts, and goes on.
func TestBadInput(t *testing.T) {
	if _, err := New(Config{Mesh: nexthop.Mesh{W: 2, H: 2}, At: nexthop.Place{X: 2}}); err == nil {
		t.Error("a router outside its mesh")
	}
	for _, c := range []Config{{Slots: MaxSlots + 1}, {Escape: -1}, {Window: -1}, {Patience: -1}, {Mesh: nexthop.Mesh{W: 33, H: 2}}} {
		if c.Mesh.W == 0 {
			c.Mesh = nexthop.Mesh{W: 2, H: 2}
		}
		if _, err := New(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	r, err := New(Config{Mesh: nexthop.Mesh{W: 2, H: 2}})
	if err != nil {
		t.Fatal(err)
	}
	r.LinkUp(0, wire.East)
	for _, p := range []Packet{{Dst: nexthop.Place{X: 5}}, {Dst: nexthop.Place{X: 1}, Priority: Priorities}, {Dst: nexthop.Place{X: 1}, Payload: make([]byte, MaxPayload+1)}} {
		if err := r.Inject(0, p); err == nil {
			t.Errorf("%+v was injected", p.Dst)
		}
	}
	frames := []Frame{
		{Kind: KindCopied, VC: 0, Slot: 1}, {Kind: KindUnique, Slot: 2}, {Kind: KindFreed, Slot: 200}, {Kind: KindUnique, Slot: 200},
		{Kind: KindData, P: Packet{Dst: nexthop.Place{X: 7}}}, {Kind: KindData, Slot: 200},
	}
	for i, f := range frames {
		if r.HandleFrame(0, wire.East, f.Append(nil)); r.Stats.Violations != i+1 {
			t.Errorf("frame %+v: %d violations", f, r.Stats.Violations)
		}
	}
	r.HandleFrame(0, wire.North, (&Frame{Kind: KindFreed}).Append(nil))
	r.HandleStored(0, wire.East, 3)
	if want := len(frames) + 4; r.Stats.Violations != want || r.Check() == nil {
		t.Errorf("%d violations, want %d", r.Stats.Violations, want)
	}
	for range DefaultEscape {
		if err := r.Inject(0, Packet{Dst: nexthop.Place{X: 1}}); err != nil {
			t.Error(err)
		}
	}
	if err := r.Inject(0, Packet{Dst: nexthop.Place{X: 1}}); err != ErrBusy {
		t.Errorf("a packet too many: %v", err)
	}
	if err := r.Inject(0, Packet{Payload: []byte{1}}); err != nil {
		t.Error(err)
	}
	if p, ok := r.PollDeliver(); !ok || len(p.Payload) != 1 {
		t.Error("a packet to its own source did not arrive")
	}
}
