package noc

import (
	"encoding/binary"
	"fmt"

	"ttfabric/wire"
)

// Live computes words in the L1 of ethernet tiles. On hardware, a program of the tile, such as the
// base firmware, keeps these words up to date. Live computes a word when the word is read, so an
// idle chip spends no time on it. Neither method may call the memory's Execute or Read.
type Live interface {
	// Word returns the word at offset off of the tile of an ethernet channel. The offset lies in
	// one of the ranges of [Memory.ShowLive].
	Word(ch wire.Channel, off uint64) uint32
	// The memory calls Stored after a store to the word at offset off of the tile of an ethernet
	// channel. The argument v is the word in memory after the store, although a load may show
	// another word.
	Stored(ch wire.Channel, off uint64, v uint32)
}

// Range is a range of words in the L1 of a tile.
type Range struct {
	Off, Len uint64 // offset of the first byte and length, in bytes; multiples of 4
}

// ShowLive makes loads from the L1 of every ethernet tile show the words of l in the given ranges.
// The ranges must be sorted, and must not overlap. In all other respects the words behave like all
// memory: commands reach them at any byte and in any length, also across the ends of a range. A
// store changes the memory that the words hide. The memory then calls l.Stored once for each word.
// ShowLive refuses ranges that are not sorted, not in words, or not within L1. A later call
// replaces an earlier one, and a nil l ends the effect.
func (m *Memory) ShowLive(l Live, ranges []Range) error {
	end := uint64(0)
	for _, r := range ranges {
		if r.Off%wordSize != 0 || r.Len%wordSize != 0 || r.Len == 0 || r.Off < end || r.Off+r.Len > layouts[m.arch].ethL1 {
			return fmt.Errorf("live words at offset %#x: want whole words within L1, in sorted ranges", r.Off)
		}
		end = r.Off + r.Len
	}
	m.live, m.ranges, m.firstEth = l, ranges, int32(len(layouts[m.arch].tensixX)*len(layouts[m.arch].tensixY))
	return nil
}

// liveChannel returns the ethernet channel whose L1 is a bank. If the bank has no live words,
// liveChannel returns false.
func (m *Memory) liveChannel(bank int32) (wire.Channel, bool) {
	if m.live == nil || bank < m.firstEth || int(bank-m.firstEth) >= len(layouts[m.arch].eth) {
		return 0, false
	}
	return wire.Channel(bank - m.firstEth), true
}

// eachLive calls f for each live word that the span s touches, with the offset of the word.
func (m *Memory) eachLive(s span, f func(off uint64)) {
	for _, r := range m.ranges {
		first, end := max(r.Off, s.off), min(r.Off+r.Len, s.off+uint64(s.n))
		for off := first &^ (wordSize - 1); off < end; off += wordSize {
			f(off)
		}
	}
}

// showLive writes the live words that span s touches over the bytes b of the span.
func (m *Memory) showLive(s span, b []byte) {
	ch, ok := m.liveChannel(s.bank)
	if !ok {
		return
	}
	m.eachLive(s, func(off uint64) {
		var w [wordSize]byte
		binary.LittleEndian.PutUint32(w[:], m.live.Word(ch, off))
		if off < s.off {
			copy(b, w[s.off-off:])
		} else {
			copy(b[off-s.off:], w[:])
		}
	})
}

// storedLive calls Stored for each live word in the span s, after a store to the span.
func (m *Memory) storedLive(s span) {
	ch, ok := m.liveChannel(s.bank)
	if !ok {
		return
	}
	m.eachLive(s, func(off uint64) {
		var w [wordSize]byte
		m.readStored(span{bank: s.bank, off: off, n: wordSize}, w[:])
		m.live.Stored(ch, off, binary.LittleEndian.Uint32(w[:]))
	})
}
