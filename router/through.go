package router

import "ttfabric/wire"

// Through is the port and virtual channel by which a packet that came in on
// port i, whose receiver channel is empty, may go on at once: it is for one
// chip, has hops left, and nothing waits before it to be sent by a port whose
// link is up. If the link takes it, [Router.Passed] counts it.
func (r *Router) Through(i int, v wire.PacketView) (out int, to wire.VC, ok bool) {
	p := &r.ports[i]
	if v.Trunk() != wire.TrunkNone || v.TTL() == 0 {
		return 0, 0, false
	}
	d, ok := direction(v.Action())
	if !ok || d == p.Dir {
		return 0, 0, false
	}
	if out, ok = r.Port(d, p.Plane); !ok || !r.Bypass(out) {
		return 0, 0, false
	}
	return out, r.turn(v.VC(), v.Up(), v.Detour(), p, &r.ports[out]), true
}

// Passed counts a packet of a virtual channel that came in on port i and has gone on by port out at once.
func (r *Router) Passed(i, out int, v wire.VC) {
	c := r.ports[i].of(v)
	c.Received++
	c.Forwarded++
	r.ports[out].of(v).Sent++
}
