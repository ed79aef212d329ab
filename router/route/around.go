package route

import (
	"maps"
	"math/bits"

	"ttfabric/wire"
)

// Around returns the plan for the same machine while cables are out of service. The argument "out"
// names each cable by the port at either end. Around ignores ports without a cable in use. Within a
// mesh, a route of the plan without faults stays if the route does not cross such a cable. Routes
// between meshes are planned again, and any of them may change. If no cable is out of service,
// Around returns the plan without faults. The package documentation describes detours.
func (p *Plan) Around(out []wire.PortID) *Plan {
	q := &Plan{cfg: p.cfg, top: p.top}
	for _, e := range out {
		for _, port := range p.top.Ports(e.Node) {
			if port.Local != e {
				continue
			}
			if q.out == nil {
				q.out = map[wire.PortID]bool{}
			}
			q.out[e], q.out[port.Peer] = true, true
		}
	}
	for _, g := range p.grids {
		h := &grid{plan: q, mesh: g.mesh, planes: g.planes, first: g.first, legs: g.legs}
		if h.round(); q.out != nil && h.detours == nil {
			h.detours = upDownOf(h)
		}
		q.grids = append(q.grids, h)
	}
	q.finish()
	return q
}

// round plans detours, if neighbours in the grid have no cable and the engine routes by the grid.
func (g *grid) round() {
	if _, any := g.legs.(*upDown); !any && g.plan.top.Lacks(g.mesh.ID) {
		g.detours = upDownOf(g)
	}
}

// Out reports whether the cable at port q is out of service.
func (p *Plan) Out(q wire.PortID) bool { return p.out[q] }

// Crosses reports whether a route crosses a cable that is out of service in this plan. The route begins
// at a chip, on plane pl, with a hop in direction d. The route bytes name the later hops, as in a
// packet.
func (p *Plan) Crosses(at wire.FabricNodeID, pl wire.Plane, d wire.Direction, route []byte) bool {
	for {
		q, ok := p.Port(at, d, pl)
		if !ok || p.out[q] {
			return ok
		}
		at, _ = p.top.Neighbour(at, d, pl)
		if len(route) == 0 || route[0] == 0 || route[0] == wire.RouteBit(d.Opposite()) {
			return false
		}
		d, route = wire.Direction(bits.TrailingZeros8(route[0])), route[1:]
	}
}

// detours reports whether any packet could ever take a detour. Detours need a fabric that allows
// turns. Detours also need a mesh whose grid contains a ring: at least as many cables on a plane as
// chips.
func (p *Plan) detours() bool {
	if p.cfg.Lines {
		return false
	}
	for _, g := range p.grids {
		edges := 0
		for chip := range g.chips() {
			for _, d := range []wire.Direction{wire.East, wire.South} {
				if _, _, ok := g.beside(chip, d); ok {
					edges++
				}
			}
		}
		if edges >= g.chips() {
			return true
		}
	}
	return false
}

// Conflict is the reason why new tables cannot simply replace old tables while packets that were
// routed by the old tables are under way.
type Conflict uint8

// The conflicts that exist.
const (
	NoConflict Conflict = iota
	OldDetours          // packets of the old tables that are on detours or go to another mesh could close a cycle with packets of the new tables, and must not wait in receiver channels
	Unsound             // the new tables can deadlock, lead packets astray or have routes that are too long, and must not be installed
)

// Replaces proves that plan p can replace plan "old", of the same machine, while packets of old are
// under way. Some of these packets are caught at a fault, and continue on routes of p. If there is
// no proof, Replaces returns the conflict. Replaces need not look at all routes if the machine has
// one mesh, or if the same cables are out of service in both plans. In these cases, Replaces looks
// only at the detours of both plans and at caught packets. The package documentation says why the
// other routes close no cycle with detours and caught packets.
func (p *Plan) Replaces(old *Plan) Conflict {
	if len(p.grids) > 1 && !maps.Equal(p.out, old.out) {
		mc := p.Multicasts()
		if v := p.Check(mc); !v.Sound() {
			return Unsound
		}
		if v := p.CheckAfter(old, mc); v.Cycle != nil {
			return OldDetours
		}
		return NoConflict
	}
	worst, g := NoConflict, p.graph()
	for pl := range max(p.top.Planes(), 1) {
		for c := range wire.Class(wire.NumClasses) {
			g.reset()
			k := newChecker(p, wire.Plane(pl), c, g)
			k.detours()
			if k.g.cycle() != nil || k.astray+k.long > 0 {
				return Unsound
			}
			newChecker(old, wire.Plane(pl), c, g).detours()
			k.caught(old)
			if old.other != old { // packets with Other follow old.other: its detours are those of old, which the graph already has, but its caught packets are its own
				newChecker(p.other, wire.Plane(pl), c, g).caught(old.other)
			}
			if k.g.cycle() != nil {
				worst = OldDetours
			}
		}
	}
	return worst
}

// detours adds the dependencies of all detours within the meshes.
func (k *checker) detours() {
	for _, g := range k.p.grids {
		if g.detours == nil {
			continue
		}
		for src := range g.chips() {
			for dst := range g.chips() {
				if leg, detour, _ := g.leg(k.buf[:0], k.c, k.pl, src, dst); detour {
					k.follow(g, src, dst, leg)
					k.path(g, src, leg, false, false, true, -1)
				}
			}
		}
	}
}

// caught adds the dependencies of packets of plan "old" that are caught at a fault. A caught packet
// continues from the chip where its old route meets a cable that is out of service.
func (k *checker) caught(old *Plan) {
	var buf [wire.MaxHops + 1]wire.Direction
	for i, g := range k.p.grids {
		if g.detours == nil {
			continue
		}
		was := old.grids[i]
		for src := range g.chips() {
			for dst := range g.chips() {
				leg, detour, ok := was.leg(buf[:0], k.c, k.pl, src, dst)
				if !ok || g.intact(leg, k.pl, src) {
					continue
				}
				at, n := src, 0
				for !g.failed(at, leg[n], k.pl) {
					at, _, _ = g.beside(at, leg[n])
					n++
				}
				if at == dst {
					continue
				}
				held := int32(-1)
				if n > 0 {
					held = k.last(was, src, leg[:n], detour)
				}
				on, again, ok := g.onward(k.buf[:0], k.c, k.pl, at, dst, detour)
				if ok {
					k.path(g, at, on, false, false, again, held)
				}
			}
		}
	}
}

// The method "last" returns the number that the graph gives to the virtual channel of a leg's last
// hop. If the leg has no hop, last returns -1.
func (k *checker) last(g *grid, chip int, leg []wire.Direction, detour bool) int32 {
	s := Steps{detour: detour}
	held := int32(-1)
	for _, d := range leg {
		next, wrap, _ := g.beside(chip, d)
		held = k.id(g, chip, d, s.next(k.p.cfg.Ring, k.c, false, d, wrap, false), false)
		chip = next
	}
	return held
}
