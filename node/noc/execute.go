package noc

import (
	"encoding/binary"

	"ttfabric/wire"
)

// maxSpans is the largest number of spans that one command touches. The command with the most
// spans is a scatter write, which has one span for each chunk.
const maxSpans = wire.MaxScatter

// Execute performs a command with its payload completely, or not at all. Execute takes the length
// of the payload as the size, and ignores c.Size. Flush has no effect, because Execute performs
// commands one after another. The outcomes:
//
//   - [wire.OutcomeDone]: Execute performed the command.
//   - [wire.OutcomeBadAddress]: an address names no tile with memory, or a byte past the end of the
//     tile's memory that is no register; or an address is the address of a rectangle, and the
//     command is no NoC multicast; or the rectangle of a NoC multicast has no working Tensix tile.
//   - [wire.OutcomeUntranslated]: the address has translated coordinates, and the chip translates
//     none.
//   - [wire.OutcomeHarvested]: an address names the memory of a tile that is switched off.
//   - [wire.OutcomeMisaligned]: the command needs words, and the address or the length is not a
//     multiple of 4.
//   - [wire.OutcomeBadCommand]: memory does not perform this type of command; or the number or
//     the lengths of a scatter's chunks are wrong; or an inline write or atomic has a payload; or
//     an inline write or atomic goes to DRAM; or a command other than a unicast write or an inline
//     write reaches registers.
//   - [wire.OutcomeNoMemory]: the pages have reached the limit of host memory. Commands can still
//     write to pages that exist.
//
// A fused command first writes and then increments. A scatter write writes its chunks in order.
// The order matters if chunks overlap. For registers, the outcome may also be any outcome of
// [Registers].Store.
func (m *Memory) Execute(c *wire.Command, payload []byte) wire.Outcome {
	if c.Type == wire.NocMulticastWrite || c.Type == wire.NocMulticastInc {
		return m.multicast(c, payload)
	}
	var spans [maxSpans]span
	n, o := m.plan(c, payload, &spans)
	if o != wire.OutcomeDone {
		return o
	}
	if spans[0].regs != 0 {
		return m.storeRegisters(c, spans[0], payload)
	}
	if !m.fits(spans[:n]) {
		return wire.OutcomeNoMemory
	}
	switch c.Type {
	case wire.NocUnicastWrite:
		m.write(spans[0], payload)
	case wire.NocInlineWrite:
		m.put(spans[0], c.Value)
	case wire.NocAtomicInc:
		m.put(spans[0], m.word(spans[0])+c.Value)
	case wire.NocFusedInc:
		m.write(spans[0], payload)
		m.put(spans[1], m.word(spans[1])+c.Value)
	case wire.NocScatterWrite:
		for _, s := range spans[:n] {
			m.write(s, payload[:s.n])
			payload = payload[s.n:]
		}
	}
	return wire.OutcomeDone
}

// plan checks a command, and lists the spans that the command touches, in order.
func (m *Memory) plan(c *wire.Command, payload []byte, spans *[maxSpans]span) (n int, o wire.Outcome) {
	switch c.Type {
	case wire.NocUnicastWrite:
		spans[0], o = m.find(c.Addr, len(payload))
		return 1, o
	case wire.NocInlineWrite, wire.NocAtomicInc:
		if len(payload) != 0 {
			return 0, wire.OutcomeBadCommand
		}
		spans[0], o = m.findWord(c.Addr)
		if o == wire.OutcomeDone && c.Type == wire.NocAtomicInc && spans[0].regs != 0 {
			o = wire.OutcomeBadCommand
		}
		return 1, o
	case wire.NocFusedInc:
		if spans[0], o = m.findMemory(c.Addr, len(payload)); o != wire.OutcomeDone {
			return 0, o
		}
		if spans[1], o = m.findWord(c.Sem); o == wire.OutcomeDone && spans[1].regs != 0 {
			o = wire.OutcomeBadCommand
		}
		return 2, o
	case wire.NocScatterWrite:
		return m.planScatter(c, payload, spans)
	}
	return 0, wire.OutcomeBadCommand
}

func (m *Memory) planScatter(c *wire.Command, payload []byte, spans *[maxSpans]span) (int, wire.Outcome) {
	if c.Chunks < 2 || c.Chunks > wire.MaxScatter {
		return 0, wire.OutcomeBadCommand
	}
	var sizes [maxSpans]int
	last, rest := int(c.Chunks)-1, len(payload)
	for i := range last {
		sizes[i] = int(c.Sizes[i])
		if rest -= sizes[i]; rest < 0 {
			return 0, wire.OutcomeBadCommand
		}
	}
	sizes[last] = rest
	for i, n := range sizes[:c.Chunks] {
		var o wire.Outcome
		if spans[i], o = m.findMemory(c.Scatter[i], n); o != wire.OutcomeDone {
			return 0, o
		}
	}
	return int(c.Chunks), wire.OutcomeDone
}

// storeRegisters performs a command whose only span is in registers.
func (m *Memory) storeRegisters(c *wire.Command, s span, payload []byte) wire.Outcome {
	if c.Type == wire.NocInlineWrite {
		payload = m.inline[:]
		binary.LittleEndian.PutUint32(payload, c.Value)
	}
	return m.store(s, payload)
}

// findMemory checks that the n bytes from address a on are memory, and returns their span.
func (m *Memory) findMemory(a wire.NocAddr, n int) (span, wire.Outcome) {
	s, o := m.find(a, n)
	if o == wire.OutcomeDone && s.regs != 0 {
		return span{}, wire.OutcomeBadCommand
	}
	return s, o
}

// findWord checks the address of a 32-bit word of L1 or registers, and returns the word's span.
func (m *Memory) findWord(a wire.NocAddr) (span, wire.Outcome) {
	s, o := m.find(a, wordSize)
	switch {
	case a.Offset()%wordSize != 0:
		return span{}, wire.OutcomeMisaligned
	case o != wire.OutcomeDone:
		return span{}, o
	case s.regs == 0 && m.tileOf(a).Kind == DRAM:
		return span{}, wire.OutcomeBadCommand
	}
	return s, wire.OutcomeDone
}

func (m *Memory) word(s span) uint32 {
	var w [wordSize]byte
	m.read(s, w[:])
	return binary.LittleEndian.Uint32(w[:])
}

func (m *Memory) put(s span, v uint32) {
	var w [wordSize]byte
	binary.LittleEndian.PutUint32(w[:], v)
	m.write(s, w[:])
}
