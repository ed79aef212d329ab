package chip

import (
	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits of the numbers of packets that wait in a chip until the chip can send them. The values are
// choices of this project.
const (
	MaxReplies = 64  // largest number of replies that wait for room on the reply VC
	MaxReports = 256 // largest number of drop reports that wait for room on the control VC
)

// outbox holds the replies and drop reports that a chip still has to send. The sink keeps
// the completions.
type outbox struct {
	replies []reply  // replies that wait for room on the reply VC
	reports []report // drop reports that wait for room on the control VC
}

// reply is a reply, and the channel of the port by which its route leaves the chip.
type reply struct {
	slot    router.Slot
	channel wire.Channel
}

// report is a drop report, and the chip that the report is for.
type report struct {
	to wire.FabricNodeID
	wire.DropReport
}

func (o *outbox) empty() bool { return len(o.replies) == 0 && len(o.reports) == 0 }

// emitControl sends completions, drop reports and link states, as far as there is room.
func (c *machine) emitControl(now mono.Time) bool {
	moved := c.emitCompletions(now)
	moved = c.emitReports(now) || moved
	return c.tellNeighbours(now) || moved
}

// emitReplies puts replies into sender channels, as far as there is room.
func (c *machine) emitReplies() (moved bool) {
	for len(c.outbox.replies) > 0 {
		s := c.outbox.replies[0].slot
		v := wire.PacketView(c.pool.Bytes(s))
		if w, _ := c.way(destination(v), wire.ClassReply); !c.router.Inject(w.Port, v.VC(), s) {
			break
		}
		c.outbox.replies = c.outbox.replies[1:]
		moved = true
	}
	return moved
}

// emitCompletions sends the completions that the sink owes, as far as there is room.
func (c *machine) emitCompletions(now mono.Time) bool {
	if c.sink.Owed() == 0 {
		return false
	}
	home := func(to flow.Key) *flow.Route { return c.route(to, wire.ClassControl) }
	return c.sink.Answer(home, func(to flow.Key, w *flow.Route, m wire.Completion) bool {
		switch {
		case to.Node == c.cfg.Node: // the requests came from this chip itself, by a route that leads back to this chip
			to.Group = 0
			c.source.HandleCompletion(now, to, &m)
			return true
		case !w.OK: // no route leads to the source: the completion is discarded
			return true
		}
		return c.hasRoom(w) && c.sendControl(now, w, to, wire.PacketCompletion, m.Append(c.scratch.payload[:0]))
	})
}

// emitReports sends drop reports. emitReports discards and counts a report if no route
// leads to the report's destination.
func (c *machine) emitReports(now mono.Time) (moved bool) {
	for len(c.outbox.reports) > 0 {
		r := &c.outbox.reports[0]
		to := flow.Key{Node: r.to, Plane: r.Plane}
		w := c.route(to, wire.ClassControl)
		if !w.OK {
			c.counters.ReportsLost++
		} else if !c.hasRoom(w) || !c.sendControl(now, w, to, wire.PacketDropReport, r.DropReport.Append(c.scratch.payload[:0])) {
			break
		}
		c.outbox.reports = c.outbox.reports[1:]
		moved = true
	}
	return moved
}

// sendControl sends a control packet to a flow's source by route w. sendControl
// returns false while there is no room.
func (c *machine) sendControl(now mono.Time, w *flow.Route, to flow.Key, t wire.PacketType, payload []byte) bool {
	c.scratch.payload = payload[:0]
	p := wire.Packet{Type: t, Plane: to.Plane, Src: c.cfg.Node, Dst: to.Node, Group: to.Group, Other: to.Other, Epoch: c.tables.epoch,
		Command: wire.Command{Type: wire.NocNone, Size: uint16(len(payload))}, Payload: payload}
	address(w, &p, c.tables.ttl)
	return c.launch(now, w.Port, &p)
}

// hasRoom returns false if launch has no room for a packet on a route. If hasRoom returns
// true, launch may still find no room.
func (c *machine) hasRoom(w *flow.Route) bool {
	return c.router.CanInject(w.Port, w.VC) || c.router.Bypass(w.Port)
}

// redirectReplies reroutes the replies in the outbox by the tables in force.
// redirectReplies drops and reports a reply if no route is left, or if the reply's header
// has no room for the route. The report names the channel by which the previous route left.
func (c *machine) redirectReplies(now mono.Time) {
	kept := c.outbox.replies[:0]
	for _, r := range c.outbox.replies {
		v := wire.PacketView(c.pool.Bytes(r.slot))
		if w, epoch := c.way(destination(v), wire.ClassReply); w.OK && v.Reroute(w.Actions, w.Up, w.Detour) {
			v.SetVC(w.VC)
			v.SetEpoch(epoch)
			v.Extend(c.tables.ttl - 1)
			kept = append(kept, reply{r.slot, c.ports.list[w.Port].Local.Channel})
		} else {
			c.counters.Dropped[wire.DropUnreachable]++
			c.report(now, router.Drop{Reason: wire.DropUnreachable, Channel: r.channel}, v, false)
			c.pool.Put(r.slot)
		}
	}
	c.outbox.replies = kept
}

// tellNeighbours sends each neighbour the link states that are new to the neighbour, as
// far as there is room. The link states are about this chip and about other chips.
// tellNeighbours leaves out neighbours whose link is down.
func (c *machine) tellNeighbours(now mono.Time) bool {
	moved := false
	for i := range c.ports.list {
		for p := &c.ports.list[i]; p.up && c.control.Owes(i); {
			words, upTo := c.control.Tell(i)
			b := c.scratch.payload[:0]
			for k := range words {
				b = words[k].Append(b)
			}
			c.scratch.payload = b[:0]
			pkt := wire.Packet{Type: wire.PacketLinkState, VC: wire.VCControl, Plane: p.Plane, Src: c.cfg.Node, Dst: p.Peer.Node, Epoch: c.tables.epoch,
				Route: wire.AppendRoute(nil, []wire.Direction{p.Dir}), Command: wire.Command{Type: wire.NocNone, Size: uint16(len(b))}, Payload: b}
			if !c.launch(now, i, &pkt) {
				break
			}
			c.control.Told(i, upTo)
			moved = true
		}
	}
	return moved
}
