package reliable

import (
	"flag"
	"math/rand/v2"
	"testing"

	"ttfabric/router/reliable/nexthop"
)

var two = flag.Int("reliable.two", 20, "runs of 4×4 with two failures")

// TestTwoFailures breaks two things on 4×4 while packets are under way, and counts what happens. The
// protocol promises nothing for a second failure as long as the first one lasts. A packet may be lost,
// and packets may wait for ever. But no packet may come twice or changed.
func TestTwoFailures(t *testing.T) {
	m := nexthop.Mesh{W: 4, H: 4}
	faults := nexthop.Failures(m)
	rng := rand.New(rand.NewPCG(4, 2))
	var clean, lossy, stuck, packets, lost, apart int
	for run := range *two {
		n := newNetwork(t, m, uint64(run), nil)
		w := newWorkload(n)
		w.traffic(run%len(patterns), uint64(run))
		sent := append([]Packet{}, w.todo...)
		a, b := faults[rng.IntN(len(faults))], faults[rng.IntN(len(faults))]
		first, second := 1+rng.IntN(span), 1+rng.IntN(span)
		for n.now < 2000 {
			if n.now == first {
				n.fail(a)
			}
			if n.now == second {
				n.fail(b)
			}
			w.step(len(sent))
		}
		missing := 0
		for _, p := range sent {
			state := w.state[string(p.Payload)]
			switch dead := n.at(p.Src).dead || n.at(p.Dst).dead; {
			case dead || state&4 != 0:
			case !nexthop.Joined(m, []nexthop.Failure{a, b}, p.Src, p.Dst):
				apart++
			default:
				missing++
			}
		}
		if len(w.wrong) > 0 {
			t.Fatalf("run %d, %v and %v: %s", run, a, b, w.wrong[0])
		}
		packets, lost = packets+len(sent), lost+missing
		under := false
		for _, x := range n.nodes {
			all, _ := x.Copies()
			under = under || all > 0 && !x.dead
			if err := x.Check(); err != nil && !x.dead {
				t.Fatalf("run %d, %v and %v: %v", run, a, b, err)
			}
		}
		switch {
		case under:
			stuck++
			lossy++
		case missing > 0:
			lossy++
		default:
			clean++
		}
	}
	t.Logf("%d runs with two failures: %d without a loss, %d with losses, %d of them with packets that wait for ever; %d packets: %d lost, %d between parts that no link joins", *two, clean, lossy, stuck, packets, lost, apart)
}
