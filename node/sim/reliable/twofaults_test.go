package reliable

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"ttfabric/router/reliable/nexthop"
)

var two = flag.Int("reliable.two", 40, "runs of 4×4 with two failures")

// TestTwoFailures breaks two things on 4×4 while packets are under way, and counts what happens. The
// protocol promises nothing for a second failure before the copies of the first have arrived. A packet
// may be lost, and packets may wait for ever. But no packet may arrive twice or changed, and no router
// may receive what no correct neighbour sends.
func TestTwoFailures(t *testing.T) {
	m := Mesh{W: 4, H: 4}
	faults := damages(m)
	rng := rand.New(rand.NewPCG(4, 2))
	var clean, lossy, stuck, packets, lost, cut, apart int
	for run := range *two {
		load := workload(t, m, faultPatterns[run%len(faultPatterns)], uint64(run))
		a, b := faults[rng.IntN(len(faults))], faults[rng.IntN(len(faults))]
		a.at = warmUp*FlitTime + Time(rng.Int64N(int64(sendSpan)))
		b.at = a.at + Time(rng.Int64N(int64(sendSpan/2)))
		a.rng, b.rng = rng, rng
		what := fmt.Sprintf("run %d: %v at %d fs, %v at %d fs", run, a.Failure, a.at, b.Failure, b.at)
		dead := func(p Place) bool { return a.Node && p == a.At || b.Node && p == b.At }
		n, err := New(Config{Mesh: m, Seed: uint64(run)})
		if err != nil {
			t.Fatal(err)
		}
		want := map[uint64]*Packet{}
		todo := []damage{a, b}
		for _, x := range load {
			for len(todo) > 0 && todo[0].at <= x.at {
				n.RunUntil(todo[0].at)
				todo[0].apply(t, n)
				todo = todo[1:]
			}
			n.RunUntil(x.at)
			if dead(x.p.Src) || dead(x.p.Dst) {
				continue
			}
			if err := n.Send(x.p); err != nil {
				t.Fatal(err)
			}
			want[x.p.ID()] = x.p
		}
		for _, d := range todo {
			n.RunUntil(d.at)
			d.apply(t, n)
		}
		n.RunUntil(n.Now() + 3000*FlitTime)
		if err := n.Check(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		seen := map[uint64]bool{}
		for d, ok := n.PollDelivery(); ok; d, ok = n.PollDelivery() {
			p := want[d.ID()]
			if p == nil || seen[d.ID()] || fmt.Sprint(p.Words) != fmt.Sprint(d.Words) {
				t.Fatalf("%s: packet %d of %v arrived twice or changed", what, d.Seq, d.Src)
			}
			seen[d.ID()] = true
		}
		missing := 0
		for id, p := range want {
			switch {
			case seen[id]:
			case !nexthop.Joined(m, []Failure{a.Failure, b.Failure}, p.Src, p.Dst):
				cut++
			default:
				missing++
			}
		}
		packets += len(want)
		lost += missing
		switch {
		case !n.Idle():
			stuck++
			lossy++
			t.Logf("%s: packets are still under way", what)
		case missing > 0:
			lossy++
		default:
			clean++
		}
		if m.Nodes() > 0 && !adjacent(a.Failure, b.Failure) && missing > 0 {
			apart++
		}
	}
	t.Logf("%d runs with two failures: %d without a loss, %d with losses (in %d of them the failures are not at neighbouring nodes), %d of them with packets that wait for ever; %d packets: %d lost, %d between parts that no link joins", *two, clean, lossy, apart, stuck, packets, lost, cut)
}

// adjacent reports whether two failures touch one node or neighbours.
func adjacent(a, b Failure) bool {
	ends := func(f Failure) []Place {
		if f.Link {
			return []Place{f.At, f.At.Step(f.Dir)}
		}
		return []Place{f.At}
	}
	for _, x := range ends(a) {
		for _, y := range ends(b) {
			if nexthop.Distance(x, y) <= 1 {
				return true
			}
		}
	}
	return false
}
