package route

import (
	"slices"

	"ttfabric/wire"
)

// Other returns the plan for packets that carry the mark OTHER, see [wire.Packet]. Two chips
// opposite each other on a ring of even length have two equally long routes along that dimension.
// Plan p has one of these two routes, and the plan that Other returns has the opposite route. All
// other routes are the same in both plans. If a cable of the opposite route is out of service, both
// plans have the same route. If q is the plan that Other returns for p, then Other returns p for q.
//
// If no two chips have two such routes in plan p, Other returns p itself. A plan has two such
// routes only on rings of even length, with the dimension-ordered engine, and without the field
// OneWay of [Config]. With the scheme [NoRing], p has no opposite routes, because these would close
// cycles on rings of four chips.
func (p *Plan) Other() *Plan { return p.other }

// turn makes the plan that Other returns.
func (p *Plan) turn() *Plan {
	if !p.dor() || p.cfg.OneWay || p.cfg.Ring == NoRing || !slices.ContainsFunc(p.grids, (*grid).even) {
		return p
	}
	o := *p
	o.other, o.grids = p, nil
	for _, g := range p.grids {
		h := *g
		h.plan, h.usual = &o, g
		if d, ok := g.legs.(dor); ok {
			d.g, d.other = &h, true
			h.legs = d
		}
		o.grids = append(o.grids, &h)
	}
	return &o
}

// even reports whether a ring of the mesh has an even number of chips.
func (g *grid) even() bool {
	return g.mesh.WrapX && g.mesh.Cols%2 == 0 || g.mesh.WrapY && g.mesh.Rows%2 == 0
}

// WaysBetween returns the number of routes that requests may take from src to dst on plane 0. The
// number is 2 if [Plan.Other] has a different route, and otherwise 1. WaysBetween returns 1 even if
// there is no route.
func (p *Plan) WaysBetween(src, dst wire.FabricNodeID) int {
	if p.other == p {
		return 1
	}
	usual, _ := p.Walk(wire.ClassRequest, 0, src, dst)
	turned, ok := p.other.Walk(wire.ClassRequest, 0, src, dst)
	if !ok || slices.Equal(usual, turned) {
		return 1
	}
	return 2
}
