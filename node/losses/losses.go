// Package losses keeps account of packets: what entered the fabric came out of
// it, was given up by a router for a stated reason, is under way, or its fate
// is unknown since a chip died with it. Anything else is a fault of ours, and
// is called unexplained.
//
// Each chip tells what its router and its links have counted ([Chip]). [Merge]
// puts that together. It compares the two ends of each link session by session,
// so that neither a retrain nor a restart confuses it, and infers what a chip
// that is gone has received and sent from what its neighbours know of the
// sessions with it: what it acknowledged, what it may have got beyond that, and
// what came from it.
//
// The balance of a chip, at any instant, for each class of packets:
//
//	received + injected + copied = sent + delivered + dropped + malformed + in its channels
//
// That of one direction of a link, for each session:
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

// Packets are what a router counts of packets, at a port or at all.
type Packets struct {
	Received  Count `json:"received"`  // over the link
	Injected  Count `json:"injected"`  // the chip's own
	Copied    Count `json:"copied"`    // copies made of multicasts, beside the packets themselves
	Delivered Count `json:"delivered"` // to the chip
	Forwarded Count `json:"forwarded"` // of those received: to another port
	Sent      Count `json:"sent"`      // over the link
	Malformed Count `json:"malformed"` // of those received: no packet, given up before the router
	Dropped   Drops `json:"dropped"`   // by reason; without the malformed ones
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

// AllDropped is the sum over the reasons, the malformed ones included.
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

// Chip is what a chip tells of its present life.
type Chip struct {
	Node        wire.FabricNodeID `json:"chip"`
	Incarnation wire.Incarnation  `json:"incarnation"`
	InFlight    Count             `json:"in_flight"` // in the router's channels
	Refused     Count             `json:"refused"`   // of those delivered: that the chip can't read, or that are for another
	Ports       []Port            `json:"ports"`
}

// Same reports whether two accounts of a chip's life are alike: nothing moved between them.
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
