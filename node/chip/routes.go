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
}

// routes holds the routes that the chip has needed since it put its tables in force. All
// chips of another mesh share one route.
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

// place returns a pointer to the entry of near for key k. place returns nil if the route
// of k belongs into the map others.
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

// route returns the route to the other end of a flow, for the flow's packets of one
// class.
func (c *machine) route(to flow.Key, class wire.Class) *flow.Route {
	if to.Node.Mesh != c.cfg.Node.Mesh {
		to.Node.Chip = 0
	}
	return c.lookup(routeKey{to.Node, to.Plane, class, to.Other, false})
}

// destination returns the flow key that holds a packet's destination, plane and direction
// round rings, for the method route.
func destination(v wire.PacketView) flow.Key {
	return flow.Key{Node: v.Dst(), Plane: v.Plane(), Other: v.Other()}
}

// onward returns the route from this chip for a packet that is caught at a fault. The
// packet's destination is in this mesh.
func (c *machine) onward(v wire.PacketView) *flow.Route {
	return c.lookup(routeKey{v.Dst(), v.Plane(), v.VC().Class(), v.Other(), v.Detour()})
}

func (c *machine) lookup(k routeKey) *flow.Route {
	w := &c.tables.routes
	k.other = k.other && w.sides == 2 && k.class != wire.ClassControl // control packets never take the other direction round rings
	if k.dst.Mesh == c.cfg.Node.Mesh {
		if at := w.place(k); at != nil {
			if *at == nil {
				*at = c.findRoute(k)
			}
			return *at
		}
	}
	r := w.others[k]
	if r == nil {
		r = c.findRoute(k)
		w.others[k] = r
	}
	return r
}

// findRoute computes the route of key k from the plan in force. If no route exists, OK of
// the result is false.
func (c *machine) findRoute(k routeKey) *flow.Route {
	var buf [wire.MaxHops]wire.Direction
	p := c.tables.plan
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
		w.Actions = make([]byte, 0, max(c.tables.plan.LongestLeg(), len(r.Hops)))
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
	w := c.route(destination(v), v.VC().Class())
	// This chip may have newer tables than the mesh that the packet came from. Newer tables
	// may lead straight back to that mesh. In a route, a hop straight back would mean
	// "deliver here".
	if w.OK && w.First != p.Dir && c.onto(v, w) {
		return true
	}
	v.Reroute(nil, false, false)
	_, ok := c.tables.base.Route(nil, v.VC().Class(), v.Plane(), c.cfg.Node, dst)
	return !ok
}

// onto puts a packet that is under way onto a route from this chip. onto returns false
// if the packet's header has no room for the route.
func (c *machine) onto(v wire.PacketView, w *flow.Route) bool {
	b := &c.scratch.route
	n := copy(b[1:], w.Actions)
	b[0] = wire.RouteBit(w.First)
	for n > 0 && b[n] == 0 { // zero bytes at the end only keep room for the actions in other meshes
		n--
	}
	if !v.Reroute(b[:n+1], w.Up, w.Detour) {
		return false
	}
	v.SetEpoch(c.tables.epoch)
	return true
}
