package route

import (
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// L0 returns the row of table L0 of chip src for a class of packets on a plane (Spec §2.2.1.1): for
// each chip of the mesh, by number, the directions of the hops, such as "EES". The row has "-" for the
// chip itself, and "x" for a chip without a route.
func (p *Plan) L0(c wire.Class, pl wire.Plane, src wire.FabricNodeID) []string {
	m, _ := p.top.Mesh(src.Mesh)
	row := make([]string, 0, m.Rows*m.Cols)
	for k := range m.Rows * m.Cols {
		dst := wire.FabricNodeID{Mesh: src.Mesh, Chip: wire.ChipID(k)}
		leg, ok := p.Leg(nil, c, pl, src, dst)
		switch {
		case src == dst:
			row = append(row, "-")
		case !ok:
			row = append(row, "x")
		default:
			var b strings.Builder
			for _, d := range leg {
				b.WriteString(d.String())
			}
			row = append(row, b.String())
		}
	}
	return row
}

// Crossing is an entry of table L1: the route to another mesh.
type Crossing struct {
	To   wire.MeshID // destination mesh
	OK   bool        // a route exists
	Exit topo.Port   // port of the exit node in the chip's own mesh
	Up   bool        // the crossing leads up the tree of meshes
}

// L1 returns the row of table L1 of chip src for a class of packets on a plane (Spec §2.2.1.2): the
// route to each other mesh, in the order of the topology's meshes.
func (p *Plan) L1(c wire.Class, pl wire.Plane, src wire.FabricNodeID) []Crossing {
	row := []Crossing{}
	for _, to := range p.top.Meshes {
		if to.ID != src.Mesh {
			x, up, ok := p.Exit(c, pl, src, to.ID)
			row = append(row, Crossing{to.ID, ok, x, up})
		}
	}
	return row
}
