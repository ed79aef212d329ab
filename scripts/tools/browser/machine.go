package main

import (
	"cmp"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// four returns a machine of four meshes of 16×16 chips, in a square, with cables between some of the chips
// at their borders.
func four() (*topo.Topology, error) {
	one, err := topo.Named("mesh:16x16")
	if err != nil {
		return nil, err
	}
	t := &topo.Topology{Name: "4×mesh:16x16", Arch: one.Arch, Source: "made-up"}
	in := func(n wire.FabricNodeID, id wire.MeshID) wire.FabricNodeID { n.Mesh = id; return n }
	for id := range wire.MeshID(4) {
		m := one.Meshes[0]
		m.ID = id
		t.Meshes = append(t.Meshes, m)
		for _, c := range one.Chips {
			c.Node, c.UMD = in(c.Node, id), topo.NoUMD
			t.Chips = append(t.Chips, c)
		}
		for _, c := range one.Cables {
			c.A.Node, c.B.Node = in(c.A.Node, id), in(c.B.Node, id)
			t.Cables = append(t.Cables, c)
		}
	}
	inner := one.Ports(one.Chips[17].Node) // a chip with four neighbours has ports in all directions
	port := func(d wire.Direction, plane wire.Plane) wire.Channel {
		i := slices.IndexFunc(inner, func(p topo.Port) bool { return p.Dir == d && p.Plane == plane })
		return inner[i].Local.Channel
	}
	for _, x := range []struct {
		a, b wire.MeshID
		dir  wire.Direction
	}{{0, 1, wire.East}, {2, 3, wire.East}, {0, 2, wire.South}, {1, 3, wire.South}} {
		for k := 4; k < 12; k++ {
			from, to := one.Chips[16*k+15].Node, one.Chips[16*k].Node
			if x.dir == wire.South {
				from, to = one.Chips[16*15+k].Node, one.Chips[k].Node
			}
			for plane := range wire.Plane(2) {
				t.Cables = append(t.Cables, topo.Cable{A: wire.PortID{Node: in(from, x.a), Channel: port(x.dir, plane)}, B: wire.PortID{Node: in(to, x.b), Channel: port(x.dir.Opposite(), plane)},
					Dir: x.dir, Back: x.dir.Opposite(), Plane: plane})
			}
		}
	}
	slices.SortFunc(t.Cables, func(a, b topo.Cable) int {
		return cmp.Or(a.A.Node.Compare(b.A.Node), cmp.Compare(a.A.Channel, b.A.Channel))
	})
	return t, t.Validate()
}
