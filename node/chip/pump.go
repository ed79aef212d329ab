package chip

import (
	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The diagram below shows the stages that a packet passes in a chip. Pump moves packets stage by
// stage. A packet may take one of three shortcuts, which skip stages, if no other packet waits in
// the skipped stages. Therefore the shortcuts change neither the order of packets nor the fairness
// between ports. The router decides whether a packet may take a shortcut. The router's method
// CutThrough decides for the shortcut deliverNow, Through decides for forwardNow, and Bypass
// decides for sendNow.
//
//	cable → link → take ─ deliverNow ─────────────────────────→ memory, flows           shortcut
//	                    ─ forwardNow ─────────────────────────→ link → cable            shortcut
//	                    ─ stored → receiver channel ─ deliver ─→ memory, flows
//	                                                ─ Step ────→ sender channel → transmit → link → cable
//	                    ─ wrote ───────────────────────────────→ memory                 L1 and MMIO writes
//	own packets → launch ─ sendNow ───────────────────────────→ link → cable            shortcut
//	                     ─ inject ────────────────────────────→ sender channel → transmit → link → cable
//	own multicasts → injectTree → router's queue ─ Step ───────→ sender channels → transmit → links → cables
//	own read data → emit ─────────────────────────────────────→ sender channel → transmit → link → cable
//	sender channel of a port out of service ─ redirect ───────→ sender channel of another port
//	packet that must go no further ─ Discard, or dropped by Step → abandon → report to its source

// Pump moves packets through the stages of the data path until no packet can move. Pump builds this
// chip's control packets last. Therefore the long frames that a port sends in one step lie next to
// each other in the link's memory, and Linux takes them as one super-packet (GSO). A completion
// that leaves later also answers more requests.
func (c *machine) Pump(now mono.Time) {
	c.host.now = now
	c.rates.pass(now, c.ports.list)
	c.kernels.Step()
	c.cut.expire(now)
	for {
		c.sendMarks()                                            // marks of a cut → links
		moved := c.deliver(now)                                  // receiver channels → memory, flows
		moved = c.router.Step(now) || moved                      // receiver channels → sender channels
		moved = c.redirect() || moved                            // sender channels of ports out of service → sender channels of other ports
		c.returnCredits()                                        // freed receiver slots → the peers
		moved = c.abandon(now) || moved                          // dropped packets → reports, stuck channels → events
		moved = c.emitReplies() || moved                         // replies → sender channels
		moved = c.pull(now) || moved                             // the program's requests → launch, injectTree
		moved = c.runKernels(now) || moved                       // kernels on tiles → memory, launch, links
		moved = c.retrainAsked(now) || moved                     // a host's stores → links
		moved = c.runFirmware(now) || moved                      // base firmware of ethernet tiles → memory, links
		moved = c.runWaiting(now) || moved                       // requests to host memory, and what waits behind them → memory, flows
		moved = c.transmit(now, router.ControlChannels) || moved // sender channels of requests and replies → links
		if moved {
			continue
		}
		moved = c.emitControl(now)                       // completions, reports, link states → launch
		moved = c.transmit(now, router.Skip(0)) || moved // all sender channels → links
		if !moved {
			return
		}
	}
}

// The method "take" handles a whole packet that came in by port i on virtual channel vc. The method
// decides where the packet goes next. The parameter b holds the bytes of the packet. The packet
// lies in slot s. If s is router.NoSlot, the packet still lies in its datagram.
func (c *machine) take(now mono.Time, i int, vc wire.VC, b []byte, s router.Slot) {
	p := &c.ports.list[i]
	v, err := wire.ViewPacket(b)
	if err != nil || v.VC() != vc || v.Plane() != p.Plane {
		c.cut.came(i, vc, nil)
		c.malformed(p, vc, s)
		return
	}
	c.cut.came(i, vc, v)
	why := wire.DropReason(0)
	switch {
	case c.cfg.StrictTTL && v.TTL() == 0:
		why = wire.DropTTL
	case !c.enter(p, v):
		why = wire.DropUnreachable
	}
	first := s == router.NoSlot && c.router.Idle(i, vc) // no packet waits before this one
	switch {
	case first && why != wire.DropTTL && c.deliverNow(now, i, v): // → memory, flows
	case first && why == 0 && c.forwardNow(now, i, v): // → next link
	case why != 0:
		c.router.Discard(i, c.stored(v, s), why)
	default:
		c.saw(now, p, v)
		c.router.Arrive(i, vc, c.stored(v, s)) // → receiver channel
		return                                 // returnCredits gives the slot back to the peer later
	}
	p.link.Free(vc)
}

// deliverNow hands a packet for this chip to memory and flows, directly from the datagram. If the
// router forbids the shortcut, deliverNow does nothing and returns false.
func (c *machine) deliverNow(now mono.Time, i int, v wire.PacketView) bool {
	if !c.router.CutThrough(i, v) {
		return false
	}
	c.saw(now, &c.ports.list[i], v)
	c.arrived(now, v)
	return true
}

// forwardNow copies a packet from the datagram directly into the next link of the packet's route.
// If the router forbids the shortcut, or if the link cannot take the packet now, forwardNow does
// nothing and returns false. If frames wait in the link, a control packet may not take the shortcut
// either. Further requests and replies may follow these frames, and should leave before the control
// packet.
func (c *machine) forwardNow(now mono.Time, i int, v wire.PacketView) bool {
	out, to, ok := c.router.Through(i, v)
	if !ok || c.cut.holds(out) || to.Class() == wire.ClassControl && c.ports.list[out].link.Waiting() {
		return false
	}
	b, ok := c.ports.list[out].link.Place(now, to, len(v))
	if !ok {
		return false
	}
	copy(b, v)
	sent := wire.PacketView(b)
	sent.SetVC(to)
	sent.Advance()
	c.router.Passed(i, out, to)
	c.saw(now, &c.ports.list[i], v)
	return true
}

// The method "launch" sends a packet of this chip by a port. The packet already has its route,
// virtual channel and TTL. If neither the link nor the sender channel has room, the method returns
// false, and the caller keeps the packet.
func (c *machine) launch(now mono.Time, port int, p *wire.Packet) bool {
	return c.sendNow(now, port, p) || c.inject(port, p)
}

// sendNow writes a packet of this chip into the link of a port. If the router forbids the shortcut,
// or if the link cannot take the packet now, sendNow does nothing and returns false.
func (c *machine) sendNow(now mono.Time, port int, p *wire.Packet) bool {
	if !c.router.Bypass(port) || c.cut.holds(port) {
		return false
	}
	b, ok := c.ports.list[port].link.Place(now, p.VC, p.Len())
	if !ok {
		return false
	}
	p.Append(b[:0])
	c.router.Bypassed(port, p.VC)
	return true
}

// The method "inject" puts a packet of this chip into a sender channel of a port. If there is no
// room, the method returns false.
func (c *machine) inject(port int, p *wire.Packet) bool {
	if !c.router.CanInject(port, p.VC) {
		return false
	}
	s, ok := c.build(p)
	return ok && c.router.Inject(port, p.VC, s)
}

// injectTree puts a multicast of this chip into the router's queue for the chip's own multicasts.
// The router makes the copies from there. The caller has checked with the method Room of network
// that there is room.
func (c *machine) injectTree(p *wire.Packet) bool {
	s, ok := c.build(p)
	return ok && c.router.Multicast(p.Plane, s)
}

// The method "build" encodes a packet of this chip into a new slot of the pool. If the pool is
// full, the method returns false.
func (c *machine) build(p *wire.Packet) (router.Slot, bool) {
	s, ok := c.pool.Get(p.Len())
	if ok {
		p.Append(c.pool.Bytes(s)[:0])
	}
	return s, ok
}

// HandleDatagram handles one datagram that came in on channel ch. The datagram holds one frame. The
// link handles the frame first. If the frame holds a whole packet that the link accepts, the chip
// then takes the packet directly from the datagram. If the frame holds words of an L1 write or an MMIO
// write, the method "wrote" performs this write. If the frame holds a piece of a packet, the method
// "assemble" takes the piece.
func (c *machine) HandleDatagram(now mono.Time, ch wire.Channel, b []byte) {
	c.host.now = now
	i := c.ports.index(ch)
	if i < 0 {
		return
	}
	if p := &c.ports.list[i]; p.raw.on {
		c.rawDatagram(p, b)
		return
	}
	c.router.SetTime(now)
	i, by := c.addressed(i, b)
	d, ok := c.ports.list[i].link.HandleVia(now, by, b)
	c.linkEvents(now, i)
	switch {
	case !ok:
	case d.Kind != wire.KindData:
		c.wrote(now, i, &d) // L1 or MMIO write → memory
	case d.Offset == 0 && d.End:
		c.take(now, i, d.VC, d.Data, router.NoSlot)
	default:
		c.assemble(now, i, &d)
	}
}

// The method "assemble" copies a piece of a packet into the packet's slot. After the last piece,
// the method passes the packet to the method "take". If the packet is longer than wire.MaxPacket,
// the method passes an empty packet instead, which "take" counts as malformed.
func (c *machine) assemble(now mono.Time, i int, d *ttlink.Delivery) {
	p := &c.ports.list[i]
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
	c.take(now, i, d.VC, c.pool.Bytes(s), s)
}

// The method "malformed" counts a malformed packet and frees the packet's slot. A packet is
// malformed if the chip cannot read it. A packet is also malformed if its header names another
// virtual channel or another plane than the packet came on.
func (c *machine) malformed(p *port, vc wire.VC, s router.Slot) {
	c.counters.Dropped[wire.DropMalformed]++
	p.malformed[vc.Class()]++
	if s != router.NoSlot {
		c.pool.Put(s)
	}
	p.link.Free(vc)
}

// The method "stored" returns the slot in which a packet lies. If s is router.NoSlot, the packet
// still lies in its datagram. The method then first copies the packet into a new slot.
func (c *machine) stored(v wire.PacketView, s router.Slot) router.Slot {
	if s == router.NoSlot {
		s = c.slot(len(v))
		copy(c.pool.Bytes(s), v)
	}
	return s
}

// The method "slot" takes a slot from the pool for an incoming packet of n bytes.
func (c *machine) slot(n int) router.Slot {
	s, ok := c.pool.Get(n)
	if !ok {
		panic("chip: the pool has no slot for a packet for which the peer had a credit; the pool is smaller than the channels together")
	}
	return s
}

// The method "deliver" takes the packets for this chip from the router, and hands the packets to
// memory and flows. The method returns true if there was at least one packet.
func (c *machine) deliver(now mono.Time) bool {
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

// The method "arrived" handles a packet for this chip. The parameter b holds the bytes of the
// packet. If the packet is malformed, for another chip, or from an unknown chip, the method counts
// the packet as dropped.
func (c *machine) arrived(now mono.Time, b []byte) {
	var err error
	p := &c.scratch.arriving
	if *p, err = wire.DecodePacket(b); err != nil || !c.mine(p) || !c.tables.plan.Has(p.Src) {
		c.counters.Dropped[wire.DropMalformed]++
		c.refused[wire.PacketView(b).VC().Class()]++
		return
	}
	from := flow.Key{Node: p.Src, Plane: p.Plane, Other: p.Other}
	switch p.Type {
	case wire.PacketRequest, wire.PacketProbe:
		c.request(now, p)
	case wire.PacketReply:
		c.source.HandleReply(now, from, p.ID, p.Payload)
	case wire.PacketCompletion:
		from.Group = p.Group
		c.completion(now, from, p.Payload)
	case wire.PacketLinkState:
		c.hear(now, p)
	case wire.PacketDropReport:
		if r, err := wire.DecodeDropReport(p.Payload); err == nil {
			c.dropped(now, &r, p.Src)
		} else {
			c.counters.Dropped[wire.DropMalformed]++
		}
	}
}

// The method "mine" reports whether this chip is the destination of a packet that the router
// delivered to this chip.
func (c *machine) mine(p *wire.Packet) bool {
	switch {
	case p.Members.Any():
		return p.Trunk != wire.TrunkNone && p.Dst.Mesh == c.cfg.Node.Mesh && p.Members.Has(c.cfg.Node.Chip) && p.Src != c.cfg.Node && p.Group <= flow.MaxGroups
	case p.Trunk == wire.TrunkNone:
		return p.Dst == c.cfg.Node
	}
	return p.Dst == p.Src && p.Src != c.cfg.Node && p.Src.Mesh == c.cfg.Node.Mesh && p.Group <= flow.MaxGroups
}

// returnCredits tells the links which receiver slots the router has freed.
func (c *machine) returnCredits() {
	for {
		f, ok := c.router.PollFreed()
		if !ok {
			return
		}
		c.ports.list[f.Port].link.Free(f.VC)
	}
}

// The method "transmit" takes packets from the sender channels and hands them to the links, as far
// as the links have credits and room. The method passes over the sender channels in the set
// "later", with one exception. If a link had credit but no room for a control packet before, the
// method takes packets from all sender channels of that link's port in turn. Otherwise, requests
// and replies could keep control packets back for long.
func (c *machine) transmit(now mono.Time, later router.Skip) bool {
	moved := false
	for i := range c.ports.list {
		p := &c.ports.list[i]
		if c.cut.holds(i) {
			continue
		}
		skip := later
		if p.crowded {
			skip, p.crowded = 0, false
		}
		for {
			o, ok := c.router.Next(i, skip)
			if !ok {
				break
			}
			if o.Needs > 1 && p.link.Credits(o.VC) < o.Needs {
				skip |= o.One
				continue
			}
			if !p.link.Send(now, o.VC, c.pool.Bytes(o.Slot)) {
				p.crowded = p.crowded || o.VC.Class() == wire.ClassControl && p.link.Credits(o.VC) > 0
				skip |= o.All
				continue
			}
			c.pool.Put(c.router.Sent(i))
			moved = true
		}
	}
	return moved
}

// PollTransmit returns the next frames to send, and the channel of the cable that must carry these
// frames; see [Inputs].
func (c *machine) PollTransmit(now mono.Time) (wire.Channel, ttlink.Transmit, bool) {
	c.host.now = now
	for range c.ports.list {
		p := &c.ports.list[c.ports.turn]
		if p.raw.on {
			if t, ok := p.raw.end.PollTransmit(); ok {
				return p.Local.Channel, t, true
			}
		} else if t, ok := p.link.PollTransmit(now); ok {
			if t.Path != ttlink.Own {
				return t.Path.Channel(), t, true
			}
			return p.Local.Channel, t, true
		}
		c.ports.turn = (c.ports.turn + 1) % len(c.ports.list)
	}
	return 0, ttlink.Transmit{}, false
}
