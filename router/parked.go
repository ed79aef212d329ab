package router

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file handles parked packets. A parked packet waits in a sender channel beyond the channel's
// slots, so that the packet holds up no other packet. There are two reasons to park a packet.
//
// A port whose link is down is silent until the chip says that the port is dead. The chip at the
// other end of a silent link is perhaps only late. The packets for this chip therefore wait.
//
// An outdated packet has its route from replaced tables, see Outdated of [Config]. An outdated
// packet keeps its route, because the packets of its flow must keep their order. If outdated
// packets waited in receiver channels for packets of the tables in force, such waits could close a
// cycle. A parked packet holds no receiver channel. Therefore outdated packets close no cycle.

// The limits of parked packets, our own choices.
//
// MaxParked is the largest number of parked packets of a router. MaxParked packets of the largest
// size take 40 MB. If MaxParked packets are parked, the router drops further outdated packets that
// would have to wait.
//
// MaxSilent is smaller than MaxParked by 1,024. If MaxSilent packets are parked, further packets for
// silent ports wait in their receiver channels, and hold up other packets. MaxSilent is room for 32
// flows with 256 requests each, see flow.MaxUnanswered. Packets for silent ports never take the last
// 1,024 places, which are for outdated packets only.
const (
	MaxSilent = 8192
	MaxParked = MaxSilent + 1024
)

// takes reports whether a sender channel takes another packet, in its slots or parked. If the
// channel does not take a packet that must not wait in a receiver channel, takes also returns the
// reason to drop the packet.
func (r *Router) takes(p *port, v wire.VC, c int, pkt wire.PacketView) (ok bool, why wire.DropReason) {
	if r.cfg.Slots.Sender[v] == 0 { // no plan of this fabric gives a packet the flags that lead to this virtual channel
		return false, wire.DropMalformed
	}
	if !p.send[v][c].full() {
		return true, 0
	}
	outdated := r.outdated(pkt)
	if !outdated && !(p.wasUp && !p.up && !p.dead) {
		return false, 0
	}
	all := 0
	for i := range r.ports {
		all += r.ports[i].parked
	}
	switch {
	case all < MaxSilent || outdated && all < MaxParked:
		return true, 0
	case outdated:
		return false, wire.DropTables
	}
	return false, 0
}

// outdated reports whether a packet has its route from replaced tables, and must not wait in a
// receiver channel.
func (r *Router) outdated(pkt wire.PacketView) bool {
	return r.cfg.Outdated != nil && r.cfg.Outdated(pkt)
}

// SetDead tells the router that the chip no longer waits for the link of port i, which is down. The
// grace period begins. When the grace period ends, the router drops the packets that wait to leave
// by the port.
func (r *Router) SetDead(now mono.Time, i int) {
	if p := &r.ports[i]; !p.up && !p.dead {
		p.dead, p.downSince = true, now
	}
}
