package topo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ttfabric/wire"
)

// descriptorWithZ returns a cluster descriptor of Blackhole chips with the cables of the given topologies,
// one after the other, and with further cables in direction Z on channels 8 and 9. The chips are on
// boards of the given type.
func descriptorWithZ(board string, z [][2]int, parts ...*Topology) string {
	var b, list strings.Builder
	n := 0
	b.WriteString("ethernet_connections:\n")
	for _, t := range parts {
		used := map[wire.FabricNodeID]int{} // channels 0 to 7 carry the cables of the grid
		next := func(c wire.FabricNodeID) (int, int) {
			used[c]++
			return n + int(c.Chip), used[c] - 1
		}
		for _, c := range t.Cables {
			a, ca := next(c.A.Node)
			o, co := next(c.B.Node)
			fmt.Fprintf(&b, " - [{chip: %d, chan: %d}, {chip: %d, chan: %d}]\n", a, ca, o, co)
		}
		n += len(t.Chips)
	}
	for _, e := range z {
		for ch := 8; ch < 10; ch++ {
			fmt.Fprintf(&b, " - [{chip: %d, chan: %d}, {chip: %d, chan: %d}]\n", e[0], ch, e[1], ch)
		}
	}
	b.WriteString("arch:\n")
	for i := range n {
		fmt.Fprintf(&b, " %d: blackhole\n", i)
		fmt.Fprintf(&list, "%d, ", i)
	}
	return b.String() + "boards: [[{board_id: 1}, {board_type: " + board + "}, {chips: [" + strings.TrimSuffix(list.String(), ", ") + "]}]]\n"
}

// TestZCablesAreNoRows finds that Load takes no rows or columns from the cables of a Blackhole
// Galaxy that are wired for a third dimension, as in tt-metal's bh_galaxy_xyz_cluster_desc.yaml.
func TestZCablesAreNoRows(t *testing.T) {
	torus := func() *Topology { return mustName(t, "torus:4x8") }
	cut := torus() // two crossed cables instead of straight ones, as in tt-umd's blackhole_galaxy.yaml
	cut.Cables = slices.DeleteFunc(cut.Cables, func(c Cable) bool {
		return c.A.Node.Chip == 1 && c.B.Node.Chip == 2 || c.A.Node.Chip == 9 && c.B.Node.Chip == 10
	})
	cut.Cables = append(cut.Cables, Cable{A: wire.PortID{Node: wire.FabricNodeID{Chip: 1}}, B: wire.PortID{Node: wire.FabricNodeID{Chip: 10}}})
	beside := [][2]int{{0, 8}, {1, 2}, {9, 10}, {4, 12}, {31, 24}} // beside cables of the grid
	across := [][2]int{{0, 9}, {5, 31}, {17, 3}}                   // between chips that are not neighbours
	zOut := func(n int) LeftOut {
		return LeftOut{n, "cables in direction Z within a mesh", "a mesh has two dimensions"}
	}
	for _, c := range []struct {
		name, in, want string
		missing, exits int
		out            []LeftOut
	}{
		{"beside", descriptorWithZ("ubb_blackhole", beside, torus()), "f: 32 chips 4○×8○, 128 cables, 2 planes", 0, 0, []LeftOut{zOut(10)}},
		{"across", descriptorWithZ("UBB_BLACKHOLE", across, torus()), "f: 32 chips 4○×8○, 128 cables, 2 planes", 0, 0, []LeftOut{zOut(6)}},
		{"crossed", descriptorWithZ("ubb_blackhole", beside, cut), "f: 32 chips 4○×8○, 124 cables, 2 planes", 2, 0, []LeftOut{zOut(10), {1, "cables between chips that are not neighbours in the grid", "a mesh has two dimensions"}}},
		{"between meshes", descriptorWithZ("ubb_blackhole", [][2]int{{0, 16}, {5, 21}, {6, 7}}, mustName(t, "torus:4x4"), mustName(t, "torus:4x4")), "f: 32 chips in 2 meshes 4○×4○, 132 cables, 2 planes", 0, 4, []LeftOut{zOut(2)}},
		{"another board", descriptorWithZ("p150", beside, torus()), "f: 32 chips 4○×8○, 138 cables (10 unused), 2 planes", 0, 0, nil},
	} {
		m, err := Load("f", []byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if m.String() != c.want || len(m.Missing) != c.missing || !slices.Equal(m.LeftOut, c.out) {
			t.Errorf("%s: %s, missing %v, left out %v; want %s, %d missing, left out %v", c.name, m, m.Missing, m.LeftOut, c.want, c.missing, c.out)
		}
		n := 0
		for _, x := range m.Cables {
			if x.External() {
				if n++; x.Dir != wire.Z || x.Back != wire.Z {
					t.Errorf("%s: %s-%s has directions %s and %s, want Z", c.name, x.A, x.B, x.Dir, x.Back)
				}
			}
		}
		if n != c.exits {
			t.Errorf("%s: %d cables between meshes, want %d", c.name, n, c.exits)
		}
		reread(t, m)
	}
}

// TestExitsInZ finds that the exits of a torus leave a Blackhole chip in direction Z, so that the
// rings stay closed. On Wormhole, only connections with assign_z_direction leave in direction Z.
func TestExitsInZ(t *testing.T) {
	torus := strings.Replace(m0, "[ 2, 2 ]", "[ 3, 4 ] dim_types: [RING, RING]", 1)
	black := strings.Replace(torus, "WORMHOLE_B0", "BLACKHOLE", 1)
	assign := func(n int) string {
		return connection("mesh_id: 0", "mesh_id: 1", fmt.Sprintf("channels { count: %d } assign_z_direction: true", n))
	}
	plain := connection("mesh_id: 0", "mesh_id: 1", "channels { count: 6 }")
	for _, c := range []struct {
		name, mesh, conn, want string
		z                      int // number of cables in direction Z at both ends
	}{
		{"assigned", black, assign(6), "f: 24 chips in 2 meshes 3○×4○, 102 cables, 2 planes", 6},
		{"assigned, all chips", black, assign(24), "f: 24 chips in 2 meshes 3○×4○, 120 cables, 2 planes", 24},
		{"assigned, more than Z takes", strings.Replace(black, "[RING, RING]", "[LINE, LINE]", 1), assign(30), "f: 24 chips in 2 meshes 3×4, 98 cables, 2 planes", 24},
		{"assigned, Wormhole", torus, assign(6), "f: 24 chips in 2 meshes 3○×4○, 102 cables, 2 planes", 6},
		{"free choice", black, plain, "f: 24 chips in 2 meshes 3○×4○, 102 cables, 2 planes", 6},
		{"free choice, Wormhole", torus, plain, "f: 24 chips in 2 meshes 3×4○, 86 cables, 2 planes", 0},
		{"assigned, no torus", strings.Replace(black, "[RING, RING]", "[LINE, LINE]", 1), assign(4), "f: 24 chips in 2 meshes 3×4, 72 cables, 2 planes", 4},
		{"free choice, no torus", strings.Replace(black, "[RING, RING]", "[LINE, LINE]", 1), plain, "f: 24 chips in 2 meshes 3×4, 74 cables, 2 planes", 0},
	} {
		m, err := Load("f", []byte(c.mesh+g0+c.conn+"}\n"+topGraph))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		z := 0
		for _, x := range m.Cables {
			if x.External() && x.Dir == wire.Z && x.Back == wire.Z {
				z++
				if x.A.Node.Chip != x.B.Node.Chip {
					t.Errorf("%s: %s-%s does not join chips of one place", c.name, x.A, x.B)
				}
			}
		}
		if m.String() != c.want || z != c.z {
			t.Errorf("%s: %s, %d cables in direction Z; want %s, %d", c.name, m, z, c.want, c.z)
		}
		reread(t, m)
	}
}

// TestZIsNoNeighbour finds that no cable within a mesh has direction Z.
func TestZIsNoNeighbour(t *testing.T) {
	m := mustName(t, "mesh:2x2")
	m.Cables[0].Dir, m.Cables[0].Back = wire.Z, wire.Z
	if err := m.Validate(); err == nil || !strings.Contains(err.Error(), "has direction Z: want E") {
		t.Errorf("got %v", err)
	}
}
