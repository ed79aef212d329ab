package router

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Slot names a packet's buffer in its chip's [Pool].
type Slot int32

// NoSlot is no buffer.
const NoSlot Slot = -1

// smallPacket is how long a packet is at most, in bytes, that has a buffer of
// this size and not of [wire.MaxPacket]: a completion, or a write of 64 bytes
// over the longest route. Where many of them wait, they lie close together, and
// are found in the processor's cache.
const smallPacket = 256

// Small buffers are allocated smallChunk at a time, and large ones one by one.
const (
	smallShift = 4
	smallChunk = 1 << smallShift
)

// Pool holds the packet buffers of one chip. Channels hand packets on by
// slot, so a packet is not copied between ports. Buffers are allocated when
// first used, in two sizes, each up to the pool's limit.
//
// Invariant: used ≤ limit; of each size, at most limit are allocated, rounded up to a chunk.
type Pool struct {
	small, large buffers
	used         int // buffers that are out
	limit        int // of those
}

// buffers are those of one size. A slot is a buffer's number in here, with the size in its lowest bit.
type buffers struct {
	chunks [][]byte
	lens   []uint16 // of the packets
	free   []Slot
}

// NewPool returns a pool of which at most limit buffers are out at any time, for packets of up to [wire.MaxPacket] bytes.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get takes a buffer of length n out of the pool; false when the limit is reached or n exceeds [wire.MaxPacket].
func (p *Pool) Get(n int) (Slot, bool) {
	if n > wire.MaxPacket || p.used == p.limit {
		return NoSlot, false
	}
	p.used++
	if n > smallPacket {
		return p.large.take(n, wire.MaxPacket, 1, 1), true
	}
	return p.small.take(n, smallPacket, smallChunk, 0), true
}

// take takes a buffer of size bytes for a packet of n bytes; if there is none, a chunk of them is allocated.
func (b *buffers) take(n, size, chunk int, bit Slot) Slot {
	if len(b.free) == 0 {
		b.chunks = append(b.chunks, make([]byte, size*chunk))
		for range chunk {
			b.free = append(b.free, Slot(len(b.lens))<<1|bit)
			b.lens = append(b.lens, 0)
		}
	}
	s := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	b.lens[s>>1] = uint16(n)
	return s
}

// Bytes returns the packet in s; valid until s is put back.
func (p *Pool) Bytes(s Slot) []byte {
	i := int(s >> 1)
	if s&1 != 0 {
		return p.large.chunks[i][:p.large.lens[i]]
	}
	off := i % smallChunk * smallPacket
	return p.small.chunks[i>>smallShift][off:][:p.small.lens[i]:smallPacket]
}

// SetLen sets the length of the packet in s, at most as many bytes as [Pool.Get] was asked for.
func (p *Pool) SetLen(s Slot, n int) {
	b := &p.small
	if s&1 != 0 {
		b = &p.large
	}
	b.lens[s>>1] = uint16(n)
}

// Put gives a buffer back.
func (p *Pool) Put(s Slot) {
	b := &p.small
	if s&1 != 0 {
		b = &p.large
	}
	b.free = append(b.free, s)
	p.used--
}

// InUse is the number of buffers that are out.
func (p *Pool) InUse() int { return p.used }

// Resident is the number of bytes that the pool holds.
func (p *Pool) Resident() int {
	return len(p.small.lens)*smallPacket + len(p.large.lens)*wire.MaxPacket
}

// ring is a fixed-capacity queue of slots: one channel of the specification.
type ring struct {
	slots  []Slot
	head   int
	n      int
	left   uint8  // what still has to be done with a multicast at the head: see parts; 0: not known yet
	popped uint32 // heads that have moved on, and copies of them, for the timeout
	seen   uint32 // popped when the timeout was looked at
	since  mono.Time
}

func newRing(capacity int) ring { return ring{slots: make([]Slot, capacity)} }

func (r *ring) full() bool { return r.n == len(r.slots) }

func (r *ring) push(s Slot) {
	if r.full() {
		panic("router: channel overflow; credits and channel sizes disagree")
	}
	r.slots[r.index(r.n)] = s
	r.n++
}

// index is where the k-th packet from the head is.
func (r *ring) index(k int) int {
	if k += r.head; k >= len(r.slots) {
		k -= len(r.slots)
	}
	return k
}

func (r *ring) peek() Slot { return r.slots[r.head] }

func (r *ring) pop() Slot {
	s := r.slots[r.head]
	r.head = r.index(1)
	r.n--
	r.popped++
	r.left = 0
	return s
}

// remove takes out the slots that f names, appending them to gone; the others
// keep their order. A head that is partly handed on must not be named.
func (r *ring) remove(gone []Slot, f func(Slot) bool) []Slot {
	kept := 0
	for k := range r.n {
		s := r.slots[r.index(k)]
		if f(s) {
			gone = append(gone, s)
			continue
		}
		r.slots[r.index(kept)] = s
		kept++
	}
	if r.n != kept {
		r.popped++
	}
	r.n = kept
	return gone
}
