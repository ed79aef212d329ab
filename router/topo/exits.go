package topo

import (
	"strings"

	"ttfabric/wire"
)

// AnyDir is the direction of a cable for [Exits.Add]. The cable may leave its chip in any direction.
const AnyDir = anyDir

// Exits adds cables between chips of two meshes to a topology. The topology must have its meshes already.
type Exits struct {
	t     *Topology
	taken map[wire.FabricNodeID]uint8                // directions in use, one bit for each direction
	dirs  map[[2]wire.FabricNodeID][2]wire.Direction // directions of the cables between two chips, the lower chip first
}

// NewExits returns an Exits for a topology that has no cables between meshes.
func NewExits(t *Topology) *Exits {
	return &Exits{t, map[wire.FabricNodeID]uint8{}, map[[2]wire.FabricNodeID][2]wire.Direction{}}
}

// Add adds a cable between two chips. All cables between the two chips leave a chip in one direction. In this
// direction, the chip has no neighbour, and no cables to a third chip. The field Dir of the cable is the
// direction that Add prefers, or [AnyDir]. If one of the chips has no free direction, Add returns false, and
// does not add the cable.
func (e *Exits) Add(c Cable) bool {
	if c.B.Less(c.A) {
		c.A, c.B = c.B, c.A
	}
	pair := [2]wire.FabricNodeID{c.A.Node, c.B.Node}
	at, known := e.dirs[pair]
	if !known {
		there, ok := e.free(c.A.Node, c.Dir)
		back, ok2 := e.free(c.B.Node, there.Opposite())
		if !ok || !ok2 {
			return false
		}
		e.taken[c.A.Node], e.taken[c.B.Node] = e.taken[c.A.Node]|1<<there, e.taken[c.B.Node]|1<<back
		at = [2]wire.Direction{there, back}
		e.dirs[pair] = at
	}
	e.t.Cables = append(e.t.Cables, Cable{A: c.A, B: c.B, Dir: at[0], Back: at[1]})
	return true
}

// free returns a free direction of a chip: "want", if it is free, or else the first in the order of
// exitOrder.
func (e *Exits) free(n wire.FabricNodeID, want wire.Direction) (wire.Direction, bool) {
	m, _ := e.t.Mesh(n.Mesh)
	row, col := int(n.Chip)/m.Cols, int(n.Chip)%m.Cols
	for _, dir := range append([]wire.Direction{want}, exitOrder[:]...) {
		if _, _, inside := m.step(row, col, dir); dir < wire.NumSides && !inside && e.taken[n]>>dir&1 == 0 && (dir == want || mayLeave(e.t.Arch, dir)) {
			return dir, true
		}
	}
	return 0, false
}

// ForZ reports whether a cable between two ports is wired for a third dimension. The arguments are the
// architecture, the board types of the two chips, and the channels of the two ports in tt-umd's numbers.
func ForZ(arch wire.Arch, boards [2]string, channels [2]wire.Channel) bool {
	for k, b := range boards {
		if arch != wire.Blackhole || galaxyZ>>channels[k]&1 == 0 || !strings.EqualFold(b, galaxyBoard) {
			return false
		}
	}
	return true
}

// Finish sorts the meshes, chips and cables, computes the directions of cables within meshes and all planes, and
// validates the topology. The caller must have set the chips, the ends of all cables, and the directions of cables
// between meshes.
func (t *Topology) Finish() error { return t.finish() }
