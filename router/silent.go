package router

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file handles ports whose link is down. Such a port is silent until the chip says that it is
// dead. The chip at the other end of a silent link is perhaps only late. The packets for it
// therefore wait, and hold up no other packet.

// MaxParked is the largest number of packets of a router that wait for silent ports beyond the slots
// of the ports' sender channels. With packets of the largest size, they take 4 MiB.
const MaxParked = 1024

// takes reports whether a sender channel takes another packet that passes through. A sender channel
// of a silent port takes packets beyond its slots. The packets that wait for a late chip then do not
// hold up the packets to all other chips.
func (r *Router) takes(p *port, v wire.VC, c int) bool {
	if !p.send[v][c].full() {
		return true
	}
	if p.up || p.dead || !p.wasUp {
		return false
	}
	all := 0
	for i := range r.ports {
		all += r.ports[i].parked
	}
	return all < MaxParked
}

// SetDead tells the router that the chip no longer waits for the link of port i, which is down. The
// grace period begins. After it, the router drops the packets that wait to leave by the port.
func (r *Router) SetDead(now mono.Time, i int) {
	if p := &r.ports[i]; !p.up && !p.dead {
		p.dead, p.downSince = true, now
	}
}
