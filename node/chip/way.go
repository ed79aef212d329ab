package chip

import (
	"ttfabric/router/route"
	"ttfabric/wire"
)

// wayKey names what a way depends on.
type wayKey struct {
	dst   wire.FabricNodeID
	plane wire.Plane
	class wire.Class
	other bool // round rings, see [Request]
	stay  bool // in the channels of detours, which a packet that was sent on at a fault does not leave
}

// way is how packets of a class get from this chip to another, or to the edge
// of this mesh on their way there: what the tables say, as a packet carries it.
type way struct {
	ok     bool
	port   int     // that they leave by
	vc     wire.VC // of the first hop
	up     bool
	detour bool // round a fault
	first  wire.Direction
	route  []byte // actions of the routers behind this one, with room for those of other meshes
}

// ways are those that were needed so far. There are at most a few per chip of
// the mesh, and per mesh, since to all chips of another mesh the way is one.
type ways struct {
	planes int
	sides  int             // 2 where the plan has other ways round rings
	near   [][]*way        // to chips of this mesh, on planes that there are, by chip and then see place
	others map[wayKey]*way // all others
}

func newWays(chips, planes int, p *route.Plan) ways {
	w := ways{planes: planes, sides: 1, near: make([][]*way, chips), others: map[wayKey]*way{}}
	if p.Other() != p {
		w.sides = 2
	}
	return w
}

// place is where a way is kept among those of this mesh; nil where it isn't.
func (w *ways) place(k wayKey) **way {
	if int(k.plane) >= w.planes || int(k.dst.Chip) >= len(w.near) {
		return nil
	}
	of := &w.near[k.dst.Chip]
	if *of == nil {
		*of = make([]*way, w.planes*wire.NumClasses*2*w.sides)
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

// way looks up that of a flow's packets of a class to its node, and keeps it.
func (c *Chip) way(to flowKey, class wire.Class) *way {
	if to.node.Mesh != c.cfg.Node.Mesh {
		to.node.Chip = 0
	}
	return c.lookup(wayKey{to.node, to.plane, class, to.other, false})
}

// destination is where a packet goes, and how, for [Chip.way].
func destination(v wire.PacketView) flowKey {
	return flowKey{node: v.Dst(), plane: v.Plane(), other: v.Other()}
}

// onward is the way of a packet that is caught at a fault, to a chip of this mesh.
func (c *Chip) onward(v wire.PacketView) *way {
	return c.lookup(wayKey{v.Dst(), v.Plane(), v.VC().Class(), v.Other(), v.Detour()})
}

func (c *Chip) lookup(k wayKey) *way {
	k.other = k.other && c.ways.sides == 2 && k.class != wire.ClassControl // which uses no rings
	if k.dst.Mesh == c.cfg.Node.Mesh {
		if at := c.ways.place(k); at != nil {
			if *at == nil {
				*at = c.findWay(k)
			}
			return *at
		}
	}
	w := c.ways.others[k]
	if w == nil {
		w = c.findWay(k)
		c.ways.others[k] = w
	}
	return w
}

// findWay asks the plan.
func (c *Chip) findWay(k wayKey) *way {
	var buf [wire.MaxHops]wire.Direction
	p := c.plan
	if k.other {
		p = p.Other()
	}
	r, ok := p.Route(buf[:0], k.class, k.plane, c.cfg.Node, k.dst)
	if k.stay {
		r, ok = p.Onward(buf[:0], k.class, k.plane, c.cfg.Node, k.dst, true)
	}
	if !ok || len(r.Hops) == 0 {
		return &way{}
	}
	port, ok := c.router.Port(r.Hops[0], k.plane)
	if !ok {
		return &way{}
	}
	w := &way{ok: true, port: port, up: r.Up, detour: r.Detour, first: r.Hops[0], vc: c.router.First(port, k.class, r.Up, r.Detour)}
	if r.Leaves {
		w.route = make([]byte, 0, max(c.plan.LongestLeg(), len(r.Hops)))
		for _, d := range r.Hops[1:] {
			w.route = append(w.route, wire.RouteBit(d))
		}
		w.route = w.route[:cap(w.route)]
	} else {
		w.route = wire.AppendRoute(nil, r.Hops)
	}
	return w
}

// address gives a packet its route, TTL and virtual channel. "At every network
// hop" one is taken from the TTL (Spec §7.2), the hop out of this chip included.
func (w *way) address(p *wire.Packet, ttl uint16) {
	p.VC, p.Up, p.Detour, p.Route, p.TTL = w.vc, w.up, w.detour, w.route, ttl-1
}

// enter gives a packet that has come from another mesh its route through this
// one (Spec §2.2: "the entry node fabric router in the next mesh calculates a
// new source route"). It reports false where faults leave none. Where there never
// was one, the router will find no action and drop it.
func (c *Chip) enter(p *port, v wire.PacketView) (way bool) {
	if p.Peer.Node.Mesh == c.cfg.Node.Mesh {
		return true
	}
	if v.Trunk() != wire.TrunkNone {
		v.SetRanges(wire.Ranges{}) // a multicast stays in its mesh: it goes no further, and is refused here
		return true
	}
	dst := v.Dst()
	if dst == c.cfg.Node {
		v.Reroute([]byte{wire.RouteBit(p.Dir)}, false, false) // back where it came from: deliver here
		return true
	}
	w := c.way(destination(v), v.VC().Class())
	// A way back to the mesh that it came from, by tables newer than that mesh's, would say: deliver here.
	if w.ok && w.first != p.Dir && c.onto(v, w) {
		return true
	}
	v.Reroute(nil, false, false)
	_, ok := c.base.Route(nil, v.VC().Class(), v.Plane(), c.cfg.Node, dst)
	return !ok
}

// onto puts a packet that is under way onto a way from this chip; false where its header has no room.
func (c *Chip) onto(v wire.PacketView, w *way) bool {
	n := copy(c.route[1:], w.route)
	c.route[0] = wire.RouteBit(w.first)
	for n > 0 && c.route[n] == 0 { // room for other meshes
		n--
	}
	if !v.Reroute(c.route[:n+1], w.up, w.detour) {
		return false
	}
	v.SetEpoch(c.epoch)
	return true
}
