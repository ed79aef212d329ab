package router

import "ttfabric/wire"

// Through returns the port and the virtual channel by which a packet that came in on port i may go
// on at once. The receiver channel of port i must be empty. The packet must be unicast and have
// hops left. The link of the next port must be up, and no packet may wait to leave by that port. If
// the link takes the packet, the owner calls [Router.Passed] to count the packet.
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

// Passed counts a packet of a virtual channel that came in on port i and went on by port out at
// once.
func (r *Router) Passed(i, out int, v wire.VC) {
	c := r.ports[i].of(v)
	c.Received++
	c.Forwarded++
	r.ports[out].of(v).Sent++
}
