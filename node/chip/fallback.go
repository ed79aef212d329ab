package chip

import (
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Fallback channels (Spec §7.4.1.1): the cable of a link that works also
// carries the frames of links to the same chip that don't. They keep their
// session, sequence numbers, slots and credits, and so their routing plane:
// only the way of the frames is another. The cable's own link knows nothing of it.

// offer lets the links beside port i use its cable, or not any longer.
func (c *Chip) offer(now mono.Time, i int, on bool) {
	p := &c.ports[i]
	if p.offered == on {
		return
	}
	p.offered = on
	for k := range c.ports {
		q := &c.ports[k]
		if k != i && q.Peer.Node == p.Peer.Node && q.Dir == p.Dir {
			q.link.SetAlternate(now, ttlink.ByChannel(p.Local.Channel), p.Peer.Channel, on)
			c.linkEvents(now, k)
		}
	}
}

// addressed finds the link that a datagram on port i is for. It may be another
// one to the same chip, whose frames come by this cable. A hello says so
// itself; one that doesn't is for the link of the cable that it came by, which
// will find it miswired.
func (c *Chip) addressed(i int, b []byte) (int, ttlink.Path) {
	to, via, hello, ok := wire.PeekVia(b)
	p := &c.ports[i]
	if !ok || to == p.Local.Channel {
		return i, ttlink.Own
	}
	k := c.portIndex(to)
	if k < 0 || c.ports[k].Peer.Node != p.Peer.Node || (hello && via != uint8(ttlink.ByChannel(p.Peer.Channel))) {
		return i, ttlink.Own
	}
	return k, ttlink.ByChannel(p.Local.Channel)
}
