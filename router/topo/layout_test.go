package topo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
)

// TestBuiltInGalaxyIsTheRealOne compares the built-in Galaxy with the cluster descriptor of a real
// Galaxy, which has no coordinates.
func TestBuiltInGalaxyIsTheRealOne(t *testing.T) {
	real, err := load(t, "6u_cluster_desc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours := mustName(t, "galaxy-umd")
	if !reflect.DeepEqual(ours.Cables, real.Cables) || ours.Hash() != real.Hash() {
		t.Errorf("cables differ:\nours %v\nreal %v", ours.Cables, real.Cables)
	}
	for i := range ours.Chips {
		o, r := ours.Chips[i], real.Chips[i]
		if o.Node != r.Node || o.UMD != r.UMD || o.MMIO != r.MMIO || o.Board != r.Board {
			t.Errorf("chip %d: ours %+v, real %+v", i, o, r)
		}
	}
	if want := "the file has no coordinates: laid out from the cabling, chip 0 in the north-west corner, chip 4 east and chip 16 south of it"; real.Layout != want {
		t.Errorf("layout %q, want %q", real.Layout, want)
	}
}

// TestGalaxyHasTheSpecificationsShape compares the Galaxy of 8 rows and 4 columns with the Galaxy of
// 4 rows and 8 columns. Both must have the same cables between the same chips of tt-umd. The
// numbers of the chips must be those of the figures of Spec §3, where chip 4 is south of chip 0.
func TestGalaxyHasTheSpecificationsShape(t *testing.T) {
	type end struct {
		chip    int
		channel wire.Channel
	}
	ends := func(m *Topology) map[[2]end]bool {
		out := map[[2]end]bool{}
		umd := func(p wire.PortID) end {
			c, _ := m.Chip(p.Node)
			return end{c.UMD, p.Channel}
		}
		for _, c := range m.Cables {
			a, b := umd(c.A), umd(c.B)
			out[[2]end{a, b}], out[[2]end{b, a}] = true, true
		}
		return out
	}
	tall, wide := mustName(t, "galaxy"), mustName(t, "galaxy-umd")
	if !reflect.DeepEqual(ends(tall), ends(wide)) || len(tall.Cables) != 208 {
		t.Errorf("%d cables; the two shapes have different cables", len(tall.Cables))
	}
	if m := tall.Meshes[0]; m.Rows != 8 || m.Cols != 4 || tall.Planes() != 4 {
		t.Errorf("%+v with %d planes", m, tall.Planes())
	}
	for i := range tall.Chips {
		node := tall.Chips[i].Node
		for d, to := range map[wire.Direction]int{wire.East: i + 1, wire.South: i + 4} {
			inside := d == wire.East && i%4 < 3 || d == wire.South && i/4 < 7
			for p := range wire.Plane(4) {
				if got, ok := tall.Neighbour(node, d, p); ok != inside || ok && int(got.Chip) != to {
					t.Errorf("chip %d, %s, plane %d: %s %v, want chip %d", i, d, p, got, ok, to)
				}
			}
		}
	}
}

// withoutPlaces returns a cluster descriptor of t without coordinates. Chip i of t has the id
// ids[i].
func withoutPlaces(t *Topology, ids []int) []byte {
	var b strings.Builder
	b.WriteString("arch:\n")
	for i := range t.Chips {
		fmt.Fprintf(&b, "  %d: %s\n", ids[i], t.Arch)
	}
	b.WriteString("ethernet_connections:\n")
	for _, c := range t.Cables {
		fmt.Fprintf(&b, " - [{chip: %d, chan: %d}, {chip: %d, chan: %d}]\n", ids[c.A.Node.Chip], c.A.Channel, ids[c.B.Node.Chip], c.B.Channel)
	}
	return []byte(b.String())
}

// TestLayoutFollowsFromTheCabling finds that Load recovers every grid from its cables, for any
// order of the chip ids. The result is the same each time, and the search is fast.
func TestLayoutFollowsFromTheCabling(t *testing.T) {
	const limit = time.Second
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"n300", "t3000", "galaxy-umd", "line:2", "line:7", "line:256", "ring:3", "ring:5", "ring:256", "mesh:2x2", "mesh:3x3", "mesh:2x9", "mesh:16x16",
		"torus:3x3", "torus:3x4", "torus:4x4", "torus:4x8", "torus:5x5", "torus:16x16", "torus:4x64", "torus-x:2x4", "torus-x:3x5", "torus-x:4x4", "torus-x:8x32",
		"torus-y:3x4", "torus-y:4x8", "torus-y:8x32"} {
		want := mustName(t, name)
		ids := r.Perm(len(want.Chips))
		in := withoutPlaces(want, ids)
		begin := cpu(t)
		got, err := Load("f", in)
		if took := cpu(t) - begin; took > limit {
			t.Errorf("%s took %s", name, took)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Meshes[0] != want.Meshes[0] || got.Planes() != want.Planes() || len(got.Cables) != len(want.Cables) {
			t.Errorf("%s: laid out as %s", name, got)
		}
		again, err := Load("f", in)
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%s: Load lays the chips out differently the second time", name)
		}
		corner := got.Chips[0].UMD
		if m := got.Meshes[0]; m.WrapX && (m.WrapY || m.Rows == 1) && corner != 0 {
			t.Errorf("%s: chip %d in the north-west corner, want 0", name, corner)
		}
	}
	if got, err := Load("f", withoutPlaces(mustName(t, "ring:4"), []int{0, 1, 2, 3})); err != nil || got.Meshes[0] != (Mesh{Rows: 2, Cols: 2}) {
		t.Errorf("a ring of 4 chips is read as %v %v, want the mesh 2×2, which has fewer wraps", got, err)
	}
	if got, err := Load("f", withoutPlaces(mustName(t, "mesh:8x2"), r.Perm(16))); err != nil || got.Meshes[0] != (Mesh{Rows: 2, Cols: 8}) {
		t.Errorf("mesh:8x2 is read as %v %v, want a mesh of 2 rows and 8 columns", got, err)
	}
}

// TestShelvesAreLaidOutByTheCabling finds that Load uses the cables if chips are on several
// shelves, because each shelf has coordinates of its own.
func TestShelvesAreLaidOutByTheCabling(t *testing.T) {
	b, err := mustName(t, "torus:3x4").EncodeClusterDescriptor()
	if err != nil {
		t.Fatal(err)
	}
	want, in := mustName(t, "torus:3x4"), string(b)
	for chip := 6; chip < 12; chip++ {
		in = strings.Replace(in, fmt.Sprintf("%d: [%d, %d, 0, 0]", chip, chip%4, chip/4), fmt.Sprintf("%d: [%d, 0, 0, 1]", chip, chip-6), 1)
	}
	got, err := Load("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if got.Meshes[0] != want.Meshes[0] || !strings.HasPrefix(got.Layout, "chip 0 is on rack 0 shelf 0 and chip 6 on rack 0 shelf 1, and each shelf has coordinates of its own: laid out from the cabling, chip 0 in the north-west corner") {
		t.Errorf("%v: %s", got, got.Layout)
	}
}

func TestNoLayout(t *testing.T) {
	star := &Topology{Arch: wire.Wormhole, Chips: make([]Chip, 6)}
	tee := &Topology{Arch: wire.Wormhole, Chips: make([]Chip, 4)}
	cut := mustName(t, "mesh:4x4") // more than a quarter of the neighbours have no cable
	cut.Cables = slices.DeleteFunc(cut.Cables, func(c Cable) bool {
		return c.A.Node.Chip >= 1 && c.A.Node.Chip <= 10 && c.A.Node.Chip%4 != 0 && c.Dir == wire.South
	})
	for i := range 5 {
		c := Cable{A: wire.PortID{Channel: wire.Channel(i)}, B: wire.PortID{Node: wire.FabricNodeID{Chip: wire.ChipID(i + 1)}}}
		star.Cables = append(star.Cables, c)
		if i < 3 {
			tee.Cables = append(tee.Cables, c)
		}
	}
	for _, c := range []struct {
		topo *Topology
		want string
	}{
		{star, "but chip 0 has cables to 5 other chips, and a chip of a mesh has at most 4 neighbours, because a third dimension is not supported; give"},
		{tee, "but the cables fit no line, ring, mesh or torus of 4 chips (there are cables from 3 chips to 1 other, 1 chip to 3 others)"},
		{cut, "(there are cables from 2 chips to 1 other, 12 chips to 2 others, 2 chips to 3 others)"},
	} {
		ids := make([]int, len(c.topo.Chips))
		for i := range ids {
			ids[i] = i
		}
		topo, err := Load("f", withoutPlaces(c.topo, ids))
		var e *Error
		if !errors.Is(err, ErrNoLayout) || !errors.As(err, &e) || e.Line != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v %v, want %q", topo, err, c.want)
		}
	}
}

// TestHostileCablingEndsSoon finds that the search for a grid is fast even for cables that mislead
// the search.
func TestHostileCablingEndsSoon(t *testing.T) {
	const limit = 2 * time.Second
	r := rand.New(rand.NewPCG(3, 4))
	for range 3 {
		topo := mustName(t, "torus:16x16")
		for range 40 { // exchange the ends of two cables: each chip still has cables to four chips
			a, b := &topo.Cables[r.IntN(len(topo.Cables))], &topo.Cables[r.IntN(len(topo.Cables))]
			a.B, b.B = b.B, a.B
		}
		ids := r.Perm(256)
		begin := cpu(t)
		_, err := Load("f", withoutPlaces(topo, ids))
		if took := cpu(t) - begin; err == nil || took > limit {
			t.Errorf("%v after %s", err, took)
		}
	}
	for range 3 { // each chip has cables to about six chips, and the cables contain a torus that lacks a few edges
		topo := mustName(t, "torus:16x16")
		lacks := map[wire.ChipID]bool{}
		for range 5 {
			lacks[wire.ChipID(r.IntN(256))] = true
		}
		topo.Cables = slices.DeleteFunc(topo.Cables, func(c Cable) bool { return c.Dir == wire.East && lacks[c.A.Node.Chip] })
		step := 2*r.IntN(50) + 35
		for i := range 256 {
			topo.Cables = append(topo.Cables, Cable{A: wire.PortID{Node: wire.FabricNodeID{Chip: wire.ChipID(i)}, Channel: 2}, B: wire.PortID{Node: wire.FabricNodeID{Chip: wire.ChipID((i + step) % 256)}, Channel: 6}})
		}
		begin := cpu(t)
		got, err := Load("f", withoutPlaces(topo, r.Perm(256)))
		if took := cpu(t) - begin; took > limit {
			t.Errorf("%v, %v after %s", got, err, took)
		} else {
			t.Logf("%v, %.90v after %s", got, err, took)
		}
	}
}

// TestLayoutWithinAThirdDimension finds that Load finds a torus or mesh even if some chips have
// cables to a fifth or sixth chip. Load leaves out the extra cables. An example is tt-umd's
// blackhole_galaxy.yaml, a torus of 4×8 chips with four extra edges.
func TestLayoutWithinAThirdDimension(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		name  string
		extra [][2]int // pairs of chips with an extra cable
	}{
		{"torus:4x8", [][2]int{{2, 5}, {10, 13}, {18, 21}, {26, 29}}},
		{"torus:4x8", [][2]int{{0, 31}}},
		{"torus:3x3", [][2]int{{0, 4}}},
		{"mesh:4x4", [][2]int{{5, 15}, {6, 12}, {9, 3}, {10, 0}}},
		{"torus-x:4x8", [][2]int{{9, 20}, {11, 22}, {13, 24}}},
		{"torus:16x16", [][2]int{{0, 100}, {50, 200}, {17, 99}}},
	} {
		m := mustName(t, c.name)
		for i, e := range c.extra {
			m.Cables = append(m.Cables, Cable{A: wire.PortID{Node: wire.FabricNodeID{Chip: wire.ChipID(e[0])}, Channel: wire.Channel(2 + i%2)}, B: wire.PortID{Node: wire.FabricNodeID{Chip: wire.ChipID(e[1])}, Channel: wire.Channel(6 + i%2)}})
		}
		got, err := Load("f", withoutPlaces(m, r.Perm(len(m.Chips))))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want := mustName(t, c.name)
		if got.Meshes[0] != want.Meshes[0] || got.Planes() != want.Planes() || len(got.Cables) != len(want.Cables) {
			t.Errorf("%s with %v: laid out as %s", c.name, c.extra, got)
		}
		if want := []LeftOut{{len(c.extra), "cables between chips that are not neighbours in the grid", "a mesh has two dimensions"}}; !slices.Equal(got.LeftOut, want) {
			t.Errorf("%s: left out %v, want %v", c.name, got.LeftOut, want)
		}
	}
}
