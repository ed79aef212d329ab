package traffic

import (
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Generator makes one chip's packets of a run. At most Spec.Window packets are outstanding at once.
// A Generator takes the destinations round robin, or draws the destinations at random. A Generator
// has no clock, lock or goroutine, and is not safe for concurrent use.
//
// Invariants: 0 ≤ open ≤ Window. The field "fresh" is the sum of the flows' field "rest". The field
// "left" is the sum of "fresh" and the number of picked packets that wait to be sent. Without a
// load, at most one packet waits: the packet that Undo took back. With a load, the packets in the
// queue of arrivals wait.
type Generator struct {
	spec    Spec
	self    wire.FabricNodeID
	rng     *rand.Rand
	flows   []sending // flows in the order of their turns
	turn    int       // index in flows of the flow to try first
	again   int       // index of the flow whose last packet Undo took back; -1: none
	last    int       // index of the flow of the packet that Next returned last; -1: Undo is not allowed now
	open    int       // number of packets that were sent and have not ended
	left    uint64    // number of packets that are neither sent nor discarded as overflow
	fresh   uint64    // number of packets counted in left that have not been picked
	arrive  arrivals  // used if the spec has a load
	begin   mono.Time // when the generator sent the first packet
	end     mono.Time // when the latest packet ended
	started bool
}

// sending is the state of one pair at its source.
type sending struct {
	PairReport
	slots
	rest    uint64 // number of packets that have not been picked
	latency Tally  // latencies of the packets; PairReport.Latency is empty here
}

// NewGenerator returns the generator of the packets that chip "self" sends in a run. If the spec
// does not pass [Spec.Validate], NewGenerator panics. The pairs must pass [CheckPairs].
func NewGenerator(spec Spec, self wire.FabricNodeID, pairs []Pair) *Generator {
	spec.must()
	g := &Generator{spec: spec, self: self, last: -1, again: -1}
	shares := spec.shares(pairs)
	to := map[wire.FabricNodeID]*place{}
	for i, p := range pairs {
		if p.Src == self {
			to[p.Dst] = &place{}
			g.flows = append(g.flows, sending{PairReport: PairReport{Pair: p}, rest: shares[i]})
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
		g.left += f.rest
	}
	g.fresh = g.left
	// Every source takes its destinations in an order of its own. Otherwise all sources would send
	// to one destination at once.
	g.rng = rand.New(rand.NewPCG(spec.Seed, uint64(self.Mesh)<<16|uint64(self.Chip)))
	g.rng.Shuffle(len(g.flows), func(i, j int) { g.flows[i], g.flows[j] = g.flows[j], g.flows[i] })
	return g
}

// Place tells the generator which Tensix tiles of each chip work. Before Place, the generator takes
// all tiles of the region as working. The caller must call Place before the first call of Next.
func (g *Generator) Place(f Tiles) {
	for i := range g.flows {
		g.flows[i].in = f.of(g.flows[i].Dst, g.flows[i].sources)
	}
}

// place is a source's rank among the sources of a destination.
type place struct{ rank, n int }

func (w *place) count(src, self wire.FabricNodeID) {
	w.n++
	if src.Compare(self) < 0 {
		w.rank++
	}
}

func (w *place) slots() slots { return slotsOf(w.rank, w.n) }

// Next returns the next packet. Next returns false if the window is full or no packet is left. If
// the spec has a load, Next also returns false if no arrived packet waits, and the first call of
// Next starts the arrivals.
func (g *Generator) Next(now mono.Time) (Packet, bool) {
	if g.spec.Load > 0 {
		g.arriveUntil(now)
	}
	if g.open >= g.spec.Window || g.left == 0 || (g.spec.Load > 0 && g.arrive.waiting() == 0) {
		return Packet{}, false
	}
	i, came := 0, mono.Time(0)
	switch {
	case g.spec.Load > 0:
		i, came = g.arrive.take()
	case g.again >= 0:
		i, g.again = g.again, -1
	default:
		i = g.pick()
	}
	f := &g.flows[i]
	planes, streams := uint64(g.spec.planes(&f.Pair)), uint64(g.spec.streams(&f.Pair))
	turn := f.Sent % streams
	p := Packet{Src: g.self, Dst: f.Dst, Plane: wire.Plane(turn % planes), Other: turn >= planes, Number: f.Sent / streams, Addr: f.addr(f.Sent), Came: came, flow: i}
	g.last = i
	f.Sent++
	g.open++
	g.left--
	return p, true
}

// pick chooses the flow of the next packet, and takes the packet from the flow's rest. Without
// Spec.Draw, pick takes the flows in turn, and skips flows that have no packets left. With
// Spec.Draw, pick draws a flow at random, with a chance in proportion to the packets that the
// flow has left. At least one flow must have packets left.
func (g *Generator) pick() int {
	i := g.turn
	if g.spec.Draw {
		k := g.rng.Uint64N(g.fresh)
		for i = 0; k >= g.flows[i].rest; i++ {
			k -= g.flows[i].rest
		}
	} else {
		for g.flows[i].rest == 0 {
			i = (i + 1) % len(g.flows)
		}
		g.turn = (i + 1) % len(g.flows)
	}
	g.flows[i].rest--
	g.fresh--
	return i
}

// Undo takes back the packet that the last call of Next returned. The caller calls Undo directly
// after Next, if the fabric had no room for the packet. Next then returns the packet again. If Next
// has returned no packet since the last call of Undo or Done, Undo panics.
func (g *Generator) Undo() {
	if g.last < 0 {
		panic(fmt.Sprintf("traffic: nothing to undo: chip %s, %d open, %d left", g.self, g.open, g.left))
	}
	if g.spec.Load > 0 {
		g.arrive.putBack()
	} else {
		g.again = g.last
	}
	g.flows[g.last].Sent--
	g.open--
	g.left++
	g.last = -1
}

// Fill writes the packet's bytes into b. If the length of b is not Spec.Size, Fill panics.
func (g *Generator) Fill(p Packet, b []byte) {
	if len(b) != g.spec.Size {
		panic(fmt.Sprintf("traffic: a packet of %d bytes cannot fill %d bytes", g.spec.Size, len(b)))
	}
	p.fill(g.spec.Run, b)
}

// Done tells the generator how a packet ended. The caller calls Done once for each packet sent. The
// argument o is the outcome at the destination. The argument "lost" is true if the packet did not
// arrive, or if nobody knows whether the packet arrived. If Done finds that the packet is not
// outstanding, Done panics.
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
		if g.spec.Load > 0 {
			sent = p.Came
		}
		f.latency.Add(now.Sub(sent))
	}
}

// Finished reports whether no packet is left to send, and all packets that were sent have ended.
func (g *Generator) Finished() bool { return g.left == 0 && g.open == 0 }

// elapsed returns the time from the sending of the first packet to the latest end of a packet.
func (g *Generator) elapsed() time.Duration {
	if !g.started {
		return 0
	}
	return g.end.Sub(g.begin)
}
