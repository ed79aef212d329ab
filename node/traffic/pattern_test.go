package traffic

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

func TestPatterns(t *testing.T) {
	want := map[string]int{"all-to-all": 240, "one-to-all": 15, "all-to-one": 15, "neighbour-exchange": 48, "random-pairs": 8, "permutation": 16,
		"uniform": 240, "transpose": 12, "bit-complement": 16, "bit-reverse": 12, "shuffle": 14, "tornado": 16, "neighbour": 16, "hotspot": 240}
	m, _ := topo.Named("mesh:4x4")
	single, _ := topo.Named("mesh:1x1")
	if len(want) != len(Patterns) {
		t.Errorf("%d patterns are tested of %d", len(want), len(Patterns))
	}
	for _, p := range Patterns {
		pairs, err := p.Pairs(m, Options{Seed: 3})
		if err == nil {
			err = CheckPairs(pairs)
		}
		if err != nil || len(pairs) != want[p.Name] {
			t.Errorf("%s: %d pairs, want %d; %v", p.Name, len(pairs), want[p.Name], err)
		}
		if again, _ := p.Pairs(m, Options{Seed: 3}); !slices.Equal(pairs, again) {
			t.Errorf("%s: not the same for the same seed", p.Name)
		}
		if none, err := p.Pairs(single, Options{Seed: 3}); err == nil {
			t.Errorf("%s: a single chip has %v", p.Name, none)
		}
		for _, name := range append(p.Aliases, p.Name) {
			if q, err := PatternByName(name); err != nil || q.Name != p.Name {
				t.Errorf("%s is %s, %v", name, q.Name, err)
			}
		}
	}
	once := map[wire.FabricNodeID]int{}
	for _, p := range pairsOf(t, "random-pairs", m, Options{Seed: 8}) {
		once[p.Src]++
		once[p.Dst]++
	}
	srcs, dsts := map[wire.FabricNodeID]int{}, map[wire.FabricNodeID]int{}
	for _, p := range pairsOf(t, "permutation", m, Options{Seed: 8}) {
		srcs[p.Src]++
		dsts[p.Dst]++
	}
	if len(once) != 16 || len(srcs) != 16 || len(dsts) != 16 {
		t.Errorf("not every chip takes its part: %v %v %v", once, srcs, dsts)
	}
	if slices.Equal(pairsOf(t, "random-pairs", m, Options{Seed: 1}), pairsOf(t, "random-pairs", m, Options{Seed: 2})) {
		t.Error("two seeds made the same pairs")
	}
	_, err := PatternByName("x")
	for name := range want {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the message for pattern x is %v", err)
		}
	}
}

// pairsOf returns the pairs of the pattern with a name. If the pattern has no pairs, pairsOf fails
// the test.
func pairsOf(t *testing.T, name string, m *topo.Topology, o Options) []Pair {
	t.Helper()
	p, err := PatternByName(name)
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := p.Pairs(m, o)
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

func TestCheckPairs(t *testing.T) {
	a, b := wire.FabricNodeID{Chip: 1}, wire.FabricNodeID{Mesh: 2}
	for name, pairs := range map[string][]Pair{
		"none":   nil,
		"self":   {{Src: a, Dst: a}},
		"twice":  {{Src: a, Dst: b}, {Src: b, Dst: a}, {Src: a, Dst: b, Weight: 2}},
		"range":  {{Src: a, Dst: wire.FabricNodeID{Chip: wire.MaxChipsPerMesh}}},
		"weight": {{Src: a, Dst: b, Weight: MaxWeight + 1}},
		"ways":   {{Src: a, Dst: b, Ways: MaxWays + 1}},
		"crowd":  crowd(MaxSources + 1),
		"length": make([]Pair, MaxPairs+1),
	} {
		if err := CheckPairs(pairs); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := CheckPairs(crowd(MaxSources)); err != nil {
		t.Error(err)
	}
	// Generator and verifier must not fail on pairs that CheckPairs refuses.
	spec := Spec{Run: 1, Packets: 100, Size: 32, Planes: 1, Window: 8}
	for _, pairs := range [][]Pair{
		{{Src: a, Dst: b}, {Src: a, Dst: b}}, {{Src: a, Dst: a}}, {{Src: wire.FabricNodeID{Mesh: 65535, Chip: 65535}, Dst: a}}, crowd(2 * MaxSources),
		{{Src: a, Dst: b, Weight: 1<<32 - 1}, {Src: b, Dst: a, Weight: 1 << 31}},
	} {
		for _, p := range []Pair{pairs[0], pairs[len(pairs)-1]} {
			g, v, buf := NewGenerator(spec, p.Src, pairs), NewVerifier(spec, p.Dst, pairs), make([]byte, 32)
			for !g.Finished() {
				q, _ := g.Next(0)
				g.Fill(q, buf)
				v.Arrived(q.Src, q.Plane, q.Other, buf)
				g.Done(q, 0, 0, wire.OutcomeDone, false)
			}
			NewReport(g, v)
		}
	}
}

// crowd returns pairs of n sources with one destination.
func crowd(n int) (out []Pair) {
	for i := range n {
		out = append(out, Pair{Src: wire.FabricNodeID{Mesh: wire.MeshID(1 + i/256), Chip: wire.ChipID(i % 256)}})
	}
	return out
}

func TestSpecValidate(t *testing.T) {
	good := Spec{Packets: 1, Size: MinSize, Planes: 1, Window: DefaultWindow}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"no packets": func(s *Spec) { s.Packets = 0 }, "packets": func(s *Spec) { s.Packets = MaxPackets + 1 },
		"short": func(s *Spec) { s.Size = MinSize - 1 }, "long": func(s *Spec) { s.Size = MaxSize + 1 },
		"ways": func(s *Spec) { s.Ways = MaxWays + 1 }, "fewer ways than none": func(s *Spec) { s.Ways = -1 },
		"no plane": func(s *Spec) { s.Planes = 0 }, "planes": func(s *Spec) { s.Planes = wire.MaxChannels + 1 },
		"no window": func(s *Spec) { s.Window = 0 }, "window": func(s *Spec) { s.Window = MaxWindow + 1 },
		"load": func(s *Spec) { s.Load = MaxLoad * 2 }, "little load": func(s *Spec) { s.Load = MinLoad / 2 },
		"negative load": func(s *Spec) { s.Load = -1 }, "no number": func(s *Spec) { s.Load = math.NaN() },
	} {
		s := good
		if change(&s); s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A pair's packets use only planes with a route from the source to the destination. Pairs
// without a route on any plane are left out.
func TestPairsKeepToTheirPlanes(t *testing.T) {
	m, _ := topo.Named("mesh:2x2")
	planes := func(a, b wire.FabricNodeID) int { return int(a.Chip+b.Chip) % 3 } // 0 planes between chips 0 and 3, and between chips 1 and 2
	pairs := pairsOf(t, "all-to-all", m, Options{Planes: planes})
	if len(pairs) != 8 {
		t.Fatalf("%d pairs, want 8: %v", len(pairs), pairs)
	}
	spec := Spec{Run: 3, Packets: 800, Size: MinSize, Planes: 2, Window: 4}
	v := map[wire.FabricNodeID]*Verifier{}
	for _, c := range m.Chips {
		v[c.Node] = NewVerifier(spec, c.Node, pairs)
	}
	b := make([]byte, MinSize)
	var reports []Report
	for _, c := range m.Chips {
		g := NewGenerator(spec, c.Node, pairs)
		for p, ok := g.Next(0); ok; p, ok = g.Next(0) {
			if n := planes(p.Src, p.Dst); int(p.Plane) >= n {
				t.Fatalf("%s to %s by plane %d: %d lead there", p.Src, p.Dst, p.Plane, n)
			}
			g.Fill(p, b)
			v[p.Dst].Arrived(p.Src, p.Plane, p.Other, b)
			if p.Plane == 0 && planes(p.Src, p.Dst) == 1 { // the run has plane 1, but the pair does not
				q := p
				q.Plane = 1
				g.Fill(q, b)
				v[p.Dst].Arrived(p.Src, 1, p.Other, b)
			}
			g.Done(p, 0, 1, wire.OutcomeDone, false)
		}
		reports = append(reports, NewReport(g, v[c.Node]))
	}
	for i, c := range m.Chips { // all packets have arrived: take the verifiers' final counts
		reports[i].Dest, reports[i].Misdirected = nil, v[c.Node].misdirected
		for _, f := range v[c.Node].order {
			reports[i].Dest = append(reports[i].Dest, f.report())
		}
	}
	res := Merge(spec, pairs, reports)
	if res.Total.Delivered != 800 || res.Total.Lost+res.Total.Duplicated+res.Total.Reordered != 0 || res.Misdirected != 400 {
		t.Errorf("%+v; misdirected %d, want those 400 of another plane", res.Total, res.Misdirected)
	}
}

// In a run with two directions, a pair with two routes first uses all planes of one direction. Then
// the pair uses all planes of the other direction. Each plane and direction has its own packet
// numbers. All other packets take only the usual direction.
func TestPairsTakeBothWays(t *testing.T) {
	m, _ := topo.Named("ring:4")
	ways := func(a, b wire.FabricNodeID) int { return 2 - int(a.Chip+b.Chip)%2 }
	pairs := pairsOf(t, "all-to-all", m, Options{Ways: ways})
	for _, c := range []struct{ ways, planes int }{{0, 1}, {1, 2}, {2, 1}, {2, 2}} {
		spec := Spec{Run: 3, Packets: 12 * 10, Size: MinSize, Planes: c.planes, Ways: c.ways, Window: MaxWindow}
		type stream struct {
			dst   wire.FabricNodeID
			plane wire.Plane
			other bool
		}
		got := map[stream]uint64{}
		g := NewGenerator(spec, m.Chips[0].Node, pairs)
		for p, ok := g.Next(0); ok; p, ok = g.Next(0) {
			k := stream{p.Dst, p.Plane, p.Other}
			if p.Number != got[k] {
				t.Fatalf("%+v: number %d, want %d", p, p.Number, got[k])
			}
			got[k]++
		}
		for _, dst := range m.Chips[1:] {
			n := 1
			if c.ways == 2 {
				n = ways(m.Chips[0].Node, dst.Node)
			}
			for i := range 4 {
				want, k := uint64(0), stream{dst.Node, wire.Plane(i % 2), i >= 2}
				if i%2 < c.planes && i/2 < n {
					streams := uint64(c.planes * n)
					want = 10/streams + uint64(bit(uint64(i%2+i/2*c.planes) < 10%streams))
				}
				if got[k] != want {
					t.Errorf("%+v: %d packets in %+v, want %d", c, got[k], k, want)
				}
			}
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
