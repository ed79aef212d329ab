package reliable

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"ttfabric/router/reliable/nexthop"
)

var each = flag.Int("reliable.each", 397, "try one of so many runs of a failure, an instant and a pattern; 1 tries all. Below 100, the test of every order has longer packets")

const (
	faultInstants = 64
	eachSends     = 5  // packets of each node, on average
	mostWords     = 24 // data flits of the longest packet
	sendSpan      = 160 * FlitTime
	settleLimit   = 20_000 // flit times
)

// faultPatterns are the patterns of the runs. On 8×4, which is not square, the second is bit-reverse.
var faultPatterns = []string{"uniform", "transpose", "bit-complement", "tornado", "neighbour", "hotspot"}

// timed is a packet that an endpoint sends at a time.
type timed struct {
	at Time
	p  *Packet
}

// workload returns packets between the pairs of a pattern at random times, in the order of the times.
// Half of the packets have priority 1, and a few go to the diagnostic port.
func workload(t *testing.T, m Mesh, pattern string, seed uint64) (out []timed) {
	t.Helper()
	pairs, err := Pairs(m, pattern)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 77))
	seqs := map[Place]uint64{}
	for i := range m.Nodes() * eachSends {
		src, dst := pairs.Draw(rng, i%m.Nodes())
		if src == dst {
			continue // the pattern has no packets from this node
		}
		p := packet(src, dst, seqs[src], rng.IntN(mostWords+1))
		seqs[src]++
		p.Priority, p.Diagnostic = uint8(rng.IntN(2)), rng.IntN(8) == 0
		out = append(out, timed{warmUp*FlitTime + sendSpan*Time(i)/Time(m.Nodes()*eachSends), p})
	}
	return out
}

// damage is a failure with a time. With "parity", the failure is one wrong bit on a link instead of a
// cut.
type damage struct {
	Failure
	at     Time
	parity bool
	rng    *rand.Rand
}

func (d *damage) apply(t *testing.T, n *Network) {
	t.Helper()
	var err error
	switch {
	case d.parity:
		err = n.Corrupt(d.At, d.Dir, d.rng.IntN(NumFrames), d.rng.IntN(FrameBits+1))
	case d.Node:
		err = n.Kill(d.At)
	case d.Link:
		err = n.Cut(d.At, d.Dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// outcome counts the packets of a run.
type outcome struct {
	runs, sent, endpoints, replicas, duplicates, dropped int
}

func (o *outcome) add(p outcome) {
	o.runs += p.runs
	o.sent += p.sent
	o.endpoints += p.endpoints
	o.replicas += p.replicas
	o.duplicates += p.duplicates
	o.dropped += p.dropped
}

// survive runs a workload with one failure. Each packet between living endpoints must be delivered
// exactly once. The result counts the packets from or to a dead node apart.
func survive(t *testing.T, cfg Config, load []timed, d damage) (out outcome) {
	t.Helper()
	what := fmt.Sprintf("%v, seed %d, %v (parity %v) at %d fs", cfg.Mesh, cfg.Seed, d.Failure, d.parity, d.at)
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64]*Packet{}
	applied := false
	for _, x := range load {
		if x.at > d.at && !applied {
			applied = true
			n.RunUntil(d.at)
			d.apply(t, n)
		}
		n.RunUntil(x.at)
		if applied && d.Node && x.p.Src == d.At {
			continue
		}
		if err := n.Send(x.p); err != nil {
			t.Fatal(err)
		}
		want[x.p.ID()] = x.p
	}
	if !applied {
		n.RunUntil(d.at)
		d.apply(t, n)
	}
	n.RunUntil(n.Now() + 16*FlitTime) // the ends of the link see the failure
	if err := settle(n, settleLimit); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	out.runs, out.sent = 1, len(want)
	seen := map[uint64]bool{}
	for got, ok := n.PollDelivery(); ok; got, ok = n.PollDelivery() {
		id := got.ID()
		if p := want[id]; p == nil || seen[id] || got.Dst != p.Dst || fmt.Sprint(got.Words) != fmt.Sprint(p.Words) {
			t.Fatalf("%s: packet %d of %v arrived twice or changed", what, got.Seq, got.Src)
		}
		seen[id] = true
		if got.Token == TokenReplica {
			out.replicas++
		}
	}
	for id, p := range want {
		switch {
		case seen[id]:
		case d.Node && (p.Src == d.At || p.Dst == d.At):
			out.endpoints++
		default:
			t.Fatalf("%s: packet %d from %v to %v was lost", what, p.Seq, p.Src, p.Dst)
		}
	}
	for i := range n.nodes {
		out.duplicates += n.nodes[i].host.Duplicates
	}
	out.dropped = n.Total().Dropped
	if out.dropped > 0 && !d.Node {
		t.Fatalf("%s: %d packets had no route", what, out.dropped)
	}
	return out
}

// TestEveryFault breaks each link and each node of 4×4 and 8×4, and inverts one bit on each link, at 64
// instants under six patterns. Every packet between living endpoints must arrive exactly once,
// unchanged. The flag -reliable.each sets the sample.
func TestEveryFault(t *testing.T) {
	var sum outcome
	var mu sync.Mutex
	runs := 0
	t.Run("runs", func(t *testing.T) {
		for _, m := range []Mesh{{W: 4, H: 4}, {W: 4, H: 8}} {
			faults := damages(m)
			for p, pattern := range faultPatterns {
				if pattern == "transpose" && m.W != m.H {
					pattern = "bit-reverse"
				}
				first := runs
				runs += len(faults) * faultInstants
				t.Run(fmt.Sprint(m, " ", pattern), func(t *testing.T) {
					t.Parallel()
					o := surviveAll(t, m, workload(t, m, pattern, uint64(p)), faults, first)
					mu.Lock()
					defer mu.Unlock()
					sum.add(o)
				})
			}
		}
	})
	t.Logf("%d of %d runs: %d packets; %d from or to a dead node were not delivered; %d came with a replica token; %d copies were discarded as duplicates; %d packets or pieces had no route", sum.runs, runs, sum.sent, sum.endpoints, sum.replicas, sum.duplicates, sum.dropped)
	if !t.Failed() && (sum.replicas == 0 || sum.duplicates == 0 || sum.endpoints == 0) {
		t.Errorf("the failures have met no packets: %+v", sum)
	}
}

// damages returns the failures of a mesh: each link cut, one bit wrong on each direction of each link,
// and each node dead.
func damages(m Mesh) (out []damage) {
	for _, f := range nexthop.Failures(m) {
		out = append(out, damage{Failure: f})
		if f.Link {
			back := Failure{Link: true, At: f.At.Step(f.Dir), Dir: f.Dir.Opposite()}
			out = append(out, damage{Failure: f, parity: true}, damage{Failure: back, parity: true})
		}
	}
	return out
}

// surviveAll runs a workload with the sampled failures at the sampled instants. The first run has
// number first+1.
func surviveAll(t *testing.T, m Mesh, load []timed, faults []damage, first int) (sum outcome) {
	t.Helper()
	n := first
	for _, d := range faults {
		for instant := range faultInstants {
			if n++; n%*each != 0 {
				continue
			}
			d.rng = rand.New(rand.NewPCG(uint64(n), 5))
			span := (sendSpan + 96*FlitTime) / faultInstants // the last packets arrive some time after sendSpan
			d.at = warmUp*FlitTime + span*Time(instant) + Time(d.rng.Int64N(int64(span)))
			sum.add(survive(t, Config{Mesh: m, Seed: uint64(n), Drift: 100}, load, d))
		}
	}
	return sum
}
