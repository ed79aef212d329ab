package chip

import (
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Fallback paths (Spec §7.4.1.1): the cable of a working link also carries the frames of
// parallel links whose own cables fail. A parallel link leads to the same chip in the
// same direction. A link on a fallback path keeps its session, sequence numbers, slots,
// credits and routing plane. Only the cable that carries the link's frames changes. The
// link that owns the working cable does not see the frames of the parallel links.

// offer lets the links parallel to port i use the port's cable if the argument "on" is
// true. If "on" is false, offer withdraws the cable from these links.
func (c *machine) offer(now mono.Time, i int, on bool) {
	p := &c.ports.list[i]
	if p.offered == on {
		return
	}
	p.offered = on
	for k := range c.ports.list {
		q := &c.ports.list[k]
		if k != i && q.Peer.Node == p.Peer.Node && q.Dir == p.Dir {
			q.link.SetAlternate(now, ttlink.ByChannel(p.Local.Channel), p.Peer.Channel, on)
			c.linkEvents(now, k)
		}
	}
}

// addressed returns the index and the path of the link that must handle a datagram that
// came in on port i. The datagram's frame names the channel of the link's port. If this is
// another port that leads to the same chip, its link uses the cable of port i as a
// fallback path. All other datagrams go to the link of port i.
//
// A hello also names the cable over which the peer sent the hello. A hello that names
// another cable than the cable of port i goes to the link of port i. The link of port i
// then detects the miswiring.
func (c *machine) addressed(i int, b []byte) (int, ttlink.Path) {
	to, via, hello, ok := wire.PeekVia(b)
	p := &c.ports.list[i]
	if !ok || to == p.Local.Channel {
		return i, ttlink.Own
	}
	k := c.ports.index(to)
	if k < 0 || c.ports.list[k].Peer.Node != p.Peer.Node || (hello && via != uint8(ttlink.ByChannel(p.Peer.Channel))) {
		return i, ttlink.Own
	}
	return k, ttlink.ByChannel(p.Local.Channel)
}
