package flow

import "slices"

// misses is what a flow knows about its posted requests. misses counts the posted requests that did
// not end as FateDone. The result of a flush holds the count since the previous flush. A flush is a
// probe with the field Flush of [Request].
//
// Invariant: flushes are the open flushes of the flow's window, in the order of their numbers.
type misses struct {
	flushes []flush
	run     int    // number of requests since the last packet that asked for a completion
	later   uint64 // number of missed requests behind the last open flush; the next flush reports them
}

// flush is an open flush.
type flush struct {
	seq    uint32
	missed uint64 // number of missed requests that the result of the flush will report
}

// sent notes that the source has sent a flush with number seq.
func (m *misses) sent(seq uint32) {
	m.flushes = append(m.flushes, flush{seq, m.later})
	m.later = 0
}

// note counts the posted request with number seq as missed. The first flush behind this request
// gets the count.
func (m *misses) note(seq uint32) { m.add(m.next(seq), 1) }

// next returns the index of the first open flush with number seq or a later number.
func (m *misses) next(seq uint32) int {
	k, _ := slices.BinarySearchFunc(m.flushes, seq, func(f flush, seq uint32) int { return int(int32(f.seq - seq)) })
	return k
}

func (m *misses) add(k int, n uint64) {
	if k < len(m.flushes) {
		m.flushes[k].missed += n
	} else {
		m.later += n
	}
}

// ended removes the flush with number seq, and returns its count. If the flush did not end as
// FateDone, its count goes to the next flush, and ended returns 0.
func (m *misses) ended(seq uint32, done bool) uint64 {
	k := m.next(seq)
	n := m.flushes[k].missed
	m.flushes = slices.Delete(m.flushes, k, k+1)
	if done {
		return n
	}
	m.add(k, n)
	return 0
}
