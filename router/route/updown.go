package route

import (
	"slices"

	"ttfabric/wire"
)

// upDown plans up*/down* routes, over any set of working cables. A breadth-first walk from the
// first chip ranks the chips of a mesh by distance. The walk visits neighbours in the order East,
// West, North, South. A hop to a chip of lower rank leads up. A route makes all its up hops before
// its down hops. Such routes close no cycle of waiting packets, whichever cables are missing
// (Autonet, Schroeder et al., 1991). The engine takes the shortest of these routes. Of several
// shortest routes, the engine takes the first in alphabetical order, where E, W, N, S is the order
// of the letters. An upDown treats cables that wrap like all other cables, also for control
// packets.
type upDown struct {
	g       *grid
	next    [][4]int16 // by plane and chip: number of the neighbour in each direction; -1: no working cable leads there
	rank    []int32    // by plane and chip: place of the chip in the walk
	longest int
}

func newUpDown(g *grid) (legger, error) { return upDownOf(g), nil }

// upDownOf plans up*/down* routes over the cables of a mesh that work and are in service.
func upDownOf(g *grid) *upDown {
	if g.works == nil {
		g.survey()
	}
	n, planes := g.chips(), max(g.plan.top.MeshPlanes(g.mesh.ID), 1)
	u := &upDown{g: g, next: make([][4]int16, planes*n), rank: make([]int32, planes*n)}
	for pl := range planes {
		for chip := range n {
			for d := range wire.Direction(wire.NumDirections) {
				u.next[pl*n+chip][d] = -1
				if next, _, ok := g.beside(chip, d); ok && !g.failed(chip, d, wire.Plane(pl)) {
					u.next[pl*n+chip][d] = int16(next)
				}
			}
		}
		u.walk(pl)
		for src := range n {
			u.longest = max(u.longest, u.depth(pl, src))
		}
	}
	return u
}

// walk ranks the chips of a mesh on one plane.
func (u *upDown) walk(pl int) {
	n := u.g.chips()
	rank := u.rank[pl*n:][:n]
	for i := range rank {
		rank[i] = -1
	}
	count := int32(0)
	for root := range n { // each connected part of the mesh has a root of its own
		if rank[root] >= 0 {
			continue
		}
		rank[root] = count
		count++
		for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
			for _, next := range u.next[pl*n+queue[0]] {
				if next >= 0 && rank[next] < 0 {
					rank[next] = count
					count++
					queue = append(queue, int(next))
				}
			}
		}
	}
}

// reached holds the states that a search has found. A state consists of a chip and of one bit,
// which says whether the route may still go up. State 2·chip says that the route may still go up.
// State 2·chip+1 says that the route may only go down.
type reached struct {
	from [maxStates]int16 // for each state: the state before it on the route; -1: not found yet
	dir  [maxStates]wire.Direction
}

const maxStates = 2 * wire.MaxChipsPerMesh

// search visits the states that routes from src can reach, in the order of their distance, until
// visit returns false.
func (u *upDown) search(r *reached, pl, src int, visit func(state, depth int) (more bool)) {
	n := u.g.chips()
	rank := u.rank[pl*n:][:n]
	for i := range r.from[:2*n] {
		r.from[i] = -1
	}
	r.from[2*src] = int16(2 * src)
	var queue [maxStates]int16
	queue[0] = int16(2 * src)
	next, end := 1, 1 // positions in the queue: end of the states at the present depth, and end of all states
	for depth, i := 0, 0; i < end; i++ {
		if i == next {
			depth, next = depth+1, end
		}
		at := int(queue[i])
		if !visit(at, depth) {
			break
		}
		for d, to := range u.next[pl*n+at/2] {
			if to < 0 {
				continue
			}
			up := rank[to] < rank[at/2]
			if up && at%2 == 1 {
				continue
			}
			s := 2 * int(to)
			if !up {
				s++
			}
			if r.from[s] < 0 {
				r.from[s], r.dir[s] = int16(at), wire.Direction(d)
				queue[end] = int16(s)
				end++
			}
		}
	}
}

// depth returns the number of hops from src to the chip that is farthest away by up*/down* routes.
func (u *upDown) depth(pl, src int) int {
	var r reached
	var seen [wire.MaxChipsPerMesh]bool
	most := 0
	u.search(&r, pl, src, func(s, depth int) bool {
		if !seen[s/2] {
			seen[s/2], most = true, depth
		}
		return true
	})
	return most
}

func (u *upDown) leg(buf []wire.Direction, pl wire.Plane, _ Order, _ bool, src, dst int) ([]wire.Direction, bool) {
	if int(pl)*u.g.chips() >= len(u.next) {
		return buf, false
	}
	end := -1
	var r reached
	u.search(&r, int(pl), src, func(s, _ int) bool {
		if s/2 == dst {
			end = s
		}
		return end < 0
	})
	if end < 0 {
		return buf, false
	}
	from := len(buf)
	for s := end; s != 2*src; s = int(r.from[s]) {
		buf = append(buf, r.dir[s])
	}
	slices.Reverse(buf[from:])
	return buf, true
}
