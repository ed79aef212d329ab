package board

import (
	"encoding/binary"

	"ttfabric/wire"
)

// region is a window of registers in the ARC tile.
type region struct {
	at       uint64 // offset of the first byte in the tile
	n        int    // length in bytes
	load     func(b *Board, off uint64) uint32
	writable func(b *Board, off uint64) bool // nil: nobody can write the region
	store    func(b *Board, off uint64, v uint32)
}

// registers are a region of a chip.
type registers struct {
	b *Board
	region
}

// Load reads words of the region. Words without a meaning read as 0.
func (r *registers) Load(off uint64, b []byte) wire.Outcome {
	for ; len(b) > 0; off, b = off+4, b[4:] {
		binary.LittleEndian.PutUint32(b, r.load(r.b, off))
	}
	return wire.OutcomeDone
}

// Takes reports whether all words of a range can be written.
func (r *registers) Takes(off uint64, n int) bool {
	for at := uint64(0); at < uint64(n); at += 4 {
		if r.writable == nil || !r.writable(r.b, off+at) {
			return false
		}
	}
	return true
}

// Store writes words of the region. If a word cannot be written, the outcome is
// [wire.OutcomeBadCommand], and no word changes.
func (r *registers) Store(off uint64, b []byte) wire.Outcome {
	if !r.Takes(off, len(b)) {
		return wire.OutcomeBadCommand
	}
	for ; len(b) > 0; off, b = off+4, b[4:] {
		r.store(r.b, off, binary.LittleEndian.Uint32(b))
	}
	return wire.OutcomeDone
}
