package route

import (
	"slices"

	"ttfabric/wire"
)

// Other is the plan by which packets go that ask for the other way round
// ([wire.Packet].Other): between chips opposite each other on a ring of even
// length, in both dimensions, it takes the way that the plan itself doesn't. All
// its other ways are the plan's. So is one that would cross a cable out of
// service. Its own Other is the plan itself.
//
// Where there is no such choice it is the plan itself: without rings of even
// length, by any engine but the dimension-ordered one, with [Config].OneWay, and
// by the scheme [NoRing], since nothing but the lack of these ways keeps cycles
// from closing on rings of four.
func (p *Plan) Other() *Plan { return p.other }

// turn makes the plan of the other ways.
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

// WaysBetween is how many ways requests may take from one chip to another: 2
// where [Plan.Other] has one of its own, else 1. It looks at plane 0.
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
