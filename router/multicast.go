package router

import "ttfabric/wire"

// Multicast. A packet for several chips stays at the head of its channel, in its slot. The packet
// stays until each of its copies has found room in a sender channel. If the chip is a member, the
// packet also stays until the chip has taken it (Spec §3.1.1: "both forwarded as well as consumed
// locally"). The router notes beside the head which parts are done. A copy that waits therefore
// does not delay the other copies, and the router makes no copy twice. The last copy is the packet
// itself.

// MaxOwn is the number of multicasts of this chip that may wait for their branches on one plane.
// The number equals the number of slots of a sender channel (Spec §3.1.1).
const MaxOwn = 8

// partsKnown is a bit of ring.left beside those of wire.Ranges.Parts. This bit keeps ring.left
// above 0 for a multicast whose parts are all done.
const partsKnown = wire.PartHere << 1

// origins holds, by plane, the multicasts of this chip that have not yet left by all their first
// ports.
type origins struct {
	planes [maxPlanes]ring
	n      int // number of packets on all planes
}

// add makes room for the multicasts of a plane.
func (o *origins) add(pl wire.Plane) {
	if o.planes[pl].slots == nil {
		o.planes[pl] = newRing(MaxOwn)
	}
}

// buffers returns the number of packets for which origins has room.
func (o *origins) buffers() (n int) {
	for i := range o.planes {
		n += len(o.planes[i].slots)
	}
	return n
}

// head is the multicast at the head of a channel.
type head struct {
	q     *ring
	plane wire.Plane
	port  int // index of the port by which the packet came in; -1 for a packet of this chip
	v     wire.VC
}

// CanMulticast reports whether [Router.Multicast] has room.
func (r *Router) CanMulticast(pl wire.Plane) bool { return pl < maxPlanes && !r.own.planes[pl].full() }

// Multicast takes a multicast of this chip. Multicast reports false if too many wait on the plane.
// The packet must have the ranges that it has at the source. The router chooses the virtual
// channels.
func (r *Router) Multicast(pl wire.Plane, s Slot) bool {
	if !r.CanMulticast(pl) {
		return false
	}
	r.own.planes[pl].push(s)
	r.own.n++
	return true
}

// depart hands this chip's multicasts to the ports by which they leave.
func (r *Router) depart() bool {
	moved := false
	for pl := range r.own.planes {
		for q := &r.own.planes[pl]; q.n > 0 && r.spread(head{q, wire.Plane(pl), -1, 0}); {
			moved = true
		}
	}
	return moved
}

// arrived returns the head of a receiver channel.
func (r *Router) arrived(i int, v wire.VC) head {
	p := &r.ports[i]
	return head{&p.recv[v], p.Plane, i, v}
}

func (r *Router) view(h head) wire.PacketView { return wire.PacketView(r.cfg.Pool.Bytes(h.q.peek())) }

// from returns the side by which the packet at the head came in.
func (r *Router) from(h head) wire.Direction {
	if h.port < 0 {
		return wire.NumDirections
	}
	return r.ports[h.port].Dir
}

// parts finds what has to be done with the multicast at the head, and does so only once for each
// head. If nothing has to be done, parts reports false.
func (r *Router) parts(h head) bool {
	if h.q.left == 0 {
		rs := r.view(h).Ranges()
		if n := rs.Parts(r.from(h)); n != 0 {
			h.q.left = n | partsKnown
		}
	}
	return h.q.left != 0
}

// spread hands on the copies of the multicast at the head for which there is room. spread reports
// whether anything moved.
func (r *Router) spread(h head) bool {
	if !r.parts(h) {
		if h.port >= 0 {
			r.drop(h.port, h.v, wire.DropNoRoute)
		} else { // this chip sends the multicast and has not checked its ranges
			r.cfg.Pool.Put(r.pop(h))
		}
		return true
	}
	moved := false
	for d := range wire.Direction(wire.NumDirections) {
		if h.q.left>>d&1 == 0 {
			continue
		}
		ok, gone := r.branch(h, d)
		if moved = moved || ok; gone {
			break
		}
	}
	return moved
}

// branch hands on the copy that leaves in direction d, or drops this copy if no port leads in that
// direction. branch reports whether it handed on or dropped the copy, and whether the packet itself
// has left the channel.
func (r *Router) branch(h head, d wire.Direction) (ok, gone bool) {
	oi, there := r.Port(d, h.plane)
	if !there || r.ports[oi].External {
		return r.dropCopy(h, d, wire.DropNoRoute)
	}
	out := &r.ports[oi]
	to, ch := r.First(oi, wire.ClassRequest, false, false), 0
	if h.port >= 0 {
		if r.view(h).TTL() == 0 {
			return r.dropCopy(h, d, wire.DropTTL)
		}
		in := &r.ports[h.port]
		to, ch = r.turn(h.v, false, false, in, out), passThrough(d, in.Dir)
	}
	if out.send[to][ch].full() {
		return false, false
	}
	s, ok, gone := r.split(h, d)
	if !ok {
		return false, false
	}
	v := wire.PacketView(r.cfg.Pool.Bytes(s))
	v.SetVC(to)
	if h.port >= 0 {
		v.Advance()
		r.ports[h.port].of(h.v).Forwarded++
	} else {
		out.of(to).Injected++
	}
	out.push(to, ch, s)
	return true, gone
}

// split makes the copy that leaves in direction d. If nothing else is left to do with the packet,
// the copy is the packet itself. While the pool is empty, split fails.
func (r *Router) split(h head, d wire.Direction) (s Slot, ok, gone bool) {
	v := r.view(h)
	rs := v.Ranges()
	rs = rs.Copy(v.Trunk(), d, r.from(h) == d.Opposite())
	if h.q.left == partsKnown|1<<d {
		s, gone = r.pop(h), true
	} else {
		if s, ok = r.cfg.Pool.Get(len(v)); !ok {
			return NoSlot, false, false
		}
		copy(r.cfg.Pool.Bytes(s), v)
		h.q.left &^= 1 << d
		h.q.popped++
		r.copied(h)
	}
	wire.PacketView(r.cfg.Pool.Bytes(s)).SetRanges(rs)
	return s, true, gone
}

func (r *Router) copied(h head) {
	if h.port >= 0 {
		r.ports[h.port].of(h.v).Copied++
	}
}

// pop removes the head from its channel and returns its slot.
func (r *Router) pop(h head) Slot {
	if h.port >= 0 {
		return r.take(h.port, h.v)
	}
	r.own.n--
	return h.q.pop()
}

// dropCopy drops the copy that should have left in direction d.
func (r *Router) dropCopy(h head, d wire.Direction, why wire.DropReason) (ok, gone bool) {
	at := h.port
	if at < 0 {
		at = 0 // a chip with a multicast of its own has a port
	}
	s, ok, gone := r.split(h, d)
	if ok {
		p := &r.ports[at]
		c := p.of(h.v) // a multicast of this chip is a request
		c.Dropped[why]++
		if h.port < 0 {
			c.Injected++
		}
		r.drops = append(r.drops, Drop{s, why, p.Channel, d})
	}
	return ok, gone
}

// dropCopies drops all copies that the router has not yet handed on. If this chip is a member, it
// still gets the packet.
func (r *Router) dropCopies(h head, why wire.DropReason) {
	for d := range wire.Direction(wire.NumDirections) {
		if h.q.left>>d&1 == 0 {
			continue
		}
		if _, gone := r.dropCopy(h, d, why); gone {
			return
		}
	}
}

// If this chip is a member of the multicast at the head, member hands the chip the multicast, once.
func (r *Router) member(h head) (Local, bool) {
	if !r.parts(h) || h.q.left&wire.PartHere == 0 {
		return Local{}, false
	}
	r.ports[h.port].of(h.v).Delivered++
	if h.q.left == partsKnown|wire.PartHere {
		return Local{Slot: r.pop(h), Port: h.port}, true
	}
	h.q.left &^= wire.PartHere
	h.q.popped++
	r.copied(h)
	return Local{Slot: h.q.peek(), Port: h.port, Shared: true}, true
}
