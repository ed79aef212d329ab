package route

import (
	"slices"

	"ttfabric/wire"
)

// Other is the plan for packets with [wire.Packet].Other. Two chips opposite each other on a ring
// of even length have two equally long routes in that dimension. Other takes the route that the
// plan itself does not take, in both dimensions. All its other routes are the plan's. If a cable on
// the opposite route is out of service, Other also uses the plan's route. The Other of Other is the
// plan itself.
//
// Where there is no such choice, Other is the plan itself. That is so without rings of even length,
// with any engine but the dimension-ordered one, and with [Config].OneWay. It is also so with the
// scheme [NoRing]: there, only the lack of the opposite routes keeps cycles from closing on rings
// of four.
func (p *Plan) Other() *Plan { return p.other }

// turn makes the plan of the opposite routes.
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

// WaysBetween is the number of routes that requests may take from one chip to another: 2 if
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
