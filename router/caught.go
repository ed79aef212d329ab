package router

import "ttfabric/wire"

// Caught packets. New tables may take a port out of service while the port's link is down. The
// packets that wait to leave by this port are then caught. The owner, which plans the routes, gives
// each caught packet a new route with Redirect, or drops it with DropCaught. The packets leave
// their sender channel in order. A packet that arrives later by an old route passes through the
// same sender channel. This packet is caught there too.

// SetOut says that the tables no longer use a port, or use it again.
func (r *Router) SetOut(i int, out bool) { r.ports[i].out = out }

// Caught is the head of a sender channel of a port that is down and out of service.
type Caught struct {
	Slot Slot
	Port int
	vc   wire.VC
	ch   int
}

// Caught calls f with the caught packets, in the order of each sender channel. If f redirects or
// drops the packet, f returns true. If the packet has to wait, f returns false. After false, Caught
// goes on to the next channel.
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

// onward returns the number of the sender channel of port to that a caught packet goes to. A packet
// that goes back to where it came from uses the channel of the chip's own packets.
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

// CanRedirect reports whether there is room for a caught packet at another port.
func (r *Router) CanRedirect(k Caught, to int, v wire.VC) bool {
	return !r.ports[to].send[v][r.onward(k, to)].full()
}

// Redirect moves a caught packet to a sender channel of another port. There must be room in that
// channel.
func (r *Router) Redirect(k Caught, to int, v wire.VC) {
	p := &r.ports[k.Port]
	r.ports[to].push(v, r.onward(k, to), p.pop(k.vc, k.ch))
	p.of(v).Redirected++
}

// DropCaught drops a caught packet.
func (r *Router) DropCaught(k Caught, why wire.DropReason) {
	p := &r.ports[k.Port]
	p.of(k.vc).Dropped[why]++
	r.drops = append(r.drops, Drop{p.pop(k.vc, k.ch), why, p.Channel, p.Dir})
}

// Discard drops a packet that came in on port i before the packet enters a channel.
func (r *Router) Discard(i int, s Slot, why wire.DropReason) {
	p := &r.ports[i]
	n := p.of(wire.PacketView(r.cfg.Pool.Bytes(s)).VC())
	n.Received++
	n.Dropped[why]++
	r.drops = append(r.drops, Drop{s, why, p.Channel, wire.NumDirections})
}

// Purge drops the unicast packets for which f returns true, in whatever channel they wait. The
// owner purges packets that must not meet packets of new tables.
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
