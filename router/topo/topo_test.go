package topo

import (
	"reflect"
	"strings"
	"testing"

	"ttfabric/wire"
)

// TestBuiltInT3000IsTheRealOne compares the built-in T3000 with the cluster descriptor of a real
// T3000.
func TestBuiltInT3000IsTheRealOne(t *testing.T) {
	real, err := load(t, "t3k_cluster_desc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(ours.Cables, real.Cables) {
		t.Errorf("cables differ:\nours %v\nreal %v", ours.Cables, real.Cables)
	}
	for i := range ours.Chips {
		o, r := ours.Chips[i], real.Chips[i]
		if o.Node != r.Node || o.UMD != r.UMD || o.MMIO != r.MMIO || o.Board != r.Board {
			t.Errorf("chip %d: ours %+v, real %+v", i, o, r)
		}
	}
}

func TestPortsAndNeighbours(t *testing.T) {
	topo, _ := Named("mesh:4x8")
	for _, c := range topo.Chips {
		for _, p := range topo.Ports(c.Node) {
			n, ok := topo.Neighbour(c.Node, p.Dir, p.Plane)
			if !ok || n != p.Peer.Node {
				t.Fatalf("%s %s plane %d: neighbour %v %v, port says %v", c.Node, p.Dir, p.Plane, n, ok, p.Peer)
			}
			back, ok := topo.Neighbour(n, p.Dir.Opposite(), p.Plane)
			if !ok || back != c.Node {
				t.Fatalf("%s %s plane %d does not lead back", c.Node, p.Dir, p.Plane)
			}
		}
	}
	if d, _ := topo.Neighbour(wire.FabricNodeID{Chip: 0}, wire.South, 1); d.Chip != 8 {
		t.Errorf("south of chip 0 in 4×8 is %v, want 8", d)
	}
}

func TestFewerPlanesThanCables(t *testing.T) {
	base, _ := Named("mesh:1x3")
	y := strings.Replace(string(base.Encode()), "    - a: M0D1/1\n      b: M0D2/5\n", "", 1)
	topo, err := Load("x", []byte(y))
	if err != nil {
		t.Fatal(err)
	}
	if topo.Planes() != 1 || len(topo.Cables) != 3 || len(topo.Ports(wire.FabricNodeID{Chip: 0})) != 1 {
		t.Errorf("%s with %d ports on chip 0; want 1 plane and 1 port", topo, len(topo.Ports(wire.FabricNodeID{Chip: 0})))
	}
}

func TestNamedErrors(t *testing.T) {
	for _, name := range []string{"t4000", "mesh:0x4", "mesh:4", "mesh:17x16", "mesh:-1x4", "mesh:99999999999x1"} {
		if topo, err := Named(name); err == nil {
			t.Errorf("%s: got %s", name, topo)
		}
	}
}

// TestNeighbourAgreesWithTheCables compares Neighbour with a search of all ports, for every chip,
// direction and plane.
func TestNeighbourAgreesWithTheCables(t *testing.T) {
	odd, err := Load("f", []byte(strings.Replace(string(mustName(t, "mesh:3x3").Encode()), "    - a: M0D1/1\n      b: M0D2/5\n", "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, topo := range []*Topology{mustName(t, "t3000"), mustName(t, "n300"), mustName(t, "mesh:1x1"), mustName(t, "mesh:1x5"), mustName(t, "mesh:5x1"), odd} {
		for n := range wire.ChipID(len(topo.Chips) + 2) {
			for d := range wire.Direction(wire.NumDirections + 1) {
				for p := range wire.Plane(4) {
					from := wire.FabricNodeID{Chip: n}
					got, ok := topo.Neighbour(from, d, p)
					want, wantOK := naiveNeighbour(topo, from, d, p)
					if got != want || ok != wantOK {
						t.Fatalf("%s: %s of %s on plane %d is %v %v, want %v %v", topo, d, from, p, got, ok, want, wantOK)
					}
				}
			}
		}
	}
	if n, ok := mustName(t, "t3000").Neighbour(wire.FabricNodeID{Mesh: 1}, wire.East, 0); ok {
		t.Errorf("a chip of a mesh that isn't there has the neighbour %s", n)
	}
}

func naiveNeighbour(t *Topology, n wire.FabricNodeID, d wire.Direction, p wire.Plane) (wire.FabricNodeID, bool) {
	for _, port := range t.Ports(n) {
		if port.Dir == d && port.Plane == p {
			return port.Peer.Node, true
		}
	}
	return wire.FabricNodeID{}, false
}

func mustName(t testing.TB, name string) *Topology {
	t.Helper()
	topo, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// TestHashIsTheWiring finds that two descriptions of one machine have the same hash, and that any
// change of the wiring changes the hash.
func TestHashIsTheWiring(t *testing.T) {
	base := mustName(t, "t3000")
	real, err := load(t, "t3k_cluster_desc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if base.Hash() != real.Hash() {
		t.Error("the built-in T3000 and the real one's descriptor have different hashes")
	}
	for name, change := range map[string]func(*Topology){
		"arch":    func(t *Topology) { t.Arch = wire.Blackhole },
		"mesh":    func(t *Topology) { t.Meshes[0].ID = 1 },
		"rows":    func(t *Topology) { t.Meshes[0].Rows, t.Meshes[0].Cols = 4, 2 },
		"channel": func(t *Topology) { t.Cables[3].B.Channel = 10 },
		"cable":   func(t *Topology) { t.Cables = t.Cables[1:] },
		"plane":   func(t *Topology) { t.Cables[0].Plane, t.Cables[1].Plane = 1, 0 },
		"unused":  func(t *Topology) { t.Cables[1].Unused = true },
	} {
		other := mustName(t, "t3000")
		change(other)
		if other.Hash() == base.Hash() {
			t.Errorf("another %s, the same hash", name)
		}
	}
}

// TestPlanesFollowTheLowerEnd finds that cable k of an edge is on plane k, if the cables are sorted
// by the channel at their lower ends.
func TestPlanesFollowTheLowerEnd(t *testing.T) {
	topo, err := Load("f", []byte("arch: {5: wormhole_b0, 9: wormhole_b0}\nchips: {5: [3,7,1,2], 9: [2,7,1,2]}\n"+
		"ethernet_connections: [[{chip: 5, chan: 1}, {chip: 9, chan: 9}], [{chip: 5, chan: 0}, {chip: 9, chan: 3}], [{chip: 9, chan: 4}, {chip: 5, chan: 15}]]"))
	if err != nil {
		t.Fatal(err)
	}
	w, e := wire.FabricNodeID{Chip: 0}, wire.FabricNodeID{Chip: 1}
	want := []Cable{
		{wire.PortID{Node: w, Channel: 3}, wire.PortID{Node: e, Channel: 0}, wire.East, wire.West, 0, false},
		{wire.PortID{Node: w, Channel: 4}, wire.PortID{Node: e, Channel: 15}, wire.East, wire.West, 1, false},
		{wire.PortID{Node: w, Channel: 9}, wire.PortID{Node: e, Channel: 1}, wire.East, wire.West, 2, false},
	}
	if !reflect.DeepEqual(topo.Cables, want) {
		t.Errorf("got %v, want %v", topo.Cables, want)
	}
	if c, ok := topo.Chip(e); !ok || c.UMD != 5 || c.Row != 0 || c.Col != 1 || c.UniqueID != 5<<32 {
		t.Errorf("the east chip is %+v", c)
	}
}

// TestValidate finds that Validate returns an error for each kind of mistake in a topology.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Topology)
		want   string
	}{
		{"arch", func(t *Topology) { t.Arch = 0 }, "unknown architecture"},
		{"no mesh", func(t *Topology) { t.Meshes = nil }, "0 meshes"},
		{"two meshes", func(t *Topology) { t.Meshes = append(t.Meshes, Mesh{ID: 1, Rows: 1, Cols: 1}) }, "0 chips in a 1×1 mesh"},
		{"mesh id", func(t *Topology) { t.Meshes[0].ID = wire.MaxMeshes }, "mesh id 1024"},
		{"size", func(t *Topology) { t.Meshes[0].Rows = 0 }, "mesh of 0×4"},
		{"overflow", func(t *Topology) { t.Meshes[0].Rows, t.Meshes[0].Cols = 1<<32, 1<<32 }, "at most 256 chips"},
		{"missing chip", func(t *Topology) { t.Chips = t.Chips[:7] }, "7 chips in a 2×4 mesh"},
		{"extra chip", func(t *Topology) { t.Chips = append(t.Chips, Chip{}) }, "one chip too many for the 2×4 mesh"},
		{"order", func(t *Topology) { t.Chips[0], t.Chips[1] = t.Chips[1], t.Chips[0] }, "found chip M0D1 instead of chip M0D0"},
		{"place", func(t *Topology) { t.Chips[2].Row = 1 }, "its id stands for row 0 and column 2"},
		{"umd", func(t *Topology) { t.Chips[2].UMD = -2 }, "UMD id -2"},
		{"umd twice", func(t *Topology) { t.Chips[2].UMD = 4 }, "chips M0D0 and M0D2 both have UMD id 4"},
		{"ends", func(t *Topology) { c := &t.Cables[0]; c.A, c.B = c.B, c.A }, "the lower end must come first"},
		{"cable order", func(t *Topology) { t.Cables[0], t.Cables[1] = t.Cables[1], t.Cables[0] }, "cables must be sorted"},
		{"stranger", func(t *Topology) { t.Cables[19].B.Node.Chip = 8 }, "there is no chip M0D8"},
		{"channel", func(t *Topology) { t.Cables[19].B.Channel = 16 }, "wormhole_b0 has channels 0 to 15"},
		{"used twice", func(t *Topology) { t.Cables[1].B = t.Cables[0].B }, "another cable uses"},
		{"far", func(t *Topology) { t.Cables[0].B.Node.Chip = 2 }, "must join neighbours"},
		{"direction", func(t *Topology) { t.Cables[0].Dir = wire.West }, "has direction W: want E"},
		{"plane", func(t *Topology) { t.Cables[0].Plane = 1 }, "has plane 1 and unused false: want plane 0 and unused false"},
		{"unused", func(t *Topology) { t.Cables[0].Unused = true }, "unused true: want plane 0 and unused false"},
		{"edge", func(t *Topology) { t.Cables = t.Cables[2:] }, "no cable joins the neighbours M0D0 and M0D1"},
	} {
		topo := mustName(t, "t3000")
		if err := topo.Validate(); err != nil {
			t.Fatal(err)
		}
		c.change(topo)
		if err := topo.Validate(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "topology t3000: ") {
			t.Errorf("%s: got %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestEveryBuilderBuilds(t *testing.T) {
	for _, b := range Builders {
		name, planes := b.Example, 2
		if strings.HasPrefix(name, "galaxy") {
			planes = 4
		}
		topo, err := Named(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if topo.Name != name || topo.Validate() != nil || topo.Planes() != planes {
			t.Errorf("%s: got %s", name, topo)
		}
		if _, err := Named("nonsense"); err == nil || !strings.Contains(err.Error(), b.Name) {
			t.Errorf("the error for an unknown name doesn't list %s: %v", b.Name, err)
		}
	}
}
