package route

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// scheme returns the scheme with the given name.
func scheme(t *testing.T, name string) Scheme {
	t.Helper()
	s, err := SchemeByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// cyclic finds that a plan with the named scheme has a cycle exactly if "want" is true.
func cyclic(t *testing.T, row string, p *Plan, name string, mc Multicasts, want bool) {
	t.Helper()
	v := p.CheckScheme(scheme(t, name), mc)
	if (v.Cycle != nil) != want || v.Astray != 0 || v.Channels == 0 {
		t.Errorf("%s: want a cycle: %v; %s", row, want, &v)
	}
	checkCycle(t, p, &v)
}

// checkCycle finds that each channel of a cycle ends at the chip where the next channel begins.
func checkCycle(t *testing.T, p *Plan, v *Verdict) {
	t.Helper()
	for i, a := range v.Cycle {
		b := v.Cycle[(i+1)%len(v.Cycle)]
		if a.Ring { // the channel stands for all cables of a ring, so it has no single end
			continue
		}
		if to, ok := p.Topology().Neighbour(a.From, a.Dir, v.Plane); !ok || to != b.From {
			t.Errorf("%s: channel %s of the cycle does not lead to channel %s", p.Topology().Name, a, b)
		}
	}
}

// TestDeadlockTable reproduces the known results for rings and tori, the rows with cycles included.
// Multicasts stand for routes of k-1 hops, because a multicast may go as far as a ring of k chips
// allows. For the scheme "own", Check must give the same result as CheckScheme.
func TestDeadlockTable(t *testing.T) {
	minimal, far := Multicasts{}, Multicasts{Any: true}
	own := func(row string, p *Plan, mc Multicasts, want bool) {
		t.Helper()
		cyclic(t, row, p, "own", mc, want)
		if v := p.Check(mc); (v.Cycle != nil) != want {
			t.Errorf("%s: %s", row, &v)
		}
	}
	for k := 4; k <= 8; k++ {
		p, bare := plan(t, fmt.Sprintf("ring:%d", k), Config{OneWay: true}), plan(t, fmt.Sprintf("ring:%d", k), Config{OneWay: true, Ring: NoRing})
		row := func(s string) string { return fmt.Sprintf("ring of %d, %s", k, s) }
		cyclic(t, row("one VC, minimal"), p, "one", minimal, true)
		own(row("none, minimal"), bare, minimal, true)
		own(row("dateline, minimal"), p, minimal, false)
		own(row("dateline, routes of k-1 hops"), p, far, false)
		own(row("none, routes of k-1 hops"), bare, far, true)
		cyclic(t, row("channel chosen at entry, minimal"), p, "entry", minimal, false)
		cyclic(t, row("channel chosen at entry, routes of k-1 hops"), p, "entry", far, true)
	}
	cyclic(t, "ring of 4, one VC, minimal, ties both ways at once", plan(t, "ring:4", Config{}), "one", minimal, true)
	cyclic(t, "torus of 4x4, both ways at once, dateline kept over the turn", plan(t, "torus:4x4", Config{}), "kept", minimal, true)
	cyclic(t, "torus of 4x4, both ways at once, channel chosen at entry", plan(t, "torus:4x4", Config{}), "entry", minimal, false)
	own("ring of 4, dateline, both ways at once", plan(t, "ring:4", Config{}), minimal, false)
	own("ring of 4, one VC, minimal, each tie one way", plan(t, "ring:4", Config{Ring: NoRing}), minimal, false) // in each direction, the two routes of two hops share no channel
	own("ring of 3, one VC, minimal", plan(t, "ring:3", Config{Ring: NoRing}), minimal, false)
	own("ring of 3, one VC, routes of 2 hops", plan(t, "ring:3", Config{Ring: NoRing}), far, true)
	for _, name := range []string{"torus:3x3", "torus:4x4", "torus:4x8", "torus:5x5"} {
		p := plan(t, name, Config{OneWay: true})
		own(name+", dateline reset at the turn", p, minimal, false)
		own(name+", dateline reset at the turn, multicasts", p, far, false)
		cyclic(t, name+", dateline kept over the turn", p, "kept", minimal, name != "torus:3x3")
	}
	own("mesh 2x2, XY and a Y-first multicast trunk", plan(t, "mesh:2x2", Config{}), Multicasts{true, YX}, true)
	own("mesh 2x2, XY and an X-first multicast trunk", plan(t, "mesh:2x2", Config{}), Multicasts{true, XY}, false)
	own("mesh 2x2, no order", plan(t, "mesh:2x2", Config{Order: NoOrder}), minimal, true)
}

// TestFourMeshes checks the specification's example of four meshes, as printed and with the
// specification's error corrected.
func TestFourMeshes(t *testing.T) {
	for _, exits := range []Exits{ShortestExits, PrintedExits} {
		p := plan(t, "spec-l1", Config{Exits: exits})
		if hops, ok := p.Walk(wire.ClassRequest, 0, chip(3, 0), chip(2, 0)); !ok || meshes(hops) != map[Exits]string{ShortestExits: "32", PrintedExits: "3102"}[exits] {
			t.Errorf("exits %s: from Mesh 3 to Mesh 2 through meshes %s", exits, meshes(hops))
		}
		for _, mc := range []Multicasts{{}, {Any: true}} {
			for _, c := range []struct {
				scheme string
				want   bool
			}{{"one", true}, {"apart", true}, {"crossings", false}, {"own", false}} {
				cyclic(t, fmt.Sprintf("four meshes, exits %s, %s, %+v", exits, c.scheme, mc), p, c.scheme, mc, c.want)
			}
			if v := p.Check(mc); !v.OK() {
				t.Errorf("exits %s: %s", exits, &v)
			}
		}
	}
}

// meshes returns the ids of the meshes that a route passes, in their order.
func meshes(hops []Hop) string {
	var b strings.Builder
	for i, h := range hops {
		if i == 0 {
			fmt.Fprint(&b, h.At.Mesh)
		}
		if h.To.Mesh != h.At.Mesh {
			fmt.Fprint(&b, h.To.Mesh)
		}
	}
	return b.String()
}

// TestBothCheckersAgree compares Check, which works leg by leg, with CheckScheme, which follows
// every packet. Within one mesh, both must build the same graph. Between meshes, Check may have
// more dependencies, because Check does not use only the nearest exits.
func TestBothCheckersAgree(t *testing.T) {
	for _, name := range []string{"n300", "t3000", "line:5", "mesh:2x2", "mesh:4x4", "mesh:3x5", "ring:3", "ring:6", "torus:3x3", "torus:4x4", "torus:4x6", "torus-x:3x4", "torus-y:4x3", "spec-l1", "2xt3000"} {
		for _, cfg := range []Config{{}, {Order: YX}, {Order: NoOrder}, {Ring: NoRing}, {OneWay: true, Ring: NoRing}, {Lines: true}, {Engine: "updown"}, {Exits: PrintedExits}} {
			if cfg.Lines && (name == "spec-l1" || name == "2xt3000") {
				continue
			}
			p := plan(t, name, cfg)
			for _, mc := range []Multicasts{{}, {true, XY}, {true, YX}} {
				if cfg.Engine == "updown" && mc.Any {
					continue
				}
				a, b := p.Check(mc), p.CheckScheme(scheme(t, "own"), mc)
				same := a.Channels == b.Channels && a.Dependencies == b.Dependencies && a.Longest == b.Longest
				if len(p.grids) > 1 {
					same = a.Channels >= b.Channels && a.Dependencies >= b.Dependencies && a.Longest >= b.Longest
				}
				if !same || (a.Cycle == nil) != (b.Cycle == nil) && (len(p.grids) == 1 || a.Cycle == nil) || a.Astray+b.Astray != 0 {
					t.Errorf("%s %+v %+v: Check says %s; CheckScheme says %s", name, cfg, mc, &a, &b)
				}
				checkCycle(t, p, &a)
				checkCycle(t, p, &b)
			}
		}
	}
}

// strays is an engine that changes the route from chip 0 to chip 5.
type strays struct {
	legger
	bend func(leg []wire.Direction) []wire.Direction
}

func (s strays) leg(buf []wire.Direction, pl wire.Plane, o Order, wraps bool, src, dst int) ([]wire.Direction, bool) {
	leg, ok := s.legger.leg(buf, pl, o, wraps, src, dst)
	if ok && src == 0 && dst == 5 {
		leg = s.bend(leg)
	}
	return leg, ok
}

// TestCheckFollowsWays finds that Check counts routes that pass a chip or mesh twice, end
// elsewhere, or are longer than the plan says.
func TestCheckFollowsWays(t *testing.T) {
	e, s, w, n := wire.East, wire.South, wire.West, wire.North
	for _, c := range []struct {
		name         string
		leg          []wire.Direction // directions of the hops from chip 0 to chip 5 of a 4×4 mesh
		astray, long int
	}{
		{"correct", []wire.Direction{e, s}, 0, 0},
		{"round a circle first", []wire.Direction{e, s, w, n, e, s}, 1, 0},
		{"back to the first chip", []wire.Direction{e, w, e, s}, 1, 0},
		{"ends before", []wire.Direction{e}, 1, 0},
		{"ends elsewhere", []wire.Direction{e, e}, 1, 0},
		{"over the edge", []wire.Direction{w, e, e, s}, 1, 0},
		{"too many hops", []wire.Direction{e, e, e, s, s, s, w, w, n, n}, 0, 1},
	} {
		p := plan(t, "mesh:4x4", Config{})
		p.grids[0].legs = strays{p.grids[0].legs, func([]wire.Direction) []wire.Direction { return c.leg }}
		v := p.Check(Multicasts{})
		ways := wire.NumClasses * p.Topology().Planes()
		if v.Astray != c.astray*ways || v.Long != c.long*ways || v.Sound() != (c.astray+c.long == 0 && v.Cycle == nil) || v.OK() && c.astray+c.long > 0 {
			t.Errorf("%s: %+v", c.name, v)
		}
		if want := [2]wire.FabricNodeID{chip(0, 0), chip(0, 5)}; c.astray+c.long > 0 && v.Stray != want {
			t.Errorf("%s: names %v", c.name, v.Stray)
		}
	}
	for _, c := range []struct {
		name   string
		change func(im *interMesh)
		astray int // number of pairs of meshes with such a route, on each plane and in each class
		long   int
	}{
		{"correct", func(*interMesh) {}, 0, 0},
		{"two meshes send to each other", func(im *interMesh) { im.next[0*4+3], im.next[2*4+3] = 2, 0 }, 2, 0},
		{"next mesh without a cable", func(im *interMesh) { im.next[1*4+2] = 2 }, 1, 0},
		{"next mesh has no route", func(im *interMesh) { im.next[2*4+1], im.next[0*4+1] = 0, none }, 1, 0},
		{"more crossings than the plan says", func(im *interMesh) { im.most = 1 }, 0, 4},
	} {
		p := plan(t, "spec-l1", Config{})
		for _, im := range p.inter {
			c.change(im)
		}
		v := p.Check(Multicasts{})
		if ways := wire.NumClasses * len(p.inter); v.Astray != c.astray*ways || v.Long != c.long*ways || v.OK() != (c.astray+c.long == 0) {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// TestCheckFinds finds that Check reports a cycle for exactly those plans that have one.
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
		{"mesh:2x2", Config{}, Multicasts{true, YX}, true}, // XY unicast and a trunk along Y close a cycle
		{"mesh:2x2", Config{Order: YX}, Multicasts{true, YX}, false},
		{"mesh:2x2", Config{Order: NoOrder}, Multicasts{}, true}, // the deadlock of Spec §6.1
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
		checkCycle(t, p, &v)
	}
}

var (
	all  = flag.Bool("route.all", false, "in large machines, test every cable instead of a sample")
	each = flag.Bool("route.each", false, "test every cable of the machines that are not large, instead of every third; scripts/check does so")
)

// named lists machines for every builder. In a single mesh with more than 16 chips, the tests
// remove only a sample of the cables. In all other machines, the tests remove every third cable, or
// every cable with -route.each, one at a time.
var named = map[string][]string{
	"n300": {"n300"}, "t3000": {"t3000"}, "2xt3000": {"2xt3000"}, "galaxy": {"galaxy"}, "galaxy-umd": {"galaxy-umd"}, "spec-l1": {"spec-l1"},
	"line:": {"line:2", "line:5"}, "ring:": {"ring:3", "ring:4", "ring:5", "ring:8"},
	"mesh:":  {"mesh:1x4", "mesh:2x2", "mesh:2x3", "mesh:3x3", "mesh:4x4", "mesh:8x8"},
	"torus:": {"torus:3x3", "torus:4x4", "torus:3x4", "torus:5x5", "torus:8x8"}, "torus-x:": {"torus-x:3x4", "torus-x:2x3"}, "torus-y:": {"torus-y:4x2", "torus-y:4x4"},
}

// configs returns the configurations with which machine m must not deadlock.
func configs(m *topo.Topology) (cs []Config) {
	rings := []Ring{Dateline}
	lines := len(m.Meshes) == 1
	for _, x := range m.Meshes {
		if x.WrapX || x.WrapY {
			rings = []Ring{Dateline, Bubble}
		}
		lines = lines && x.Rows > 1
	}
	for _, e := range Engines {
		for _, r := range rings {
			cs = append(cs, Config{Engine: e.Name, Ring: r})
			if e.Name == Engines[0].Name {
				cs = append(cs, Config{Engine: e.Name, Ring: r, Order: YX})
				if len(m.Meshes) > 1 {
					cs = append(cs, Config{Engine: e.Name, Ring: r, Exits: PrintedExits})
				}
				if lines {
					cs = append(cs, Config{Engine: e.Name, Ring: r, Lines: true})
				}
			}
		}
	}
	return cs
}

// joined reports whether working cables of a plane connect all chips of a mesh.
func joined(p *Plan, mesh wire.MeshID, pl wire.Plane) bool {
	m, _ := p.Topology().Mesh(mesh)
	seen := map[wire.FabricNodeID]bool{{Mesh: mesh}: true}
	for queue := []wire.FabricNodeID{{Mesh: mesh}}; len(queue) > 0; queue = queue[1:] {
		for _, q := range p.top.Ports(queue[0]) {
			if q.Plane == pl && !p.down(q.Local) && q.Peer.Node.Mesh == mesh && !seen[q.Peer.Node] {
				seen[q.Peer.Node] = true
				queue = append(queue, q.Peer.Node)
			}
		}
	}
	return len(seen) == m.Rows*m.Cols
}

// TestFailedLinks removes each cable of each machine, with every engine, ring scheme and order.
// First the cable is missing from the start. Then the cable goes out of service while packets are
// under way. No remaining traffic may deadlock or go astray. If the engine can avoid missing
// cables, all connected chips must have a route.
func TestFailedLinks(t *testing.T) {
	for _, b := range topo.Builders {
		if len(named[b.Name]) == 0 {
			t.Errorf("no machine of builder %s", b.Name)
		}
		for _, name := range named[b.Name] {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				failLinks(t, machine(t, name))
			})
		}
	}
}

// failLinks removes each cable of a machine with -route.each, or every third, one at a time. In a
// large machine, failLinks removes a smaller sample of the cables.
func failLinks(t *testing.T, m *topo.Topology) {
	every := 1
	switch {
	case *all:
	case len(m.Meshes) == 1 && len(m.Chips) > 16:
		every = len(m.Chips) + 1
	case testing.Short():
		every = 7
	case !*each:
		every = 3
	}
	for _, cfg := range configs(m) {
		base, err := New(m, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if v := base.Check(base.Multicasts()); !v.OK() {
			t.Errorf("%s %+v: %s", m.Name, cfg, &v)
		}
		for i, c := range m.Cables {
			if i%every == 0 && !c.Unused {
				failLink(t, base, c)
			}
		}
	}
}

// failLink removes one cable from the machine of plan "base".
func failLink(t *testing.T, base *Plan, c topo.Cable) {
	cfg := base.cfg
	name := fmt.Sprintf("%s %s %s %s lines %v without %s–%s", base.top.Name, cfg.Engine, cfg.Order, cfg.Ring, cfg.Lines, c.A, c.B)
	cfg.Failed = func(q wire.PortID) bool { return q == c.A || q == c.B }
	p, err := New(base.top, cfg)
	if err != nil {
		t.Fatal(err)
	}
	whole := c.External() || joined(p, c.A.Node.Mesh, c.Plane)
	v := p.Check(p.Multicasts())
	if !v.Sound() || cfg.Engine == "updown" && (v.Unreachable == 0) != whole || cfg.Engine == "dor" && !c.External() && v.Unreachable == 0 {
		t.Errorf("%s: connected: %v; %s", name, whole, &v)
	}
	around := base.Around([]wire.PortID{c.A})
	v = around.Check(base.Multicasts())
	if !v.Sound() || !cfg.Lines && (v.Unreachable == 0) != whole {
		t.Errorf("%s, out of service: connected: %v; %s", name, whole, &v)
	}
	if there, back := around.Replaces(base), base.Replaces(around); there != NoConflict || back != NoConflict {
		t.Errorf("%s: conflict %d when the cable goes out of service, conflict %d when it comes back", name, there, back)
	}
	if v := around.CheckAfter(base, base.Multicasts()); !v.Sound() { // the graph is the same when the cable comes back into service
		t.Errorf("%s, with packets under way: %s", name, &v)
	}
}

// manyMeshes returns a square of side×side meshes of rows×cols chips. Exits are in the middles of
// the edges. Along an edge of 16 chips or more, there is an exit at every fourth chip.
func manyMeshes(t testing.TB, side, rows, cols int) *topo.Topology {
	m := &topo.Topology{Name: fmt.Sprintf("%d meshes of %dx%d", side*side, rows, cols), Arch: wire.Wormhole}
	node := func(mesh, r, c int) wire.FabricNodeID { return chip(mesh, r*cols+c) }
	cable := func(a wire.FabricNodeID, ca wire.Channel, b wire.FabricNodeID, cb wire.Channel, d wire.Direction) {
		m.Cables = append(m.Cables, topo.Cable{A: wire.PortID{Node: a, Channel: ca}, B: wire.PortID{Node: b, Channel: cb}, Dir: d, Back: d.Opposite()})
	}
	exit := func(i, n int) bool { return n < 16 && i == n/2 || n >= 16 && i%4 == 2 }
	for k := range side * side {
		m.Meshes = append(m.Meshes, topo.Mesh{ID: wire.MeshID(k), Rows: rows, Cols: cols})
		for i := range rows * cols {
			r, c := i/cols, i%cols
			m.Chips = append(m.Chips, topo.Chip{Node: chip(k, i), Row: r, Col: c, UMD: topo.NoUMD})
			if c+1 < cols {
				cable(node(k, r, c), 0, node(k, r, c+1), 1, wire.East)
			} else if exit(r, rows) && (k+1)%side != 0 {
				cable(node(k, r, c), 0, node(k+1, r, 0), 1, wire.East)
			}
			if r+1 < rows {
				cable(node(k, r, c), 2, node(k, r+1, c), 3, wire.South)
			} else if exit(c, cols) && k+side < side*side {
				cable(node(k, r, c), 2, node(k+side, 0, c), 3, wire.South)
			}
		}
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestManyMeshes checks fabrics of many meshes, and follows some of their longest routes.
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

// BenchmarkFabric plans and checks whole fabrics of meshes of 256 chips.
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

// TestCheckAfter checks changes of plans while packets of the old plan are under way.
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
