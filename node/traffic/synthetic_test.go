package traffic

import (
	"math"
	"math/bits"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

func named(t testing.TB, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// destinations returns the index of each chip's destination. A chip that sends nothing has itself
// as destination.
func destinations(t *testing.T, name string, m *topo.Topology) []int {
	t.Helper()
	to := make([]int, len(m.Chips))
	for i := range to {
		to[i] = i
	}
	for _, p := range pairsOf(t, name, m, Options{}) {
		to[p.Src.Chip] = int(p.Dst.Chip)
	}
	return to
}

// On a square mesh of k×k chips, with k a power of two, every permutation must equal BookSim's.
// The test copies BookSim's formulas (booksim2, traffic.cpp).
func TestPermutationsAreBookSims(t *testing.T) {
	for _, k := range []int{2, 4, 8} {
		m := named(t, "mesh:"+map[int]string{2: "2x2", 4: "4x4", 8: "8x8"}[k])
		nodes, dims := k*k, 2
		shift := bits.Len(uint(nodes)) - 1
		low := 1<<(shift/2) - 1
		high := low << (shift / 2)
		perDimension := func(by int) func(int) int {
			return func(source int) int {
				offset, result := 1, 0
				for range dims {
					result += offset * ((source/offset%k + by) % k)
					offset *= k
				}
				return result
			}
		}
		for name, want := range map[string]func(source int) int{
			"bitcomp":   func(source int) int { return ^source & (nodes - 1) },
			"transpose": func(source int) int { return source>>(shift/2)&low | source<<(shift/2)&high },
			"bitrev": func(source int) int {
				result := 0
				for range shift {
					result = result<<1 | source%2
					source >>= 1
				}
				return result
			},
			"shuffle":  func(source int) int { return (source<<1)&(nodes-1) | source>>(shift-1)&1 },
			"tornado":  perDimension((k+1)/2 - 1),
			"neighbor": perDimension(1),
		} {
			if name == "tornado" && k == 2 {
				continue // each chip would be its own destination
			}
			to := destinations(t, name, m)
			for source := range nodes {
				if to[source] != want(source) {
					t.Errorf("%s on %d×%d: %d sends to %d, want %d", name, k, k, source, to[source], want(source))
				}
			}
		}
	}
}

// Patterns that are defined by rows and columns exist on every mesh. For other patterns, the
// error names the pattern and the reason.
func TestPatternsOfOtherShapes(t *testing.T) {
	m := named(t, "mesh:3x5")
	for name, want := range map[string]func(r, c int) (int, int){
		"bit-complement": func(r, c int) (int, int) { return 2 - r, 4 - c },
		"tornado":        func(r, c int) (int, int) { return (r + 1) % 3, (c + 2) % 5 },
		"neighbour":      func(r, c int) (int, int) { return (r + 1) % 3, (c + 1) % 5 },
	} {
		for i, d := range destinations(t, name, m) {
			if r, c := want(i/5, i%5); d != r*5+c {
				t.Errorf("%s on 3×5: chip %d sends to %d, want %d", name, i, d, r*5+c)
			}
		}
	}
	for _, x := range []struct{ pattern, machine, reason string }{
		{"transpose", "mesh:2x4", "as many rows as columns, or 4, 16, 64 … chips, but this topology has 8 chips in 2×4"},
		{"transpose", "mesh:3x4", "this topology has 12 chips in 3×4"},
		{"bit-reverse", "mesh:3x4", "2, 4, 8 … chips, but this topology has 12 chips"},
		{"shuffle", "mesh:3x4", "2, 4, 8 … chips, but this topology has 12 chips"},
		{"tornado", "mesh:2x2", "no chip would send to another chip"},
		{"transpose", "spec-l1", "this topology has 36 chips in 4 meshes"},
		{"tornado", "spec-l1", "one mesh, but this topology has 4 meshes"},
		{"neighbour", "spec-l1", "one mesh, but this topology has 4 meshes"},
		{"shuffle", "spec-l1", "this topology has 36 chips"},
	} {
		p, _ := PatternByName(x.pattern)
		pairs, err := p.Pairs(named(t, x.machine), Options{})
		if err == nil || !strings.Contains(err.Error(), x.pattern) || !strings.Contains(err.Error(), x.machine) || !strings.Contains(err.Error(), x.reason) {
			t.Errorf("%s on %s: %d pairs and %v; want the reason %q", x.pattern, x.machine, len(pairs), err, x.reason)
		}
	}
	// Patterns that need no rows and columns take the chips of all meshes.
	for name, n := range map[string]int{"uniform": 16 * 15, "bit-complement": 16, "bit-reverse": 12, "transpose": 12, "shuffle": 14, "hotspot": 16 * 15} {
		if pairs := pairsOf(t, name, named(t, "2xt3000"), Options{}); len(pairs) != n || CheckPairs(pairs) != nil {
			t.Errorf("%s on two meshes: %d pairs, want %d", name, len(pairs), n)
		}
	}
}

func TestHotspotShares(t *testing.T) {
	m := named(t, "mesh:3x4")
	hot := wire.FabricNodeID{Chip: 7}
	for _, share := range []int{1, DefaultHotShare, 55, 100} {
		pairs := pairsOf(t, "hotspot", m, Options{Hot: hot, HotShare: share})
		out, toHot := map[wire.FabricNodeID]float64{}, map[wire.FabricNodeID]float64{}
		for _, p := range pairs {
			out[p.Src] += float64(p.Weight)
			if p.Dst == hot {
				toHot[p.Src] = float64(p.Weight)
			}
		}
		want := float64(share)/100 + (1-float64(share)/100)/11 // the hot chip's share, and its part of the rest as one of eleven destinations
		for _, c := range m.Chips {
			if out[c.Node] != 1100 {
				t.Errorf("%d %%: %s sends %v parts of 1100", share, c.Node, out[c.Node])
			}
			if got := toHot[c.Node] / 1100; c.Node != hot && math.Abs(got-want) > 1e-9 {
				t.Errorf("%d %%: %s sends %v of its packets to the hot chip, want %v", share, c.Node, got, want)
			}
		}
		if err := CheckPairs(pairs); err != nil {
			t.Error(err)
		}
	}
	p, _ := PatternByName("hotspot")
	for _, o := range []Options{{HotShare: -1}, {HotShare: 101}, {Hot: wire.FabricNodeID{Chip: 12}}} {
		if _, err := p.Pairs(m, o); err == nil {
			t.Errorf("%+v: accepted", o)
		}
	}
}

// Every pair gets its share by weight, and the shares add up to all packets.
func TestSharesFollowWeights(t *testing.T) {
	spec := Spec{Packets: 1003}
	pairs := crowd(4)
	for i, w := range []uint32{0, 1, 6, 2} {
		pairs[i].Weight = w
	}
	got := spec.shares(pairs)
	for i, want := range []uint64{101, 101, 601, 200} {
		if got[i] != want {
			t.Errorf("pair %d gets %d of 1003, want %d", i, got[i], want)
		}
	}
}
