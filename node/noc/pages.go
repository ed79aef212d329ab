package noc

import (
	"cmp"
	"maps"
	"slices"

	"ttfabric/wire"
)

// Pages calls f for each page of memory that has been written: with the coordinates of a tile, the
// offset of the page in the tile, and the content. The pages come in the order of the tiles, and then
// of the offsets. Registers are not in pages. The content is valid only during the call.
func (m *Memory) Pages(f func(x, y uint8, off uint64, b []byte)) {
	tiles := map[int32]*Tile{}
	for i := range m.list {
		if t := &m.list[i]; tiles[t.bank] == nil && t.Size > 0 {
			tiles[t.bank] = t // several tiles may show one DRAM bank
		}
	}
	keys := slices.SortedFunc(maps.Keys(m.pages), func(a, b pageKey) int { return cmp.Or(cmp.Compare(a.bank, b.bank), cmp.Compare(a.page, b.page)) })
	for _, k := range keys {
		if t := tiles[k.bank]; t != nil {
			off := uint64(k.page) << pageBits
			f(t.X, t.Y, off, m.pages[k][:min(pageSize, t.Size-off)])
		}
	}
}

// Put writes b into memory, from address a on, without effects on registers. Put is for memory from a
// snapshot. If the bytes would exceed the chip's limit of memory, the outcome is [wire.OutcomeNoMemory].
// If the bytes do not lie in one tile's memory, the outcome says why.
func (m *Memory) Put(a wire.NocAddr, b []byte) wire.Outcome {
	t := m.tile(a.X(), a.Y())
	switch {
	case t == nil:
		return m.absent(a.X(), a.Y())
	case !t.has(a, len(b)):
		return wire.OutcomeBadAddress
	}
	s := span{bank: t.bank, off: a.Offset(), n: len(b)}
	if !m.fits([]span{s}) {
		return wire.OutcomeNoMemory
	}
	m.writePages(s, b)
	return wire.OutcomeDone
}
