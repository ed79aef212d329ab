package router

import "ttfabric/wire"

// This file handles caught packets. New tables may take a port out of service while the port's link
// is down. The packets that wait to leave by this port are then caught. The chip, which plans the
// routes, gives each caught packet a new route with Redirect, or drops the packet with DropCaught.
// The caught packets leave each sender channel in the order in which they entered it. Later packets
// that follow an old route to this port go through the port's sender channels too, and are caught
// there.

// SetOut notes whether the tables have taken port i out of service.
func (r *Router) SetOut(i int, out bool) { r.ports[i].out = out }

// Caught is the first packet in a sender channel of a port that is out of service and whose link is
// down.
type Caught struct {
	Slot Slot
	Port int
	vc   wire.VC
	ch   int
}

// Caught calls f for the caught packets, in the order of each sender channel. f returns true if it
// redirected or dropped the packet, and false if the packet has to wait. After false, Caught
// continues with the next sender channel.
func (r *Router) Caught(f func(Caught) (gone bool)) {
	for i := range r.ports {
		p := &r.ports[i]
		if !p.out || p.up || p.queued == 0 {
			continue
		}
		for _, v := range r.vcs {
			for c := range SenderChannels {
				for p.send[v][c].n > 0 && f(Caught{p.send[v][c].peek(), i, v, c}) {
				}
			}
		}
	}
}

// onward returns the number of the sender channel that a caught packet enters at port "to". A
// packet that returns by the port where it came in uses sender channel 0, the channel of the chip's
// own packets.
func (r *Router) onward(k Caught, to int) int {
	p, out := &r.ports[k.Port], &r.ports[to]
	c := 0
	if k.ch > 0 {
		if from := side(p.Dir, k.ch); from != out.Dir {
			c = passThrough(out.Dir, from)
		}
	}
	return c
}

// CanRedirect reports whether port "to" has room for a caught packet in virtual channel v.
func (r *Router) CanRedirect(k Caught, to int, v wire.VC) bool {
	return !r.ports[to].send[v][r.onward(k, to)].full()
}

// Redirect moves a caught packet to port "to" and virtual channel v. [Router.CanRedirect] must have
// reported that there is room.
func (r *Router) Redirect(k Caught, to int, v wire.VC) {
	p := &r.ports[k.Port]
	r.ports[to].push(v, r.onward(k, to), p.pop(k.vc, k.ch), r.at)
	p.of(v).Redirected++
}

// DropCaught drops a caught packet and counts the drop under the given reason.
func (r *Router) DropCaught(k Caught, why wire.DropReason) {
	p := &r.ports[k.Port]
	p.of(k.vc).Dropped[why]++
	r.drops = append(r.drops, Drop{p.pop(k.vc, k.ch), why, p.Channel, p.Dir})
}

// Discard drops a packet that came in by port i before the packet enters a channel.
func (r *Router) Discard(i int, s Slot, why wire.DropReason) {
	p := &r.ports[i]
	n := p.of(wire.PacketView(r.cfg.Pool.Bytes(s)).VC())
	n.Received++
	n.Dropped[why]++
	r.drops = append(r.drops, Drop{s, why, p.Channel, wire.NumDirections})
}

// Purge drops the unicast packets for which f returns true, in whichever channel they wait. Purge
// keeps packets in receiver channels whose route ends at this chip. The chip purges packets of old
// tables that could close a cycle together with packets of new tables.
func (r *Router) Purge(f func(wire.PacketView) bool) {
	var gone []Slot
	names := func(s Slot) bool {
		v := wire.PacketView(r.cfg.Pool.Bytes(s))
		return v.Trunk() == wire.TrunkNone && f(v)
	}
	for i := range r.ports {
		p := &r.ports[i]
		for _, v := range r.vcs {
			gone = p.recv[v].remove(gone[:0], func(s Slot) bool {
				return names(s) && wire.PacketView(r.cfg.Pool.Bytes(s)).Action() != wire.RouteBit(p.Dir)
			})
			r.taken(i, v, len(gone))
			for _, s := range gone {
				r.purged(p, s, wire.NumDirections)
			}
			for c := range SenderChannels {
				gone = p.send[v][c].remove(gone[:0], names)
				p.removed(v, c, len(gone))
				for _, s := range gone {
					r.purged(p, s, p.Dir)
				}
			}
		}
	}
}

func (r *Router) purged(p *port, s Slot, d wire.Direction) {
	p.of(wire.PacketView(r.cfg.Pool.Bytes(s)).VC()).Dropped[wire.DropTables]++
	r.drops = append(r.drops, Drop{s, wire.DropTables, p.Channel, d})
}
