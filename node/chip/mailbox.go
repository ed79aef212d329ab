package chip

import (
	"fmt"

	"ttfabric/node/noc"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// mailbox is the memory into which a port's router posts the port's status and events
// (Spec §7.1). The mailbox lies in the L1 of the port's ethernet tile. The file
// wire/mailbox.go has the layout. PollEvent writes an entry for each event. For a link
// event or a command to the port, PollEvent also writes the status of the port. Before
// the chip performs a read of the mailbox, the chip updates the status. Packets that pass
// through the chip write nothing into the mailbox.
type mailbox struct {
	at     wire.NocAddr // address of the first byte of the mailbox
	region []byte       // bytes of the mailbox
	posted uint32       // number of entries written so far
	seq    uint32       // number of times that the chip wrote the status
}

// MailboxAddr returns the address of the mailbox of an ethernet channel, in the memory of
// a chip of architecture a. MailboxAddr returns an error if the architecture has no
// ethernet tile for the channel.
func MailboxAddr(a wire.Arch, ch wire.Channel) (wire.NocAddr, error) {
	m, err := noc.New(a, 0)
	if err != nil {
		return 0, err
	}
	return mailboxAddr(m, ch)
}

func mailboxAddr(m *noc.Memory, ch wire.Channel) (wire.NocAddr, error) {
	i := wire.Channel(0)
	for _, t := range m.Tiles() {
		if t.Kind != noc.Ethernet {
			continue
		}
		if i == ch {
			return wire.NewNocAddr(t.X, t.Y, wire.MailboxOffset), nil
		}
		i++
	}
	return 0, fmt.Errorf("channel %d has no ethernet tile: want a channel below %d", ch, i)
}

// addMailboxes maps a mailbox for each port into the chip's memory.
func (c *machine) addMailboxes(now mono.Time) error {
	all := make([]byte, len(c.ports.list)*wire.MailboxSize)
	for i := range c.ports.list {
		m := &c.ports.list[i].mail
		m.region = all[i*wire.MailboxSize:][:wire.MailboxSize:wire.MailboxSize]
		var err error
		if m.at, err = mailboxAddr(c.memory, c.ports.list[i].Local.Channel); err == nil {
			err = c.memory.Map(m.at, m.region)
		}
		if err != nil {
			return fmt.Errorf("chip %s: %w", c.cfg.Node, err)
		}
		c.postStatus(now, i)
	}
	return nil
}

// refreshMailbox updates the status in a mailbox if any of the n bytes from address a on
// lies in this mailbox.
func (c *machine) refreshMailbox(now mono.Time, a wire.NocAddr, n int) {
	if !c.memory.Overlaps(a, n) {
		return
	}
	a, _ = c.memory.OnNoC0(a)
	for i := range c.ports.list {
		if m := &c.ports.list[i].mail; m.at.X() == a.X() && m.at.Y() == a.Y() {
			c.postStatus(now, i)
		}
	}
}

// postStatus writes a port's status into the mailbox of the port.
func (c *machine) postStatus(now mono.Time, i int) {
	p := &c.ports.list[i]
	m := &p.mail
	l, f, r := p.link.Status(), p.link.Counters(), c.router.Status(i)
	m.seq++
	s := wire.MailboxStatus{Seq: m.seq, Incarnation: c.cfg.Incarnation, At: uint64(now), Local: p.Local, Dir: p.Dir, Plane: p.Plane,
		Path: mailboxPath(l.Path), Peer: p.Peer, LinkState: uint8(l.State), LastDown: uint8(l.LastDown), Confirmed: l.Confirmed, Miswired: l.Miswired,
		State: wire.RouterState(r.State), Postcode: wire.Postcode(l.Phase.Postcode()), Posted: m.posted, Session: l.Session, Retrains: uint32(l.Retrains),
		Heartbeat: wire.HeartbeatFabric | uint32(uint16(uint64(now)/wire.HeartbeatPerTick)),
		Since:     uint64(l.Since), Downtime: uint64(l.Downtime), RTT: uint64(l.RTT),
		PacketsSent: f.PacketsSent, BytesSent: f.PayloadSent, FramesSent: f.FramesSent, FramesResent: f.Retransmitted,
		PacketsReceived: f.PacketsReceived, BytesReceived: f.PayloadReceived, FramesReceived: f.FramesReceived, FramesRefused: refused(&f),
		Injected: r.Counters.Injected, Forwarded: r.Counters.Forwarded, Delivered: r.Counters.Delivered, Epoch: c.tables.epoch}
	for _, n := range r.Counters.Dropped {
		s.Dropped += n
	}
	for v := range wire.NumVCs {
		s.InReceiver += uint32(r.Receiver[v])
		s.InSender += uint32(r.Sender[v])
	}
	s.Put(m.region)
}

// post writes an event into the mailbox of the event's port. A full mailbox loses its
// oldest entry. An event about tables goes to the mailboxes of all ports.
func (c *machine) post(e *Event) {
	if e.Kernel != nil || e.Firmware != nil {
		return // a job or a host's request belongs to no port
	}
	if e.Tables != nil {
		for i := range c.ports.list {
			c.postIn(i, e)
		}
	} else if i := c.ports.index(e.Local.Channel); i >= 0 {
		c.postIn(i, e)
	}
}

// postIn writes an event into the mailbox of port i.
func (c *machine) postIn(i int, e *Event) {
	m := &c.ports.list[i].mail
	x := entryOf(e)
	x.Number, x.Life, x.At = m.posted, uint32(c.cfg.Incarnation), uint64(e.At)
	x.Put(m.region[wire.MailboxEntryAt(m.posted):])
	m.posted++
	if e.Link.Kind != 0 || e.Port != nil { // a drop writes no status, because a chip may drop many packets at once
		c.postStatus(e.At, i)
	}
}

// entryOf returns an event as an entry of the mailbox.
func entryOf(e *Event) wire.MailboxEntry {
	x := wire.MailboxEntry{Severity: wire.SeverityError, Src: e.Src, Dst: e.Dst, Packets: uint32(min(e.Count, 1<<32-1)), Path: wire.MailboxOwnCable}
	switch {
	case e.Tables != nil:
		x.Kind, x.Severity, x.Session, x.Packets = wire.MailboxTables, wire.SeverityWarning, wire.SessionID(e.Tables.Epoch), uint32(len(e.Tables.Out)/2)
		switch {
		case e.Tables.Refused:
			x.Severity, x.Reason = wire.SeverityError, 2
		case e.Tables.Strict:
			x.Reason = 1
		case len(e.Tables.Out) == 0:
			x.Severity = wire.SeverityInfo
		}
		return x
	case e.Port != nil:
		x.Kind, x.Severity, x.Reason, x.Packets = wire.MailboxCommand, wire.SeverityInfo, uint8(e.Port.Command), uint32(e.Port.Flushed)
		if e.Port.Flush {
			x.Reason = 255
		}
		return x
	case e.Stuck != nil:
		x.Kind, x.VC, x.For, x.Packets = wire.MailboxStuck, uint8(e.Stuck.VC), uint64(e.Stuck.For), uint32(e.Stuck.Waiting)
		if e.Stuck.Sender >= 0 {
			x.Path = uint8(e.Stuck.Sender)
		}
		return x
	case e.Drop != 0:
		x.Kind, x.Reason = wire.MailboxDropped, uint8(e.Drop)
		return x
	}
	l := &e.Link
	x.Kind, x.Session, x.Retrains = wire.MailboxKind(l.Kind), l.Session, uint32(l.Retrains)
	switch l.Kind {
	case ttlink.EventUp, ttlink.EventPath:
		x.Severity, x.Path = wire.SeverityInfo, mailboxPath(l.Path)
	case ttlink.EventSessionStarted, ttlink.EventReleased, ttlink.EventReliable:
		x.Severity = wire.SeverityInfo
	case ttlink.EventNarrow:
		x.Severity, x.Packets = wire.SeverityWarning, uint32(l.Size)
	case ttlink.EventWide:
		x.Severity, x.Packets = wire.SeverityInfo, uint32(l.Size)
	case ttlink.EventHeld:
		x.Severity = wire.SeverityWarning
		if l.Until != mono.Never {
			x.For = uint64(l.Until.Sub(l.At))
		}
	case ttlink.EventUnreliable:
		x.Severity = wire.SeverityWarning
	case ttlink.EventDown:
		x.Severity, x.Reason = wire.SeverityWarning, uint8(l.Reason)
	case ttlink.EventSessionEnded:
		for _, n := range l.Unknown {
			x.Packets += uint32(n)
		}
		if x.Packets == 0 {
			x.Severity = wire.SeverityWarning
		}
	case ttlink.EventMiswired:
		x.Src, x.VC = l.Found.Node, uint8(l.Found.Channel)
	case ttlink.EventIncompatible:
		x.Reason = uint8(l.Mismatch)
	}
	return x
}

func mailboxPath(p ttlink.Path) uint8 {
	if p == ttlink.Own {
		return wire.MailboxOwnCable
	}
	return uint8(p.Channel())
}

// refused returns the number of received frames that the link refused.
func refused(f *ttlink.Counters) uint64 {
	n := f.Duplicates + f.Gaps + f.StaleSession + f.NotUp + f.WrongChannel + f.WrongPath + f.CreditViolations + f.BadPieces +
		f.MalformedHellos + f.MalformedUpdates + f.MiswiredHellos + f.HeldHellos + f.StaleHellos + f.UnprovedHellos
	for _, k := range f.Faults {
		n += k
	}
	return n
}
