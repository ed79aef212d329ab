package route

import (
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// dor is dimension-ordered routing. On an axis that wraps, a packet takes the shorter direction.
// Two chips opposite each other on a ring of even length have two equally long routes. From an even
// place on the ring, the packet goes East or South. From an odd place, the packet goes West or
// North. In this way both directions carry the same load. All packets of a flow take one route, so
// they arrive in the order in which the source sent them.
type dor struct {
	g      *grid
	oneWay bool // see the field OneWay of [Config]
	other  bool // take the opposite one of two equally long routes, see [Plan.Other]
}

// newDOR returns the dimension-ordered engine of a mesh. newDOR need not look at the cables,
// because a valid topology has a cable on every plane between any two neighbours of the grid.
func newDOR(g *grid) (legger, error) { return dor{g: g, oneWay: g.plan.cfg.OneWay}, nil }

func (r dor) leg(buf []wire.Direction, pl wire.Plane, o Order, wraps bool, src, dst int) ([]wire.Direction, bool) {
	m, from := &r.g.mesh, len(buf)
	x := r.along(src%m.Cols, dst%m.Cols, m.Cols, wraps && m.WrapX)
	y := r.along(src/m.Cols, dst/m.Cols, m.Rows, wraps && m.WrapY)
	if o == XY || o == NoOrder && (x > 0) == (y > 0) { // a turn from East to South, or from West to North, is a turn to the right
		buf = hops(buf, x, wire.East, wire.West)
		buf = hops(buf, y, wire.South, wire.North)
	} else {
		buf = hops(buf, y, wire.South, wire.North)
		buf = hops(buf, x, wire.East, wire.West)
	}
	if r.g.plan.cfg.Failed != nil && !r.g.intact(buf[from:], pl, src) {
		return buf[:from], false
	}
	return buf, true
}

// The method "along" returns the number of hops from place src to place dst on an axis of n places.
// A positive number means East or South, a negative number West or North.
func (r dor) along(src, dst, n int, wrap bool) int {
	k := dst - src
	if wrap {
		if k < 0 {
			k += n
		}
		if 2*k > n || 2*k == n && !r.oneWay && (src%2 == 1) != r.other {
			k -= n
		}
	}
	return k
}

// hops appends k hops in the direction "plus". If k is negative, hops appends -k hops in the
// direction "minus".
func hops(buf []wire.Direction, k int, plus, minus wire.Direction) []wire.Direction {
	for ; k > 0; k-- {
		buf = append(buf, plus)
	}
	for ; k < 0; k++ {
		buf = append(buf, minus)
	}
	return buf
}

// apart reports whether the fabric is a 1D fabric in which the two chips have no line in common.
func (g *grid) apart(src, dst int) bool {
	row, col := src/g.mesh.Cols == dst/g.mesh.Cols, src%g.mesh.Cols == dst%g.mesh.Cols
	switch g.mesh.Axes {
	case topo.OnlyX:
		return !row
	case topo.OnlyY:
		return !col
	}
	return g.plan.cfg.Lines && !row && !col
}

// plain returns the number of hops of the longest leg that is not a detour. Control packets do not
// use cables that wrap, so a leg can be as long as on a mesh without wraps.
func (g *grid) plain() int {
	if u, ok := g.legs.(*upDown); ok {
		return u.longest
	}
	x, y := g.mesh.Cols-1, g.mesh.Rows-1
	switch g.mesh.Axes {
	case topo.OnlyX:
		return x
	case topo.OnlyY:
		return y
	}
	if g.plan.cfg.Lines {
		return max(x, y)
	}
	return x + y
}

// intact reports whether all cables of a leg from chip "at" work and are in service.
func (g *grid) intact(leg []wire.Direction, pl wire.Plane, at int) bool {
	for _, d := range leg {
		if g.failed(at, d, pl) {
			return false
		}
		at, _, _ = g.beside(at, d)
	}
	return true
}

// failed reports whether a chip's cable in direction d does not exist, is missing, or is out of
// service.
func (g *grid) failed(chip int, d wire.Direction, pl wire.Plane) bool {
	k := int(pl)*g.chips() + chip
	return k >= len(g.works) || g.works[k]>>d&1 == 0
}

// survey records which cables of the mesh work and are in service.
func (g *grid) survey() {
	n := g.chips()
	g.works = make([]uint8, max(g.plan.top.MeshPlanes(g.mesh.ID), 1)*n)
	for chip := range n {
		for _, q := range g.plan.top.Ports(g.node(chip)) {
			if k := int(q.Plane)*n + chip; k < len(g.works) && !g.plan.down(q.Local) {
				g.works[k] |= 1 << q.Dir
			}
		}
	}
}

// Port returns the port of chip n that leads in direction d on plane pl.
func (p *Plan) Port(n wire.FabricNodeID, d wire.Direction, pl wire.Plane) (wire.PortID, bool) {
	for _, q := range p.top.Ports(n) {
		if q.Dir == d && q.Plane == pl {
			return q.Local, true
		}
	}
	return wire.PortID{}, false
}
