package session

import (
	"os"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// On the T3000 of tt-umd's file, five rows are harvested on at least one chip. Row 2 is the first
// row that works on all chips. Row 1 works only on some chips.
func TestTensix(t *testing.T) {
	const file = "../../router/topo/testdata/t3k_cluster_desc.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.Load(file, text)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := Tensix(m); a != wire.NewNocAddr(1, 2, 0) || err != nil {
		t.Errorf("for all chips: %s, %v", a, err)
	}
	for _, c := range m.Chips {
		want := wire.NewNocAddr(1, 1, 0)
		if c.Harvested&1 != 0 {
			want = wire.NewNocAddr(1, 2, 0)
		}
		if a, err := Tensix(m, c.Node); a != want || err != nil {
			t.Errorf("chip %s with mask %d: %s, %v", c.Node, c.Harvested, a, err)
		}
		off := 0
		tiles, err := Tiles(m, c.Node)
		for _, x := range tiles {
			if x.Harvested {
				off++
			}
		}
		if off != 16 || err != nil { // two rows of eight tiles
			t.Errorf("chip %s with mask %d: %d harvested tiles, %v", c.Node, c.Harvested, off, err)
		}
	}
	m.Chips[3].Harvested = 1<<10 - 1
	if a, err := Tensix(m); err == nil {
		t.Errorf("with a chip without tiles: %s", a)
	}
	if _, err := Tensix(m, wire.FabricNodeID{Mesh: 3}); err == nil {
		t.Error("a chip that does not exist has a tile")
	}
	if _, err := Tiles(m, wire.FabricNodeID{Mesh: 3}); err == nil {
		t.Error("a chip that does not exist has tiles")
	}
}
