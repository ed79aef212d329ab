package chip

import (
	"fmt"

	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Fallback paths (Spec §7.4.1.1): the cable of a working link also carries frames of parallel
// links. The own cables of these parallel links fail, are unreliable, or are out of service. A
// parallel link leads to the same chip in the same direction. The control plane assigns a fallback
// path to each link before the link needs it. A link on a fallback path keeps its session, sequence
// numbers, slots, credits and routing plane. Only the cable that carries the link's frames changes.
// The link that owns the working cable does not see the frames of the parallel links.

// carries notes the path by which the link of port i sends its frames.
func (c *machine) carries(now mono.Time, i int, by ttlink.Path) {
	k := i
	if by != ttlink.Own {
		k = c.ports.index(by.Channel())
	}
	c.control.SetPath(now, i, k)
	c.ports.unsettled = true
}

// settle tells the links which parallel cables the control plane offers them, which of these cables
// are unreliable, and which cable the control plane assigns. If a link then changes its state or
// its path, settle begins again.
func (c *machine) settle(now mono.Time) {
	for c.ports.unsettled {
		c.ports.unsettled = false
		for i := range c.ports.list {
			p := &c.ports.list[i]
			offers, poor := c.control.Offers(i), !c.control.Reliable(i)
			if p.offered == offers && p.poor == poor {
				continue
			}
			p.offered, p.poor = offers, poor
			for k := range c.ports.list {
				if by, q := ttlink.ByChannel(p.Local.Channel), &c.ports.list[k]; c.control.Parallel(k, i) {
					q.link.Trust(now, by, !poor)
					q.link.SetAlternate(now, by, p.Peer.Channel, offers)
					c.takeEvents(now, k)
				}
			}
		}
		for i := range c.ports.list {
			by := ttlink.Own
			if k, ok := c.control.Fallback(i); ok {
				by = ttlink.ByChannel(c.ports.list[k].Local.Channel)
			}
			c.ports.list[i].link.Assign(now, by)
			c.takeEvents(now, i)
		}
	}
}

// Avoid takes a channel's cable out of service, or puts the cable back into service.
func (c *machine) Avoid(now mono.Time, ch wire.Channel, on bool) bool {
	i := c.ports.index(ch)
	if i < 0 {
		return false
	}
	c.control.Avoid(now, i, on)
	c.ports.list[i].link.Reroute(now, on)
	c.ports.unsettled = true
	c.linkEvents(now, i)
	return true
}

// Assign makes the cable of channel "by" the fallback path of channel ch. If "by" equals ch, the
// control plane chooses the fallback path itself again.
func (c *machine) Assign(now mono.Time, ch, by wire.Channel) error {
	i, k := c.ports.index(ch), c.ports.index(by)
	if i < 0 || k < 0 {
		return fmt.Errorf("chip %s has no cable at channel %d or no cable at channel %d", c.cfg.Node, ch, by)
	}
	if !c.control.Assign(i, k) {
		return fmt.Errorf("chip %s: channel %d cannot stand in for channel %d, because the two cables do not lead to the same chip in the same direction", c.cfg.Node, by, ch)
	}
	c.ports.unsettled = true
	c.settle(now)
	return nil
}

// addressed returns the index and the path of the link that must handle a datagram that came in on
// port i. The datagram's frame names the channel of the link's port. If the frame names another
// port that leads to the same chip, the link of the named port uses the cable of port i as a
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
