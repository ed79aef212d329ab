package traffic

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Generator yields one chip's packets of a run, round robin over its
// destinations, with at most Spec.Window of them outstanding. It is a pure
// machine and not safe for concurrent use.
//
// Invariants: 0 ≤ open ≤ Window; every flow has Sent ≤ target; left is the
// sum of what the flows have yet to send.
type Generator struct {
	spec    Spec
	self    wire.FabricNodeID
	flows   []sending // in the order of turns
	turn    int       // index of the flow to try first
	last    int       // flow of the last Next, -1 if it can't be undone
	open    int       // packets whose end is not known
	left    uint64    // packets not yet sent
	begin   mono.Time // first packet
	end     mono.Time // last end of one
	started bool
}

// sending is one pair, at its source.
type sending struct {
	PairReport
	slots
	target uint64 // packets in all
}

// NewGenerator returns the generator of self's share of a run. A spec that
// does not [Spec.Validate] panics; for pairs see [CheckPairs].
func NewGenerator(spec Spec, self wire.FabricNodeID, pairs []Pair) *Generator {
	spec.must()
	g := &Generator{spec: spec, self: self, last: -1}
	to := map[wire.FabricNodeID]*place{}
	for i, p := range pairs {
		if p.Src == self {
			to[p.Dst] = &place{}
			g.flows = append(g.flows, sending{PairReport: PairReport{Pair: p}, target: spec.share(i, len(pairs))})
		}
	}
	for _, p := range pairs {
		if w := to[p.Dst]; w != nil {
			w.count(p.Src, self)
		}
	}
	for i := range g.flows {
		f := &g.flows[i]
		f.slots = to[f.Dst].slots()
		g.left += f.target
	}
	// Every source begins elsewhere, so that they don't all fall upon the same destination at once.
	r := rand.New(rand.NewPCG(spec.Seed, uint64(self.Mesh)<<16|uint64(self.Chip)))
	r.Shuffle(len(g.flows), func(i, j int) { g.flows[i], g.flows[j] = g.flows[j], g.flows[i] })
	return g
}

// place finds a source's rank among the sources of a destination.
type place struct{ rank, n int }

func (w *place) count(src, self wire.FabricNodeID) {
	w.n++
	if before(src, self) {
		w.rank++
	}
}

func (w *place) slots() slots { return slotsOf(w.rank, w.n) }

// Next returns the next packet; false while the window is full, and when nothing is left.
func (g *Generator) Next() (Packet, bool) {
	if g.open >= g.spec.Window || g.left == 0 {
		return Packet{}, false
	}
	for g.flows[g.turn].Sent == g.flows[g.turn].target {
		g.turn = (g.turn + 1) % len(g.flows)
	}
	f, planes := &g.flows[g.turn], uint64(g.spec.Planes)
	p := Packet{Src: g.self, Dst: f.Dst, Plane: wire.Plane(f.Sent % planes), Number: f.Sent / planes, Addr: f.addr(f.Sent), flow: g.turn}
	g.last, g.turn = g.turn, (g.turn+1)%len(g.flows)
	f.Sent++
	g.open++
	g.left--
	return p, true
}

// Undo takes back the last Next, which the fabric had no room for: its packet
// comes again. It panics unless the last call was a Next that yielded one.
func (g *Generator) Undo() {
	if g.last < 0 {
		panic(fmt.Sprintf("traffic: nothing to undo: chip %s, %d open, %d left", g.self, g.open, g.left))
	}
	g.turn = g.last
	g.flows[g.last].Sent--
	g.open--
	g.left++
	g.last = -1
}

// Fill writes the packet's bytes into b, which is Spec.Size long.
func (g *Generator) Fill(p Packet, b []byte) {
	if len(b) != g.spec.Size {
		panic(fmt.Sprintf("traffic: a packet of %d bytes filled into %d", g.spec.Size, len(b)))
	}
	p.fill(g.spec.Run, b)
}

// Done tells how a packet ended, once for each: the outcome at its
// destination, or lost if it got there not at all or nobody knows. It panics
// for a packet that is not outstanding, as far as that can be told.
func (g *Generator) Done(p Packet, sent, now mono.Time, o wire.Outcome, lost bool) {
	if g.open == 0 || p.flow >= len(g.flows) || g.flows[p.flow].Dst != p.Dst {
		panic(fmt.Sprintf("traffic: packet to %s is not outstanding: chip %s, %d open, %d left", p.Dst, g.self, g.open, g.left))
	}
	f := &g.flows[p.flow]
	g.open--
	g.last = -1
	if !g.started || sent.Before(g.begin) {
		g.begin, g.started = sent, true
	}
	if now.After(g.end) {
		g.end = now
	}
	switch {
	case lost:
		f.Failed++
	case o != wire.OutcomeDone:
		f.refuse(o)
	default:
		f.Completed++
		f.Latency.Add(now.Sub(sent))
	}
}

// Finished reports whether all packets have been sent and have ended.
func (g *Generator) Finished() bool { return g.left == 0 && g.open == 0 }

// elapsed is the time from the first packet to the last end.
func (g *Generator) elapsed() time.Duration {
	if !g.started {
		return 0
	}
	return g.end.Sub(g.begin)
}
