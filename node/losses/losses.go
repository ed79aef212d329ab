// Package losses keeps account of packets. A packet that entered the fabric has one of these fates:
// delivered, dropped by a router for a stated reason, lost at the end of a link's session, or under
// way. If a chip that held the packet died, the fate of the packet is unknown. Any other packet is
// called unexplained, and shows a fault of this program.
//
// Each chip reports the counts of its router and its links ([Chip]). [Merge] joins the reports.
// Merge compares the two ends of each link session by session. The result therefore stays right
// after a retrain or a restart. For an incarnation that has ended, Merge infers the counts from the
// sessions of the neighbours' ports. The neighbours report which packets the incarnation
// acknowledged, which further packets the incarnation may have received, and which packets came
// from the incarnation.
//
// The balance of a chip, at any instant, for each class of packets:
//
//	received + injected + copied = sent + delivered + dropped + malformed + in its channels
//
// In this balance, received includes the malformed packets.
//
// The balance of one direction of a link, for each session:
//
//	while the session runs:                        sent = received + under way
//	if only one end has noticed the session's end: sent = received + unknown
//	if both ends have noticed the session's end:   sent = received + lost
//	if the receiving end is gone:                  sent = acknowledged + unknown
package losses

import (
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Count holds a number of packets for each class: requests, replies, control.
type Count [wire.NumClasses]uint64

// Total returns the sum over the classes.
func (c Count) Total() (n uint64) {
	for _, k := range c {
		n += k
	}
	return n
}

// Add returns the sum of c and o, class by class.
func (c Count) Add(o Count) Count {
	for i, n := range o {
		c[i] += n
	}
	return c
}

// Packets holds a router's counts of packets, at one port or summed over all ports.
type Packets struct {
	Received  Count `json:"received"`  // packets received over the link
	Injected  Count `json:"injected"`  // packets that the chip itself sent into the fabric, and copies of its own multicasts
	Copied    Count `json:"copied"`    // copies that the router made of received multicasts, not counting the received packets
	Delivered Count `json:"delivered"` // packets delivered to the chip
	Forwarded Count `json:"forwarded"` // received packets, and copies of received multicasts, that the router passed on to another port
	Sent      Count `json:"sent"`      // packets sent over the link
	Malformed Count `json:"malformed"` // packets that came over the link and that the chip refused as malformed; not counted in Received
	Dropped   Drops `json:"dropped"`   // packets dropped by the router, by reason; not counting Malformed
}

func (p Packets) add(o *Packets) Packets {
	p.Received, p.Injected, p.Copied = p.Received.Add(o.Received), p.Injected.Add(o.Injected), p.Copied.Add(o.Copied)
	p.Delivered, p.Forwarded, p.Sent = p.Delivered.Add(o.Delivered), p.Forwarded.Add(o.Forwarded), p.Sent.Add(o.Sent)
	p.Malformed = p.Malformed.Add(o.Malformed)
	for i, n := range o.Dropped {
		p.Dropped[i] = p.Dropped[i].Add(n)
	}
	return p
}

// AllDropped returns the number of dropped packets for all reasons together, including the
// malformed packets.
func (p *Packets) AllDropped() Count {
	n := p.Malformed
	for _, d := range p.Dropped {
		n = n.Add(d)
	}
	return n
}

// Port holds the counts of one port of a chip.
type Port struct {
	Local   wire.PortID    `json:"local"`
	Peer    wire.PortID    `json:"peer"`
	Plane   wire.Plane     `json:"plane"`
	Packets Packets        `json:"packets"`
	Link    ttlink.History `json:"link"`
}

// Chip is a chip's report for its present incarnation.
type Chip struct {
	Node        wire.FabricNodeID `json:"chip"`
	Incarnation wire.Incarnation  `json:"incarnation"`
	InFlight    Count             `json:"in_flight"` // packets in the router's sender and receiver channels
	Refused     Count             `json:"refused"`   // packets counted in Delivered that are malformed, for another chip, or from an unknown chip
	Ports       []Port            `json:"ports"`
}

// Same reports whether two reports are of one incarnation and have equal counts. If Same returns
// true, no packet moved in the time between the reports.
func (c *Chip) Same(o *Chip) bool {
	if c.Node != o.Node || c.Incarnation != o.Incarnation || c.InFlight != o.InFlight || c.Refused != o.Refused || len(c.Ports) != len(o.Ports) {
		return false
	}
	for i := range c.Ports {
		a, b := &c.Ports[i], &o.Ports[i]
		if a.Local != b.Local || a.Packets != b.Packets || a.Link.Now != b.Link.Now || len(a.Link.Ended) != len(b.Link.Ended) || a.Link.Olders != b.Link.Olders {
			return false
		}
	}
	return true
}
