package route

import "ttfabric/wire"

// Way is a packet's route through one mesh. The route begins at the packet's source or at the chip
// where the packet entered the mesh. The route ends at the destination or in the next mesh.
type Way struct {
	Hops   []wire.Direction
	Leaves bool // the last hop leads to another mesh
	Up     bool // the packet still has to make an up crossing
	Detour bool // the route leads round a fault
}

// Route finds the route of packets of class c from src towards dst through the mesh of src. Route
// appends the hops to buf. If there is no route on plane pl, or if src or dst is not a chip of the
// machine, ok is false. If src is dst, the route has no hops.
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

// Onward appends the route of a packet that was caught at a fault at chip "at", to chip dst of the
// same mesh. The argument "detour" is true if the packet is already on a detour. If there is no
// route, ok is false.
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

// Walk lists the hops of the whole route of packets of class c from src to dst, through all meshes.
// Walk reports false if there is no route, or if the route has no cable on plane pl. Walk then
// returns the hops up to that place.
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

// PlanesBetween returns the largest number n such that planes 0 to n-1 all lead from one chip to
// the other. If there is no route, n is 0. PlanesBetween returns less than [topo.Topology.Planes]
// in three cases. In the first case, a mesh on the route has fewer planes than other meshes. In the
// second case, two meshes are joined by fewer cables than they have planes. In the third case,
// faults leave no route on plane n.
func (p *Plan) PlanesBetween(src, dst wire.FabricNodeID) (n int) {
	for n < max(p.top.Planes(), 1) {
		if _, ok := p.Walk(wire.ClassRequest, wire.Plane(n), src, dst); !ok {
			break
		}
		n++
	}
	return n
}

// Steps follows a packet hop by hop through one mesh, and finds the virtual channel of each hop.
type Steps struct {
	begun, dateline bool
	detour          bool // the packet is on a detour
	last            wire.Direction
}

// next returns the virtual channel of the packet's next hop, which leads in direction d.
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

// axis returns 0 for East and West, and 1 for North and South.
func axis(d wire.Direction) int {
	if d == wire.East || d == wire.West {
		return 0
	}
	return 1
}

// step returns the hop from chip "at" in direction d with its virtual channel. step reports false
// if there is no cable on plane pl.
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
