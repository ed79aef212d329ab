package chip

import (
	"ttfabric/node/flow"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// routeKey names what a route depends on.
type routeKey struct {
	dst   wire.FabricNodeID
	plane wire.Plane
	class wire.Class
	other bool // the other route round rings, see flow.Request
	stay  bool // in the channels of detours: a packet that was sent on at a fault does not leave these channels
}

// routes are the routes that were needed so far, by the tables in force. There
// are a few per chip of the mesh, and a few per other mesh, since one route leads
// to all chips of another mesh.
type routes struct {
	planes int
	sides  int                      // 2 where the plan has other routes round rings
	near   [][]*flow.Route          // to chips of this mesh on planes that exist, by chip and then by place
	others map[routeKey]*flow.Route // all others
}

func newRoutes(chips, planes int, p *route.Plan) routes {
	w := routes{planes: planes, sides: 1, near: make([][]*flow.Route, chips), others: map[routeKey]*flow.Route{}}
	if p.Other() != p {
		w.sides = 2
	}
	return w
}

// place is where a route is kept among those of this mesh; nil where the route is kept among the others.
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

// route returns the route of a flow's packets of a class to the flow's other end.
func (c *machine) route(to flow.Key, class wire.Class) *flow.Route {
	if to.Node.Mesh != c.cfg.Node.Mesh {
		to.Node.Chip = 0
	}
	return c.lookup(routeKey{to.Node, to.Plane, class, to.Other, false})
}

// destination is the flow of a packet, as route wants to know it.
func destination(v wire.PacketView) flow.Key {
	return flow.Key{Node: v.Dst(), Plane: v.Plane(), Other: v.Other()}
}

// onward returns the route of a packet that is caught at a fault, to a chip of this mesh.
func (c *machine) onward(v wire.PacketView) *flow.Route {
	return c.lookup(routeKey{v.Dst(), v.Plane(), v.VC().Class(), v.Other(), v.Detour()})
}

func (c *machine) lookup(k routeKey) *flow.Route {
	w := &c.tables.routes
	k.other = k.other && w.sides == 2 && k.class != wire.ClassControl // control packets use no rings
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

// findRoute asks the plan.
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
		w.Actions = w.Actions[:cap(w.Actions)]
	} else {
		w.Actions = wire.AppendRoute(nil, r.Hops)
	}
	return w
}

// address gives a packet its route, virtual channel and TTL. One is taken from
// the TTL "at every network hop" (Spec §7.2), the hop out of this chip included.
func address(w *flow.Route, p *wire.Packet, ttl uint16) {
	p.VC, p.Up, p.Detour, p.Route, p.TTL = w.VC, w.Up, w.Detour, w.Actions, ttl-1
}

// enter gives a packet that has come from another mesh its route through this
// mesh (Spec §2.2: "the entry node fabric router in the next mesh calculates a
// new source route"). It reports false where faults leave no route. Where no
// route ever was, the router finds no action in the packet and drops the packet.
func (c *machine) enter(p *port, v wire.PacketView) bool {
	if p.Peer.Node.Mesh == c.cfg.Node.Mesh {
		return true
	}
	if v.Trunk() != wire.TrunkNone {
		v.SetRanges(wire.Ranges{}) // a multicast stays in its mesh: the copy goes no further, and this chip refuses it
		return true
	}
	dst := v.Dst()
	if dst == c.cfg.Node {
		v.Reroute([]byte{wire.RouteBit(p.Dir)}, false, false) // back where the packet came from means: deliver here
		return true
	}
	w := c.route(destination(v), v.VC().Class())
	// A route back to the mesh that the packet came from, by tables newer than that mesh's, would say: deliver here.
	if w.OK && w.First != p.Dir && c.onto(v, w) {
		return true
	}
	v.Reroute(nil, false, false)
	_, ok := c.tables.base.Route(nil, v.VC().Class(), v.Plane(), c.cfg.Node, dst)
	return !ok
}

// onto puts a packet that is under way onto a route from this chip; false where the packet's header has no room.
func (c *machine) onto(v wire.PacketView, w *flow.Route) bool {
	b := &c.scratch.route
	n := copy(b[1:], w.Actions)
	b[0] = wire.RouteBit(w.First)
	for n > 0 && b[n] == 0 { // room for other meshes
		n--
	}
	if !v.Reroute(b[:n+1], w.Up, w.Detour) {
		return false
	}
	v.SetEpoch(c.tables.epoch)
	return true
}
