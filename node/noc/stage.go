package noc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"ttfabric/wire"
)

// Used is a range of bytes in a page of memory that has been written.
type Used struct {
	X, Y uint8  // coordinates of the tile, of NoC 0
	Off  uint64 // offset of the first byte in the tile
	Len  int    // number of bytes, 1 to MaxUsed
}

// MaxUsed is the largest length of a [Used], in bytes: the size of a page.
const MaxUsed = pageSize

// Used returns the written pages of memory that programs own, in the order of the tiles and then of the
// offsets. In ethernet tiles, the bytes below ethFrom belong to the base firmware, and Used leaves them
// out. Registers are not in pages.
func (m *Memory) Used(ethFrom uint64) []Used {
	keys := slices.SortedFunc(maps.Keys(m.pages), func(a, b pageKey) int { return cmp.Or(cmp.Compare(a.bank, b.bank), cmp.Compare(a.page, b.page)) })
	tiles := map[int32]*Tile{}
	for i := range m.list {
		if t := &m.list[i]; tiles[t.bank] == nil && t.Size > 0 {
			tiles[t.bank] = t // several tiles may show one DRAM bank
		}
	}
	var out []Used
	for _, k := range keys {
		if t := tiles[k.bank]; t != nil {
			if first, end := t.owned(k.page, ethFrom); first < end {
				out = append(out, Used{t.X, t.Y, first, int(end - first)})
			}
		}
	}
	return out
}

// owned returns the range of a page that programs own: the first offset in the tile, and the offset
// behind the last byte.
func (t *Tile) owned(page uint32, ethFrom uint64) (first, end uint64) {
	first = uint64(page) << pageBits
	end = min(first+pageSize, t.Size)
	if t.Kind == Ethernet {
		first = max(first, ethFrom)
	}
	return first, end
}

// Stored copies the stored bytes of u into b, which has u.Len bytes. Words that the chip computes when they
// are read do not count. If the tile has no such bytes, Stored clears b.
func (m *Memory) Stored(u Used, b []byte) {
	t := m.tile(u.X, u.Y)
	if t == nil || !t.has(wire.NewNocAddr(u.X, u.Y, u.Off), len(b)) {
		clear(b)
		return
	}
	m.readPages(span{bank: t.bank, off: u.Off, n: len(b)}, b)
}

// Stage collects the pages of a memory that a caller restores. A Stage does not change the memory before
// [Memory.Swap]. The methods of a Stage read only the tiles of the memory, which never change. A caller may
// therefore fill a Stage while another goroutine uses the memory.
//
// Invariant: len(pages) · pageSize ≤ limit of the memory.
type Stage struct {
	m       *Memory
	ethFrom uint64
	pages   map[pageKey]*[pageSize]byte
	filled  map[pageKey]uint64 // by page: the offset in the tile behind the last byte that Put wrote
}

// NewStage returns an empty Stage. In ethernet tiles, the bytes below ethFrom belong to the base firmware,
// and the Stage refuses them.
func (m *Memory) NewStage(ethFrom uint64) *Stage {
	return &Stage{m: m, ethFrom: ethFrom, pages: map[pageKey]*[pageSize]byte{}, filled: map[pageKey]uint64{}}
}

// Put adds bytes to the stage. The bytes must lie in one page of 32 KiB of a tile's memory, behind the
// bytes of earlier calls for the same page. Put returns an error for other bytes, for bytes of the base
// firmware, and if the pages would take more host memory than the memory's limit.
func (s *Stage) Put(x, y uint8, off uint64, b []byte) error {
	t := s.m.tile(x, y)
	switch {
	case t == nil:
		return fmt.Errorf("tile %d-%d: %s", x, y, s.m.absent(x, y))
	case len(b) == 0 || len(b) > pageSize || off >= t.Size || uint64(len(b)) > t.Size-off || off>>pageBits != (off+uint64(len(b))-1)>>pageBits:
		return fmt.Errorf("%d bytes at offset %#x of tile %d-%d do not lie in one page of the tile's memory", len(b), off, x, y)
	}
	k := pageKey{t.bank, uint32(off >> pageBits)}
	if first, _ := t.owned(k.page, s.ethFrom); off < first {
		return fmt.Errorf("offset %#x of ethernet tile %d-%d belongs to the base firmware: want at least %#x", off, x, y, s.ethFrom)
	}
	if off < s.filled[k] {
		return fmt.Errorf("offset %#x of tile %d-%d comes twice, or not in order", off, x, y)
	}
	p := s.pages[k]
	if p == nil {
		if int64(len(s.pages)+1)*pageSize > s.m.limit {
			return fmt.Errorf("the pages take more than the limit of the chip's memory, %d bytes", s.m.limit)
		}
		p = new([pageSize]byte)
		s.pages[k] = p
	}
	copy(p[off&(pageSize-1):], b)
	s.filled[k] = off + uint64(len(b))
	return nil
}

// Swap replaces the memory that programs own by the pages of a Stage of this memory. Memory that the
// Stage does not have reads as zero afterwards. Swap changes no registers, and calls the watchers of
// every page that it changes. If the memory's limit has no room, Swap returns [wire.OutcomeNoMemory] and
// changes nothing. The Stage is of no use afterwards.
func (m *Memory) Swap(s *Stage) wire.Outcome {
	all := map[pageKey]bool{} // pages that are or will be in use
	tiles := map[int32]*Tile{}
	for i := range m.list {
		if t := &m.list[i]; t.Size > 0 {
			tiles[t.bank] = t
		}
	}
	whole := func(k pageKey) bool {
		first, _ := tiles[k.bank].owned(k.page, s.ethFrom)
		return first == uint64(k.page)<<pageBits
	}
	kept := 0
	for k := range m.pages {
		if all[k] = true; tiles[k.bank] == nil || !whole(k) {
			kept++
		}
	}
	for k := range s.pages {
		if all[k] = true; whole(k) || m.pages[k] == nil {
			kept++
		}
	}
	if int64(kept)*pageSize > m.limit {
		return wire.OutcomeNoMemory
	}
	m.last.at = nil
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b pageKey) int { return cmp.Or(cmp.Compare(a.bank, b.bank), cmp.Compare(a.page, b.page)) }) {
		if t := tiles[k.bank]; t != nil {
			m.swapPage(k, t, s.pages[k], s.ethFrom)
		}
	}
	return wire.OutcomeDone
}

// swapPage gives the page k of a tile the content of "fresh", and calls the watchers. A nil "fresh" is zeros.
func (m *Memory) swapPage(k pageKey, t *Tile, fresh *[pageSize]byte, ethFrom uint64) {
	first, end := t.owned(k.page, ethFrom)
	start := uint64(k.page) << pageBits
	switch old := m.pages[k]; {
	case first >= end:
		return
	case first > start && old != nil: // the base firmware owns the beginning of the page
		clear(old[first-start : end-start])
		if fresh != nil {
			copy(old[first-start:end-start], fresh[first-start:])
		}
	case fresh == nil:
		delete(m.pages, k)
	default:
		m.pages[k] = fresh
	}
	for i := range m.watch {
		if f := m.watch[i][k.bank]; f != nil {
			f(first, int(end-first))
		}
	}
}
