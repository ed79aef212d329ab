package chip

import (
	"ttfabric/node/flow"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// routeKey holds everything that a route depends on.
type routeKey struct {
	dst   wire.FabricNodeID
	plane wire.Plane
	class wire.Class
	other bool // true: the route takes the other direction round rings, see flow.Request
	stay  bool // true: the route must stay in the virtual channels of detours, because the packet is already on a detour
	whole bool // true: the route of a request to another mesh, with the part in the other meshes
}

// routes holds the routes that the chip has needed since it planned the tables. All chips of
// another mesh share one route to this mesh. For requests, the chip also finds the whole route to
// each chip of another mesh.
type routes struct {
	planes int
	sides  int                      // 2 if the plan has routes in the other direction round rings, else 1
	near   [][]*flow.Route          // routes to chips of this mesh on planes that exist; indexed by chip, then by the number that place computes
	others map[routeKey]*flow.Route // routes to other meshes, to chips that do not exist, or on planes that do not exist
}

func newRoutes(chips, planes int, p *route.Plan) routes {
	w := routes{planes: planes, sides: 1, near: make([][]*flow.Route, chips), others: map[routeKey]*flow.Route{}}
	if p.Other() != p {
		w.sides = 2
	}
	return w
}

// place returns a pointer to the entry of near for key k. place returns nil if the route of k
// belongs into the map "others".
func (w *routes) place(k routeKey) **flow.Route {
	if int(k.plane) >= w.planes || int(k.dst.Chip) >= len(w.near) {
		return nil
	}
	of := &w.near[k.dst.Chip]
	if *of == nil {
		*of = make([]*flow.Route, w.planes*wire.NumClasses*2*w.sides)
	}
	i := (int(k.plane)*wire.NumClasses + int(k.class)) * 2
	if k.stay {
		i++
	}
	if k.other {
		i += w.planes * wire.NumClasses * 2
	}
	return &(*of)[i]
}

// route returns the route to the other end of a flow, for the flow's packets of one class, by the
// tables in force. For another mesh, the route ends at that mesh's entry node.
func (c *machine) route(to flow.Key, class wire.Class) *flow.Route {
	return c.routeBy(c.tables.planned, to, class)
}

// routeBy returns the same route as the method "route", but by given tables instead of the tables
// in force.
func (c *machine) routeBy(t *planned, to flow.Key, class wire.Class) *flow.Route {
	if to.Node.Mesh != c.cfg.Node.Mesh {
		to.Node.Chip = 0
	}
	return c.lookup(t, routeKey{dst: to.Node, plane: to.Plane, class: class, other: to.Other})
}

// whole returns the whole route of requests to another chip, in this mesh and in others, by given
// tables.
func (c *machine) whole(t *planned, to flow.Key) *flow.Route {
	if to.Node.Mesh == c.cfg.Node.Mesh {
		return c.routeBy(t, to, wire.ClassRequest)
	}
	return c.lookup(t, routeKey{dst: to.Node, plane: to.Plane, class: wire.ClassRequest, other: to.Other, whole: true})
}

// destination returns the flow key that holds a packet's destination, plane and direction round
// rings, for the method "route".
func destination(v wire.PacketView) flow.Key {
	return flow.Key{Node: v.Dst(), Plane: v.Plane(), Other: v.Other()}
}

// onward returns the route from this chip for a packet that is caught at a fault. The
// packet's destination is in this mesh.
func (c *machine) onward(v wire.PacketView) *flow.Route {
	return c.lookup(c.tables.planned, routeKey{dst: v.Dst(), plane: v.Plane(), class: v.VC().Class(), other: v.Other(), stay: v.Detour()})
}

func (c *machine) lookup(t *planned, k routeKey) *flow.Route {
	w := &t.routes
	k.other = k.other && w.sides == 2 && k.class != wire.ClassControl // control packets never take the other direction round rings
	if k.dst.Mesh == c.cfg.Node.Mesh {
		if at := w.place(k); at != nil {
			if *at == nil {
				*at = c.findRoute(t.plan, k)
			}
			return *at
		}
	}
	r := w.others[k]
	if r == nil {
		if k.whole {
			r = c.findWhole(t, k)
		} else {
			r = c.findRoute(t.plan, k)
		}
		w.others[k] = r
	}
	return r
}

// findWhole computes the whole route of key k to a chip of another mesh from given tables. If no
// whole route exists, OK of the result is false.
func (c *machine) findWhole(t *planned, k routeKey) *flow.Route {
	r := *c.routeBy(t, flow.Key{Node: k.dst, Plane: k.plane, Other: k.other}, k.class)
	p := t.plan
	if k.other {
		p = p.Other()
	}
	hops, ok := p.Walk(k.class, k.plane, c.cfg.Node, k.dst)
	if !r.OK || !ok {
		return &flow.Route{}
	}
	for _, h := range hops {
		if h.At.Mesh != c.cfg.Node.Mesh {
			q, _ := p.Port(h.At, h.Dir, k.plane)
			r.Beyond = append(r.Beyond, q)
		}
	}
	return &r
}

// findRoute computes the route of key k from a plan. If no route exists, OK of the result is false.
func (c *machine) findRoute(p *route.Plan, k routeKey) *flow.Route {
	var buf [wire.MaxHops]wire.Direction
	plan := p
	if k.other {
		p = p.Other()
	}
	r, ok := p.Route(buf[:0], k.class, k.plane, c.cfg.Node, k.dst)
	if k.stay {
		r, ok = p.Onward(buf[:0], k.class, k.plane, c.cfg.Node, k.dst, true)
	}
	if !ok || len(r.Hops) == 0 {
		return &flow.Route{}
	}
	port, ok := c.router.Port(r.Hops[0], k.plane)
	if !ok {
		return &flow.Route{}
	}
	w := &flow.Route{OK: true, Port: port, Up: r.Up, Detour: r.Detour, First: r.Hops[0], VC: c.router.First(port, k.class, r.Up, r.Detour)}
	if r.Leaves {
		w.Actions = make([]byte, 0, max(plan.LongestLeg(), len(r.Hops)))
		for _, d := range r.Hops[1:] {
			w.Actions = append(w.Actions, wire.RouteBit(d))
		}
		if k.class != wire.ClassControl { // a control packet has room for any route
			w.Actions = w.Actions[:cap(w.Actions)]
		}
	} else {
		w.Actions = wire.AppendRoute(nil, r.Hops)
	}
	return w
}

// address gives a packet its route, virtual channel and TTL. Every chip subtracts 1 from
// the TTL "at every network hop" (Spec §7.2). Therefore address subtracts 1 for the hop
// out of this chip.
func address(w *flow.Route, p *wire.Packet, ttl uint16) {
	p.VC, p.Up, p.Detour, p.Route, p.TTL = w.VC, w.Up, w.Detour, w.Actions, ttl-1
}

// enter gives a packet that has come from another mesh its route through this mesh. Spec
// §2.2 says: "the entry node fabric router in the next mesh calculates a new source
// route". If the faults leave no route that the packet can take, enter returns false. If
// the fabric has no route even without faults, enter clears the packet's route and returns
// true. The router then drops the packet, because the packet has no route. For a packet
// from this mesh, enter does nothing and returns true.
func (c *machine) enter(p *port, v wire.PacketView) bool {
	if p.Peer.Node.Mesh == c.cfg.Node.Mesh {
		return true
	}
	dst := v.Dst()
	switch {
	case v.HasMembers():
		if dst.Mesh == c.cfg.Node.Mesh { // the tree to the members begins here
			v.SetTrunk(c.tables.plan.Trunk())
			return v.Reroute(nil, false, false)
		}
		v.SetTrunk(wire.TrunkNone) // only in the members' mesh is the packet a multicast
	case v.Trunk() != wire.TrunkNone:
		v.SetRanges(wire.Ranges{}) // a multicast by ranges must stay in its mesh; a copy without ranges ends at this chip, which refuses the copy
		return true
	}
	if dst == c.cfg.Node {
		v.Reroute([]byte{wire.RouteBit(p.Dir)}, false, false) // a hop back in the direction that the packet came from means "deliver here"
		return true
	}
	if c.through(p, v) {
		return true
	}
	v.Reroute(nil, false, false)
	_, ok := c.tables.base.Route(nil, v.VC().Class(), v.Plane(), c.cfg.Node, dst)
	return !ok
}

// through finds the route through this mesh for a packet that has come from another mesh, and puts
// the packet onto this route. The packets of a flow must take one route, even if this chip has
// newer or older tables than the flow's source. The first of the following tables with a route for
// the packet therefore gives the route:
//
//   - The tables that routed the previous packet of the same flow, while that packet's request is
//     open. The previous packet may still wait at a silent cable of this mesh. On a route of other
//     tables, this packet could overtake the previous packet.
//   - The tables that the packet names, if the chip remembers these tables.
//   - The tables in force.
//   - The tables that use silent cables. The packet then waits at the silent port.
//   - The tables that use silent cables, but not the cable by which the packet came in. The tables
//     of the previous point may be newer than the tables that routed the packet, and may then lead
//     straight back over this cable.
//
// If the first or second of these tables give a route that crosses a cable that is out of service,
// through skips these tables, unless they are in force.
//
// If the packet gets its route from tables that it does not name, its epoch becomes EpochMixed.
func (c *machine) through(p *port, v wire.PacketView) bool {
	t, to, class, epoch := &c.tables, destination(v), v.VC().Class(), v.Epoch()
	try := func(by *planned) bool {
		names := epoch
		if by.epoch != epoch {
			names = wire.EpochMixed
		}
		return c.onto(p, v, c.routeBy(by, to, class), names)
	}
	last := t.entrants.of(v, t.planned)
	keep := func(by *planned) bool {
		if by == nil || !try(by) {
			return false
		}
		last.took(v, by)
		return true
	}
	alive := func(by *planned) *planned {
		if by != nil && by != t.planned {
			if w := c.routeBy(by, to, class); t.hope.plan.Crosses(c.cfg.Node, to.Plane, w.First, w.Actions) {
				return nil
			}
		}
		return by
	}
	return keep(alive(last.open(v))) || keep(alive(t.named(v))) || keep(t.planned) || keep(t.hope) || keep(c.onwardFrom(p))
}

// onwardFrom returns tables that use silent cables, but not the cable of port p.
func (c *machine) onwardFrom(p *port) *planned {
	t := &c.tables
	if t.onward == nil {
		t.onward = map[wire.Channel]*planned{}
	}
	by := t.onward[p.Local.Channel]
	if by == nil {
		by = c.newPlanned(t.base.Around(append(c.control.Lost(), p.Local, p.Peer)))
		t.onward[p.Local.Channel] = by
	}
	return by
}

// named returns the tables that a packet names, or nil if the chip does not remember these tables.
func (t *tables) named(v wire.PacketView) *planned {
	e := v.Epoch()
	if e == t.epoch {
		return t.planned
	}
	return t.former.find(e)
}

// onto puts a packet that came in by a port onto a route from this chip, if the route exists. The
// tables of this chip may be newer than the tables of the mesh that the packet came from, and may
// lead straight back to that mesh. In a route, a hop straight back would mean "deliver here". onto
// then returns false. onto also returns false if the packet's header has no room for the route.
func (c *machine) onto(p *port, v wire.PacketView, w *flow.Route, epoch uint32) bool {
	if !w.OK || w.First == p.Dir {
		return false
	}
	b := &c.scratch.route
	n := copy(b[1:], w.Actions)
	b[0] = wire.RouteBit(w.First)
	for n > 0 && b[n] == 0 { // zero bytes at the end only keep room for the actions in other meshes
		n--
	}
	if !v.Reroute(b[:n+1], w.Up, w.Detour) {
		return false
	}
	v.SetEpoch(epoch)
	return true
}
