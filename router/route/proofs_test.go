package route

import (
	"flag"
	"fmt"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// labelled builds the dependency graph of whole ways whose channels are
// labelled by label, and reports whether it has a cycle. It shares nothing
// with the checker but the graph.
func labelled(ways [][]Hop, label func(way []Hop, i int) int) bool {
	ids := map[string]int32{}
	g := newGraph(1 << 16)
	id := func(h Hop, l int) int32 {
		k := fmt.Sprint(h.At, h.Dir, l)
		if _, ok := ids[k]; !ok {
			ids[k] = int32(len(ids))
		}
		return ids[k]
	}
	for _, w := range ways {
		for i := 1; i < len(w); i++ {
			g.add(id(w[i-1], label(w, i-1)), id(w[i], label(w, i)))
		}
	}
	return g.cycle() != nil
}

// ways are those of all pairs of chips of a plan.
func ways(t *testing.T, p *Plan) (all [][]Hop) {
	for _, a := range p.Topology().Chips {
		for _, b := range p.Topology().Chips {
			if a.Node != b.Node {
				w, ok := p.Walk(wire.ClassRequest, 0, a.Node, b.Node)
				if !ok {
					t.Fatalf("%s to %s: no way", a.Node, b.Node)
				}
				all = append(all, w)
			}
		}
	}
	return all
}

// circles are all ways of up to n hops round a ring, in both directions.
func circles(t *testing.T, p *Plan, n int) (all [][]Hop) {
	for _, a := range p.Topology().Chips {
		for _, d := range []wire.Direction{wire.East, wire.West} {
			var w []Hop
			var s Steps
			for at := a.Node; len(w) < n; at = w[len(w)-1].To {
				h, ok := p.step(&s, wire.ClassRequest, false, 0, at, d)
				if !ok {
					t.Fatal("no ring")
				}
				w = append(w, h)
				all = append(all, append([]Hop(nil), w...))
			}
		}
	}
	return all
}

func byVC(w []Hop, i int) int { return int(w[i].VC) }
func oneVC([]Hop, int) int    { return 0 }
func willCross(w []Hop, _ int) int {
	for _, h := range w {
		if h.Wrap {
			return 1
		}
	}
	return 0
}

// TestDeadlockTable reproduces what is known of rings, tori and the
// specification's four meshes, the cyclic rows included.
func TestDeadlockTable(t *testing.T) {
	row := func(name string, cyclic, want bool) {
		t.Helper()
		if cyclic != want {
			t.Errorf("%s: cycle %v, want %v", name, cyclic, want)
		}
	}
	for k := 4; k <= 8; k++ {
		p := plan(t, fmt.Sprintf("ring:%d", k), Config{OneWay: true})
		row(fmt.Sprintf("ring of %d, one VC, minimal", k), labelled(ways(t, p), oneVC), true)
		row(fmt.Sprintf("ring of %d, dateline", k), labelled(ways(t, p), byVC), false)
		row(fmt.Sprintf("ring of %d, dateline, routes of up to %d hops", k, k-1), labelled(circles(t, p, k-1), byVC), false)
		row(fmt.Sprintf("ring of %d, channel chosen at entry, minimal", k), labelled(ways(t, p), willCross), false)
		row(fmt.Sprintf("ring of %d, channel chosen at entry, %d hops", k, k-1), labelled(circles(t, p, k-1), willCross), true)
	}
	four := plan(t, "ring:4", Config{}) // no two of its routes of two hops meet at both ends
	row("ring of 4, one VC, minimal, ties both ways", labelled(ways(t, four), oneVC), false)
	three := plan(t, "ring:3", Config{})
	row("ring of 3, one VC, minimal", labelled(ways(t, three), oneVC), false)
	row("ring of 3, one VC, 2-hop routes", labelled(circles(t, three, 2), oneVC), true)

	for _, name := range []string{"torus:3x3", "torus:4x4", "torus:4x8", "torus:5x5"} {
		some := ways(t, plan(t, name, Config{OneWay: true}))
		row(name+", dateline reset at the turn", labelled(some, byVC), false)
		keep := func(w []Hop, i int) int {
			for _, h := range w[:i+1] {
				if h.Wrap {
					return 1
				}
			}
			return 0
		}
		row(name+", dateline kept over the turn", labelled(some, keep), name != "torus:3x3")
	}
}

// TestFourMeshes is the specification's example, as it prints it and with its slip corrected.
func TestFourMeshes(t *testing.T) {
	for _, slip := range []bool{false, true} {
		p := plan(t, "spec-l1", Config{})
		if slip {
			p.inter[0].next[3*4+2] = 1 // Mesh 3 to Mesh 2 by way of Mesh 1
		}
		all := ways(t, p)
		external := func(h Hop) bool { return h.At.Mesh != h.To.Mesh }
		crossings := func(w []Hop, i int) (n int) {
			for _, h := range w[:i] {
				if external(h) {
					n++
				}
			}
			return n
		}
		interMesh := func(w []Hop, _ int) int {
			if w[0].At.Mesh != w[len(w)-1].To.Mesh {
				return 1
			}
			return 0
		}
		for _, c := range []struct {
			name  string
			label func([]Hop, int) int
			want  bool
		}{
			{"one VC", oneVC, true},
			{"two VCs, intra and inter", interMesh, true},
			{"number of mesh crossings", crossings, false},
			{"up*/down*", byVC, false},
		} {
			if got := labelled(all, c.label); got != c.want {
				t.Errorf("slip %v, %s: cycle %v, want %v", slip, c.name, got, c.want)
			}
		}
		if v := p.Check(Multicasts{}); !v.OK() && !slip {
			t.Errorf("%s", &v)
		}
		if most := len(all); most != 36*35 {
			t.Errorf("%d ways", most)
		}
	}
}

// TestCheckFinds lets the checker find the cycles that its own plans can have.
func TestCheckFinds(t *testing.T) {
	for _, c := range []struct {
		machine string
		cfg     Config
		mc      Multicasts
		cyclic  bool
	}{
		{"ring:4", Config{Ring: NoRing, OneWay: true}, Multicasts{}, true},
		{"ring:4", Config{Ring: NoRing}, Multicasts{}, false},
		{"ring:6", Config{Ring: NoRing}, Multicasts{}, true},
		{"ring:3", Config{Ring: NoRing}, Multicasts{}, false},
		{"ring:8", Config{Ring: Bubble}, Multicasts{}, false},
		{"torus:4x4", Config{Ring: NoRing, OneWay: true}, Multicasts{}, true},
		{"torus:4x4", Config{Ring: NoRing}, Multicasts{}, false},
		{"torus:4x6", Config{Ring: NoRing}, Multicasts{}, true},
		{"torus:4x4", Config{Ring: Bubble}, Multicasts{}, false},
		{"torus:4x4", Config{}, Multicasts{true, XY}, false},
		{"torus:4x4", Config{}, Multicasts{true, YX}, true},
		{"mesh:2x2", Config{}, Multicasts{true, XY}, false},
		{"mesh:2x2", Config{}, Multicasts{true, YX}, true}, // XY unicast and a Y-first trunk
		{"mesh:2x2", Config{Order: YX}, Multicasts{true, YX}, false},
		{"mesh:2x2", Config{Order: NoOrder}, Multicasts{}, true}, // Spec §6.1
		{"mesh:4x5", Config{Order: NoOrder}, Multicasts{}, true},
		{"line:5", Config{Order: NoOrder}, Multicasts{}, false},
		{"mesh:4x8", Config{}, Multicasts{true, XY}, false},
		{"ring:5", Config{}, Multicasts{true, XY}, false},
		{"line:5", Config{}, Multicasts{true, XY}, false},
	} {
		p := plan(t, c.machine, c.cfg)
		v := p.Check(c.mc)
		if (v.Cycle != nil) != c.cyclic || v.Unreachable != 0 {
			t.Errorf("%s %+v %+v: %s", c.machine, c.cfg, c.mc, &v)
		}
		for i, a := range v.Cycle { // each is a real channel whose end is where the next one begins
			b := v.Cycle[(i+1)%len(v.Cycle)]
			to, ok := p.Topology().Neighbour(a.From, a.Dir, v.Plane)
			if !ok || to != b.From {
				t.Errorf("%s: the cycle's %s does not lead to %s", c.machine, a, b)
			}
		}
	}
}

var all = flag.Bool("route.all", false, "try every failed cable of the large machines, not a sample")

// TestFailedLinks takes each cable away alone: up*/down* finds ways around it,
// and nothing that is left can deadlock by any engine. Of machines beyond 4×4 it takes a sample.
func TestFailedLinks(t *testing.T) {
	for _, name := range []string{"t3000", "mesh:2x2", "mesh:3x3", "mesh:4x4", "ring:5", "torus:3x3", "torus:4x4", "torus-x:3x4", "torus-y:4x2",
		"spec-l1", "2xt3000", "galaxy", "mesh:8x8", "torus:5x5", "torus:8x8"} {
		m := machine(t, name)
		for i, c := range m.Cables {
			if (testing.Short() && i%7 != 0) || (!*all && len(m.Meshes) == 1 && len(m.Chips) > 16 && i%41 != 0) {
				continue
			}
			gone := func(q wire.PortID) bool { return q == c.A || q == c.B }
			for _, e := range Engines {
				p, err := New(m, Config{Engine: e.Name, Failed: gone})
				if err != nil {
					t.Fatal(err)
				}
				v := p.Check(Multicasts{})
				around := e.Name == "updown" && !c.External()
				if v.Cycle != nil || (around && v.Unreachable > 0) || (e.Name == "dor" && !c.External() && v.Unreachable == 0) {
					t.Fatalf("%s by %s without %s–%s: %s", name, e.Name, c.A, c.B, &v)
				}
			}
		}
	}
}

// manyMeshes is a square of side×side meshes, each rows×cols, joined at the middles of their edges.
func manyMeshes(t testing.TB, side, rows, cols int) *topo.Topology {
	m := &topo.Topology{Name: fmt.Sprintf("%d meshes of %dx%d", side*side, rows, cols), Arch: wire.Wormhole}
	node := func(mesh, r, c int) wire.FabricNodeID { return chip(mesh, r*cols+c) }
	cable := func(a wire.FabricNodeID, ca wire.Channel, b wire.FabricNodeID, cb wire.Channel, d wire.Direction) {
		m.Cables = append(m.Cables, topo.Cable{A: wire.PortID{Node: a, Channel: ca}, B: wire.PortID{Node: b, Channel: cb}, Dir: d, Back: d.Opposite()})
	}
	for k := range side * side {
		m.Meshes = append(m.Meshes, topo.Mesh{ID: wire.MeshID(k), Rows: rows, Cols: cols})
		for i := range rows * cols {
			r, c := i/cols, i%cols
			m.Chips = append(m.Chips, topo.Chip{Node: chip(k, i), Row: r, Col: c, UMD: topo.NoUMD})
			if c+1 < cols {
				cable(node(k, r, c), 0, node(k, r, c+1), 1, wire.East)
			} else if r == rows/2 && (k+1)%side != 0 {
				cable(node(k, r, c), 0, node(k+1, r, 0), 1, wire.East)
			}
			if r+1 < rows {
				cable(node(k, r, c), 2, node(k, r+1, c), 3, wire.South)
			} else if c == cols/2 && k+side < side*side {
				cable(node(k, r, c), 2, node(k+side, 0, c), 3, wire.South)
			}
		}
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestManyMeshes checks fabrics of many meshes, and follows some of their longest ways.
func TestManyMeshes(t *testing.T) {
	for _, c := range [][3]int{{2, 3, 3}, {4, 2, 4}, {8, 2, 2}} {
		p, err := New(manyMeshes(t, c[0], c[1], c[2]), Config{})
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Check(Multicasts{}); !v.OK() {
			t.Errorf("%s: %s", p.Topology().Name, &v)
		}
		chips := p.Topology().Chips
		for i := range chips {
			a, b := chips[i].Node, chips[len(chips)-1-i].Node
			if w, ok := p.Walk(wire.ClassRequest, 0, a, b); a != b && (!ok || len(w) > p.Longest()) {
				t.Fatalf("%s to %s: %d hops, longest %d", a, b, len(w), p.Longest())
			}
		}
	}
}

// BenchmarkFabric plans and checks whole fabrics of 256-chip meshes.
func BenchmarkFabric(b *testing.B) {
	for _, side := range []int{2, 4, 8, 16, 32} {
		m := manyMeshes(b, side, 16, 16)
		b.Run(fmt.Sprintf("%d meshes/plan", side*side), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(m, Config{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d meshes/check", side*side), func(b *testing.B) {
			b.ReportAllocs()
			p, _ := New(m, Config{})
			for b.Loop() {
				if v := p.Check(Multicasts{}); !v.OK() {
					b.Fatal(v)
				}
			}
		})
	}
}

// TestCheckAfter proves a change of routes together with what is under way by the old ones.
func TestCheckAfter(t *testing.T) {
	for _, c := range []struct {
		machine  string
		old, now Config
		cyclic   bool
	}{
		{"mesh:3x3", Config{}, Config{}, false},
		{"mesh:3x3", Config{}, Config{Order: YX}, true},
		{"mesh:2x2", Config{Order: YX}, Config{}, true},
		{"line:5", Config{}, Config{Order: YX}, false},
		{"mesh:3x3", Config{}, Config{Engine: "updown"}, true},
		{"torus:4x4", Config{}, Config{}, false},
	} {
		m := machine(t, c.machine)
		old, err := New(m, c.old)
		if err != nil {
			t.Fatal(err)
		}
		now, err := New(m, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if v := now.CheckAfter(old, Multicasts{}); (v.Cycle != nil) != c.cyclic {
			t.Errorf("%s: %+v after %+v: %s", c.machine, c.now, c.old, &v)
		}
	}
}
