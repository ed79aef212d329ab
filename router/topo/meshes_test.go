package topo

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
)

// TestSpecL1HasTheExitsOfTheFigure finds that spec-l1 has exactly the exits of the figure in Spec
// §2.2.1.1.1. The figure has all exit nodes of the table in Spec §2.2.1.2.1.
func TestSpecL1HasTheExitsOfTheFigure(t *testing.T) {
	topo := mustName(t, "spec-l1")
	var got []string
	for _, m := range topo.Meshes {
		if m.Rows != 3 || m.Cols != 3 {
			t.Errorf("mesh %d is %s: \"Each mesh has 9 devices\"", m.ID, m.Shape())
		}
		for _, p := range topo.Exits(m.ID, m.ID) {
			if p.Plane == 0 {
				got = append(got, fmt.Sprintf("%s %s %s", p.Local.Node, p.Dir, p.Peer.Node))
			}
		}
	}
	want := []string{"M0D5 E M1D3", "M0D6 S M2D0", "M0D8 S M2D2", "M1D3 W M0D5", "M1D8 S M3D2", "M2D0 N M0D6", "M2D2 N M0D8", "M2D8 E M3D6", "M3D2 N M1D8", "M3D6 W M2D8"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, pair := range [][2]wire.MeshID{{0, 3}, {1, 2}} {
		if len(topo.Exits(pair[0], pair[1])) != 0 {
			t.Errorf("meshes %v are joined: \"There is no direct route between M0, M3 or M1, M2\"", pair)
		}
	}
	if got := topo.Peers(2); !slices.Equal(got, []wire.MeshID{0, 3}) {
		t.Errorf("mesh 2's peers are %v", got)
	}
}

// TestPortsAndNeighboursOfEveryBuiltIn finds for all built-in machines that Ports and Neighbour
// agree, and that each port is the peer of its peer.
func TestPortsAndNeighboursOfEveryBuiltIn(t *testing.T) {
	for _, b := range Builders {
		topo := mustName(t, b.Example)
		ports := 0
		for _, c := range topo.Chips {
			for _, p := range topo.Ports(c.Node) {
				ports++
				n, ok := topo.Neighbour(c.Node, p.Dir, p.Plane)
				if !ok || n != p.Peer.Node {
					t.Fatalf("%s: %s %s plane %d is %v %v, the port says %v", b.Example, c.Node, p.Dir, p.Plane, n, ok, p.Peer)
				}
				back := slices.IndexFunc(topo.Ports(n), func(q Port) bool { return q.Local == p.Peer && q.Peer == p.Local && q.Plane == p.Plane })
				if back < 0 {
					t.Fatalf("%s: %v does not lead back", b.Example, p)
				}
			}
		}
		if ports != 2*len(topo.Cables) {
			t.Errorf("%s: %d ports of %d cables", b.Example, ports, len(topo.Cables))
		}
	}
}

func TestWrapsLeadAround(t *testing.T) {
	topo := mustName(t, "torus:3x4")
	for _, c := range []struct {
		from wire.ChipID
		dir  wire.Direction
		to   wire.ChipID
	}{{0, wire.West, 3}, {3, wire.East, 0}, {0, wire.North, 8}, {8, wire.South, 0}, {11, wire.East, 8}, {11, wire.South, 3}} {
		if n, ok := topo.Neighbour(wire.FabricNodeID{Chip: c.from}, c.dir, 1); !ok || n.Chip != c.to {
			t.Errorf("%s of D%d is %v %v, want D%d", c.dir, c.from, n, ok, c.to)
		}
	}
	if _, ok := mustName(t, "torus-x:3x4").Neighbour(wire.FabricNodeID{}, wire.North, 0); ok {
		t.Error("rows of a torus-x wrap")
	}
}

func TestNeighbourDoesNotAllocate(t *testing.T) {
	topo := mustName(t, "spec-l1")
	from := wire.FabricNodeID{Mesh: 3, Chip: 6}
	if n := testing.AllocsPerRun(100, func() { topo.Neighbour(from, wire.West, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// twin returns two meshes of 1×2 chips with planesA and planesB planes. A mesh with 0 planes has
// only one chip. The argument "between" is the number of cables between the meshes, from the east
// of the first to the west of the second.
func twin(t *testing.T, planesA, planesB, between int) *Topology {
	d := newDraft("twin", "test", wire.Wormhole)
	for i, n := range []int{planesA, planesB} {
		m := Mesh{ID: wire.MeshID(3 * i), Rows: 1, Cols: 2}
		if n == 0 {
			m.Cols = 1
		}
		if err := d.addMesh(m, n, n); err != nil {
			t.Fatal(err)
		}
	}
	from := max(0, d.first[3]-1)
	if err := d.cable(from, d.first[3], wire.East, wire.West, between); err != nil {
		t.Fatal(err)
	}
	topo, err := d.finish()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// TestPlanesOfSeveralMeshes finds which cables between two meshes are unused: those beyond the
// smaller number of planes. A mesh of one chip has no limit.
func TestPlanesOfSeveralMeshes(t *testing.T) {
	for _, c := range []struct{ a, b, between, planes, used int }{
		{2, 2, 2, 2, 2}, {4, 2, 4, 4, 2}, {2, 4, 1, 4, 1}, {0, 3, 4, 3, 3}, {0, 0, 4, 4, 4}, {4, 0, 2, 4, 2},
	} {
		topo := twin(t, c.a, c.b, c.between)
		if topo.Planes() != c.planes || topo.MeshPlanes(0) != c.a || topo.MeshPlanes(3) != c.b || topo.MeshPlanes(1) != 0 || len(topo.Exits(0, 3)) != c.used || len(topo.Exits(3, 3)) != c.used {
			t.Errorf("%v: planes %d, of the meshes %d and %d; %d exits used", c, topo.Planes(), topo.MeshPlanes(0), topo.MeshPlanes(3), len(topo.Exits(0, 3)))
		}
	}
}

func TestValidateSeveralMeshes(t *testing.T) {
	last := func(t *Topology) *Cable { // a cable between meshes 2 and 3
		return &t.Cables[slices.IndexFunc(t.Cables, func(c Cable) bool { return c.A.Node.Mesh == 2 && c.External() })]
	}
	for _, c := range []struct {
		name   string
		change func(*Topology)
		want   string
	}{
		{"order", func(t *Topology) { t.Meshes[1], t.Meshes[2] = t.Meshes[2], t.Meshes[1] }, "mesh 1 follows mesh 2: meshes must be sorted by id"},
		{"twice", func(t *Topology) { t.Meshes[1].ID = 0 }, "mesh 0 follows mesh 0"},
		{"too many", func(t *Topology) { t.Meshes = make([]Mesh, 1025) }, "1025 meshes: want 1 to 1024"},
		{"a mesh without chips", func(t *Topology) { t.Meshes[3].ID = 7 }, "found chip M3D0 instead of chip M7D0"},
		{"chips without a mesh", func(t *Topology) { t.Meshes = t.Meshes[:3] }, "chip M3D0: there is no mesh 3"},
		{"wrap", func(t *Topology) { t.Meshes[1].WrapX = true }, "no cable joins the neighbours M1D2 and M1D0"},
		{"dir", func(t *Topology) { last(t).Dir = 5 }, "has directions 5 and 1: want numbers below 5"},
		{"taken direction", func(t *Topology) { last(t).Dir = wire.West }, "plane"},
		{"back", func(t *Topology) { t.Cables[0].Back = wire.North }, "has direction N at its upper end: want W"},
	} {
		topo := mustName(t, "spec-l1")
		c.change(topo)
		if err := topo.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want one with %q", c.name, err, c.want)
		}
	}
	short := mustName(t, "mesh:2x2")
	short.Meshes[0].WrapX = true
	if err := short.Validate(); err == nil || !strings.Contains(err.Error(), "an axis that wraps has at least 3 chips") {
		t.Errorf("a wrap over two chips: %v", err)
	}
	// Chip M0D0 has two exits in one direction, both on plane 0.
	d := newDraft("two exits", "test", wire.Wormhole)
	for id := range wire.MeshID(3) {
		if err := d.addMesh(Mesh{ID: id, Rows: 1, Cols: 1}, 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	for b := 1; b < 3; b++ {
		if err := d.cable(0, b, wire.East, wire.West, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.finish(); err == nil || !strings.Contains(err.Error(), "chip M0D0 has another cable in direction E on plane 0; give this cable a direction that is free at the chip") {
		t.Errorf("two exits in one direction: %v", err)
	}
}

func TestHashCoversWrapsAndDirections(t *testing.T) {
	for name, change := range map[string]func(*Topology){
		"wrap x": func(t *Topology) { t.Meshes[0].WrapX = true },
		"wrap y": func(t *Topology) { t.Meshes[3].WrapY = true },
		"back":   func(t *Topology) { t.Cables[len(t.Cables)-1].Back ^= 2 },
	} {
		a, b := mustName(t, "spec-l1"), mustName(t, "spec-l1")
		if change(b); a.Hash() == b.Hash() {
			t.Errorf("another %s, the same hash", name)
		}
	}
}

// TestTheLargestMachine builds the largest machine of Spec §2.2.1 and calls methods for every chip.
// These methods must not look at all cables.
func TestTheLargestMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const limit = 30 * time.Second // far above the usual time, but below the time of quadratic work
	begin := cpu(t)
	d := newDraft("largest", "test", wire.Wormhole)
	for id := range wire.MeshID(wire.MaxMeshes) {
		if err := d.addMesh(Mesh{ID: id, Rows: 16, Cols: 16, WrapY: true}, 2, 2); err != nil {
			t.Fatal(err)
		}
		if id > 0 {
			if err := d.cable(d.first[id-1]+15, d.first[id], wire.East, wire.West, 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	topo, err := d.finish()
	if err != nil {
		t.Fatal(err)
	}
	ports := 0
	for _, c := range topo.Chips {
		ports += len(topo.Ports(c.Node))
	}
	for _, m := range topo.Meshes {
		ports += len(topo.Peers(m.ID)) + topo.MeshPlanes(m.ID)
	}
	if want := 2*len(topo.Cables) + 2*1023 + 2*1024; ports != want || topo.Hash() == 0 {
		t.Errorf("%s: %d, want %d", topo, ports, want)
	}
	if took := cpu(t) - begin; took > limit {
		t.Errorf("took %s", took)
	}
}

// TestBothFormsAreReadBack finds that every machine can be read back from ttfabric's own form. A
// machine of one mesh can also be read back from a cluster descriptor.
func TestBothFormsAreReadBack(t *testing.T) {
	machines := []*Topology{mustName(t, "mesh:1x1"), mustName(t, "mesh:16x16"), mustName(t, "torus:3x3"), mustName(t, "mesh:8x2"), twin(t, 4, 2, 4), twin(t, 0, 0, 1)}
	for _, b := range Builders {
		machines = append(machines, mustName(t, b.Example))
	}
	for _, f := range descriptors(t) {
		topo, err := load(t, f)
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, topo)
	}
	for _, a := range machines {
		b, err := Load("x", a.Encode())
		if err != nil || !reflect.DeepEqual(a, b) || a.Hash() != b.Hash() {
			t.Errorf("%s: what was read back differs (%v)", a.Name, err)
		}
		umd, err := a.EncodeClusterDescriptor()
		if (err == nil) != (len(a.Meshes) == 1) {
			t.Errorf("%s: as a cluster descriptor: %v", a.Name, err)
		}
		if err != nil {
			continue
		}
		c, err := Load("x", umd)
		if err != nil || a.Hash() != c.Hash() {
			t.Errorf("%s: what was read back as a cluster descriptor differs (%v):\n%s", a.Name, err, umd)
			continue
		}
		for i := range a.Chips {
			if a.Chips[i].UMD != NoUMD && a.Chips[i].UMD != c.Chips[i].UMD {
				t.Errorf("%s: chip %s has UMD id %d, was %d", a.Name, a.Chips[i].Node, c.Chips[i].UMD, a.Chips[i].UMD)
			}
		}
	}
}

func TestBadRenderedMeshes(t *testing.T) {
	good := string(mustName(t, "2xt3000").Encode())
	for _, c := range []struct{ name, old, with, want string }{
		{"no dir", "      dir: \"N\"\n", "", "f:79: the cable joins meshes 0 and 1: want the keys \"dir\" and \"back\", the directions in which the cable leaves a and b"},
		{"dir", "dir: \"N\"", "dir: Up", `f:81: direction "Up": want E, W, N, S or Z`},
		{"dir within", "      b: M0D4/6\n", "      b: M0D4/6\n      dir: S\n      back: N\n", "f:75: the cable is within mesh 0, and its directions follow from the ids of its chips; remove the keys \"dir\" and \"back\""},
		{"taken", "dir: \"N\"", "dir: S", "f:83: cable mesh 0 chip 1 channel 1 to mesh 1 chip 1 channel 1: chip M1D1 has another cable in direction N on plane 0; give this cable a direction that is free at the chip"},
		{"mesh twice", "- id: 1", "- id: 0", "f:10: mesh 0 is already listed on line 7"},
		{"wrap", "cols: 4\n", "cols: 4\n      wrap_x: 1\n", `f:10: wrap_x "1": want true or false`},
		{"wrap of two", "cols: 4\n", "cols: 4\n      wrap_y: true\n", "f:7: mesh 0 of 2○×4: an axis that wraps has at least 3 chips"},
		{"no cable round", "cols: 4\n", "cols: 4\n      wrap_x: true\n", "no cable joins the neighbours M0D3 and M0D0: a mesh has a cable between any two neighbours; add the cable, or describe a smaller mesh"},
		{"1025 meshes", "meshes:\n", "meshes:\n" + strings.Repeat("    - {}\n", 1023), "f:6: meshes: 1025 entries; want at most 1024"},
	} {
		in := strings.Replace(good, c.old, c.with, 1)
		if in == good {
			t.Fatalf("%s: the form no longer has %q", c.name, c.old)
		}
		_, err := Load("f", []byte(in))
		if err == nil || !strings.HasPrefix(err.Error(), "f:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}
