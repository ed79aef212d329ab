package route

import "ttfabric/wire"

// Way is a packet's route from a chip, where the packet starts or enters the mesh, to its
// destination or out of the mesh.
type Way struct {
	Hops   []wire.Direction
	Leaves bool // the last hop leads to another mesh
	Up     bool // an up crossing lies ahead of the packet
	Detour bool // the route leads round a fault
}

// Route finds the route of a class's packets from src to dst, and appends its hops to buf. If there
// is no route on the plane, Route reports false.
func (p *Plan) Route(buf []wire.Direction, c wire.Class, pl wire.Plane, src, dst wire.FabricNodeID) (w Way, ok bool) {
	g := p.grid(src)
	if g == nil || !p.Has(dst) {
		return w, false
	}
	if src.Mesh == dst.Mesh {
		if w.Hops = buf; src != dst {
			w.Hops, w.Detour, ok = g.leg(buf, c, pl, int(src.Chip), int(dst.Chip))
		}
		return w, ok || src == dst
	}
	x, up, ok := p.Exit(c, pl, src, dst.Mesh)
	if !ok {
		return w, false
	}
	w = Way{Hops: buf, Leaves: true, Up: up}
	if x.Local.Node != src {
		if w.Hops, w.Detour, ok = g.leg(buf, c, pl, int(src.Chip), int(x.Local.Node.Chip)); !ok {
			return w, false
		}
	}
	w.Hops = append(w.Hops, x.Dir)
	return w, true
}

// Onward appends the route of a packet to another chip of the mesh, from the fault where the packet
// was caught. The parameter detour says whether the packet is already on a detour.
func (p *Plan) Onward(buf []wire.Direction, c wire.Class, pl wire.Plane, at, dst wire.FabricNodeID, detour bool) (w Way, ok bool) {
	g := p.grid(at)
	if g == nil || at.Mesh != dst.Mesh || at == dst || int(dst.Chip) >= g.chips() {
		return w, false
	}
	w.Hops, w.Detour, ok = g.onward(buf, c, pl, int(at.Chip), int(dst.Chip), detour)
	return w, ok
}

// Hop is one hop of a packet's whole route.
type Hop struct {
	At   wire.FabricNodeID
	Dir  wire.Direction // direction out of At
	VC   wire.VC        // virtual channel on the cable of the hop
	Wrap bool           // the cable of the hop wraps
	To   wire.FabricNodeID
}

// Walk lists the whole route of a class's packets from src to dst, with the virtual channel of each
// hop. Walk reports false if there is no route.
func (p *Plan) Walk(c wire.Class, pl wire.Plane, src, dst wire.FabricNodeID) ([]Hop, bool) {
	var hops []Hop
	var buf [wire.MaxHops]wire.Direction
	for at := src; at != dst; {
		w, ok := p.Route(buf[:0], c, pl, at, dst)
		if !ok || len(hops) > p.longest {
			return hops, false
		}
		s := Steps{detour: w.Detour}
		for _, d := range w.Hops {
			h, ok := p.step(&s, c, w.Up, pl, at, d)
			if !ok {
				return hops, false
			}
			hops = append(hops, h)
			at = h.To
		}
	}
	return hops, true
}

// PlanesBetween returns the number n of routing planes that lead from one chip to another. These
// are the planes 0 to n-1. The number is less than [topo.Topology.Planes] if meshes differ in their
// numbers of planes. The number is also less if two meshes are joined by fewer cables than they
// have planes. If there is no route at all, the number is 0.
func (p *Plan) PlanesBetween(src, dst wire.FabricNodeID) (n int) {
	for n < max(p.top.Planes(), 1) {
		if _, ok := p.Walk(wire.ClassRequest, wire.Plane(n), src, dst); !ok {
			break
		}
		n++
	}
	return n
}

// Steps tracks the virtual channel along the hops within a mesh.
type Steps struct {
	begun, dateline bool
	detour          bool // the packet is on a detour
	last            wire.Direction
}

// next returns the virtual channel of a hop in direction d.
func (s *Steps) next(r Ring, c wire.Class, up bool, d wire.Direction, wrap, external bool) wire.VC {
	if !s.begun || axis(s.last) != axis(d) || external {
		s.dateline = false
	}
	s.dateline = s.dateline || (wrap && r == Dateline)
	s.begun, s.last = true, d
	if s.detour && !external {
		return wire.DetourVC(c, up)
	}
	return wire.VCFor(c, up, s.dateline)
}

// axis returns 0 for East and West, 1 for North and South.
func axis(d wire.Direction) int {
	if d == wire.East || d == wire.West {
		return 0
	}
	return 1
}

// step takes one hop of a route, and returns the hop with its virtual channel.
func (p *Plan) step(s *Steps, c wire.Class, up bool, pl wire.Plane, at wire.FabricNodeID, d wire.Direction) (Hop, bool) {
	to, ok := p.top.Neighbour(at, d, pl)
	if !ok {
		return Hop{}, false
	}
	g := p.grid(at)
	external := to.Mesh != at.Mesh
	_, wrap, _ := g.beside(int(at.Chip), d)
	wrap = wrap && !external
	return Hop{at, d, s.next(p.cfg.Ring, c, up, d, wrap, external), wrap, to}, true
}
