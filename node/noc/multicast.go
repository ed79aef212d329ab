package noc

import (
	"ttfabric/wire"
)

// multicast performs a NoC multicast: a write or an increment at the same offset in every working
// Tensix tile of a rectangle. Tiles of other kinds and harvested tiles take no part, as on
// hardware, where the firmware closes their columns and rows to multicasts (tt-isa-documentation,
// NoC/MemoryMap.md, ROUTER_CFG_1 and ROUTER_CFG_3). If the rectangle begins within the coordinates
// of NoC 0, all its coordinates are of NoC 0; otherwise all are translated. A chip that translates
// no coordinates refuses a rectangle in translated coordinates.
func (m *Memory) multicast(c *wire.Command, payload []byte) wire.Outcome {
	n, inc := len(payload), c.Type == wire.NocMulticastInc
	if inc {
		n = wordSize
	}
	switch {
	case inc && len(payload) > 0:
		return wire.OutcomeBadCommand
	case c.CheckRect() != nil:
		return wire.OutcomeBadAddress
	case inc && c.Addr.Offset()%wordSize != 0:
		return wire.OutcomeMisaligned
	}
	members, lacking := 0, int64(0)
	o := m.members(c.Addr, n, func(s span) {
		members++
		lacking += m.lacks(s)
	})
	switch {
	case o != wire.OutcomeDone:
		return o
	case members == 0:
		return m.absent(c.Addr.First())
	case lacking > m.limit/pageSize-int64(len(m.pages)):
		return wire.OutcomeNoMemory
	}
	return m.members(c.Addr, n, func(s span) {
		if inc {
			m.put(s, m.word(s)+c.Value)
			return
		}
		m.write(s, payload)
	})
}

// members calls f with the span of n bytes in each tile that takes part in a multicast, row by row.
// If one of these tiles lacks the bytes, members returns [wire.OutcomeBadAddress]. If the bytes of
// one of these tiles are registers, members returns [wire.OutcomeBadCommand].
func (m *Memory) members(a wire.NocAddr, n int, f func(s span)) wire.Outcome {
	l := layouts[m.arch]
	x0, y0 := a.First()
	own := int(x0) < l.width && int(y0) < l.height
	for y := int(y0); y <= int(a.Y()); y++ {
		for x := int(x0); x <= int(a.X()); x++ {
			t := m.tile(uint8(x), uint8(y))
			if t == nil || t.Kind != Tensix || t.Harvested || own != (int(t.X) == x && int(t.Y) == y) {
				continue
			}
			s, o := m.findMemory(wire.NewNocAddr(t.X, t.Y, a.Offset()), n)
			if o != wire.OutcomeDone {
				return o
			}
			f(s)
		}
	}
	return wire.OutcomeDone
}

// lacks returns the number of pages that a write to span s needs and that do not exist yet.
func (m *Memory) lacks(s span) (n int64) {
	if s.n == 0 || m.windows[s.bank] != nil && m.inWindow(s) {
		return 0
	}
	for p := s.off >> pageBits; p <= (s.off+uint64(s.n)-1)>>pageBits; p++ {
		if m.page(pageKey{s.bank, uint32(p)}) == nil {
			n++
		}
	}
	return n
}

// tileOf returns the tile that an address of one tile names.
func (m *Memory) tileOf(a wire.NocAddr) *Tile {
	switch a >> addrBits {
	case 0:
		return m.tile(a.X(), a.Y())
	case wire.NocOne >> addrBits:
		// NoC 1 counts columns and rows from the other end. The translated coordinates are the same
		// on both NoCs (tt-umd, NOC0_X_TO_NOC1_X and NOC0_Y_TO_NOC1_Y).
		l := layouts[m.arch]
		if x, y := int(a.X()), int(a.Y()); x < l.width && y < l.height {
			return m.tile(uint8(l.width-1-x), uint8(l.height-1-y))
		}
		return m.tile(a.X(), a.Y())
	}
	return nil
}

// OnNoC0 returns the address of the same byte in the coordinates of NoC 0. The argument a may be in
// the coordinates of NoC 0 or NoC 1, or in translated coordinates. If no tile has this address,
// OnNoC0 returns false.
func (m *Memory) OnNoC0(a wire.NocAddr) (wire.NocAddr, bool) {
	t := m.tileOf(a)
	if t == nil {
		return 0, false
	}
	return wire.NewNocAddr(t.X, t.Y, a.Offset()), true
}
