package chip

import (
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// HandleDatagram takes one datagram that came in on a port. A whole packet
// enters the router; of one that comes in pieces, each is copied into its slot.
func (c *Chip) HandleDatagram(now mono.Time, ch wire.Channel, b []byte) {
	if c.tap != nil {
		c.tap.Call(OpHandleDatagram, now, ch, 0, b)
	}
	i := c.portIndex(ch)
	if i < 0 {
		return
	}
	i, by := c.addressed(i, b)
	d, ok := c.ports[i].link.HandleVia(now, by, b)
	c.linkEvents(now, i)
	switch {
	case !ok:
	case d.Offset == 0 && d.End:
		c.whole(now, i, d.VC, d.Data, router.NoSlot)
	default:
		c.piece(now, i, &d)
	}
}

// piece takes a piece of a packet.
func (c *Chip) piece(now mono.Time, i int, d *ttlink.Delivery) {
	p := &c.ports[i]
	if d.Offset == 0 && p.partial == router.NoSlot {
		p.partial = c.slot(wire.MaxPacket)
	}
	end := d.Offset + len(d.Data)
	if end <= wire.MaxPacket {
		c.pool.SetLen(p.partial, end)
		copy(c.pool.Bytes(p.partial)[d.Offset:], d.Data)
	}
	if !d.End {
		return
	}
	s := p.partial
	p.partial = router.NoSlot
	if end > wire.MaxPacket {
		c.pool.SetLen(s, 0)
	}
	c.whole(now, i, d.VC, c.pool.Bytes(s), s)
}

// slot takes a buffer out of the pool for a packet of n bytes that came in.
func (c *Chip) slot(n int) router.Slot {
	s, ok := c.pool.Get(n)
	if !ok {
		panic("chip: a peer with credits found no slot; the pool is smaller than the channels")
	}
	return s
}

// whole takes a packet that came in by a port on a virtual channel. It lies in
// a slot or, where that is none, in the datagram that it came in: if it finds
// nothing before it, it is performed from there, or goes on from there: it
// would be the next one anyway.
func (c *Chip) whole(now mono.Time, i int, vc wire.VC, b []byte, s router.Slot) {
	p := &c.ports[i]
	v, err := wire.ViewPacket(b)
	if err != nil || v.VC() != vc || v.Plane() != p.Plane {
		c.counters.Dropped[wire.DropMalformed]++
		p.malformed[vc.Class()]++
		if s != router.NoSlot {
			c.pool.Put(s)
		}
		p.link.Free(vc)
		return
	}
	why := c.admits(p, v)
	if s == router.NoSlot {
		if c.router.Idle(i, vc) {
			if c.router.CutThrough(i, v) {
				c.saw(now, p, v)
				c.arrived(now, v)
				p.link.Free(vc)
				return
			}
			if why == 0 && c.passThrough(now, i, v) {
				c.saw(now, p, v)
				p.link.Free(vc)
				return
			}
		}
		s = c.slot(len(v))
		copy(c.pool.Bytes(s), v)
	}
	if why != 0 {
		c.router.Discard(i, s, why)
		p.link.Free(vc)
		return
	}
	c.saw(now, p, v)
	c.router.Arrive(i, vc, s)
}

// admits looks at a packet that came in by a port, and gives one from another
// mesh its route: why it must go no further, or 0.
func (c *Chip) admits(p *port, v wire.PacketView) wire.DropReason {
	switch {
	case !c.enter(p, v):
		return wire.DropUnreachable
	case c.stale(v) && v.Action() != wire.RouteBit(p.Dir):
		return wire.DropTables
	}
	return 0
}

// passThrough sends a packet on from the datagram that it came in, if nothing
// waits before it and the link onwards has credit and takes it in one piece.
func (c *Chip) passThrough(now mono.Time, i int, v wire.PacketView) bool {
	out, to, ok := c.router.Through(i, v)
	if !ok {
		return false
	}
	b, ok := c.ports[out].link.Place(now, to, len(v))
	if !ok {
		return false
	}
	copy(b, v)
	sent := wire.PacketView(b)
	sent.SetVC(to)
	sent.Advance()
	c.router.Passed(i, out, to)
	return true
}

// Pump runs the chip until nothing moves: the data path, stage by stage.
func (c *Chip) Pump(now mono.Time) {
	if c.tap != nil {
		c.tap.Call(OpPump, now, 0, 0, nil)
	}
	for {
		moved := c.deliver(now)             // receiver channels → memory, flows
		moved = c.router.Step(now) || moved // receiver channels → sender channels
		moved = c.redirect() || moved       // sender channels of ports out of service → those of others
		c.returnCredits()                   // freed receiver slots → the peers
		moved = c.abandon(now) || moved     // given up packets → reports, stuck channels → events
		moved = c.emit(now) || moved        // replies, completions, reports → sender channels
		moved = c.pull(now) || moved        // the client's requests → sender channels
		moved = c.transmit(now) || moved    // sender channels → links
		if !moved {
			return
		}
	}
}

// deliver executes what has arrived for this chip.
func (c *Chip) deliver(now mono.Time) bool {
	moved := false
	for {
		l, ok := c.router.PollLocal()
		if !ok {
			return moved
		}
		c.arrived(now, c.pool.Bytes(l.Slot))
		if !l.Shared {
			c.pool.Put(l.Slot)
		}
		moved = true
	}
}

// arrived handles a packet for this chip.
func (c *Chip) arrived(now mono.Time, b []byte) {
	var err error
	p := &c.arriving
	if *p, err = wire.DecodePacket(b); err != nil || !c.mine(p) || !c.plan.Has(p.Src) {
		c.counters.Dropped[wire.DropMalformed]++
		c.refused[wire.PacketView(b).VC().Class()]++
		return
	}
	switch p.Type {
	case wire.PacketRequest, wire.PacketProbe:
		c.request(now, p)
	case wire.PacketReply:
		c.reply(now, p)
	case wire.PacketCompletion:
		c.completion(now, p)
	case wire.PacketLinkState:
		c.hear(now, p)
	case wire.PacketDropReport:
		if r, err := wire.DecodeDropReport(p.Payload); err == nil {
			c.dropped(now, r, p.Src)
		} else {
			c.counters.Dropped[wire.DropMalformed]++
		}
	}
}

func (c *Chip) returnCredits() {
	for {
		f, ok := c.router.PollFreed()
		if !ok {
			return
		}
		c.ports[f.Port].link.Free(f.VC)
	}
}

// abandon reports to their sources the packets that the router gave up. What
// empties channels calls it at once: they can fill again before the next Pump,
// and the pool has buffers for the channels, not for what was in them, too.
func (c *Chip) abandon(now mono.Time) bool {
	moved := false
	for {
		s, ok := c.router.PollStuck()
		if !ok {
			break
		}
		c.counters.Timeouts++
		if !c.cfg.Timeout.Quiet {
			c.events.stuck(now, &c.ports[s.Port], s)
		}
	}
	for {
		d, ok := c.router.PollDrop()
		if !ok {
			return moved
		}
		moved = true
		c.counters.Dropped[d.Reason]++
		v := wire.PacketView(c.pool.Bytes(d.Slot))
		if t := v.Type(); t == wire.PacketRequest || t == wire.PacketProbe {
			epoch, seq := v.Flow()
			r := report{to: v.Src(), DropReport: wire.DropReport{Dst: v.Dst(), Plane: v.Plane(), Other: v.Other(), FlowEpoch: epoch,
				FlowSeq: seq, Reason: d.Reason, Channel: d.Channel, ID: v.ID(), Type: t}}
			whole := r.ofCopy(d, v)
			switch {
			case !whole: // nobody could say whom it would have reached
			case r.to == c.cfg.Node:
				c.dropped(now, r.DropReport, c.cfg.Node)
			case len(c.reports) < MaxReports:
				c.reports = append(c.reports, r)
			default:
				c.counters.ReportsLost++
			}
		}
		c.events.drop(now, d, v)
		c.pool.Put(d.Slot)
	}
}

// emit injects what this chip owes others, as far as there is room.
func (c *Chip) emit(now mono.Time) bool {
	moved := false
	for len(c.replies) > 0 {
		v := wire.PacketView(c.pool.Bytes(c.replies[0]))
		if !c.router.Inject(c.way(destination(v), wire.ClassReply).port, v.VC(), c.replies[0]) {
			break
		}
		c.replies = c.replies[1:]
		moved = true
	}
	moved = c.emitCompletions(now) || moved
	for len(c.reports) > 0 {
		r := &c.reports[0]
		if !c.injectControl(now, flowKey{node: r.to, plane: r.Plane}, wire.PacketDropReport, r.DropReport.Append(c.scratch[:0])) {
			break
		}
		c.reports = c.reports[1:]
		moved = true
	}
	return c.tellNeighbours(now) || moved
}

// injectControl sends a control message to a flow's source; false while its sender channel is full.
func (c *Chip) injectControl(now mono.Time, to flowKey, t wire.PacketType, payload []byte) bool {
	c.scratch = payload[:0]
	w := c.way(to, wire.ClassControl)
	if !w.ok {
		return true // no such chip: nobody to tell
	}
	if !c.hasRoom(w) {
		return false
	}
	p := wire.Packet{Type: t, Plane: to.plane, Src: c.cfg.Node, Dst: to.node, Group: to.group, Other: to.other, Epoch: c.epoch,
		Command: wire.Command{Type: wire.NocNone, Size: uint16(len(payload))}, Payload: payload}
	w.address(&p, c.ttl)
	return c.launch(now, w.port, &p)
}

// hasRoom reports whether a packet of this chip may find room on a way: if not, launch need not be tried.
func (c *Chip) hasRoom(w *way) bool {
	return c.router.CanInject(w.port, w.vc) || c.router.Bypass(w.port)
}

// launch sends an addressed packet of this chip by a port: into its sender
// channel, or, where nothing waits before it and the link has credit, into the link at once.
func (c *Chip) launch(now mono.Time, port int, p *wire.Packet) bool {
	if c.router.Bypass(port) {
		if b, ok := c.ports[port].link.Place(now, p.VC, p.Len()); ok {
			p.Append(b[:0])
			c.router.Bypassed(port, p.VC)
			return true
		}
	}
	if !c.router.CanInject(port, p.VC) {
		return false
	}
	s, ok := c.build(p)
	return ok && c.router.Inject(port, p.VC, s)
}

// build encodes an addressed packet into a slot of its own.
func (c *Chip) build(p *wire.Packet) (router.Slot, bool) {
	s, ok := c.pool.Get(p.Len())
	if ok {
		p.Append(c.pool.Bytes(s)[:0])
	}
	return s, ok
}

// transmit hands the links what the router offers and their credits allow.
func (c *Chip) transmit(now mono.Time) bool {
	moved := false
	for i := range c.ports {
		p := &c.ports[i]
		for skip := router.Skip(0); ; {
			o, ok := c.router.Next(i, skip)
			if !ok {
				break
			}
			if o.Needs > 1 && p.link.Credits(o.VC) < o.Needs {
				skip |= o.One
				continue
			}
			if !p.link.Send(now, o.VC, c.pool.Bytes(o.Slot)) {
				skip |= o.All
				continue
			}
			c.pool.Put(c.router.Sent(i))
			moved = true
		}
	}
	return moved
}

// PollTransmit yields datagrams to send on a port; valid until the next call for that port.
func (c *Chip) PollTransmit(now mono.Time) (wire.Channel, ttlink.Transmit, bool) {
	ch, t, ok := c.pollTransmit(now)
	if c.tap != nil {
		c.tap.Transmit(now, ch, t, ok)
	}
	return ch, t, ok
}

func (c *Chip) pollTransmit(now mono.Time) (wire.Channel, ttlink.Transmit, bool) {
	for range c.ports {
		p := &c.ports[c.txPort]
		if t, ok := p.link.PollTransmit(now); ok {
			if t.Path != ttlink.Own {
				return t.Path.Channel(), t, true
			}
			return p.Local.Channel, t, true
		}
		c.txPort = (c.txPort + 1) % len(c.ports)
	}
	return 0, ttlink.Transmit{}, false
}
