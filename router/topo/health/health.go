// Package health compares the cables that should exist with the cables that are live.
//
// Names and rules are those of tt-metal's reliability mode
// (tt_metal/fabric/README_fabric_reliability_mode.md). The mesh graph descriptor (MGD) says how many
// cables the fabric routes. The factory system descriptor (FSD) says which cables should exist. The
// physical system descriptor (PSD) says which cables are live.
package health

import (
	"cmp"
	"fmt"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Health is the result of comparing the cables that should exist with the live cables.
type Health struct {
	Directions []topo.DirectionHealth // one entry for each chip, and each neighbour and direction to which cables should lead; sorted by chip, then by the letter of the direction
	Downed     []topo.Cable           // missing cables that the fabric needs, sorted by A; of the missing cables of an edge, those on the lowest planes
	Unused     []topo.Cable           // missing cables that the fabric does not need, sorted by A
	ends       map[wire.PortID]bool
}

// edge names two chips with cables between them, and the direction of these cables from the first
// chip.
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

// Diagnose compares the cables that should exist with the cables that are live. The topology
// "expected" has the cables that should exist. The cables of "routed" that are not Unused are the
// cables that the fabric routes. The two topologies may be the same. Diagnose ignores cables of
// routed in places where expected has no cable. Diagnose calls the function "live" once for each
// cable of expected.
func Diagnose(routed, expected *topo.Topology, live func(topo.Cable) bool) Health {
	h := Health{ends: map[wire.PortID]bool{}}
	counts := map[edge]*topo.PlaneCount{}
	dirs := map[edge][2]wire.Direction{}
	missing := map[edge][]topo.Cable{}
	var order []edge
	for _, c := range expected.Cables {
		e := edge{c.A.Node, c.B.Node, c.Dir}
		n := counts[e]
		if n == nil {
			n = &topo.PlaneCount{}
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
		slices.SortStableFunc(missing[e], func(a, b topo.Cable) int { return cmp.Compare(a.Plane, b.Plane) })
		k := min(n.Downed(), len(missing[e]))
		h.Downed, h.Unused = append(h.Downed, missing[e][:k]...), append(h.Unused, missing[e][k:]...)
		for side, at := range []wire.FabricNodeID{e.a, e.b} {
			d := topo.DirectionHealth{Chip: at, Direction: dirs[e][side].String(), Peer: []wire.FabricNodeID{e.b, e.a}[side],
				External: e.a.Mesh != e.b.Mesh, PlaneCount: n, Down: n.Downed(), Unused: n.UnusedDowned()}
			switch {
			case n.Declared == 0:
				d.Direction = topo.NoDirection
			case d.External:
				d.Usable = n.Registered()
			default:
				d.Usable = least[lineOf(expected, e)]
			}
			h.Directions = append(h.Directions, d)
		}
	}
	slices.SortStableFunc(h.Directions, func(a, b topo.DirectionHealth) int {
		return cmp.Or(a.Chip.Compare(b.Chip), cmp.Compare(a.Direction, b.Direction))
	})
	byA := func(a, b topo.Cable) int {
		return cmp.Or(a.A.Node.Compare(b.A.Node), cmp.Compare(a.A.Channel, b.A.Channel))
	}
	slices.SortFunc(h.Downed, byA)
	slices.SortFunc(h.Unused, byA)
	return h
}

// leastOf returns, for each row and column, the smallest number of planes on any of its edges with
// cables that the fabric routes.
func leastOf(t *topo.Topology, counts map[edge]*topo.PlaneCount) map[gridLine]int {
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

func lineOf(t *topo.Topology, e edge) gridLine {
	c, _ := t.Chip(e.a)
	if e.dir == wire.East || e.dir == wire.West {
		return gridLine{e.a.Mesh, c.Row, true}
	}
	return gridLine{e.a.Mesh, c.Col, false}
}

// Healthy reports whether the cable at port p is live. If no cable should exist at p, Healthy
// returns an error.
func (h *Health) Healthy(p wire.PortID) (bool, error) {
	ok, expected := h.ends[p]
	if !expected {
		return false, fmt.Errorf("%s: no cable should exist at this port", p)
	}
	return ok, nil
}

// UsablePlanes returns the number of routing planes in direction d from chip n: the smallest number
// on any edge of the chip's row or column. If the cables lead to another mesh, UsablePlanes returns
// the number that [topo.PlaneCount.Registered] describes. If the fabric routes no cable from n in
// direction d, UsablePlanes returns 0.
func (h *Health) UsablePlanes(n wire.FabricNodeID, d wire.Direction) int {
	for _, x := range h.Directions {
		if x.Chip == n && x.Direction == d.String() {
			return x.Usable
		}
	}
	return 0
}
