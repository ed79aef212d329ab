package guide_test

import (
	"testing"

	"ttfabric/node/kernel"
	"ttfabric/node/kernel/guide"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestOrder checks the guide's rings of a T3000. Each hop must have a cable of its own that the
// dispatcher does not reserve. The rings of 4, 8 and 12 hops must visit the chips as often as the
// guide's rings do.
func TestOrder(t *testing.T) {
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	for n, chips := range map[int]int{2: 2, 4: 4, 8: 8, 12: 8} {
		order, err := guide.Order(m, n)
		if err != nil {
			t.Fatal(err)
		}
		r, err := guide.New(m, 1, order, guide.Settings{Samples: 3, Size: 32})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Hops) != n || len(r.Parts) != chips {
			t.Errorf("%d hops: %d hops through %d chips, want %d chips; %v", n, len(r.Hops), len(r.Parts), chips, order)
		}
		used := map[wire.PortID]bool{}
		for _, h := range r.Hops {
			if used[h.From] || used[h.To] || m.Reserved(h.From) {
				t.Errorf("%d hops: hop %v uses a cable that is not free", n, h)
			}
			used[h.From], used[h.To] = true, true
		}
		for c, j := range r.Parts {
			k, err := kernelsOf(j)
			if err != nil || k["ring-receiver"] != k["ring-sender"] || k["ring-setup"] != 1 {
				t.Errorf("%d hops, chip %s: %v, %v", n, c, k, err)
			}
		}
	}
	for payloads, ok := range map[int]bool{0: true, guide.MaxPayloads: true, guide.MaxPayloads + 1: false} {
		order, _ := guide.Order(m, 4)
		if _, err := guide.New(m, 1, order, guide.Settings{Samples: 3, Size: 32, Payloads: payloads}); (err == nil) != ok {
			t.Errorf("%d payloads in flight at once: %v", payloads, err)
		}
	}
	if _, err := guide.Order(m, 3); err == nil {
		t.Error("a ring of 3 hops on a grid has no error")
	}
}

func kernelsOf(j kernel.Job) (map[string]int, error) {
	n := map[string]int{}
	for _, k := range j.Programs[0].Kernels {
		n[k.Kernel]++
	}
	return n, nil
}
