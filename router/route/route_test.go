package route

import (
	"strings"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

func table(t *testing.T, name string, o Order) *Table {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := DimensionOrdered(m, 0, o)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// Spec §2.2.1.1.1: the intra-mesh routing table of the devices on Mesh 0, all 72 routes.
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
	tab := table(t, "mesh:3x3", XY)
	for src, row := range strings.Split(strings.TrimSpace(want), "\n") {
		for dst, w := range strings.Fields(row) {
			got := ""
			for _, d := range tab.Path(wire.FabricNodeID{Chip: wire.ChipID(src)}, wire.FabricNodeID{Chip: wire.ChipID(dst)}) {
				got += d.String()
			}
			if got == "" {
				got = "-"
			}
			if got != w {
				t.Errorf("%d→%d: got %s, the specification says %s", src, dst, got, w)
			}
		}
	}
}

func TestOrderYX(t *testing.T) {
	tab := table(t, "mesh:3x3", YX)
	var got string
	for _, d := range tab.Path(wire.FabricNodeID{Chip: 0}, wire.FabricNodeID{Chip: 8}) {
		got += d.String()
	}
	if got != "SSEE" {
		t.Errorf("0→8 in yx order: got %s, want SSEE", got)
	}
}

func TestRouteBytesLeadToTheDestination(t *testing.T) {
	m, _ := topo.Named("mesh:4x8")
	for _, o := range []Order{XY, YX} {
		tab, err := DimensionOrdered(m, 0, o)
		if err != nil {
			t.Fatal(err)
		}
		if tab.Longest() != 10 {
			t.Errorf("longest route %d, want 10", tab.Longest())
		}
		for _, a := range m.Chips {
			for _, b := range m.Chips {
				path := tab.Path(a.Node, b.Node)
				if a == b {
					continue
				}
				route := wire.AppendRoute(nil, path)
				at, came := a.Node, path[0].Opposite()
				at, _ = m.Neighbour(at, path[0], 0)
				for _, action := range route {
					if action == wire.RouteBit(came) {
						break
					}
					for d := range wire.Direction(wire.NumDirections) {
						if action == wire.RouteBit(d) {
							at, _ = m.Neighbour(at, d, 0)
							came = d.Opposite()
							break
						}
					}
				}
				if at != b.Node {
					t.Fatalf("%s→%s ends at %s", a.Node, b.Node, at)
				}
			}
		}
	}
}

func TestReverseOrderGoesBackTheSameWay(t *testing.T) {
	m, _ := topo.Named("mesh:4x5")
	there, back := table(t, "mesh:4x5", XY), table(t, "mesh:4x5", XY.Reverse())
	for _, a := range m.Chips {
		for _, b := range m.Chips {
			p, q := there.Path(a.Node, b.Node), back.Path(b.Node, a.Node)
			for i := range p {
				if p[i] != q[len(q)-1-i].Opposite() {
					t.Fatalf("%s→%s is %v and back %v", a.Node, b.Node, p, q)
				}
			}
		}
	}
}
