package board_test

import (
	"fmt"
	"testing"

	"ttfabric/node/firmware/board"
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

// The left chip of an n300 is at (0,0), the right chip at (1,0), as in the article's program.
func TestCoordsOfAnN300(t *testing.T) {
	at := board.Coords(named(t, "n300"))
	if at[wire.FabricNodeID{Chip: 0}] != (board.Coord{}) || at[wire.FabricNodeID{Chip: 1}] != (board.Coord{X: 1}) {
		t.Errorf("positions: %v", at)
	}
}

// A T3000 has the coordinates of tt-umd's file t3k_cluster_desc.yaml.
func TestCoordsOfAT3000(t *testing.T) {
	m := named(t, "t3000")
	at := board.Coords(m)
	want := [8]board.Coord{{X: 1}, {X: 1, Y: 1}, {X: 2}, {X: 2, Y: 1}, {}, {Y: 1}, {X: 3}, {X: 3, Y: 1}}
	for _, c := range m.Chips {
		if at[c.Node] != want[c.UMD] {
			t.Errorf("chip %d of tt-umd: position %v, want %v", c.UMD, at[c.Node], want[c.UMD])
		}
	}
}

// No two chips have the same position, not even in the largest topologies.
func TestCoordsAreUnique(t *testing.T) {
	many := &topo.Topology{Arch: wire.Wormhole}
	for i := range wire.MaxMeshes {
		shape := [][2]int{{1, 256}, {256, 1}, {2, 128}, {128, 2}, {16, 16}, {3, 65}, {1, 1}}[i%7]
		m := topo.Mesh{ID: wire.MeshID(i), Rows: shape[0], Cols: shape[1]}
		many.Meshes = append(many.Meshes, m)
		for c := range m.Rows * m.Cols {
			many.Chips = append(many.Chips, topo.Chip{Node: wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID(c)}, Row: c / m.Cols, Col: c % m.Cols, UMD: topo.NoUMD})
		}
	}
	for _, m := range []*topo.Topology{named(t, "2xt3000"), named(t, "galaxy"), named(t, "spec-l1"), named(t, "mesh:1x200"), many} {
		at := board.Coords(m)
		chip := map[board.Coord]wire.FabricNodeID{}
		for n, c := range at {
			if o, taken := chip[c]; taken {
				t.Fatalf("%s: chips %s and %s are both at %v", m.Name, o, n, c)
			}
			if chip[c] = n; c.X >= board.Side || c.Y >= board.Side {
				t.Fatalf("%s: chip %s is at %v", m.Name, n, c)
			}
		}
		if len(at) != len(m.Chips) {
			t.Errorf("%s: %d positions for %d chips", m.Name, len(at), len(m.Chips))
		}
	}
	if s := fmt.Sprint(board.Coord{X: 1, Y: 2, Rack: 3, Shelf: 4}); s != "(1, 2, 3, 4)" {
		t.Error(s)
	}
}

// fourChips is a cluster descriptor of two n300 one above the other, with the coordinates of chips 0 to 3.
func fourChips(at ...string) []byte {
	s := "arch: {0: wormhole_b0, 1: wormhole_b0, 2: wormhole_b0, 3: wormhole_b0}\nchips:\n"
	for i, c := range at {
		s += fmt.Sprintf("  %d: %s\n", i, c)
	}
	return []byte(s + `ethernet_connections:
  - [{chip: 0, chan: 8}, {chip: 1, chan: 0}]
  - [{chip: 2, chan: 8}, {chip: 3, chan: 0}]
  - [{chip: 0, chan: 14}, {chip: 2, chan: 14}]
  - [{chip: 1, chan: 6}, {chip: 3, chan: 6}]
chips_with_mmio: [{0: 0}, {2: 1}]
boardtype: {0: n300, 1: n300, 2: n300, 3: n300}
`)
}

// Chips have the positions that their cluster descriptor gives: also if its origin is not zero, and on any rack
// and shelf. The positions survive both forms of a topology file.
func TestCoordsOfADescriptor(t *testing.T) {
	for _, c := range []struct {
		at   []string
		want [4]board.Coord
	}{
		{[]string{"[0, 0, 0, 0]", "[1, 0, 0, 0]", "[0, 1, 0, 0]", "[1, 1, 0, 0]"}, [4]board.Coord{{}, {X: 1}, {Y: 1}, {X: 1, Y: 1}}},
		{[]string{"[2, 4, 0, 0]", "[3, 4, 0, 0]", "[2, 5, 0, 0]", "[3, 5, 0, 0]"}, [4]board.Coord{{X: 2, Y: 4}, {X: 3, Y: 4}, {X: 2, Y: 5}, {X: 3, Y: 5}}},
		{[]string{"[0, 0, 3, 9]", "[1, 0, 3, 9]", "[0, 1, 3, 9]", "[1, 1, 3, 9]"}, [4]board.Coord{{Rack: 3, Shelf: 9}, {X: 1, Rack: 3, Shelf: 9}, {Y: 1, Rack: 3, Shelf: 9}, {X: 1, Y: 1, Rack: 3, Shelf: 9}}},
		{[]string{"[0, 0, 0, 0]", "[1, 0, 0, 0]", "[0, 0, 0, 1]", "[1, 0, 0, 1]"}, [4]board.Coord{{}, {X: 1}, {Shelf: 1}, {X: 1, Shelf: 1}}},
		{[]string{"[63, 0, 0, 0]", "[64, 0, 0, 0]", "[63, 1, 0, 0]", "[64, 1, 0, 0]"}, [4]board.Coord{{}, {X: 1}, {Y: 1}, {X: 1, Y: 1}}}, // a request cannot name x 64
	} {
		m, err := topo.Load("four.yaml", fourChips(c.at...))
		if err != nil {
			t.Fatal(err)
		}
		check := func(form string, m *topo.Topology) {
			t.Helper()
			at := board.Coords(m)
			for _, x := range m.Chips {
				if at[x.Node] != c.want[x.UMD] {
					t.Errorf("%v, %s: chip %d is at %v, want %v", c.at, form, x.UMD, at[x.Node], c.want[x.UMD])
				}
			}
		}
		check("loaded", m)
		again, err := topo.Load("again.yaml", m.Encode())
		if err != nil {
			t.Fatal(err)
		}
		check("rendered", again)
		b, err := m.EncodeClusterDescriptor()
		if err != nil {
			t.Fatal(err)
		}
		if again, err = topo.Load("umd.yaml", b); err != nil || again.Hash() != m.Hash() {
			t.Fatalf("%v: the written descriptor is another machine: %v\n%s", c.at, err, b)
		}
		check("written as a cluster descriptor", again)
	}
}
