package chip

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ttfabric/node/kernel/guide"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// ringFabric returns a T3000 whose chips run the guide's kernels.
func ringFabric(t *testing.T, seed uint64) *fabric {
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	w := fabricOf(t, m, func(c *Config) { c.Kernels, c.KernelSeed = guide.Kernels, seed })
	t.Cleanup(func() {
		for _, c := range w.chips {
			c.Close(w.now)
		}
	})
	return w
}

// ring returns the guide's ring of n hops.
func (w *fabric) ring(n int, s guide.Settings) *guide.Ring {
	w.t.Helper()
	order, err := guide.Order(w.m, n)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := guide.New(w.m, 1, order, s)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// startRing starts the parts of a ring.
func (w *fabric) startRing(r *guide.Ring) {
	w.t.Helper()
	for _, c := range w.chips {
		if j, ok := r.Parts[c.Node()]; ok {
			if err := c.StartJob(w.now, j); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// TestGuideRing runs the guide's ring with 2, 4, 8 and 12 hops (CCL guide, "Example Multi-Chip
// Program Implementation Walkthrough"). The test runs the ring with one payload and with several
// payloads in flight. The payloads must come back whole, each trip must have a time, and no kernel
// may break a rule.
func TestGuideRing(t *testing.T) {
	for _, n := range []int{2, 4, 8, 12} {
		for _, size := range []int{16, 1024, 4096 + 16} {
			for _, payloads := range []int{1, 3, guide.MaxPayloads} {
				if payloads > 1 && size == 1024 {
					continue
				}
				t.Run(fmt.Sprintf("%d hops, %d bytes, %d payloads", n, size, payloads), func(t *testing.T) {
					guideRing(t, n, guide.Settings{Samples: 5, Size: size, Payloads: payloads})
				})
			}
		}
	}
}

// TestPayloadsOfARingTravelTogether compares trips of one payload with trips of four payloads. If
// the payloads waited for each other, four payloads would take four times as long as one payload.
func TestPayloadsOfARingTravelTogether(t *testing.T) {
	for _, n := range []int{4, 8} {
		one := guideRing(t, n, guide.Settings{Samples: 9, Size: 256, Payloads: 1})
		four := guideRing(t, n, guide.Settings{Samples: 9, Size: 256, Payloads: 4})
		if a, b := slices.Min(one), slices.Min(four); b >= 3*a || b < a {
			t.Errorf("%d hops: a trip takes %v with one payload and %v with four", n, a, b)
		}
	}
}

// guideRing runs a ring, checks the payloads, and returns the times of the trips.
func guideRing(t *testing.T, n int, s guide.Settings) []time.Duration {
	w := ringFabric(t, uint64(n))
	r := w.ring(n, s)
	want := make([]byte, s.Size*s.Payloads)
	rng := rand.New(rand.NewPCG(1, uint64(s.Size)))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	w.put(r.Master, r.Buffer, want)
	w.startRing(r)
	for range 200 {
		w.run(10 * time.Millisecond)
		if len(w.at[r.Master].Jobs()) == 0 {
			break
		}
	}
	for i, c := range w.chips {
		if _, in := r.Parts[c.Node()]; !in {
			continue
		}
		name := fmt.Sprintf("job 1 (ring of %d hops)", n)
		if got := w.kernelEvents(i); got != name+" started\n"+name+" ended: done\n" {
			t.Errorf("chip %s: events\n%s", c.Node(), got)
		}
	}
	for i, h := range r.Hops {
		if got := w.get(h.To.Node, r.Arrive[i], len(want)); string(got) != string(want) {
			t.Errorf("hop %d: the payloads came to chip %s changed", i, h.To.Node)
		}
	}
	trips := guide.Trips(w.get(r.Master, r.Results, 4*r.Samples))
	if len(trips) != r.Samples || slices.Contains(trips, 0) {
		t.Errorf("the times of %d trips are %v", r.Samples, trips)
	}
	return trips
}

// put writes bytes into the memory of a chip.
func (w *fabric) put(n wire.FabricNodeID, a wire.NocAddr, b []byte) {
	for len(b) > 0 {
		k := min(len(b), wire.MaxPayload)
		if o := w.at[n].Memory().Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: a}, b[:k]); o != wire.OutcomeDone {
			w.t.Fatal(o)
		}
		a, b = a.Add(k), b[k:]
	}
}

// get reads bytes from the memory of a chip.
func (w *fabric) get(n wire.FabricNodeID, a wire.NocAddr, size int) []byte {
	b := make([]byte, size)
	if o := w.at[n].Memory().Read(a, b); o != wire.OutcomeDone {
		w.t.Fatal(o)
	}
	return b
}

// TestGuideRingUnderFaults runs the guide's rings of 8 and 12 hops under three faults. The cables
// lose 2 % of the datagrams, a link of the ring trains anew, or a cable of the ring has failed. The
// frames of the failed cable's link take the parallel cable. With 12 hops, three payloads are in
// flight. The payloads must arrive whole at each hop, and no rule may be broken. A second run with
// the same seed must take the same times.
func TestGuideRingUnderFaults(t *testing.T) {
	for _, n := range []int{8, 12} {
		for name, fault := range map[string]func(w *fabric, h guide.Hop){
			"loss": func(*fabric, guide.Hop) {},
			"retrain": func(w *fabric, h guide.Hop) {
				if err := w.at[h.From.Node].Command(w.now, h.From.Channel, router.CommandRetrain); err != nil {
					t.Error(err)
				}
			},
			"fallback": func(w *fabric, h guide.Hop) { w.gone[h.From], w.gone[h.To] = true, true },
		} {
			t.Run(fmt.Sprintf("%d hops, %s", n, name), func(t *testing.T) {
				var trips [2][]byte
				for i := range trips {
					trips[i] = faultyRing(t, n, fault)
				}
				if string(trips[0]) != string(trips[1]) {
					t.Errorf("two runs with the same seed took the times %v and %v", guide.Trips(trips[0]), guide.Trips(trips[1]))
				}
			})
		}
	}
}

// faultyRing runs a ring with a fault at its third hop, and returns the bytes of its times.
func faultyRing(t *testing.T, n int, fault func(w *fabric, h guide.Hop)) []byte {
	w := ringFabric(t, 7)
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	w.lose = func(wire.PortID, []byte) bool { return rng.IntN(50) == 0 }
	payloads := map[int]int{8: 1, 12: 3}[n]
	r := w.ring(n, guide.Settings{Samples: 20, Size: 2048, Payloads: payloads})
	want := make([]byte, payloads*2048)
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	w.put(r.Master, r.Buffer, want)
	w.startRing(r)
	w.run(20 * time.Millisecond)
	if len(w.at[r.Master].Jobs()) == 0 {
		t.Fatal("the ring ended before the fault")
	}
	fault(w, r.Hops[2])
	for range 1000 {
		if w.run(10 * time.Millisecond); len(w.at[r.Master].Jobs()) == 0 {
			break
		}
	}
	w.run(time.Second)
	for i, c := range w.chips {
		if _, in := r.Parts[c.Node()]; in {
			name := fmt.Sprintf("job 1 (ring of %d hops)", n)
			w.want(i, name+" started\n"+name+" ended: done\n", "")
		}
	}
	for i, h := range r.Hops {
		if got := w.get(h.To.Node, r.Arrive[i], len(want)); string(got) != string(want) {
			t.Errorf("hop %d: the payload came to chip %s changed", i, h.To.Node)
		}
	}
	return w.get(r.Master, r.Results, 4*r.Samples)
}
