package noc

import (
	"fmt"

	"ttfabric/wire"
)

// window is a range of a tile's address space that is not backed by pages of the memory. The range
// is either memory in a slice of the window's owner, or registers.
type window struct {
	off, n uint64 // offset of the first byte in the tile or the bank, and length, in bytes
	b      []byte // a window of memory: its bytes
	regs   int32  // a window of registers: 1 + index into Memory.regs, or a number below 0 as in niu.go; 0: the window is memory
}

// holds reports whether the window has all n bytes from offset off on.
func (w *window) holds(off uint64, n int) bool {
	return off >= w.off && off-w.off <= w.n && uint64(n) <= w.n-(off-w.off)
}

// touches reports whether any byte of span s lies in the window. A span without bytes touches
// nothing.
func (w *window) touches(s span) bool {
	return s.n > 0 && s.off < w.off+w.n && w.off < s.off+uint64(s.n)
}

// Map puts b in place of the len(b) bytes of memory from address a on, permanently. Commands then
// read and write b as memory, also across the borders of b. The owner of b may also read and write b
// between commands. The window takes no pages of the memory. Map returns an error if the bytes lie
// outside the tile's memory or touch another window, or if the memory has [MaxWindows] windows.
func (m *Memory) Map(a wire.NocAddr, b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("window at %s: want at least one byte", a)
	}
	return m.add(a, window{n: uint64(len(b)), b: b})
}

// Overlaps reports whether any of the n bytes from address a on lies in a window within the memory
// of their tile. If the bytes are not within one tile's memory, Overlaps returns false.
func (m *Memory) Overlaps(a wire.NocAddr, n int) bool {
	t := m.tileOf(a)
	if t == nil || m.windows[t.bank] == nil || !t.has(a, n) {
		return false
	}
	for i := range m.windows[t.bank] {
		if m.windows[t.bank][i].touches(span{off: a.Offset(), n: n}) {
			return true
		}
	}
	return false
}

// cut calls pages and memory for the parts of span s, in order of their offsets: pages for a part
// without a window, and memory for a part in a window of memory. The span touches no window of
// registers.
func (m *Memory) cut(s span, pages func(s span, from int), memory func(w *window, s span, from int)) {
	from := 0
	take := func(n uint64, f func(part span)) {
		if n > 0 {
			f(span{bank: s.bank, off: s.off, n: int(n)})
		}
		s.off, s.n, from = s.off+n, s.n-int(n), from+int(n)
	}
	ws := m.windows[s.bank]
	for i := range ws {
		w := &ws[i]
		if !w.touches(s) {
			continue
		}
		take(max(w.off, s.off)-s.off, func(part span) { pages(part, from) })
		take(min(w.off+w.n-s.off, uint64(s.n)), func(part span) { memory(w, part, from) })
	}
	take(uint64(s.n), func(part span) { pages(part, from) })
}

// bytes returns the bytes of the window of memory that span s covers. The span must lie within the
// window.
func (w *window) bytes(s span) []byte { return w.b[s.off-w.off:][:s.n] }

// readWindows copies the span s into b. The bank of s has windows.
func (m *Memory) readWindows(s span, b []byte) {
	m.cut(s, func(s span, from int) { m.readPages(s, b[from:][:s.n]) },
		func(w *window, s span, from int) { copy(b[from:], w.bytes(s)) })
}

// writeWindows copies b into the span s. The bank of s has windows.
func (m *Memory) writeWindows(s span, b []byte) {
	m.cut(s, func(s span, from int) { m.writePages(s, b[from:][:s.n]) },
		func(w *window, s span, from int) { copy(w.bytes(s), b[from:]) })
}

// inWindow reports whether the span s lies in one window of memory.
func (m *Memory) inWindow(s span) bool {
	ws := m.windows[s.bank]
	for i := range ws {
		if ws[i].holds(s.off, s.n) {
			return true
		}
	}
	return false
}
