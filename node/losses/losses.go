// Package losses keeps account of packets. A packet that entered the fabric came out of it, was
// dropped by a router for a stated reason, or is under way. If a chip died with it, its fate is
// unknown. Any other packet is called unexplained and shows a fault of this program.
//
// Each chip reports what its router and its links have counted ([Chip]). [Merge] puts the reports
// together. Merge compares the two ends of each link session by session, so that neither a retrain
// nor a restart confuses it. For a chip that is gone, Merge infers what the chip received and sent.
// Merge uses what the chip's neighbours know about their sessions with it: what the chip
// acknowledged, what it may have got beyond that, and what came from it.
//
// The balance of a chip, at any instant, for each class of packets:
//
//	received + injected + copied = sent + delivered + dropped + malformed + in its channels
//
// The balance of one direction of a link, for each session:
//
//	sent = received + under way, while it runs
//	sent = received + lost, if it has ended and both ends live
//	sent = acknowledged + unknown, if the end that received is gone
package losses

import (
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Count are packets by class: requests, replies, control.
type Count [wire.NumClasses]uint64

// Total is the sum over the classes.
func (c Count) Total() (n uint64) {
	for _, k := range c {
		n += k
	}
	return n
}

// Add returns the sum of both.
func (c Count) Add(o Count) Count {
	for i, n := range o {
		c[i] += n
	}
	return c
}

// Packets are a router's counts of packets, at one port or in all.
type Packets struct {
	Received  Count `json:"received"`  // over the link
	Injected  Count `json:"injected"`  // the chip's own
	Copied    Count `json:"copied"`    // copies made of multicasts, not counting the packets themselves
	Delivered Count `json:"delivered"` // to the chip
	Forwarded Count `json:"forwarded"` // of the packets received: to another port
	Sent      Count `json:"sent"`      // over the link
	Malformed Count `json:"malformed"` // of the packets received: not a valid packet, dropped before the router
	Dropped   Drops `json:"dropped"`   // by reason; without the malformed packets
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

// AllDropped is the sum over the reasons, including the malformed packets.
func (p *Packets) AllDropped() Count {
	n := p.Malformed
	for _, d := range p.Dropped {
		n = n.Add(d)
	}
	return n
}

// Port is one port of a chip.
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
	InFlight    Count             `json:"in_flight"` // packets in the router's channels
	Refused     Count             `json:"refused"`   // of the packets delivered: packets that the chip cannot read, or that are for another chip
	Ports       []Port            `json:"ports"`
}

// Same reports whether two reports of one incarnation are equal: no packet moved between them.
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
