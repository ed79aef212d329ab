package reliable

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// PollTransmit returns the next frame for the link in direction d.
func (r *Router) PollTransmit(d wire.Direction) (frame []byte, ok bool) {
	return pop(&r.links[d].frames)
}

// PollDeliver returns the next packet for the endpoint. Packets of a flow come in the order of their
// numbers. A packet that comes more than the patience after its successor, or behind the window, may
// be late: the packet then comes out of order.
func (r *Router) PollDeliver() (p Packet, ok bool) { return pop(&r.ready) }

// PollAccepted returns the next packet of this endpoint that two routers have.
func (r *Router) PollAccepted() (p Packet, ok bool) { return pop(&r.accepted) }

// PollDrop returns the next packet that this router has given up.
func (r *Router) PollDrop() (d Drop, ok bool) { return pop(&r.drops) }

func pop[T any](q *[]T) (v T, ok bool) {
	if len(*q) == 0 {
		return v, false
	}
	v = (*q)[0]
	if *q = (*q)[1:]; len(*q) == 0 {
		*q = nil
	}
	return v, true
}

// Tick lets flows go on that have waited too long for a missing packet.
func (r *Router) Tick(now mono.Time) { r.order.tick(now) }

// Deadline returns when [Router.Tick] has something to do.
func (r *Router) Deadline() (mono.Time, bool) {
	t := r.order.deadline()
	return t, t != mono.Never
}

// Copies returns the number of packets in this router, and how many of them a failure has marked. Marked
// are packets with a replica token, packets sent by a link that failed, and packets on a detour. If no router has a
// marked packet, and no replica token is under way, the fabric survives another failure.
func (r *Router) Copies() (all, marked int) {
	for port := range r.places {
		for vc := range r.places[port] {
			for i := range r.places[port][vc] {
				s := &r.places[port][vc][i]
				if s.State == Free {
					continue
				}
				all++
				if s.replica || s.token == Replica || s.State == Sent && s.outVC >= VCFault || port < portLocal && vc >= VCFault {
					marked++
				}
			}
		}
	}
	return all, marked
}
