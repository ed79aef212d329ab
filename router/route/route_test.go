package route

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

func machine(t testing.TB, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func plan(t testing.TB, name string, cfg Config) *Plan {
	t.Helper()
	p, err := New(machine(t, name), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func letters(ds []wire.Direction) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String())
	}
	return b.String()
}

func chip(mesh, chip int) wire.FabricNodeID {
	return wire.FabricNodeID{Mesh: wire.MeshID(mesh), Chip: wire.ChipID(chip)}
}

// TestSpecificationsL0Table compares all 72 routes within Mesh 0 with the table of Spec §2.2.1.1.1.
func TestSpecificationsL0Table(t *testing.T) {
	want := `
- E EE S ES EES SS ESS EESS
W - E WS S ES WSS SS ESS
WW W - WWS WS S WWSS WSS SS
N EN EEN - E EE S ES EES
WN N EN W - E WS S ES
WWN WN N WW W - WWS WS S
NN ENN EENN N EN EEN - E EE
WNN NN ENN WN N EN W - E
WWNN WNN NN WWN WN N WW W -`
	p := plan(t, "spec-l1", Config{})
	for src, row := range strings.Split(strings.TrimSpace(want), "\n") {
		for dst, w := range strings.Fields(row) {
			leg, _ := p.Leg(nil, wire.ClassRequest, 0, chip(0, src), chip(0, dst))
			if got := letters(leg); got != strings.Trim(w, "-") {
				t.Errorf("%d→%d: got %s, the specification says %s", src, dst, got, w)
			}
		}
	}
}

// TestSpecificationsL1Table compares the exits of all chips with the tables of Spec §2.2.1.2.1,
// except from Mesh 3 to Mesh 2. For that pair, the specification's table has exit node 2, which
// leads to Mesh 1. We take this for an error of the specification. The specification's figure has a
// cable from node 6 of Mesh 3 to node 8 of Mesh 2. The specification's text says that only M0–M3
// and M1–M2 have no cable. From Mesh 2 to Mesh 3, the specification's table uses the cable at exit
// node 8. With [PrintedExits], all exits must be those of the printed table.
func TestSpecificationsL1Table(t *testing.T) {
	for exits, slip := range map[Exits]int{ShortestExits: 6, PrintedExits: 2} {
		l1Table(t, exits, slip)
	}
}

// l1Table compares the exits of all chips with the table of Spec §2.2.1.2.1. The parameter slip is
// the exit node from Mesh 3 to Mesh 2.
func l1Table(t *testing.T, exits Exits, slip int) {
	t.Helper()
	want := map[int][9][4]int{
		0: {{-1, 5, 6, 5}, {-1, 5, 6, 5}, {-1, 5, 8, 5}, {-1, 5, 6, 5}, {-1, 5, 6, 5}, {-1, 5, 8, 5}, {-1, 5, 6, 5}, {-1, 5, 6, 5}, {-1, 5, 8, 5}},
		2: {{0, 0, -1, 8}, {0, 0, -1, 8}, {2, 2, -1, 8}, {0, 0, -1, 8}, {0, 0, -1, 8}, {2, 2, -1, 8}, {0, 0, -1, 8}, {0, 0, -1, 8}, {2, 2, -1, 8}},
	}
	var one, three [9][4]int
	for i := range one {
		one[i], three[i] = [4]int{3, -1, 3, 8}, [4]int{2, 2, slip, -1}
	}
	want[1], want[3] = one, three
	p := plan(t, "spec-l1", Config{Exits: exits})
	for mesh, rows := range want {
		for node, row := range rows {
			for to, w := range row {
				x, _, ok := p.Exit(wire.ClassRequest, 0, chip(mesh, node), wire.MeshID(to))
				switch {
				case w < 0:
				case !ok:
					t.Errorf("M%d node %d to M%d: no exit, want %d", mesh, node, to, w)
				case int(x.Local.Node.Chip) != w:
					t.Errorf("M%d node %d to M%d: exit %d, want %d", mesh, node, to, x.Local.Node.Chip, w)
				}
			}
		}
	}
}

// TestWalks follows every route of built-in machines, in all classes, on all planes, with every
// engine. Each route must end at its destination within the plan's number of hops. The plan must
// have no cycle.
func TestWalks(t *testing.T) {
	for _, name := range []string{"n300", "t3000", "mesh:4x4", "mesh:1x5", "line:5", "ring:6", "torus:4x4", "torus-x:3x4", "torus-y:5x2", "spec-l1", "2xt3000"} {
		for _, cfg := range []Config{{}, {Order: YX}, {Ring: Bubble}, {Engine: "updown"}, {Order: NoOrder}} {
			p := plan(t, name, cfg)
			m := p.Topology()
			most := 0
			for pl := range max(m.Planes(), 1) {
				for c := range wire.Class(wire.NumClasses) {
					for _, a := range m.Chips {
						for _, b := range m.Chips {
							if a.Node == b.Node {
								continue
							}
							hops, ok := p.Walk(c, wire.Plane(pl), a.Node, b.Node)
							if !ok || hops[len(hops)-1].To != b.Node {
								t.Fatalf("%s %+v: plane %d, %s to %s: %v", name, cfg, pl, a.Node, b.Node, hops)
							}
							for _, h := range hops {
								if h.VC.Class() != c || (c == wire.ClassControl && h.Wrap && cfg.Engine != "updown") {
									t.Fatalf("%s: hop %+v of class %d", name, h, c)
								}
							}
							most = max(most, len(hops))
						}
					}
				}
			}
			if most > p.Longest() || (len(m.Meshes) == 1 && most != p.Longest()) {
				t.Errorf("%s %+v: the longest route has %d hops, the plan says %d", name, cfg, most, p.Longest())
			}
			if v := p.Check(Multicasts{}); !v.OK() && cfg.Order != NoOrder {
				t.Errorf("%s %+v: %s", name, cfg, &v)
			}
		}
	}
}

func TestReverseOrderGoesBackTheSameWay(t *testing.T) {
	p := plan(t, "mesh:4x5", Config{})
	for _, a := range p.Topology().Chips {
		for _, b := range p.Topology().Chips {
			there, _ := p.Leg(nil, wire.ClassRequest, 0, a.Node, b.Node)
			back, _ := p.Leg(nil, wire.ClassReply, 0, b.Node, a.Node)
			for i := range there {
				if there[i] != back[len(back)-1-i].Opposite() {
					t.Fatalf("the route %s→%s is %v, and the route back is %v", a.Node, b.Node, there, back)
				}
			}
		}
	}
}

// TestNoOrderTurnsRight is about Spec §6.1, routing without dimension order. The four flows of the
// specification's example take the drawn routes. On any mesh, each route that turns makes a right
// turn.
func TestNoOrderTurnsRight(t *testing.T) {
	p := plan(t, "mesh:2x2", Config{Order: NoOrder})
	for _, c := range []struct {
		src, dst int
		want     string
	}{{0, 3, "ES"}, {1, 2, "SW"}, {2, 1, "NE"}, {3, 0, "WN"}} {
		leg, _ := p.Leg(nil, wire.ClassRequest, 0, chip(0, c.src), chip(0, c.dst))
		if got := letters(leg); got != c.want {
			t.Errorf("D%d → D%d is %s, want %s", c.src+1, c.dst+1, got, c.want)
		}
	}
	right := map[wire.Direction]wire.Direction{wire.East: wire.South, wire.South: wire.West, wire.West: wire.North, wire.North: wire.East}
	for _, name := range []string{"mesh:4x5", "torus:4x4"} {
		p := plan(t, name, Config{Order: NoOrder})
		turns := 0
		for _, a := range p.Topology().Chips {
			for _, b := range p.Topology().Chips {
				leg, ok := p.Leg(nil, wire.ClassRequest, 0, a.Node, b.Node)
				if xy, _ := plan(t, name, Config{}).Leg(nil, wire.ClassRequest, 0, a.Node, b.Node); ok && len(leg) != len(xy) {
					t.Fatalf("%s: the route %s→%s is %v, but must have the same length as %v", name, a.Node, b.Node, leg, xy)
				}
				for i := 1; i < len(leg); i++ {
					if leg[i] != leg[i-1] {
						if turns++; leg[i] != right[leg[i-1]] {
							t.Fatalf("%s: %s→%s is %v", name, a.Node, b.Node, leg)
						}
					}
				}
			}
		}
		if turns == 0 {
			t.Errorf("%s: no turns", name)
		}
	}
}

// TestTorusWays finds that packets take the shorter direction round a ring. Between equally long
// directions, packets go East or South from even places, and West or North from odd places. A
// packet leaves the channel behind the dateline when it turns.
func TestTorusWays(t *testing.T) {
	p := plan(t, "torus:4x4", Config{})
	for _, c := range []struct {
		src, dst int
		want     string
	}{{0, 3, "W"}, {0, 2, "EE"}, {1, 3, "WW"}, {2, 0, "EE"}, {0, 15, "WN"}, {12, 3, "WS"}, {5, 15, "WWNN"}, {4, 14, "EENN"}} {
		leg, _ := p.Leg(nil, wire.ClassRequest, 0, chip(0, c.src), chip(0, c.dst))
		if got := letters(leg); got != c.want {
			t.Errorf("%d→%d: %s, want %s", c.src, c.dst, got, c.want)
		}
	}
	p = plan(t, "torus:6x6", Config{})
	hops, _ := p.Walk(wire.ClassRequest, 0, chip(0, 35), chip(0, 7))
	var got []string
	for _, h := range hops {
		got = append(got, fmt.Sprintf("%s %s", h.Dir, h.VC))
	}
	if s := strings.Join(got, ", "); s != "E data-dateline, E data-dateline, S data-dateline, S data-dateline" {
		t.Errorf("35→7: %s", s)
	}
	hops, _ = p.Walk(wire.ClassRequest, 0, chip(0, 5), chip(0, 7))
	if len(hops) != 3 || hops[0].VC != wire.VCDataDateline || hops[2].VC != wire.VCData {
		t.Errorf("5→7: %+v", hops)
	}
}

func TestPlanErrors(t *testing.T) {
	for name, c := range map[string]struct {
		machine string
		cfg     Config
		want    string
	}{
		"engine": {"n300", Config{Engine: "psychic"}, `routing engine "psychic": want one of [dor updown]`},
		"long":   {"line:70", Config{}, "a route has 69 hops, but the largest packet header has room for 67"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := topo.Named(c.machine)
			if err == nil {
				_, err = New(m, c.cfg)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := ParseRing("zigzag"); err == nil {
		t.Error("ParseRing accepts a ring scheme that does not exist")
	}
}

// TestLines finds that in a 1D fabric on a 2D machine, rows and columns are separate lines (Spec
// §3).
func TestLines(t *testing.T) {
	p := plan(t, "mesh:3x3", Config{Lines: true})
	if _, ok := p.Leg(nil, wire.ClassRequest, 0, chip(0, 0), chip(0, 4)); ok {
		t.Error("a route of a 1D fabric turns")
	}
	leg, ok := p.Leg(nil, wire.ClassRequest, 0, chip(0, 0), chip(0, 6))
	if v := p.Check(Multicasts{}); !ok || letters(leg) != "SS" || !v.OK() || p.Longest() != 2 {
		t.Errorf("0→6 %s; %s; longest %d", letters(leg), &v, p.Longest())
	}
}

// TestGalaxyAsLinesAndRings is about the figures of Spec §3. On an 8x4 Galaxy, a 1D fabric is "8
// independent line fabric instances" of rows and 4 of columns, or the same numbers of rings. A chip
// reaches only the chips of its row and its column. No traffic can deadlock.
func TestGalaxyAsLinesAndRings(t *testing.T) {
	for _, c := range []struct {
		machine string
		ring    Ring
		longest int // number of hops of the longest route of a request
	}{{"mesh:8x4", Dateline, 7}, {"torus:8x4", Dateline, 4}, {"torus:8x4", Bubble, 4}, {"torus-y:8x4", Dateline, 4}} {
		p := plan(t, c.machine, Config{Lines: true, Ring: c.ring})
		ways, longest, wraps := 0, 0, 0
		for _, a := range p.Topology().Chips {
			for _, b := range p.Topology().Chips {
				hops, ok := p.Walk(wire.ClassRequest, 1, a.Node, b.Node)
				if a.Node == b.Node {
					continue
				}
				if ok != (a.Row == b.Row || a.Col == b.Col) {
					t.Fatalf("%s: %s to %s: %v", c.machine, a.Node, b.Node, ok)
				}
				for _, h := range hops {
					x, _ := p.Topology().Chip(h.To)
					if ok && (a.Row == b.Row && x.Row != a.Row || a.Col == b.Col && x.Col != a.Col) {
						t.Fatalf("%s: %s to %s leaves its line at %s", c.machine, a.Node, b.Node, h.To)
					}
					if ok && h.Wrap {
						wraps++
					}
				}
				if ok {
					ways, longest = ways+1, max(longest, len(hops))
				}
			}
		}
		if ways != 32*(3+7) || longest != c.longest || (wraps > 0) != (c.machine != "mesh:8x4") {
			t.Errorf("%s: %d routes, want 320; the longest has %d hops, want %d; %d hops wrap", c.machine, ways, longest, c.longest, wraps)
		}
		if v := p.Check(p.Multicasts()); !v.OK() {
			t.Errorf("%s %s: %s", c.machine, c.ring, &v)
		}
	}
}

// TestPlanesBetween finds that not every plane leads to every chip. Two meshes may be joined by
// fewer cables than they have planes. Some meshes have fewer planes than others. In a 1D fabric,
// routes do not turn.
func TestPlanesBetween(t *testing.T) {
	text := "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 3, E: 3, S: 3, W: 3}}\nBoard: [{name: B, type: Mesh, topology: [1, 2]}]\n" +
		"Mesh: [{id: 0, board: B}, {id: 1, board: B}, {id: 2, board: B}]\nRelaxedGraph: [[M0, M1, 2], [M1, M2, 1]]\n"
	m, err := topo.Load("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := [3][3]int{{3, 2, 1}, {2, 3, 1}, {1, 1, 3}}
	for _, a := range m.Chips {
		for _, b := range m.Chips {
			if got, want := p.PlanesBetween(a.Node, b.Node), want[a.Node.Mesh][b.Node.Mesh]; got != want {
				t.Errorf("%s to %s: %d planes, want %d", a.Node, b.Node, got, want)
			}
		}
	}
	if v := p.Check(Multicasts{}); !v.OK() || v.Thin != 6 || v.ThinPair != [2]wire.MeshID{0, 1} || v.ThinPlanes != 2 {
		t.Errorf("%+v", v)
	}
	for _, e := range Engines { // a plane that the machine does not have leads nowhere
		p := plan(t, "mesh:2x2", Config{Engine: e.Name})
		if _, ok := p.Route(nil, wire.ClassRequest, 2, chip(0, 0), chip(0, 3)); ok {
			t.Errorf("%s has a route on plane 2 of 2", e.Name)
		}
	}
	lines := plan(t, "mesh:2x2", Config{Lines: true})
	if n, none := lines.PlanesBetween(chip(0, 0), chip(0, 1)), lines.PlanesBetween(chip(0, 0), chip(0, 3)); n != 2 || none != 0 {
		t.Errorf("%d planes along a line, want 2; %d planes round a corner, want 0", n, none)
	}
	if v := plan(t, "spec-l1", Config{}).Check(Multicasts{}); v.Thin != 0 {
		t.Errorf("the specification's meshes: %+v", v)
	}
}

// channelsUsed returns the virtual channels that the plan's packets use without faults.
// channelsUsed also returns the largest number of sources of packets at one port. A source is a
// side by which packets come in, or the chip itself.
func channelsUsed(t *testing.T, p *Plan) (vcs map[string]bool, senders int) {
	type port struct {
		at  wire.FabricNodeID
		dir wire.Direction
	}
	vcs, from := map[string]bool{}, map[port]map[wire.Direction]bool{}
	for c := range wire.Class(wire.NumClasses) {
		for _, a := range p.Topology().Chips {
			for _, b := range p.Topology().Chips {
				if a.Node == b.Node {
					continue
				}
				hops, ok := p.Walk(c, 0, a.Node, b.Node)
				if !ok {
					t.Fatalf("no route from %s to %s", a.Node, b.Node)
				}
				side := wire.Direction(wire.NumDirections) // the packet starts at this chip
				for _, h := range hops {
					q := port{h.At, h.Dir}
					if from[q] == nil {
						from[q] = map[wire.Direction]bool{}
					}
					from[q][side] = true
					vcs[h.VC.String()], senders = true, max(senders, len(from[q]))
					side = h.Dir.Opposite()
				}
			}
		}
	}
	return vcs, senders
}

// meshesThatWrap returns a machine of three meshes that form a ring. The rows of each mesh are
// rings too.
func meshesThatWrap(t *testing.T) *topo.Topology {
	t.Helper()
	text := "mesh_descriptors { name: \"M\" arch: WORMHOLE_B0 device_topology { dims: [ 4, 4 ] dim_types: [ LINE, RING ] } channels { count: 2 } }\n" +
		"graph_descriptors { name: \"G\" type: \"FABRIC\" instances { mesh { mesh_descriptor: \"M\" mesh_id: 0 } } instances { mesh { mesh_descriptor: \"M\" mesh_id: 1 } }\n" +
		" instances { mesh { mesh_descriptor: \"M\" mesh_id: 2 } } graph_topology: RING channels { count: 2 } }\ntop_level_instance { graph { graph_descriptor: \"G\" graph_id: 0 } }\n"
	m, err := topo.Load("tori.textproto", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMeshesThatWrap finds that a ring of meshes whose axes wrap is free of deadlock with Dateline
// and with Bubble. Any single cable may be missing. With NoRing, the machine can deadlock.
func TestMeshesThatWrap(t *testing.T) {
	m := meshesThatWrap(t)
	for _, cfg := range []Config{{}, {Order: YX}, {Ring: Bubble}, {Ring: Bubble, Order: YX}, {Engine: "updown"}, {Ring: NoRing, OneWay: true}} {
		p, err := New(m, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if v := p.Check(p.Multicasts()); (v.Cycle != nil) != (cfg.Ring == NoRing) || v.Unreachable != 0 {
			t.Errorf("%+v: %s", cfg, &v)
		}
	}
	for _, c := range m.Cables {
		for _, ring := range []Ring{Dateline, Bubble} {
			p, err := New(m, Config{Ring: ring})
			if err != nil {
				t.Fatal(err)
			}
			if v := p.Around([]wire.PortID{c.A}).Check(p.Multicasts()); !v.OK() {
				t.Errorf("%s without %s–%s: %s", ring, c.A, c.B, &v)
			}
		}
	}
}

// TestTableOfChannels compares the table of channels in the router's README with the plans. The
// specification leaves this table open ("TODO: Add a table here", §3.1.2). Packets must use exactly
// the virtual channels of the table, and exactly these channels must have slots. The number of
// sender channels must be that of the table.
func TestTableOfChannels(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) == 4 {
			rows[cells[0]] = cells[1:]
		}
	}
	tori := meshesThatWrap(t)
	for row, c := range map[string]struct {
		machine *topo.Topology
		cfg     Config
	}{
		"1D line":                            {machine(t, "line:4"), Config{}},
		"1D ring, dateline":                  {machine(t, "ring:5"), Config{}},
		"1D ring, bubble":                    {machine(t, "ring:5"), Config{Ring: Bubble}},
		"2D mesh":                            {machine(t, "mesh:3x3"), Config{}},
		"2D torus, dateline":                 {machine(t, "torus:4x4"), Config{}},
		"2D torus, bubble":                   {machine(t, "torus:4x4"), Config{Ring: Bubble}},
		"several meshes":                     {machine(t, "spec-l1"), Config{}},
		"several meshes that wrap, dateline": {tori, Config{}},
	} {
		p, err := New(c.machine, c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if rows[row] == nil {
			t.Errorf("the table has no row %s", row)
			continue
		}
		used, senders := channelsUsed(t, p)
		named, slots := map[string]bool{}, map[string]bool{}
		for name := range strings.SplitSeq(rows[row][2], ", ") {
			named[name] = true
		}
		for v, has := range p.VCs() {
			if has && !wire.VC(v).Detour() {
				slots[wire.VC(v).String()] = true
			}
		}
		if !maps.Equal(named, used) || !maps.Equal(named, slots) {
			t.Errorf("%s: the table says %v, packets take %v, slots have %v", row, slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(slots)))
		}
		if rows[row][0] != fmt.Sprint(senders) || rows[row][1] != "1" {
			t.Errorf("%s: the table says %s sender and %s receiver channels, packets need %d and 1", row, rows[row][0], rows[row][1], senders)
		}
	}
}
