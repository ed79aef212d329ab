package router

import "ttfabric/wire"

// This file handles multicasts. A multicast that came in by a port stays at the front of its
// receiver channel, in its slot. A multicast of this chip stays in the same way at the front of a
// queue in origins. The packet stays until each of its copies has found room in a sender channel.
// If this chip is a member of the group, the packet also stays until the chip has taken the packet.
// Spec §3.1.1 says: "both forwarded as well as consumed locally". The field ring.left of the queue
// says which parts of this work remain. A copy that waits therefore does not delay the other
// copies, and the router makes each copy once. The last part of the work uses the packet itself,
// not a copy.

// MaxOwn is the number of multicasts of this chip that may wait on one plane for room in sender
// channels. The number equals the number of slots of a sender channel (Spec §3.1.1).
const MaxOwn = 8

// partsKnown is an extra bit of ring.left, besides the bits that wire.Ranges.Parts returns. A
// ring.left of 0 says that the parts are not known yet. The last part of the work removes the packet
// and sets ring.left to 0.
const partsKnown = wire.PartHere << 1

// origins holds, by plane, the multicasts that this chip sends. A multicast stays until each copy
// that must leave this chip has found room in a sender channel or was dropped.
type origins struct {
	planes [maxPlanes]ring
	n      int // number of packets on all planes
}

// add makes room for MaxOwn multicasts on a plane. If the plane has this room already, add does
// nothing.
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

// head names the queue whose first packet is a multicast. The queue is a receiver channel, or the
// queue of this chip's own multicasts on a plane.
type head struct {
	q     *ring
	plane wire.Plane
	port  int // index of the port by which the packet came in; -1: the packet is this chip's own
	v     wire.VC
}

// CanMulticast reports whether plane pl has room for another multicast of this chip.
func (r *Router) CanMulticast(pl wire.Plane) bool { return pl < maxPlanes && !r.own.planes[pl].full() }

// Multicast puts a multicast of this chip into the chip's queue. Multicast reports false if plane
// pl has no room. The packet's ranges or members must be those of the whole multicast. The router
// chooses the virtual channels of the copies.
func (r *Router) Multicast(pl wire.Plane, s Slot) bool {
	if !r.CanMulticast(pl) {
		return false
	}
	r.own.planes[pl].push(s, r.at)
	r.own.n++
	return true
}

// depart moves copies of this chip's own multicasts to sender channels. depart reports whether it
// moved or dropped a packet.
func (r *Router) depart() bool {
	moved := false
	for pl := range r.own.planes {
		for q := &r.own.planes[pl]; q.n > 0 && r.spread(head{q, wire.Plane(pl), -1, 0}); {
			moved = true
		}
	}
	return moved
}

// arrived returns the first packet of a receiver channel as a head.
func (r *Router) arrived(i int, v wire.VC) head {
	p := &r.ports[i]
	return head{&p.recv[v], p.Plane, i, v}
}

func (r *Router) view(h head) wire.PacketView { return wire.PacketView(r.cfg.Pool.Bytes(h.q.peek())) }

// side returns the side of a port by which a multicast came in. For the port -1, which stands for a
// multicast of this chip, side returns wire.NumSides.
func (r *Router) side(port int) wire.Direction {
	if port < 0 {
		return wire.NumSides
	}
	return r.ports[port].Dir
}

// parts finds out, once for each multicast, in which directions copies leave and whether this chip
// is a member. parts reports false if no copy leaves and this chip is no member. parts also reports
// false if the ranges lead back to the side by which the multicast came in. parts reports false,
// too, if no route leads from this chip to a member.
func (r *Router) parts(h head) bool {
	if h.q.left == 0 {
		if n := r.duties(r.view(h), h.port); n != 0 {
			h.q.left = n | partsKnown
		}
	}
	return h.q.left != 0
}

// duties returns the parts of a multicast that came in by a port, or that is this chip's own if the
// port is -1. The bits are those of [wire.Ranges.Parts].
func (r *Router) duties(v wire.PacketView, port int) (parts uint8) {
	if !v.HasMembers() {
		rs := v.Ranges()
		return rs.Parts(r.side(port))
	}
	m := v.Members()
	_, parts = m.Spread(&r.cfg.Place, v.Trunk(), r.root(port))
	if port < 0 {
		parts &^= wire.PartHere // the source is no member
	}
	return parts
}

// root returns the side by which a multicast to members came in. Where the tree of the multicast
// begins, root returns wire.NumSides. A tree begins at the source, and at the entry node of
// the members' mesh.
func (r *Router) root(port int) wire.Direction {
	if port >= 0 && r.ports[port].External {
		return wire.NumSides
	}
	return r.side(port)
}

// spread moves the copies of a multicast for which sender channels have room. spread reports
// whether it moved or dropped a packet.
func (r *Router) spread(h head) bool {
	if !r.parts(h) {
		if h.port >= 0 {
			r.drop(h.port, h.v, wire.DropNoRoute)
		} else { // this chip sent a multicast whose ranges name no chip
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

// branch moves the copy that leaves in direction d to a sender channel. If no port of this mesh
// leads in that direction, branch drops the copy. branch also drops the copy of a multicast that
// came in with a TTL of 0, and of an outdated multicast that cannot be parked. If the copy has to
// wait, ok is false. If this was the last part of the work, the packet itself has left its queue,
// and gone is true.
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
	if ok, why := r.takes(out, to, ch, r.view(h)); !ok {
		if why != 0 {
			return r.dropCopy(h, d, why)
		}
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
	out.push(to, ch, s, r.at)
	return true, gone
}

// split makes the copy that leaves in direction d. If nothing else is left to do with the packet,
// the copy is the packet itself, and gone is true. If the pool is empty, split returns false for
// ok.
func (r *Router) split(h head, d wire.Direction) (s Slot, ok, gone bool) {
	v := r.view(h)
	rs, m := v.Ranges(), wire.Members{}
	if v.HasMembers() {
		m = v.Members()
		copies, _ := m.Spread(&r.cfg.Place, v.Trunk(), r.root(h.port))
		m = copies[d]
	} else {
		rs = rs.Copy(v.Trunk(), d, r.side(h.port) == d.Opposite())
	}
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
	if c := wire.PacketView(r.cfg.Pool.Bytes(s)); c.HasMembers() {
		c.SetMembers(m)
	} else {
		c.SetRanges(rs)
	}
	return s, true, gone
}

func (r *Router) copied(h head) {
	if h.port >= 0 {
		r.ports[h.port].of(h.v).Copied++
	}
}

// pop removes a multicast from its channel and returns the multicast's slot.
func (r *Router) pop(h head) Slot {
	if h.port >= 0 {
		return r.take(h.port, h.v)
	}
	r.own.n--
	return h.q.pop()
}

// dropCopy drops the copy that should have left in direction d. If the pool has no buffer for the
// copy, dropCopy drops nothing, and ok is false. The copy of a multicast of this chip counts as
// dropped at port 0.
func (r *Router) dropCopy(h head, d wire.Direction, why wire.DropReason) (ok, gone bool) {
	at := h.port
	if at < 0 {
		at = 0 // a chip that sends a multicast has at least one port
	}
	s, ok, gone := r.split(h, d)
	if ok {
		p := &r.ports[at]
		c := p.of(h.v) // for a multicast of this chip, h.v is 0, a virtual channel for requests
		c.Dropped[why]++
		if h.port < 0 {
			c.Injected++
		}
		r.drops = append(r.drops, Drop{s, why, p.Channel, d})
	}
	return ok, gone
}

// dropCopies drops all copies that the router has not moved yet, except copies for which the pool
// has no buffer. If this chip is a member of the group, the chip still gets the packet.
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

// member returns a multicast for this chip, if this chip is a member of the group and has not got
// the multicast yet. A later call for the same multicast returns false.
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
