package traffic

import (
	"slices"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

func TestPatterns(t *testing.T) {
	want := map[string]int{"all-to-all": 132, "one-to-all": 11, "all-to-one": 11, "neighbour": 34, "random-pairs": 6, "permutation": 12}
	m, _ := topo.Named("mesh:3x4")
	single, _ := topo.Named("mesh:1x1")
	if len(want) != len(Patterns) {
		t.Errorf("%d patterns are tested of %d", len(want), len(Patterns))
	}
	for _, p := range Patterns {
		pairs := p.Pairs(m, 3)
		if err := CheckPairs(pairs); err != nil || len(pairs) != want[p.Name] {
			t.Errorf("%s: %d pairs, want %d; %v", p.Name, len(pairs), want[p.Name], err)
		}
		if !slices.Equal(pairs, p.Pairs(m, 3)) {
			t.Errorf("%s: not the same for the same seed", p.Name)
		}
		if none := p.Pairs(single, 3); len(none) != 0 {
			t.Errorf("%s: a single chip has %v", p.Name, none)
		}
		for _, name := range append(p.Aliases, p.Name) {
			if q, err := PatternByName(name); err != nil || q.Name != p.Name {
				t.Errorf("%s is %s, %v", name, q.Name, err)
			}
		}
	}
	once := map[wire.FabricNodeID]int{}
	for _, p := range randomPairs(m, 8) {
		once[p.Src]++
		once[p.Dst]++
	}
	srcs, dsts := map[wire.FabricNodeID]int{}, map[wire.FabricNodeID]int{}
	for _, p := range permutation(m, 8) {
		srcs[p.Src]++
		dsts[p.Dst]++
	}
	if len(once) != 12 || len(srcs) != 12 || len(dsts) != 12 {
		t.Errorf("not every chip takes its part: %v %v %v", once, srcs, dsts)
	}
	if slices.Equal(randomPairs(m, 1), randomPairs(m, 2)) {
		t.Error("two seeds made the same pairs")
	}
	_, err := PatternByName("x")
	for name := range want {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the message for pattern x is %v", err)
		}
	}
}

func TestCheckPairs(t *testing.T) {
	a, b := wire.FabricNodeID{Chip: 1}, wire.FabricNodeID{Mesh: 2}
	for name, pairs := range map[string][]Pair{
		"none":   nil,
		"self":   {{a, a}},
		"twice":  {{a, b}, {b, a}, {a, b}},
		"range":  {{a, wire.FabricNodeID{Chip: wire.MaxChipsPerMesh}}},
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
	// What is refused must still do no harm to a chip that gets it.
	spec := Spec{Run: 1, Packets: 100, Size: 32, Planes: 1, Window: 8}
	for _, pairs := range [][]Pair{{{a, b}, {a, b}}, {{a, a}}, {{wire.FabricNodeID{Mesh: 65535, Chip: 65535}, a}}, crowd(2 * MaxSources)} {
		for _, p := range []Pair{pairs[0], pairs[len(pairs)-1]} {
			g, v, buf := NewGenerator(spec, p.Src, pairs), NewVerifier(spec, p.Dst, pairs), make([]byte, 32)
			for !g.Finished() {
				q, _ := g.Next()
				g.Fill(q, buf)
				v.Arrived(q.Src, q.Plane, buf)
				g.Done(q, 0, 0, wire.OutcomeDone, false)
			}
			NewReport(g, v)
		}
	}
}

// crowd is n sources of one destination.
func crowd(n int) (out []Pair) {
	for i := range n {
		out = append(out, Pair{wire.FabricNodeID{Mesh: wire.MeshID(1 + i/256), Chip: wire.ChipID(i % 256)}, wire.FabricNodeID{}})
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
		"no plane": func(s *Spec) { s.Planes = 0 }, "planes": func(s *Spec) { s.Planes = wire.MaxChannels + 1 },
		"no window": func(s *Spec) { s.Window = 0 }, "window": func(s *Spec) { s.Window = MaxWindow + 1 },
	} {
		s := good
		if change(&s); s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
