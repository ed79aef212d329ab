package chip

import (
	"ttfabric/node/losses"
	"ttfabric/wire"
)

// Account returns the packet counts of the chip's router and links since the chip
// started, as input for [losses.Merge]. Call Account after Pump.
func (c *machine) Account() losses.Chip {
	a := losses.Chip{Node: c.cfg.Node, Incarnation: c.cfg.Incarnation, Refused: c.refused, Ports: []losses.Port{}}
	for i := range c.ports.list {
		p := &c.ports.list[i]
		s := c.router.Status(i)
		q := losses.Port{Local: p.Local, Peer: p.Peer, Plane: p.Plane, Link: p.link.History()}
		q.Packets.Malformed = p.malformed
		for k, n := range s.Classes {
			t := &q.Packets
			t.Received[k], t.Injected[k], t.Copied[k] = n.Received, n.Injected, n.Copied
			t.Delivered[k], t.Forwarded[k], t.Sent[k] = n.Delivered, n.Forwarded, n.Sent
			for r, d := range n.Dropped {
				t.Dropped[r][k] = d
			}
		}
		for v := range wire.VC(wire.NumVCs) {
			a.InFlight[v.Class()] += uint64(s.Receiver[v] + s.Sender[v])
		}
		a.Ports = append(a.Ports, q)
	}
	return a
}
