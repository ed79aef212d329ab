// Package noc is a chip's network-on-chip, as far as packets of the fabric reach it. The package
// has tiles with sparse memory, and the commands that packets carry (Spec §4, "Fabric and NoC Level
// Commands").
//
// # Rules
//
//   - The memory performs a command in full or not at all. Every outcome but [wire.OutcomeDone]
//     leaves memory unchanged.
//   - Writes and reads start at any byte and have any length. The hardware requires source and
//     destination addresses to be congruent modulo 16, or modulo 32 for DRAM
//     (tt-isa-documentation, WormholeB0/NoC/Alignment.md). Here the source is a packet, which has
//     no NoC address.
//   - Inline writes and atomics work on aligned 32-bit words of L1. DRAM tiles refuse both kinds
//     of command (Alignment.md: "only Tensix tiles and Ethernet tiles have L1").
//   - Atomic increments wrap at 32 bits.
//   - A NoC multicast works on the Tensix tiles of a rectangle. Other commands refuse the address of
//     a rectangle.
//   - All tiles of a DRAM bank share one memory.
//   - An address names a tile by its coordinates of NoC 0 or of NoC 1, or by its translated
//     coordinates, unless the chip translates none (see [Memory.Translate]).
//   - Words in the L1 of ethernet tiles may show the state of the chip, see [Memory.ShowLive].
//   - A store can put the processor of a tile into reset (see [Memory.TakeResets]).
//   - The PCIe tile of a Wormhole has a window to host memory (see [Memory.HostOffset]). The memory refuses
//     commands for this window, because the chip performs them.
//   - A tile's address space has windows of registers, mostly beyond the memory. Registers are read
//     and written in words of 4 bytes, and have side effects (see [Memory.MapRegisters]).
package noc

import (
	"fmt"
	"slices"

	"ttfabric/wire"
)

// Sizes of the emulated memory.
const (
	pageBits     = 15             // log2 of the page size; the memory allocates a page at the first write to the page
	pageSize     = 1 << pageBits  // size of a page, in bytes
	DefaultLimit = int64(2) << 30 // default limit of the host memory that a chip's pages may take, in bytes
	wordSize     = 4              // size in bytes of the words of inline writes and atomics: 32 bits
)

// coordinates is the number of NoC coordinates that an address can name.
const coordinates = 1 << (2 * wire.NocCoordBits)

// addrBits is how many bits of a [wire.NocAddr] name a byte of one tile.
const addrBits = wire.NocOffsetBits + 2*wire.NocCoordBits

type pageKey struct {
	bank int32
	page uint32
}

// Memory is the memory of all tiles of one chip. Bytes that were never written read as zero and
// take no host memory. A Memory is not safe for concurrent use.
//
// Invariants: Resident() ≤ limit; a page in pages lies within its bank.
type Memory struct {
	arch      wire.Arch
	harvested Harvested

	untranslated bool // tiles have no translated coordinates

	list  []Tile
	at    [coordinates]int16 // 1 + index into list; 0 if the coordinate has no memory
	pages map[pageKey]*[pageSize]byte
	last  struct { // the page of the last access; the next access mostly uses this page too
		key pageKey
		at  *[pageSize]byte
	}
	limit int64 // limit of host memory for pages, in bytes

	windows [][]window                             // by bank: windows within the memory, sorted by offset; they do not overlap
	beyond  [][]window                             // by index into list: windows outside the tile's memory, sorted by offset; they do not overlap
	regs    []Registers                            // the registers of all windows
	watch   [numWatchers][]func(off uint64, n int) // by bank: called after each store into the bank; nil: nobody watches
	inline  [wordSize]byte                         // the word of an inline write to registers, during a call of Execute
	reset   resets                                 // soft reset and debug bus registers
	life    life

	live     Live // words that loads from ethernet tiles show; nil: none
	ranges   []Range
	firstEth int32 // bank of the first ethernet tile
}

// New returns an empty memory. The argument "limit" bounds the host memory that the pages may take,
// in bytes. A limit of 0 means [DefaultLimit]. New refuses a limit below one page, 32 KiB. New
// also refuses an architecture without a floor plan.
func New(a wire.Arch, limit int64) (*Memory, error) {
	ts, err := tiles(a)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < pageSize {
		return nil, fmt.Errorf("tile memory limit of %d bytes: want at least %d, or 0 for %d", limit, pageSize, DefaultLimit)
	}
	m := &Memory{arch: a, list: ts, pages: map[pageKey]*[pageSize]byte{}, limit: limit}
	m.placeTiles()
	m.windows, m.beyond = make([][]window, ts[len(ts)-1].bank+1), make([][]window, len(ts))
	for i := range m.watch {
		m.watch[i] = make([]func(uint64, int), len(m.windows))
	}
	at, _ := LifeRegister(a)
	if err := m.MapRegisters(at, LifeSize, &m.life); err != nil {
		return nil, err
	}
	return m, nil
}

// place returns a coordinate's index into Memory.at.
func place(x, y uint8) int { return int(y)<<wire.NocCoordBits | int(x) }

// Tiles lists the chip's tiles: Tensix row by row, ethernet by channel, DRAM by bank, and tiles
// without memory by kind. The slice belongs to the caller.
func (m *Memory) Tiles() []Tile { return slices.Clone(m.list) }

// TileAt returns the tile at the coordinate (x, y) of NoC 0 or at the translated coordinate (x, y).
// If no tile has this coordinate, TileAt returns false.
func (m *Memory) TileAt(x, y uint8) (Tile, bool) {
	if t := m.tile(x, y); t != nil {
		return *t, true
	}
	return Tile{}, false
}

func (m *Memory) tile(x, y uint8) *Tile {
	const end = 1 << wire.NocCoordBits
	if x >= end || y >= end {
		return nil
	}
	if i := m.at[place(x, y)]; i > 0 {
		return &m.list[i-1]
	}
	return nil
}

// Resident returns the number of bytes of host memory that pages take.
func (m *Memory) Resident() int64 { return int64(len(m.pages)) * pageSize }

// Check returns [wire.OutcomeDone] if the n bytes from address a on are within one tile's memory or
// within one window of registers. If n is 0, a may be the address behind the last byte. Otherwise
// the outcome is [wire.OutcomeBadAddress], or [wire.OutcomeHarvested] for memory of a harvested tile,
// or [wire.OutcomeUntranslated] for translated coordinates on a chip that translates none, or
// [wire.OutcomeMisaligned] for a range of registers that does not consist of whole words. Check
// reads no register, so Read may still refuse a range of registers.
func (m *Memory) Check(a wire.NocAddr, n int) wire.Outcome {
	_, o := m.find(a, n)
	return o
}

// Write is the address and the length of a unicast write.
type Write struct {
	Addr wire.NocAddr
	Len  int // bytes
}

// CheckWrites returns [wire.OutcomeDone] if Execute will perform all these unicast writes, one
// after another, with no other command between them. If Execute cannot perform a write, the outcome
// is that of [Memory.Check] for this write. If the limit has no room for all writes, the outcome is
// [wire.OutcomeNoMemory]. If registers may refuse one of several writes, the outcome is
// [wire.OutcomeBadCommand]. For a single write to registers, the outcome is [wire.OutcomeDone],
// because registers perform a write in full or not at all.
func (m *Memory) CheckWrites(ws []Write) wire.Outcome {
	room := m.limit/pageSize - int64(len(m.pages))
	var lacking map[pageKey]bool
	for _, w := range ws {
		s, o := m.find(w.Addr, w.Len)
		switch {
		case o != wire.OutcomeDone:
			return o
		case s.regs != 0 && len(ws) > 1 && !m.takes(s):
			return wire.OutcomeBadCommand
		case s.regs != 0 || s.n == 0 || m.windows[s.bank] != nil && m.inWindow(s):
			continue
		}
		for p := s.off >> pageBits; p <= (s.off+uint64(s.n)-1)>>pageBits; p++ {
			k := pageKey{s.bank, uint32(p)}
			if m.page(k) != nil || lacking[k] {
				continue
			}
			if lacking == nil {
				lacking = map[pageKey]bool{}
			}
			if lacking[k] = true; int64(len(lacking)) > room {
				return wire.OutcomeNoMemory
			}
		}
	}
	return wire.OutcomeDone
}

// span is a range of bytes that was checked to lie within one bank, or within one window of
// registers.
type span struct {
	bank int32
	regs int32  // 1 + index into Memory.regs, or a number below 0 as in niu.go; 0: the span is memory
	off  uint64 // offset of the first byte in the bank or in the window of registers
	n    int    // number of bytes
}

// has reports whether the n bytes from address a on are within the tile's memory.
func (t *Tile) has(a wire.NocAddr, n int) bool {
	return n >= 0 && a.Offset() <= t.Size && uint64(n) <= t.Size-a.Offset()
}

// find checks that the n bytes from address a on are within one tile's memory or within one window
// of registers, and returns the span of these bytes.
func (m *Memory) find(a wire.NocAddr, n int) (span, wire.Outcome) {
	t := m.tileOf(a)
	switch {
	case t == nil && a>>addrBits&^(wire.NocOne>>addrBits) == 0:
		return span{}, m.absent(a.X(), a.Y())
	case t == nil || n < 0:
		return span{}, wire.OutcomeBadAddress
	case !t.has(a, n):
		return m.findBeyond(t, a.Offset(), n)
	case m.windows[t.bank] != nil:
		return m.findInside(span{bank: t.bank, off: a.Offset(), n: n})
	}
	return span{bank: t.bank, off: a.Offset(), n: n}, wire.OutcomeDone
}

// Read copies len(b) bytes of memory or registers, from address a on, into b. The outcome is that of
// [Memory.Check], or for registers the outcome of [Registers].Load. After every outcome but
// [wire.OutcomeDone], b is unchanged.
func (m *Memory) Read(a wire.NocAddr, b []byte) wire.Outcome {
	s, o := m.find(a, len(b))
	switch {
	case o != wire.OutcomeDone:
		return o
	case s.regs != 0:
		return m.load(s, b)
	}
	m.read(s, b)
	return o
}

// read copies the span s of memory into b. The span and b have equal lengths.
func (m *Memory) read(s span, b []byte) {
	m.readStored(s, b)
	m.showLive(s, b)
}

// readStored copies what was stored in the span s of memory into b.
func (m *Memory) readStored(s span, b []byte) {
	if m.windows[s.bank] != nil {
		m.readWindows(s, b)
		return
	}
	m.readPages(s, b)
}

// page returns page k, or nil if the page has never been written.
func (m *Memory) page(k pageKey) *[pageSize]byte {
	if m.last.at != nil && m.last.key == k {
		return m.last.at
	}
	p := m.pages[k]
	if p != nil {
		m.last.key, m.last.at = k, p
	}
	return p
}

// readPages reads a span that lies in no window.
func (m *Memory) readPages(s span, b []byte) {
	for len(b) > 0 {
		in := int(s.off & (pageSize - 1))
		n := min(len(b), pageSize-in)
		if p := m.page(pageKey{s.bank, uint32(s.off >> pageBits)}); p != nil {
			copy(b[:n], p[in:])
		} else {
			clear(b[:n])
		}
		b, s.off = b[n:], s.off+uint64(n)
	}
}

// write copies b into the span s of memory. The span and b have equal lengths. Before the call, the
// caller must check with the method "fits" that there is room for new pages.
func (m *Memory) write(s span, b []byte) {
	if m.windows[s.bank] != nil {
		m.writeWindows(s, b)
	} else {
		m.writePages(s, b)
	}
	m.storedLive(s)
	for i := range m.watch {
		if f := m.watch[i][s.bank]; f != nil {
			f(s.off, s.n)
		}
	}
}

// Watcher names a party that watches the stores into tiles. Each tile has at most one function for
// each party.
type Watcher uint8

// The watchers, in the order in which the memory calls their functions after a store.
const (
	Kernels  Watcher = iota // the kernels on the tile
	Firmware                // the base firmware of an ethernet tile
	Mapped                  // the node, for hosts that have mapped the L1 of an ethernet tile
	numWatchers
)

// Watch makes the memory call f for a watcher after each store into the tile at the coordinate (x,
// y), with the offset and the length of the store in bytes. A nil f ends the calls for this
// watcher. Watch ignores a coordinate without a tile. The function f may read the memory, and must
// not write.
func (m *Memory) Watch(w Watcher, x, y uint8, f func(off uint64, n int)) {
	if t := m.tile(x, y); t != nil {
		m.watch[w][t.bank] = f
	}
}

// writePages writes a span that lies in no window.
func (m *Memory) writePages(s span, b []byte) {
	for len(b) > 0 {
		k := pageKey{s.bank, uint32(s.off >> pageBits)}
		p := m.page(k)
		if p == nil {
			p = new([pageSize]byte)
			m.pages[k] = p
		}
		n := copy(p[s.off&(pageSize-1):], b)
		b, s.off = b[n:], s.off+uint64(n)
	}
}

// fits reports whether the limit has room for all pages that the spans of memory need and that do
// not exist yet. A page that several spans need counts once. A span that lies in one window needs no
// page.
func (m *Memory) fits(spans []span) bool {
	room := m.limit/pageSize - int64(len(m.pages))
	var buf [2 * maxSpans]pageKey
	lacking := buf[:0]
	for _, s := range spans {
		if s.n == 0 || m.windows[s.bank] != nil && m.inWindow(s) {
			continue
		}
		for p := s.off >> pageBits; p <= (s.off+uint64(s.n)-1)>>pageBits; p++ {
			k := pageKey{s.bank, uint32(p)}
			if m.page(k) != nil || slices.Contains(lacking, k) {
				continue
			}
			if int64(len(lacking)) >= room {
				return false
			}
			lacking = append(lacking, k)
		}
	}
	return true
}
