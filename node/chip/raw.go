package chip

import (
	"ttfabric/node/kernel"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// rawMode is the compliance mode of a port (Spec §2.1). In this mode, the port's link is off, and the
// cable carries payloads without TT-link. The port appends each payload that arrives to the receive
// buffer, which lies in the L1 of the port's ethernet tile. As on hardware, the buffer has no marks
// between payloads (tt-isa-documentation, WormholeB0/EthernetTile/EthernetTxRx.md, "RX Queues").
// The registers of receive queue 0 name the buffer; without a buffer, the port drops all payloads.
type rawMode struct {
	on      bool
	path    bool               // datagrams can reach the address of the port's peer
	end     *ttlink.Compliance // this end of the cable in compliance mode; nil: the port was never in this mode
	start   uint32             // address of the receive buffer in L1, in words of 16 bytes
	size    uint32             // length of the receive buffer, in words of 16 bytes
	ptr     uint32             // offset in the receive buffer where the next payload goes, in bytes
	wrap    bool               // at the end of the receive buffer, payloads continue at its start
	taken   rawCount           // payloads that the port has stored in the receive buffer in full, since the start
	bytes   uint64             // bytes of payloads that the port has stored in the receive buffer
	noSpace uint64             // payloads that the port dropped or cut off, because the receive buffer had no room

	sent [wire.NumQueues]rawCount // payloads that each transmit queue has sent
}

// rawCount counts payloads.
type rawCount struct {
	frames uint64
	words  uint64 // length of the payloads in words, rounded up for each payload; a word has 16 bytes on Wormhole, 96 bytes on Blackhole
}

func (c *rawCount) add(n int, blackhole bool) {
	unit := wire.WriteUnit
	if blackhole {
		unit = ttlink.LineLen
	}
	c.frames++
	c.words += uint64(n+unit-1) / uint64(unit)
}

// setPath notes whether datagrams can reach the address of the port's peer. setPath returns true if
// the port is in compliance mode, so that the link stays off.
func (m *rawMode) setPath(on bool) bool {
	m.path = on
	if m.on {
		m.end.SetPath(on)
	}
	return m.on
}

// counters returns the counters of frames of compliance mode.
func (m *rawMode) counters() (c ttlink.ComplianceCounters) {
	if m.end != nil {
		c = m.end.Counters()
	}
	return c
}

// dropped returns the number of datagrams that the port dropped in compliance mode.
func (m *rawMode) dropped() uint64 {
	c := m.counters()
	n := c.OtherMode + c.WrongChannel + c.Off + c.Overflows + m.noSpace
	for _, k := range c.Faults {
		n += k
	}
	return n
}

// setRaw puts port i into compliance mode, or ends the mode. The link's session goes on when the mode
// ends. setRaw returns false if the port is already in the mode.
func (c *machine) setRaw(now mono.Time, i int, on bool) bool {
	p := &c.ports.list[i]
	m := &p.raw
	if m.on == on {
		return false
	}
	m.on = on
	if !on {
		m.end.SetPath(false)
		c.gone(now, i, p.cut)
		p.link.SetPath(now, m.path)
		return true
	}
	if m.end == nil {
		m.end, _ = ttlink.NewCompliance(p.Local, p.Peer, wire.MaxRaw) // the ports are valid, because the port has a link
	}
	m.end.SetPath(m.path)
	c.endJobsOn(now, p, kernel.End{Why: kernel.EndLink, By: c.cfg.Node, Text: cableName(p) + "compliance mode"})
	p.link.Leave(now)
	c.gone(now, i, true)
	return true
}

// startRaw sends one payload of compliance mode by a transmit queue: n bytes of L1, from address
// "from" on. The chip reads L1 at once. startRaw returns OutcomeBadAddress for bytes beyond L1, and
// OutcomeBadCommand for a payload that is empty or too long for the path. startRaw returns
// OutcomeAgain if [ttlink.ComplianceBuffer] payloads wait, or if no address of the peer is known.
func (c *machine) startRaw(p *port, queue int, from, n uint32) wire.Outcome {
	switch {
	case n < wire.MinRaw || int(n) > min(wire.MaxRaw, p.most+wire.HeaderLen):
		return wire.OutcomeBadCommand
	case uint64(from)+uint64(n) > c.l1(p):
		return wire.OutcomeBadAddress
	}
	b := make([]byte, n)
	if o := c.memory.Read(p.tileAddr(from), b); o != wire.OutcomeDone {
		return o
	}
	if !p.raw.end.Send(b) {
		return wire.OutcomeAgain
	}
	p.raw.sent[queue].add(int(n), c.blackhole())
	return wire.OutcomeDone
}

// rawDatagram handles a datagram that came to a port in compliance mode.
func (c *machine) rawDatagram(p *port, b []byte) {
	p.raw.end.HandleDatagram(b)
	for b, ok := p.raw.end.Read(); ok; b, ok = p.raw.end.Read() {
		if !c.storeRaw(p, b) {
			p.raw.noSpace++
			continue
		}
		p.raw.taken.add(len(b), c.blackhole())
	}
}

// storeRaw stores a payload at the end of the receive buffer. If the buffer does not lie in L1, or
// has no room for the whole payload, storeRaw returns false. If the buffer of a Blackhole chip does
// not wrap, storeRaw still stores as much of the payload as fits, as on hardware.
func (c *machine) storeRaw(p *port, b []byte) bool {
	m := &p.raw
	start, size := uint64(m.start)*wire.WriteUnit, uint64(m.size)*wire.WriteUnit
	at, n := uint64(m.ptr), uint64(len(b))
	fits := m.wrap && n <= size || at+n <= size
	switch {
	case start+size > c.l1(p) || at > size:
		return false
	case !fits && (m.wrap || at == size || !c.blackhole()):
		return false
	case !fits:
		n = size - at
		b = b[:n]
	}
	first := min(n, size-at)
	for _, part := range []struct {
		at uint64
		b  []byte
	}{{at, b[:first]}, {0, b[first:]}} {
		cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: p.tileAddr(uint32(start + part.at))}
		if len(part.b) > 0 && c.memory.Execute(&cmd, part.b) != wire.OutcomeDone {
			return false
		}
	}
	m.bytes += n
	if m.ptr = uint32(at + n); m.wrap && uint64(m.ptr) >= size {
		m.ptr = uint32(at + n - size)
	}
	return fits
}
