package route

import (
	"slices"

	"ttfabric/wire"
)

// Other returns the plan for packets that have the mark Other set, see [wire.Packet]. Two chips
// opposite each other on a ring of even length have two equally long routes in that dimension. In
// both dimensions, Other has the route that the plan itself does not have. All other routes of both
// plans are equal. If a cable on the opposite route is out of service, Other also has the plan's
// route. The method Other of the plan Other returns the plan itself.
//
// If the plan has no such choice, Other returns the plan itself. The plan has no choice without
// rings of even length, with any engine but the dimension-ordered engine, and with [Config].OneWay.
// The plan also has no choice with the scheme [NoRing]. With NoRing, the opposite routes would
// close cycles on rings of four.
func (p *Plan) Other() *Plan { return p.other }

// turn makes the plan with the opposite routes.
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

// WaysBetween returns the number of routes that requests may take from one chip to another: 2 if
// [Plan.Other] has a different route, else 1. WaysBetween looks at plane 0.
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
