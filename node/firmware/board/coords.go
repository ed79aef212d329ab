package board

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Side is the number of chips in a row or column that a chip coordinate can tell apart. A request's
// target_addr has 6 bits for x and 6 bits for y of the chip (BDMS, routing_cmd_t).
const Side = topo.PositionSide

// Coord is the position of a chip, as the base firmware of the ethernet tiles knows it. In a request,
// bits 48 to 53 of target_addr are X, and bits 54 to 59 are Y. The low byte of target_rack_xy is Rack,
// and the high byte is Shelf.
type Coord struct {
	X, Y        uint8 // column and row within the shelf, below [Side]
	Rack, Shelf uint8
}

// String returns the position in the order of tt-umd: "(x, y, rack, shelf)".
func (c Coord) String() string { return fmt.Sprintf("(%d, %d, %d, %d)", c.X, c.Y, c.Rack, c.Shelf) }

// Coords returns the position of every chip of a topology. No two chips have the same position.
//
// If the topology comes from a cluster descriptor with coordinates, the positions are these coordinates;
// see [topo.Topology.Positions].
//
// Otherwise, X is the chip's column and Y the chip's row in its mesh. The first mesh is rack 0, shelf 0. Each
// further mesh is another rack: rack 1, rack 2, and so on. After rack 255, the racks of shelf 1 follow. A
// mesh with a side of more than [Side] chips takes one rack for each block of at most Side columns and Side rows.
func Coords(t *topo.Topology) map[wire.FabricNodeID]Coord {
	at := make(map[wire.FabricNodeID]Coord, len(t.Chips))
	if told := t.Positions(); told != nil {
		for n, p := range told {
			at[n] = Coord{X: p.X, Y: p.Y, Rack: p.Rack, Shelf: p.Shelf}
		}
		return at
	}
	first := make(map[wire.MeshID]int, len(t.Meshes)) // number of the first rack of each mesh
	across := make(map[wire.MeshID]int, len(t.Meshes))
	racks := 0
	for _, m := range t.Meshes {
		first[m.ID], across[m.ID] = racks, max(1, (m.Cols+Side-1)/Side)
		racks += across[m.ID] * max(1, (m.Rows+Side-1)/Side)
	}
	for _, c := range t.Chips {
		n := first[c.Node.Mesh] + c.Row/Side*across[c.Node.Mesh] + c.Col/Side
		at[c.Node] = Coord{X: uint8(c.Col % Side), Y: uint8(c.Row % Side), Rack: uint8(n), Shelf: uint8(n >> 8)}
	}
	return at
}
