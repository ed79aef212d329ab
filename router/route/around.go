package route

import (
	"maps"

	"ttfabric/wire"
)

// Around returns the plan of the same machine while the given cables are out of service. A port in
// the list names the cable of which the port is either end. See the package documentation. A route
// that does not cross such a cable stays the same. If the list is empty, Around returns the plan
// without faults.
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
		if q.out != nil {
			h.detours = upDownOf(h)
		}
		q.grids = append(q.grids, h)
	}
	q.finish()
	return q
}

// Out reports whether the cable at a port is out of service.
func (p *Plan) Out(q wire.PortID) bool { return p.out[q] }

// detours reports whether any packet could ever take a detour. A packet can do so if turns are
// allowed and some mesh has more cables on a plane than a tree needs.
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

// Conflict says why new tables cannot simply replace old tables while packets of the old tables are
// under way.
type Conflict uint8

// The conflicts.
const (
	NoConflict Conflict = iota
	OldDetours          // packets of the old tables that go round a fault, or to another mesh, must be dropped
	Unsound             // the new tables can deadlock or lead packets astray, and must not be installed
)

// Replaces proves that this plan can replace another plan of the same machine while packets of the
// old plan are under way. Some of these packets may be caught at a fault and sent on by this plan.
// If there is no proof, Replaces returns the conflict. Replaces looks only at the dependencies that
// can differ between the two plans, see the package documentation.
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
			if old.other != old { // the detours of old.other are among the detours of old
				newChecker(p.other, wire.Plane(pl), c, g).caught(old.other)
			}
			if k.g.cycle() != nil {
				worst = OldDetours
			}
		}
	}
	return worst
}

// detours adds the dependencies of the detours between all pairs of chips of a mesh, and nothing
// else.
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

// caught adds the routes of packets of an older plan. Each route begins at the chip where the
// packet meets a cable that is out of service in this plan.
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

// last returns the channel at the end of a leg.
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
