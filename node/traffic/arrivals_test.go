package traffic

import (
	"math"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// offered runs a generator with a load against a server that takes time "serve" for each packet.
// The server takes one packet at a time.
func offered(t *testing.T, spec Spec, pairs []Pair, serve time.Duration) (*Generator, Report) {
	t.Helper()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	g, v := NewGenerator(spec, pairs[0].Src, pairs), NewVerifier(spec, pairs[0].Src, pairs)
	now := mono.Time(time.Hour)
	for !g.Finished() {
		if p, ok := g.Next(now); ok {
			sent := now
			now = now.Add(serve)
			g.Done(p, sent, now, wire.OutcomeDone, false)
			continue
		}
		at, ok := g.Deadline()
		if !ok || !at.After(now) {
			t.Fatalf("nothing to send at %v, and then %v %v", now, at, ok)
		}
		now = at
	}
	return g, NewReport(g, v)
}

// star returns the pairs of one chip that sends to n other chips.
func star(n int) (out []Pair) {
	for i := range n {
		out = append(out, Pair{Dst: wire.FabricNodeID{Chip: wire.ChipID(i + 1)}})
	}
	return out
}

// Arrivals are a Poisson process with the rate of the load. A queue in front of a server with
// fixed service time is then an M/D/1 queue. The formula of Pollaczek and Khinchine gives the
// queue's mean wait.
func TestArrivalsArePoisson(t *testing.T) {
	const serve = 10 * time.Microsecond
	for _, share := range []float64{0.2, 0.5, 0.8} {
		spec := Spec{Packets: 200_000, Size: MinSize, Planes: 1, Window: MaxWindow, Seed: 4, Load: share / serve.Seconds()}
		g, r := offered(t, spec, star(1), serve)
		if f := g.flows[0]; f.Offered != spec.Packets || f.Sent != spec.Packets || f.Overflowed != 0 {
			t.Errorf("load %v: %+v", share, f.PairReport)
		}
		if rate := float64(spec.Packets) / r.Offering.Seconds(); math.Abs(rate/spec.Load-1) > 0.01 {
			t.Errorf("load %v: %v arrivals per second, want %v", share, rate, spec.Load)
		}
		mean := 0.0
		for k, n := range r.Source[0].Latency.Buckets {
			mean += float64(middle(k)) * float64(n) / float64(spec.Packets)
		}
		want := float64(serve) * (1 + share/(2*(1-share)))
		if math.Abs(mean/want-1) > 0.03 {
			t.Errorf("load %v: mean latency %v, want %v", share, time.Duration(mean), time.Duration(want))
		}
	}
}

// The load is four times the rate at which the server takes packets, and fills the queue. The
// generator discards and counts all further arrivals.
func TestOverflow(t *testing.T) {
	const serve = 10 * time.Microsecond
	spec := Spec{Run: 1, Packets: 3 * MaxQueue, Size: MinSize, Planes: 1, Window: MaxWindow, Seed: 4, Load: 4 / serve.Seconds()}
	g, r := offered(t, spec, star(3), serve)
	var all PairReport
	for _, f := range r.Source {
		all.Offered, all.Sent, all.Completed, all.Overflowed = all.Offered+f.Offered, all.Sent+f.Sent, all.Completed+f.Completed, all.Overflowed+f.Overflowed
	}
	if all.Offered != spec.Packets || all.Sent+all.Overflowed != spec.Packets || all.Completed != all.Sent {
		t.Errorf("%+v", all)
	}
	// Once the queue is full, three of four arrivals overflow.
	want := float64(spec.Packets) - MaxQueue*4/3
	want -= want / 4
	if math.Abs(float64(all.Overflowed)/want-1) > 0.02 {
		t.Errorf("%d overflowed, want about %.0f", all.Overflowed, want)
	}
	if n := len(g.arrive.queue); n > 2*MaxQueue+2 {
		t.Errorf("the queue takes the room of %d packets", n)
	}
	res := Merge(spec, star(3), []Report{r})
	if math.Abs(res.Total.OfferedRate/spec.Load-1) > 0.02 || res.Total.Overflowed != all.Overflowed {
		t.Errorf("%+v", res.Total)
	}
}

// Packets that overflowed at the source do not make a run fail.
func TestOverflowIsNoLoss(t *testing.T) {
	r := Result{Spec: Spec{Packets: 10}, Total: Row{Sent: 7, Overflowed: 3, Completed: 7, Delivered: 7}}
	if !r.OK() {
		t.Error("not OK")
	}
	if r.Total.Overflowed = 2; r.OK() {
		t.Error("a packet is missing, but OK returns true")
	}
}

// After Undo, Next returns the same packet again, with its destination, number and time of
// arrival.
func TestUndoOfAnArrival(t *testing.T) {
	for _, load := range []float64{0, 1000} {
		spec := Spec{Packets: 500, Size: MinSize, Planes: 2, Window: 3, Seed: 9, Draw: true, Load: load}
		g, now := NewGenerator(spec, wire.FabricNodeID{}, star(7)), mono.Time(0)
		for n := 0; !g.Finished(); n++ {
			now = now.Add(time.Millisecond)
			p, ok := g.Next(now)
			if !ok {
				continue
			}
			g.Undo()
			if q, ok := g.Next(now.Add(5 * time.Millisecond)); !ok || q != p {
				t.Fatalf("load %v: after Undo %+v, before %+v", load, q, p)
			}
			g.Done(p, now, now, wire.OutcomeDone, false)
		}
	}
}

// The window limits a source with a load too. Packets that arrive while the window is full wait
// in the queue.
func TestWindowWithALoad(t *testing.T) {
	spec := Spec{Packets: 100, Size: MinSize, Planes: 1, Window: 3, Seed: 9, Load: MaxLoad}
	g := NewGenerator(spec, wire.FabricNodeID{}, star(2))
	g.Next(0)
	for range 10 {
		g.Next(mono.Time(time.Second))
	}
	if _, ok := g.Deadline(); ok || g.open != 3 || g.arrive.waiting() != 97 {
		t.Errorf("%d open, %d waiting", g.open, g.arrive.waiting())
	}
}

// With Draw, every pair gets exactly its share of all packets, and about its share of the first
// packets.
func TestDraw(t *testing.T) {
	pairs := star(8)
	pairs[2].Weight = 8
	spec := Spec{Packets: 15_000, Size: MinSize, Planes: 1, Window: 1, Seed: 9, Draw: true}
	g, got := NewGenerator(spec, wire.FabricNodeID{}, pairs), map[wire.ChipID]int{}
	var repeats int
	var last wire.ChipID
	for n := 1; !g.Finished(); n++ {
		p, _ := g.Next(0)
		g.Done(p, 0, 0, wire.OutcomeDone, false)
		got[p.Dst.Chip]++
		if p.Dst.Chip == last {
			repeats++
		}
		if last = p.Dst.Chip; n == 1500 && (got[3] < 720 || got[3] > 880 || got[1] < 70 || got[1] > 130) {
			t.Errorf("of the first %d packets: %v", n, got)
		}
	}
	for chip, n := range got {
		if want := map[bool]int{true: 8000, false: 1000}[chip == 3]; n != want {
			t.Errorf("chip %d got %d packets, want %d", chip, n, want)
		}
	}
	if want := 15_000.0 * (64 + 7) / 225; math.Abs(float64(repeats)/want-1) > 0.05 {
		t.Errorf("%d packets had the destination of the one before, want about %.0f", repeats, want)
	}
}
