package chip

import (
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Fallback channels (Spec §7.4.1.1): the cable of a working link also carries the
// frames of links to the same chip whose own cables don't. Such a link keeps its
// session, sequence numbers, slots and credits, and so its routing plane. Only
// the cable of its frames is another. The link whose cable it is knows nothing of
// these frames.

// offer lets the links beside port i use the port's cable, or takes the cable from them.
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

// addressed finds the link that a datagram on port i is for. That may be another
// link to the same chip, whose frames come by this cable. A hello names the cable
// that it was sent by. A hello that names another cable is for the link of port
// i, which then finds that it is miswired.
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
