package router

import "ttfabric/wire"

// Through returns the port and the virtual channel by which the chip may pass on a packet at once,
// without any channel of the router. The packet came in by port i, and [Router.Idle] must be true
// for its receiver channel. The result ok is false for a multicast and for a TTL of 0. The result
// is also false for a packet that is for this chip or has no route. ok is also false if
// [Router.Bypass] is false for the port by which the packet would leave. If the link of that port
// takes the packet, the chip calls [Router.Passed] to count the packet.
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

// Passed counts a packet that came in by port i and left by port out on virtual channel v, without
// any channel of the router.
func (r *Router) Passed(i, out int, v wire.VC) {
	c := r.ports[i].of(v)
	c.Received++
	c.Forwarded++
	r.ports[out].of(v).Sent++
}
