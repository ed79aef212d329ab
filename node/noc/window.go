package noc

import (
	"fmt"

	"ttfabric/wire"
)

// window is a range of a bank whose bytes lie in the slice b instead of in pages.
type window struct {
	bank int
	off  uint64
	b    []byte
}

// Map puts b in place of the len(b) bytes of memory from address a on, permanently. Commands then
// read and write b. The owner of b may also read and write b between commands. The window takes no
// pages of the memory. A tile holds at most one window, and so do all DRAM tiles of a bank together.
// Map returns an error if there is a window already, or if the bytes lie outside the tile's memory.
func (m *Memory) Map(a wire.NocAddr, b []byte) error {
	s, o := m.find(a, len(b))
	if o != wire.OutcomeDone {
		return fmt.Errorf("tile memory at %s: a window of %d bytes does not fit: %s", a, len(b), o)
	}
	if m.windows[s.bank] != nil {
		return fmt.Errorf("tile memory at %s: the tile has a window already", a)
	}
	m.windows[s.bank] = &window{s.bank, s.off, b}
	return nil
}

// Overlaps reports whether any of the n bytes from address a on lies in the window of their tile. If
// the bytes are not within one tile's memory, Overlaps returns false.
func (m *Memory) Overlaps(a wire.NocAddr, n int) bool {
	s, o := m.find(a, n)
	if o != wire.OutcomeDone {
		return false
	}
	w := m.windows[s.bank]
	if w == nil {
		return false
	}
	_, in, _ := w.split(s)
	return in.n > 0
}

// split cuts a span into three parts: before the window, in the window, and behind the window. A
// part may be empty.
func (w *window) split(s span) (before, in, behind span) {
	end := s.off + uint64(s.n)
	a := min(max(w.off, s.off), end)              // offset at which the window begins within the span
	b := max(min(w.off+uint64(len(w.b)), end), a) // offset at which the window ends within the span
	return span{s.bank, s.off, int(a - s.off)}, span{s.bank, a, int(b - a)}, span{s.bank, b, int(end - b)}
}

// bytes returns the bytes of the window that span s covers. The span must lie within the window.
func (w *window) bytes(s span) []byte { return w.b[s.off-w.off:][:s.n] }

// readWindow copies the span s into b. The bank of s has the window w.
func (m *Memory) readWindow(w *window, s span, b []byte) {
	before, in, behind := w.split(s)
	m.readPages(before, b[:before.n])
	if in.n > 0 {
		copy(b[before.n:], w.bytes(in))
	}
	m.readPages(behind, b[before.n+in.n:])
}

// writeWindow copies b into the span s. The bank of s has the window w.
func (m *Memory) writeWindow(w *window, s span, b []byte) {
	before, in, behind := w.split(s)
	m.writePages(before, b[:before.n])
	if in.n > 0 {
		copy(w.bytes(in), b[before.n:])
	}
	m.writePages(behind, b[before.n+in.n:])
}
