package router

import "ttfabric/wire"

// This file handles caught packets. New tables may avoid a port while the port's link is down. The
// packets that wait to leave by this port are then caught. The chip plans the routes. For each
// caught packet, the chip has three choices. The chip can give the packet a new route with
// Redirect. The chip can drop the packet with DropCaught. Or the chip can let the packet stay until
// the link comes up. Packets leave a sender channel in the order in which they entered the channel.
// Later packets that follow an old route to this port go through the port's sender channels too,
// and are caught there.

// SetOut notes whether the tables in force avoid port i. The chip calls SetOut for every port after
// new tables.
func (r *Router) SetOut(i int, out bool) {
	p := &r.ports[i]
	p.out = out
	p.unjudge()
}

// unjudge forgets which caught packets stay, because the chip may decide differently now.
func (p *port) unjudge() {
	for v := range p.send {
		for c := range p.send[v] {
			p.send[v][c].stay = 0
		}
	}
}

// Caught is a packet in a sender channel of a port that the tables avoid and whose link is down.
type Caught struct {
	Slot Slot
	Port int
	vc   wire.VC
	ch   int
}

// Verdict says what happens to a caught packet.
type Verdict uint8

// The verdicts.
const (
	Leaves Verdict = iota // the packet was redirected or dropped
	Stays                 // the packet stays until the port's link comes up, or until new tables; packets behind it may leave
	Waits                 // the packet's new route has no room; the packets behind this packet wait, too
)

// Caught calls f for the caught packets, in the order of each sender channel. f redirects the
// packet, drops the packet, or returns why the packet stays or waits. After new tables or a change
// of the port's link, Caught calls f again for packets that stay.
func (r *Router) Caught(f func(Caught) Verdict) {
	for i := range r.ports {
		p := &r.ports[i]
		if !p.out || p.up || p.queued == 0 {
			continue
		}
		for _, v := range r.vcs {
			for c := range SenderChannels {
				if p.send[v][c].n > p.send[v][c].stay {
					r.caught(i, v, c, f)
				}
			}
		}
	}
}

// caught calls f for the caught packets of one sender channel.
func (r *Router) caught(i int, v wire.VC, c int, f func(Caught) Verdict) {
	p := &r.ports[i]
	q := &p.send[v][c]
	k, stay, wait := 0, q.stay, false
	gone := q.remove(nil, func(s Slot) bool {
		if k++; k <= stay || wait {
			return false
		}
		switch f(Caught{s, i, v, c}) {
		case Leaves:
			k--
			return true
		case Stays:
			stay++
		case Waits:
			wait = true
		}
		return false
	})
	q.stay = stay
	p.removed(v, c, len(gone))
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

// CanRedirect reports whether port "to" takes a caught packet in virtual channel v.
func (r *Router) CanRedirect(k Caught, to int, v wire.VC) bool {
	ok, _ := r.takes(&r.ports[to], v, r.onward(k, to), wire.PacketView(r.cfg.Pool.Bytes(k.Slot)))
	return ok
}

// Redirect moves a caught packet to port "to" and virtual channel v. [Router.CanRedirect] must have
// reported that the port takes the packet.
func (r *Router) Redirect(k Caught, to int, v wire.VC) {
	p := &r.ports[k.Port]
	r.ports[to].push(v, r.onward(k, to), k.Slot, r.at)
	p.of(v).Redirected++
}

// DropCaught drops a caught packet and counts the drop under the given reason.
func (r *Router) DropCaught(k Caught, why wire.DropReason) {
	p := &r.ports[k.Port]
	p.of(k.vc).Dropped[why]++
	r.drops = append(r.drops, Drop{k.Slot, why, p.Channel, p.Dir})
}

// Discard drops a packet that came in by port i before the packet enters a channel.
func (r *Router) Discard(i int, s Slot, why wire.DropReason) {
	p := &r.ports[i]
	n := p.of(wire.PacketView(r.cfg.Pool.Bytes(s)).VC())
	n.Received++
	n.Dropped[why]++
	r.drops = append(r.drops, Drop{s, why, p.Channel, wire.NumSides})
}
