package route

import (
	"slices"

	"ttfabric/wire"
)

// upDown routes over whatever cables are connected. A breadth-first walk from the first chip ranks
// the chips of a mesh by their distance. The walk visits neighbours in the order East, West, North,
// South. A hop to an earlier chip of the walk leads up. A route goes up and then only down. Such
// routes cannot close a cycle of waiting packets, whatever cables are missing (Autonet, Schroeder
// et al., 1991). The engine takes the shortest such route. Of several shortest routes, the engine
// takes the first in the same order of directions. An upDown uses cables that wrap like all other
// cables, also for control messages.
type upDown struct {
	g       *grid
	next    [][4]int16 // by plane and chip: number of the neighbour in each direction; -1: none
	rank    []int32    // by plane and chip: place of the chip in the walk; -1 if the walk does not reach the chip
	longest int
}

func newUpDown(g *grid) (legger, error) { return upDownOf(g), nil }

// upDownOf plans up*/down* routes over the cables that have not failed and are in service.
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

// walk numbers the chips of a plane.
func (u *upDown) walk(pl int) {
	n := u.g.chips()
	rank := u.rank[pl*n:][:n]
	for i := range rank {
		rank[i] = -1
	}
	count := int32(0)
	for root := range n { // parts that are not connected have roots of their own
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

// reached holds what a search has reached. A state of the search is a chip together with whether
// the route may still go up. The number of the state is 2·chip if the route may still go up, else
// 2·chip+1.
type reached struct {
	from [maxStates]int16 // for each state: the previous state; -1 if the search did not reach the state
	dir  [maxStates]wire.Direction
}

const maxStates = 2 * wire.MaxChipsPerMesh

// search walks the states from src, the nearest first, until visit returns false.
func (u *upDown) search(r *reached, pl, src int, visit func(state, depth int) (more bool)) {
	n := u.g.chips()
	rank := u.rank[pl*n:][:n]
	for i := range r.from[:2*n] {
		r.from[i] = -1
	}
	r.from[2*src] = int16(2 * src)
	var queue [maxStates]int16
	queue[0] = int16(2 * src)
	next, end := 1, 1 // ends, in the queue, of the states of this depth and of all states
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

// depth returns the length of the longest route from src, in hops.
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
