// Package route turns a machine's cabling into routing tables.
//
// Today it holds the L0 table of one mesh (Spec §2.2.1.1): for every pair of
// chips the source route that a packet carries. The L1 table (§2.2.1.2),
// rings and tori, and the proof that a set of tables cannot deadlock belong
// beside it: an engine is one file and one row of [Engines].
package route

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Order is the order in which a route uses the two dimensions.
type Order uint8

// The orders. XY is the specification's (§2.2.1.1.1: "Packets go X dimension first then Y"), YX is tt-metal's.
const (
	XY Order = iota
	YX
)

// String returns "xy" or "yx".
func (o Order) String() string {
	if o == YX {
		return "yx"
	}
	return "xy"
}

// Reverse is the other order. A route of the other order from b to a passes
// the same chips as a route of this order from a to b.
func (o Order) Reverse() Order { return o ^ 1 }

// ParseOrder reads "xy" or "yx".
func ParseOrder(s string) (Order, error) {
	switch s {
	case "xy":
		return XY, nil
	case "yx":
		return YX, nil
	}
	return XY, fmt.Errorf("route order %q: want xy or yx", s)
}

// Table is the L0 routing table of one mesh: a path for every ordered pair of its chips.
type Table struct {
	mesh  wire.MeshID
	chips int
	paths [][]wire.Direction // index src*chips+dst; nil on the diagonal
}

// Engine computes tables for the topologies that it knows how to route.
type Engine struct {
	Name  string
	Help  string
	Build func(t *topo.Topology, mesh wire.MeshID, o Order) (*Table, error)
}

// Engines are the routing engines; the first is the default.
var Engines = []Engine{
	{"dor", "dimension-ordered routing on a full 2D mesh", DimensionOrdered},
}

// DimensionOrdered routes a full 2D mesh in the given order. It fails, naming
// the edge, where a route would use a cable that the topology lacks.
func DimensionOrdered(t *topo.Topology, mesh wire.MeshID, o Order) (*Table, error) {
	var m *topo.Mesh
	for i := range t.Meshes {
		if t.Meshes[i].ID == mesh {
			m = &t.Meshes[i]
		}
	}
	if m == nil {
		return nil, fmt.Errorf("topology %s has no mesh %d", t.Name, mesh)
	}
	n := m.Rows * m.Cols
	tab := &Table{mesh: mesh, chips: n, paths: make([][]wire.Direction, n*n)}
	for src := range n {
		for dst := range n {
			if src != dst {
				tab.paths[src*n+dst] = dimensionOrderedPath(src, dst, m.Cols, o)
			}
		}
	}
	return tab, tab.check(t)
}

func dimensionOrderedPath(src, dst, cols int, o Order) []wire.Direction {
	run := func(p []wire.Direction, delta int, plus, minus wire.Direction) []wire.Direction {
		for ; delta > 0; delta-- {
			p = append(p, plus)
		}
		for ; delta < 0; delta++ {
			p = append(p, minus)
		}
		return p
	}
	dx, dy := dst%cols-src%cols, dst/cols-src/cols
	var p []wire.Direction
	if o == XY {
		p = run(p, dx, wire.East, wire.West)
		return run(p, dy, wire.South, wire.North)
	}
	p = run(p, dy, wire.South, wire.North)
	return run(p, dx, wire.East, wire.West)
}

// check follows every path over every plane's cables and finds that it ends where it should.
func (tab *Table) check(t *topo.Topology) error {
	for p := range t.Planes() {
		for src := range tab.chips {
			for dst := range tab.chips {
				at := wire.FabricNodeID{Mesh: tab.mesh, Chip: wire.ChipID(src)}
				for _, d := range tab.paths[src*tab.chips+dst] {
					next, ok := t.Neighbour(at, d, wire.Plane(p))
					if !ok {
						return fmt.Errorf("topology %s: no cable %s of %s on plane %d, which dimension-ordered routing needs", t.Name, d, at, p)
					}
					at = next
				}
				if int(at.Chip) != dst {
					return fmt.Errorf("topology %s: the route %d→%d on plane %d ends at %s", t.Name, src, dst, p, at)
				}
			}
		}
	}
	return nil
}

// Path returns the hops from src to dst, nil where both are the same chip or
// either is not of the table's mesh. The caller must not change it.
func (tab *Table) Path(src, dst wire.FabricNodeID) []wire.Direction {
	if src.Mesh != tab.mesh || dst.Mesh != tab.mesh || int(src.Chip) >= tab.chips || int(dst.Chip) >= tab.chips {
		return nil
	}
	return tab.paths[int(src.Chip)*tab.chips+int(dst.Chip)]
}

// Has reports whether n is a chip of the table's mesh.
func (tab *Table) Has(n wire.FabricNodeID) bool {
	return n.Mesh == tab.mesh && int(n.Chip) < tab.chips
}

// Longest returns the number of hops of the longest path, the start value of a packet's TTL (Spec §7.2).
func (tab *Table) Longest() int {
	n := 0
	for _, p := range tab.paths {
		n = max(n, len(p))
	}
	return n
}

// Hash names the table's content; it is the epoch that packets carry.
func (tab *Table) Hash() uint32 {
	b := []byte{byte(tab.mesh), byte(tab.mesh >> 8)}
	for _, p := range tab.paths {
		for _, d := range p {
			b = append(b, byte(d))
		}
		b = append(b, 0xFF)
	}
	return wire.Checksum(b)
}
