package topo

import (
	"cmp"
	"fmt"
	"slices"

	"ttfabric/wire"
)

// This file compares expected with live cables. Names and rules are those of tt-metal's reliability
// mode (tt_metal/fabric/README_fabric_reliability_mode.md). The mesh graph descriptor (MGD) says
// how many cables the fabric routes. The factory system descriptor (FSD) says which cables should
// exist. The physical system descriptor (PSD) says which are live.

// PlaneCount counts the cables that lead from one chip in one direction.
type PlaneCount struct {
	Declared int `json:"declared"` // cables that the fabric routes (MGD)
	Expected int `json:"expected"` // cables that should exist (FSD)
	Live     int `json:"live"`     // expected cables that are live (PSD)
}

// Planes returns the number of routing planes: the number of routed cables, but at most the number
// of cables that should exist. A cable that is down does not lower the number of planes.
func (n PlaneCount) Planes() int { return min(n.Declared, n.Expected) }

// Downed returns the number of missing cables that the fabric needs.
func (n PlaneCount) Downed() int { return max(0, n.Planes()-n.Live) }

// UnusedDowned returns the number of missing cables that the fabric does not need.
func (n PlaneCount) UnusedDowned() int { return max(0, n.Expected-n.Live) - n.Downed() }

// Registered returns the number of live cables that the fabric routes. The number serves between
// meshes, which have no planes between them.
func (n PlaneCount) Registered() int { return min(n.Declared, n.Live) }

// DirectionHealth describes one direction of one chip in which cables are expected.
type DirectionHealth struct {
	Chip      wire.FabricNodeID `json:"chip"`
	Direction string            `json:"direction"` // direction as a letter, or "NONE" if the fabric does not route there because no mesh graph has the edge
	Peer      wire.FabricNodeID `json:"peer"`
	External  bool              `json:"inter_mesh"`
	PlaneCount
	Usable int `json:"planes"`        // number of routing planes, the fewest along the row or column; between meshes, number of registered cables
	Down   int `json:"downed"`        // number of missing cables that the fabric needs, see PlaneCount.Downed
	Unused int `json:"unused_downed"` // number of missing cables that the fabric does not need, see PlaneCount.UnusedDowned
}

// NoDirection is the direction of a cable that the fabric does not route.
const NoDirection = "NONE"

// Health is the comparison of the expected with the live cables.
type Health struct {
	Directions []DirectionHealth // one entry for each chip and direction, sorted by both
	Downed     []Cable           // missing cables that the fabric routes, sorted by A
	Unused     []Cable           // missing cables that the fabric does not need, sorted by A
	ends       map[wire.PortID]bool
}

// edge names two neighbours and the direction from the first neighbour to the second.
type edge struct {
	a, b wire.FabricNodeID
	dir  wire.Direction
}

// gridLine is a row or a column of a mesh.
type gridLine struct {
	mesh  wire.MeshID
	n     int
	ofRow bool
}

// Diagnose compares the cables that should exist with the live cables, with regard to the cables
// that the fabric routes. The topologies routed and expected may be the same. The fabric then
// routes the cables that are not Unused. Diagnose calls the function live once for each cable of
// expected.
func Diagnose(routed, expected *Topology, live func(Cable) bool) Health {
	h := Health{ends: map[wire.PortID]bool{}}
	counts := map[edge]*PlaneCount{}
	dirs := map[edge][2]wire.Direction{}
	missing := map[edge][]Cable{}
	var order []edge
	for _, c := range expected.Cables {
		e := edge{c.A.Node, c.B.Node, c.Dir}
		n := counts[e]
		if n == nil {
			n = &PlaneCount{}
			counts[e] = n
			order = append(order, e)
		}
		dirs[e] = [2]wire.Direction{c.Dir, c.Back}
		n.Expected++
		ok := live(c)
		h.ends[c.A], h.ends[c.B] = ok, ok
		if ok {
			n.Live++
		} else {
			missing[e] = append(missing[e], c)
		}
	}
	for _, c := range routed.Cables {
		if n := counts[edge{c.A.Node, c.B.Node, c.Dir}]; n != nil && !c.Unused {
			n.Declared++
		}
	}
	least := leastOf(expected, counts)
	for _, e := range order {
		n := *counts[e]
		slices.SortStableFunc(missing[e], func(a, b Cable) int { return cmp.Compare(a.Plane, b.Plane) })
		k := min(n.Downed(), len(missing[e]))
		h.Downed, h.Unused = append(h.Downed, missing[e][:k]...), append(h.Unused, missing[e][k:]...)
		for side, at := range []wire.FabricNodeID{e.a, e.b} {
			d := DirectionHealth{Chip: at, Direction: dirs[e][side].String(), Peer: []wire.FabricNodeID{e.b, e.a}[side],
				External: e.a.Mesh != e.b.Mesh, PlaneCount: n, Down: n.Downed(), Unused: n.UnusedDowned()}
			switch {
			case n.Declared == 0:
				d.Direction = NoDirection
			case d.External:
				d.Usable = n.Registered()
			default:
				d.Usable = least[lineOf(expected, e)]
			}
			h.Directions = append(h.Directions, d)
		}
	}
	slices.SortStableFunc(h.Directions, func(a, b DirectionHealth) int {
		return cmp.Or(a.Chip.Compare(b.Chip), cmp.Compare(a.Direction, b.Direction))
	})
	byA := func(a, b Cable) int {
		return bit(b.A.Less(a.A)) - bit(a.A.Less(b.A))
	}
	slices.SortFunc(h.Downed, byA)
	slices.SortFunc(h.Unused, byA)
	return h
}

// leastOf returns the smallest number of planes on an edge of each row and column.
func leastOf(t *Topology, counts map[edge]*PlaneCount) map[gridLine]int {
	least := map[gridLine]int{}
	for e, n := range counts {
		if e.a.Mesh != e.b.Mesh || n.Declared == 0 {
			continue
		}
		l := lineOf(t, e)
		if was, ok := least[l]; !ok || n.Planes() < was {
			least[l] = n.Planes()
		}
	}
	return least
}

func lineOf(t *Topology, e edge) gridLine {
	c, _ := t.Chip(e.a)
	if e.dir == wire.East || e.dir == wire.West {
		return gridLine{e.a.Mesh, c.Row, true}
	}
	return gridLine{e.a.Mesh, c.Col, false}
}

// Healthy reports whether the cable at a port is live. The error names a port at which no cable is
// expected.
func (h *Health) Healthy(p wire.PortID) (bool, error) {
	ok, expected := h.ends[p]
	if !expected {
		return false, fmt.Errorf("%s: no cable is expected there", p)
	}
	return ok, nil
}

// UsablePlanes returns the number of routing planes from a chip in a direction: the fewest along
// the chip's row or column. If the fabric routes no cable there, UsablePlanes returns 0.
func (h *Health) UsablePlanes(n wire.FabricNodeID, d wire.Direction) int {
	for _, x := range h.Directions {
		if x.Chip == n && x.Direction == d.String() {
			return x.Usable
		}
	}
	return 0
}
