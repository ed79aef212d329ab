package chip

import (
	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// abandon takes the packets that the router dropped. For each packet, abandon sends a drop
// report if the packet needs one, adds an event, and frees the buffer. abandon also counts
// stuck sender and receiver channels, see noteStuck. abandon returns true if it took a
// packet.
//
// Every method that empties sender or receiver channels must call abandon at once. If
// abandon came later, new packets could fill the channels first. The pool has no room for
// the dropped packets and the new packets together.
func (c *machine) abandon(now mono.Time) bool {
	c.noteStuck(now)
	moved := false
	for {
		d, ok := c.router.PollDrop()
		if !ok {
			return moved
		}
		moved = true
		c.counters.Dropped[d.Reason]++
		v := wire.PacketView(c.pool.Bytes(d.Slot))
		c.report(now, d, v, false)
		c.events.drop(now, d, v)
		c.pool.Put(d.Slot)
	}
}

// noteStuck counts each sender or receiver channel whose first packet could not move for
// the timeout. If Quiet of the timeout is false, noteStuck also adds an event for the
// channel.
func (c *machine) noteStuck(now mono.Time) {
	for {
		s, ok := c.router.PollStuck()
		if !ok {
			return
		}
		c.counters.Timeouts++
		if !c.cfg.Timeout.Quiet {
			c.events.stuck(now, &c.ports.list[s.Port], s)
		}
	}
}

// reportUnacked tells the sources of packets in the dead link of port i that the packets may
// be lost. Each source then asks its destination.
func (c *machine) reportUnacked(now mono.Time, i int) {
	p := &c.ports.list[i]
	p.link.Unacked(func(piece []byte) {
		v, err := wire.ViewHead(piece)
		switch {
		case err != nil: // the first frame is too short to hold all headers of the packet
			c.counters.ReportsLost++
		case v.Type() != wire.PacketReply: // an open report about a reply would not change the state of the read at its source
			c.report(now, router.Drop{Reason: wire.DropNextHopDead, Channel: p.Local.Channel, Dir: p.Dir}, v, true)
		}
	})
}

// report puts a drop report, in its parts, into the outbox. The report goes to the chip that waits
// for the answer. The chip that waits is the source of a dropped request or probe, or the
// destination of a dropped reply. If the packet may have arrived, "open" is true. If MaxReports
// reports already wait, or the report of a multicast lacks the direction, report counts the lost
// report instead. If this chip waits for the answer, report tells the flow source at once. The chip
// sends no report about packets of other types.
func (c *machine) report(now mono.Time, d router.Drop, v wire.PacketView, open bool) {
	t, waits, other := v.Type(), v.Src(), v.Dst()
	switch t {
	case wire.PacketRequest, wire.PacketProbe:
	case wire.PacketReply:
		waits, other = other, waits
	default:
		return
	}
	epoch, seq := v.Flow()
	r := report{to: waits, DropReport: wire.DropReport{Dst: other, Plane: v.Plane(), Other: v.Other(), FlowEpoch: epoch,
		FlowSeq: seq, Reason: d.Reason, Channel: d.Channel, ID: v.ID(), Type: t, Open: open}}
	known := r.ofCopy(d, v)
	switch {
	case !known: // without a direction, the source cannot know which members the copy would have reached
		c.counters.ReportsLost++
	case r.to == c.cfg.Node:
		c.dropped(now, &r.DropReport, c.cfg.Node)
	default:
		for part := range r.Parts() {
			if len(c.outbox.reports) < MaxReports {
				c.outbox.reports = append(c.outbox.reports, report{r.to, part})
			} else {
				c.counters.ReportsLost++
			}
		}
	}
}

// ofCopy adds the group, and the part of the tree that the copy would have reached, to the report
// of a multicast. ofCopy returns false for a copy of a multicast by ranges that has no direction.
func (r *report) ofCopy(d router.Drop, v wire.PacketView) bool {
	switch {
	case v.HasMembers():
		r.Group, r.Trunk, r.Members = v.Group(), v.Trunk(), v.Members()
		return true
	case v.Trunk() == wire.TrunkNone:
		return true
	}
	r.Group, r.Dir, r.Trunk, r.Ranges = v.Group(), d.Dir, v.Trunk(), v.Ranges()
	return d.Dir < wire.NumDirections
}

// dropped tells the flow source of this chip about a drop by the router of chip "at". The dropped
// packet is a request or probe of this chip, or the reply to a read of this chip. dropped ignores a
// report about a multicast by ranges from a chip of another mesh.
func (c *machine) dropped(now mono.Time, r *wire.DropReport, at wire.FabricNodeID) {
	behind := c.scratch.members[:0]
	switch {
	case r.Members.Any():
		for m := range r.Members.All() {
			behind = append(behind, wire.FabricNodeID{Mesh: r.Dst.Mesh, Chip: m})
		}
		c.scratch.members = behind
	case r.Group != 0:
		if at.Mesh != c.cfg.Node.Mesh {
			return
		}
		for _, b := range c.tables.plan.Beyond(nil, at, r.Dir, r.Trunk, r.Ranges) {
			if b.Member {
				behind = append(behind, b.To)
			}
		}
		c.scratch.members = behind
	}
	c.source.HandleDrop(now, r, at, behind)
}

// completion decodes a completion, and hands the completion to the flow source of this
// chip. completion drops and counts a malformed completion.
func (c *machine) completion(now mono.Time, from flow.Key, payload []byte) {
	m, err := wire.DecodeCompletion(payload, c.scratch.exceptions[:0])
	if err != nil {
		c.counters.Dropped[wire.DropMalformed]++
		return
	}
	c.scratch.exceptions = m.Exceptions[:0]
	c.source.HandleCompletion(now, from, &m)
}
