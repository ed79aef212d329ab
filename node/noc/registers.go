package noc

import (
	"fmt"
	"slices"

	"ttfabric/wire"
)

// MaxWindows is the largest number of windows within the memory of one tile or DRAM bank.
// MaxWindows is also the largest number of windows of one tile outside its memory.
const MaxWindows = 32

// Registers are the registers of one window. [Memory.MapRegisters] puts them into a tile's address
// space. The memory calls Load and Store only with ranges inside the window. In such a range, off
// and len(b) are multiples of 4, and len(b) is not 0. The offset off is in bytes from the beginning
// of the window.
//
// A call with an outcome other than [wire.OutcomeDone] must have no effect, and must leave b as it
// was. Neither call may keep b, or call the memory's Execute or Read.
type Registers interface {
	Load(off uint64, b []byte) wire.Outcome  // Load copies the registers from offset off on into b, with all side effects of a read
	Store(off uint64, b []byte) wire.Outcome // Store writes b to the registers from offset off on, with all side effects of a write
}

// Willing is an interface of registers that know which stores they never refuse. If registers do
// not implement Willing, the memory assumes that Store may refuse any store.
type Willing interface {
	// Takes reports whether a Store of n bytes at offset off always has the outcome
	// [wire.OutcomeDone], for all bytes, and after any earlier stores.
	Takes(off uint64, n int) bool
}

// MapRegisters puts registers at the n bytes from address a on, permanently. The window may lie
// within the tile's memory, where it hides the memory, or outside. The window may not lie across
// the end of the memory. Within DRAM, all tiles of the bank show the window.
//
// Reads, unicast writes and inline writes reach registers. All bytes of a command must lie in one
// window, in whole words of 4 bytes. The outcomes of commands to registers:
//
//   - [wire.OutcomeMisaligned]: the address or the length is not a multiple of 4.
//   - [wire.OutcomeBadAddress]: the bytes do not all lie in one window.
//   - [wire.OutcomeBadCommand]: the command is an atomic increment, a fused command, a scatter write
//     or a multicast. These commands work on memory only. Each command therefore reaches at
//     most one window, and a refused command has no effect.
//   - Any other outcome is the outcome of Load or Store.
//
// MapRegisters refuses a window that touches another window or lies outside the tile's address
// space, and a window beyond [MaxWindows]. MapRegisters refuses an address or a length that is not
// a multiple of 4.
func (m *Memory) MapRegisters(a wire.NocAddr, n int, r Registers) error {
	if a.Offset()%wordSize != 0 || n <= 0 || n%wordSize != 0 {
		return fmt.Errorf("registers at %s: window of %d bytes: want an offset and a length that are multiples of %d", a, n, wordSize)
	}
	if err := m.add(a, window{n: uint64(n), regs: int32(len(m.regs) + 1)}); err != nil {
		return err
	}
	m.regs = append(m.regs, r)
	return nil
}

// add puts a window at address a.
func (m *Memory) add(a wire.NocAddr, w window) error {
	t := m.tileOf(a)
	w.off = a.Offset()
	switch {
	case t == nil:
		return fmt.Errorf("window at %s: there is no tile", a)
	case w.n > wire.MaxNocOffset+1-w.off:
		return fmt.Errorf("window at %s: %d bytes reach beyond the largest offset, %#x", a, w.n, uint64(wire.MaxNocOffset))
	case w.off < t.Size && w.n > t.Size-w.off:
		return fmt.Errorf("window at %s: %d bytes lie across the end of the tile's memory of %d bytes", a, w.n, t.Size)
	case w.off >= t.Size && w.regs == 0:
		return fmt.Errorf("window at %s: the tile's memory has %d bytes, and only registers can lie beyond", a, t.Size)
	}
	for _, x := range m.builtIn(m.owner(t, w.off)) {
		if x.n > 0 && x.touches(span{off: w.off, n: int(w.n)}) {
			return fmt.Errorf("window at %s: %d bytes touch the tile's own registers at %#x", a, w.n, x.off)
		}
	}
	list := &m.windows[t.bank]
	if w.off >= t.Size {
		list = &m.beyond[m.at[place(t.X, t.Y)]-1]
	}
	if len(*list) >= MaxWindows {
		return fmt.Errorf("window at %s: the tile has %d windows already", a, MaxWindows)
	}
	i := 0
	for ; i < len(*list); i++ {
		if x := &(*list)[i]; x.off >= w.off+w.n {
			break
		} else if x.off+x.n > w.off {
			return fmt.Errorf("window at %s: %d bytes touch the window of %d bytes at %#x", a, w.n, x.n, x.off)
		}
	}
	*list = slices.Insert(*list, i, w)
	return nil
}

// findBeyond checks n bytes at an offset that the tile t's memory does not have. In the span of a
// window that the tile has from the start, the bank is the tile's index in the list of tiles.
func (m *Memory) findBeyond(t *Tile, off uint64, n int) (span, wire.Outcome) {
	ws := m.beyond[m.at[place(t.X, t.Y)]-1]
	for i := range ws {
		if off < ws[i].off+ws[i].n && ws[i].holds(off, n) {
			return ws[i].registers(t.bank, off, n)
		}
	}
	owner := m.owner(t, off)
	for _, w := range m.builtIn(owner) {
		if off < w.off+w.n && w.holds(off, n) {
			return w.registers(int32(m.at[place(owner.X, owner.Y)])-1, off, n)
		}
	}
	if t.Harvested && off < layouts[m.arch].l1 {
		return span{}, wire.OutcomeHarvested
	}
	return span{}, wire.OutcomeBadAddress
}

// findInside checks a span of a bank that has windows. A span may lie across windows of memory, but
// not across the border of a window of registers.
func (m *Memory) findInside(s span) (span, wire.Outcome) {
	ws := m.windows[s.bank]
	for i := range ws {
		w := &ws[i]
		if w.regs == 0 || !w.touches(s) {
			continue
		}
		if !w.holds(s.off, s.n) {
			return span{}, wire.OutcomeBadAddress
		}
		return w.registers(s.bank, s.off, s.n)
	}
	return s, wire.OutcomeDone
}

// registers returns the span of a range that lies in a window of registers.
func (w *window) registers(bank int32, off uint64, n int) (span, wire.Outcome) {
	if off%wordSize != 0 || n%wordSize != 0 {
		return span{}, wire.OutcomeMisaligned
	}
	return span{bank: bank, off: off - w.off, n: n, regs: w.regs}, wire.OutcomeDone
}

// load reads a span of registers into b.
func (m *Memory) load(s span, b []byte) wire.Outcome {
	switch {
	case s.n == 0:
		return wire.OutcomeDone
	case s.regs < 0:
		return m.loadBuiltIn(s, b)
	}
	return m.regs[s.regs-1].Load(s.off, b)
}

// store writes b to a span of registers.
func (m *Memory) store(s span, b []byte) wire.Outcome {
	switch {
	case s.n == 0:
		return wire.OutcomeDone
	case s.regs < 0:
		return m.storeBuiltIn(s, b)
	}
	return m.regs[s.regs-1].Store(s.off, b)
}

// takes reports whether a store to a span of registers certainly has the outcome [wire.OutcomeDone].
func (m *Memory) takes(s span) bool {
	switch {
	case s.n == 0:
		return true
	case s.regs < 0:
		return s.regs == resetWord || s.regs == debugWord
	}
	w, ok := m.regs[s.regs-1].(Willing)
	return ok && w.Takes(s.off, s.n)
}
