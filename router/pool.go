package router

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Slot names a packet's buffer in its chip's [Pool].
type Slot int32

// NoSlot stands for no buffer.
const NoSlot Slot = -1

// smallPacket is the longest packet, in bytes, that gets a small buffer instead of one of
// [wire.MaxPacket] bytes: a completion, or a write of 64 bytes over the longest route. When many
// such packets wait, they lie close together and stay in the processor's cache.
const smallPacket = 256

// The pool allocates small buffers smallChunk at a time, and large buffers one by one.
const (
	smallShift = 4
	smallChunk = 1 << smallShift
)

// Pool holds the packet buffers of one chip. Channels hand packets on by slot, so a packet is not
// copied between ports. The pool allocates buffers when they are first used, in two sizes, each up
// to the pool's limit.
//
// Invariant: used ≤ limit. The pool allocates at most "limit" buffers of each size, rounded up to a
// chunk.
type Pool struct {
	small, large buffers
	used         int // buffers in use
	limit        int // largest number of buffers in use
}

// buffers are the buffers of one size. A slot holds the index of a buffer in this struct, and in
// its lowest bit the size of the buffer.
type buffers struct {
	chunks [][]byte
	lens   []uint16 // length of the packet in each buffer, in bytes
	free   []Slot
}

// NewPool returns a pool for packets of up to [wire.MaxPacket] bytes. At most "limit" buffers of
// the pool are in use at any time.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get takes a buffer of length n out of the pool. If the limit is reached or n exceeds
// [wire.MaxPacket], Get reports false.
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

// take takes a buffer of size bytes for a packet of n bytes. If no buffer is free, take allocates a
// chunk of buffers.
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

// Bytes returns the packet in slot s. The bytes are valid until [Pool.Put] gives s back.
func (p *Pool) Bytes(s Slot) []byte {
	i := int(s >> 1)
	if s&1 != 0 {
		return p.large.chunks[i][:p.large.lens[i]]
	}
	off := i % smallChunk * smallPacket
	return p.small.chunks[i>>smallShift][off:][:p.small.lens[i]:smallPacket]
}

// SetLen sets the length of the packet in s. The new length is at most the length that the caller
// asked [Pool.Get] for.
func (p *Pool) SetLen(s Slot, n int) {
	b := &p.small
	if s&1 != 0 {
		b = &p.large
	}
	b.lens[s>>1] = uint16(n)
}

// Put gives a buffer back to the pool.
func (p *Pool) Put(s Slot) {
	b := &p.small
	if s&1 != 0 {
		b = &p.large
	}
	b.free = append(b.free, s)
	p.used--
}

// InUse returns the number of buffers in use.
func (p *Pool) InUse() int { return p.used }

// Resident returns the number of bytes of memory that the pool holds.
func (p *Pool) Resident() int {
	return len(p.small.lens)*smallPacket + len(p.large.lens)*wire.MaxPacket
}

// ring is a queue of slots with a fixed capacity. A ring implements one sender or receiver channel
// of the specification.
type ring struct {
	slots  []Slot
	head   int
	n      int
	left   uint8  // parts still to be done of the multicast at the head, see parts; 0: not known yet
	popped uint32 // number of heads and copies of heads that have moved on, for the timeout
	seen   uint32 // value of popped when the timeout last checked
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

// index returns the place in the buffer of the k-th packet from the head.
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

// remove takes out the slots for which f returns true, and appends these slots to gone. The other
// slots keep their order. For a head that is partly handed on, f must return false.
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
