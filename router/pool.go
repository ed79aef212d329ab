package router

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Slot names a packet's buffer in its chip's [Pool].
type Slot int32

// NoSlot is no buffer.
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
// Invariant: used ≤ limit. At most limit buffers of each size are allocated, rounded up to a chunk.
type Pool struct {
	small, large buffers
	used         int // buffers in use
	limit        int // largest number of buffers in use
}

// buffers are the buffers of one size. A slot is a buffer's index in here, with the size in its
// lowest bit.
type buffers struct {
	chunks [][]byte
	lens   []uint16 // of the packets
	free   []Slot
}

// NewPool returns a pool of which at most limit buffers are in use at any time, for packets of up
// to [wire.MaxPacket] bytes.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get takes a buffer of length n out of the pool. Get reports false if the limit is reached or n
// exceeds [wire.MaxPacket].
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

// take takes a buffer of size bytes for a packet of n bytes. If no buffer is free, it allocates a
// chunk of them.
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

// Bytes returns the packet in s. The bytes are valid until s is put back.
func (p *Pool) Bytes(s Slot) []byte {
	i := int(s >> 1)
	if s&1 != 0 {
		return p.large.chunks[i][:p.large.lens[i]]
	}
	off := i % smallChunk * smallPacket
	return p.small.chunks[i>>smallShift][off:][:p.small.lens[i]:smallPacket]
}

// SetLen sets the length of the packet in s. The length is at most what [Pool.Get] was asked for.
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

// InUse is the number of buffers in use.
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
	left   uint8  // parts of the multicast at the head that are left to do: see parts; 0: not known yet
	popped uint32 // heads that have moved on, and copies of heads, for the timeout
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

// remove takes out the slots that f names and appends them to gone. The others keep their order. F
// must not name a head that is partly handed on.
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
