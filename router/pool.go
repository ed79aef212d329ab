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

// smallChunk is how many small buffers are allocated at a time.
const smallChunk = 16

// Pool holds the packet buffers of one chip. Channels hand packets on by
// slot, so a packet is not copied between ports. Buffers are allocated when
// first used, in two sizes, each up to the pool's limit.
//
// Invariant: used ≤ limit; of each size, at most limit are allocated, rounded up to smallChunk.
type Pool struct {
	sizes [2]buffers // of smallPacket and of wire.MaxPacket bytes; the lowest bit of a slot says which
	used  int        // buffers that are out
	limit int        // of those
}

// buffers are those of one size.
type buffers struct {
	bufs [][]byte // len = the packet's length
	free []Slot
}

// NewPool returns a pool of which at most limit buffers are out at any time, for packets of up to [wire.MaxPacket] bytes.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get takes a buffer of length n out of the pool; false when the limit is reached or n exceeds [wire.MaxPacket].
func (p *Pool) Get(n int) (Slot, bool) {
	if n > wire.MaxPacket || p.used == p.limit {
		return NoSlot, false
	}
	b := &p.sizes[0]
	if n > smallPacket {
		b = &p.sizes[1]
	}
	if len(b.free) == 0 {
		p.allocate(n)
	}
	s := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	b.bufs[s>>1] = b.bufs[s>>1][:n]
	p.used++
	return s, true
}

// allocate adds free buffers for packets of length n.
func (p *Pool) allocate(n int) {
	which, size, chunk := Slot(0), smallPacket, smallChunk
	if n > smallPacket {
		which, size, chunk = 1, wire.MaxPacket, 1
	}
	b := &p.sizes[which]
	for all := make([]byte, size*chunk); len(all) > 0; all = all[size:] {
		b.free = append(b.free, Slot(len(b.bufs))<<1|which)
		b.bufs = append(b.bufs, all[:0:size])
	}
}

// Bytes returns the packet in s; valid until s is put back.
func (p *Pool) Bytes(s Slot) []byte { return p.sizes[s&1].bufs[s>>1] }

// SetLen sets the length of the packet in s, at most as many bytes as [Pool.Get] was asked for.
func (p *Pool) SetLen(s Slot, n int) {
	b := &p.sizes[s&1].bufs[s>>1]
	*b = (*b)[:n]
}

// Put gives a buffer back.
func (p *Pool) Put(s Slot) {
	b := &p.sizes[s&1]
	b.free = append(b.free, s)
	p.used--
}

// InUse is the number of buffers that are out.
func (p *Pool) InUse() int { return p.used }

// Resident is the number of bytes that the pool holds.
func (p *Pool) Resident() int {
	return len(p.sizes[0].bufs)*smallPacket + len(p.sizes[1].bufs)*wire.MaxPacket
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
	r.slots[(r.head+r.n)%len(r.slots)] = s
	r.n++
}

func (r *ring) peek() Slot { return r.slots[r.head] }

func (r *ring) pop() Slot {
	s := r.slots[r.head]
	r.head = (r.head + 1) % len(r.slots)
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
		s := r.slots[(r.head+k)%len(r.slots)]
		if f(s) {
			gone = append(gone, s)
			continue
		}
		r.slots[(r.head+kept)%len(r.slots)] = s
		kept++
	}
	if r.n != kept {
		r.popped++
	}
	r.n = kept
	return gone
}
