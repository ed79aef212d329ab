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
		c.report(now, d, v)
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

// report puts a drop report to the source of a dropped request or probe into the outbox.
// If MaxReports reports already wait, report only counts the lost report. If the source is
// this chip, report tells the flow source at once. The chip sends no report about packets
// of other types.
func (c *machine) report(now mono.Time, d router.Drop, v wire.PacketView) {
	t := v.Type()
	if t != wire.PacketRequest && t != wire.PacketProbe {
		return
	}
	epoch, seq := v.Flow()
	r := report{to: v.Src(), DropReport: wire.DropReport{Dst: v.Dst(), Plane: v.Plane(), Other: v.Other(), FlowEpoch: epoch,
		FlowSeq: seq, Reason: d.Reason, Channel: d.Channel, ID: v.ID(), Type: t}}
	known := r.ofCopy(d, v)
	switch {
	case !known: // without a direction, the source cannot tell which members the copy would have reached
	case r.to == c.cfg.Node:
		c.dropped(now, &r.DropReport, c.cfg.Node)
	case len(c.outbox.reports) < MaxReports:
		c.outbox.reports = append(c.outbox.reports, r)
	default:
		c.counters.ReportsLost++
	}
}

// ofCopy adds group, direction, trunk and ranges to the report of a multicast's copy.
// ofCopy returns false if the copy has no direction.
func (r *report) ofCopy(d router.Drop, v wire.PacketView) bool {
	if v.Trunk() == wire.TrunkNone {
		return true
	}
	r.Group, r.Dir, r.Trunk, r.Ranges = v.Group(), d.Dir, v.Trunk(), v.Ranges()
	return d.Dir < wire.NumDirections
}

// dropped tells the flow source of this chip that the router of chip "at" dropped a
// request or probe of this chip. dropped ignores a report about a multicast from a chip
// of another mesh.
func (c *machine) dropped(now mono.Time, r *wire.DropReport, at wire.FabricNodeID) {
	behind := c.scratch.members[:0]
	if r.Group != 0 {
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
