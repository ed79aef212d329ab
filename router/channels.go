package router

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxListed is the largest number of packets of one channel that [Router.Channels] lists.
const MaxListed = 16

// Channel is a sender or receiver channel of a port that holds packets.
type Channel struct {
	Port    int
	VC      wire.VC
	Sender  int    // number of the sender channel; -1: the channel is a receiver channel
	Slots   int    // packets for which the channel has room
	Waiting int    // packets in the channel
	Packets []Held // the first packets in the order in which they leave, at most [MaxListed]
	Next    Next   // for a receiver channel: where its first packet goes next
}

// Next names the sender channel that the first packet of a receiver channel enters next.
type Next struct {
	Known  bool // false: the packet is for this chip, is a multicast, or has no route
	Port   int
	VC     wire.VC
	Sender int
}

// Held is a packet that waits in a channel.
type Held struct {
	Type     wire.PacketType
	Src, Dst wire.FabricNodeID // for a multicast by ranges, both are the source; for a multicast to members, Dst is one of the members
	ID       uint64            // id of the packet's request
	TTL      uint16            // hops that the packet may still make
	Bytes    int               // length of the packet
	Age      time.Duration     // time since the packet entered the channel, in whole milliseconds
}

// SetTime tells the router the time, for the ages of packets that enter channels until the next
// call of SetTime or [Router.Step].
func (r *Router) SetTime(now mono.Time) { r.at = millis(now) }

func millis(t mono.Time) uint32 { return uint32(time.Duration(t) / time.Millisecond) }

// Channels lists the channels that hold packets, by port and virtual channel: first the receiver
// channel, then the sender channels. "When debugging", a person wants "to inspect the packets in
// router buffers to rootcause the erroneous behavior" (Spec §7.3). Channels leaves out the queue of
// the chip's own multicasts, which belongs to no port.
func (r *Router) Channels(now mono.Time) (out []Channel) {
	for i := range r.ports {
		p := &r.ports[i]
		for _, v := range r.vcs {
			out = r.channel(now, out, i, v, -1, &p.recv[v])
			for c := range p.send[v] {
				out = r.channel(now, out, i, v, c, &p.send[v][c])
			}
		}
	}
	return out
}

// channel appends a channel to the list if the channel holds packets.
func (r *Router) channel(now mono.Time, out []Channel, i int, v wire.VC, sender int, q *ring) []Channel {
	if q.n == 0 {
		return out
	}
	c := Channel{Port: i, VC: v, Sender: sender, Slots: q.size, Waiting: q.n}
	for k := range min(q.n, MaxListed) {
		at := q.index(k)
		h := wire.PacketView(r.cfg.Pool.Bytes(q.slots[at]))
		c.Packets = append(c.Packets, Held{h.Type(), h.Src(), h.Dst(), h.ID(), h.TTL(), len(h), time.Duration(millis(now)-q.at[at]) * time.Millisecond})
	}
	if sender < 0 {
		c.Next = r.next(i, v, wire.PacketView(r.cfg.Pool.Bytes(q.peek())))
	}
	return append(out, c)
}

// next returns where a packet in the receiver channel of port i goes; see [Router.forward].
func (r *Router) next(i int, v wire.VC, pkt wire.PacketView) (n Next) {
	p := &r.ports[i]
	d, ok := direction(pkt.Action())
	if pkt.Trunk() != wire.TrunkNone || !ok || d == p.Dir {
		return n
	}
	if n.Port, n.Known = r.Port(d, p.Plane); n.Known {
		n.VC, n.Sender = r.turn(v, pkt.Up(), pkt.Detour(), p, &r.ports[n.Port]), passThrough(d, p.Dir)
	}
	return n
}

// aloneLimit is the number of packets of this chip that may wait in a sender channel while no other
// packet waits at the port. The number equals the number of slots of the specification's sender
// channel (Spec §3.1.1). The limit saves copies. The chip copies a waiting packet twice: into the
// packet's slot, and into the link. If the port is idle, the chip copies a packet only once. If
// other packets wait at the port too, the chip's packets may use the whole channel. The sender
// channels then take fair turns.
const aloneLimit = 8

// CanInject reports whether sender channel 0 of a port, in virtual channel v, may take another
// packet of this chip. The channel must have room, and aloneLimit must allow the packet.
func (r *Router) CanInject(i int, v wire.VC) bool {
	p := &r.ports[i]
	own := &p.send[v][0]
	return !own.full() && (own.n < aloneLimit || own.n < p.queued)
}
