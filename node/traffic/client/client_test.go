package client

import (
	"math/rand/v2"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestPlaces lets packets end in a random order, while packets of an earlier run end as well. The
// chip gives some packets back. The generator must count each packet once, at the pair of the packet.
func TestPlaces(t *testing.T) {
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	p, err := traffic.PatternByName("all-to-all")
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := p.Pairs(m, traffic.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	spec := traffic.Spec{Run: 9, Pattern: p.Name, Packets: 5600, Size: traffic.MinSize, Planes: 1, Window: 24, Seed: 1}
	c := New(spec, m.Chips[0].Node, pairs, m)
	c.Sending = true
	want := map[wire.FabricNodeID]uint64{}
	var open []flow.Request
	used := map[uint64]bool{}
	for now := mono.Time(1); !c.Gen.Finished(); now++ {
		for q, ok := c.Next(now); ok; q, ok = c.Next(now) {
			if r.IntN(4) == 0 {
				c.Undo()
				break
			}
			if used[q.Token] {
				t.Fatalf("two packets under way have the token %x", q.Token)
			}
			used[q.Token] = true
			open = append(open, q)
		}
		if len(open) > spec.Window {
			t.Fatalf("%d packets are under way, with a window of %d", len(open), spec.Window)
		}
		if len(open) == 0 {
			continue
		}
		i := r.IntN(len(open))
		q := open[i]
		open = append(open[:i], open[i+1:]...)
		want[q.Dst]++
		delete(used, q.Token)
		for _, other := range []uint64{
			8<<tokenBits | q.Token&(1<<tokenBits-1), // a packet of an earlier run
			q.Token | 1<<20,                         // no packet has this token
		} {
			c.Done(now, flow.Result{Token: other, Dst: q.Dst, Fate: flow.FateLost, Sent: now})
		}
		for range 2 { // the second time, the packet has ended already
			c.Done(now, flow.Result{Token: q.Token, Dst: q.Dst, Fate: flow.FateDone, Sent: now})
		}
	}
	if len(c.open) > spec.Window {
		t.Errorf("%d places for a window of %d packets", len(c.open), spec.Window)
	}
	if len(want) != len(m.Chips)-1 {
		t.Errorf("packets to %d chips", len(want))
	}
	for _, p := range traffic.NewReport(c.Gen, c.Ver).Source {
		if p.Completed != want[p.Dst] || p.Completed != p.Sent || p.Completed == 0 || p.Latency.N != p.Completed {
			t.Errorf("%s: %d completed of %d, want %d", p.Dst, p.Completed, p.Sent, want[p.Dst])
		}
	}
}
