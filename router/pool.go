package router

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Slot is the index of a packet's buffer in its chip's [Pool].
type Slot int32

// NoSlot is the Slot that names no buffer.
const NoSlot Slot = -1

// smallPacket is the length, in bytes, of the longest packet that gets a small buffer. Longer
// packets get a buffer of [wire.MaxPacket] bytes. A control packet fits a small buffer,
// and so does a write of 64 bytes, even over the longest route. Small buffers lie
// close together and stay in the processor's cache when many short packets wait.
const smallPacket = 256

// The pool allocates small buffers in chunks of smallChunk, and large buffers one by one.
const (
	smallShift = 4
	smallChunk = 1 << smallShift
)

// Pool holds the packet buffers of one chip. Channels pass packets on by slot, so that the router
// moves packets between ports without copies. The pool has buffers of two sizes, and allocates a
// buffer when the buffer is first needed.
//
// Invariant: used ≤ limit. The pool allocates at most "limit" large buffers. The pool allocates at
// most "limit" small buffers, rounded up to a whole chunk.
type Pool struct {
	small, large buffers
	used         int // buffers in use
	limit        int // largest allowed number of buffers in use
}

// buffers are the buffers of one size. The lowest bit of a Slot names the size: 0 small, 1 large.
// The other bits of the Slot are an index into lens.
type buffers struct {
	chunks [][]byte
	lens   []uint16 // length of the packet in each buffer, in bytes
	free   []Slot
}

// NewPool returns a pool for packets of up to [wire.MaxPacket] bytes. At most "limit" buffers of
// the pool are in use at any time.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get takes a buffer for a packet of n bytes out of the pool. If "limit" buffers are in use or n
// exceeds [wire.MaxPacket], Get reports false.
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

// take takes a buffer for a packet of n bytes. The argument "size" is the length of a buffer. If no
// buffer is free, take first allocates "chunk" buffers. The argument "bit" is the lowest bit of the
// slots: 0 for small buffers, 1 for large ones.
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

// Bytes returns the bytes of the packet in slot s. The bytes are valid until [Pool.Put] returns
// slot s to the pool.
func (p *Pool) Bytes(s Slot) []byte {
	i := int(s >> 1)
	if s&1 != 0 {
		return p.large.chunks[i][:p.large.lens[i]]
	}
	off := i % smallChunk * smallPacket
	return p.small.chunks[i>>smallShift][off:][:p.small.lens[i]:smallPacket]
}

// SetLen sets the length of the packet in slot s. The new length must not exceed the length that
// the caller asked [Pool.Get] for.
func (p *Pool) SetLen(s Slot, n int) {
	b := &p.small
	if s&1 != 0 {
		b = &p.large
	}
	b.lens[s>>1] = uint16(n)
}

// Put returns the buffer of slot s to the pool.
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

// Resident returns the number of bytes of all buffers that the pool has allocated, used or free.
func (p *Pool) Resident() int {
	return len(p.small.lens)*smallPacket + len(p.large.lens)*wire.MaxPacket
}

// ring is a queue of slots. Each sender channel, each receiver channel and
// each queue of this chip's own multicasts is a ring. A sender channel may hold more packets than
// its size; the packets beyond its size are parked (parked.go).
type ring struct {
	size   int // number of packets for which the channel has slots
	slots  []Slot
	at     []uint32 // when the packet of each slot came into the queue, see Router.at
	head   int
	n      int
	left   uint8  // parts of the work that remain for the multicast at the front, see parts; 0: not known yet
	popped uint32 // changes when packets or copies of multicasts leave the queue; the timeout compares popped with seen
	seen   uint32 // value of popped when the router last looked for packets that cannot move
	since  mono.Time
	stay   int // number of packets at the front that are caught and stay, see Caught
}

func newRing(capacity int) ring {
	return ring{size: capacity, slots: make([]Slot, capacity), at: make([]uint32, capacity)}
}

func (r *ring) full() bool { return r.n >= r.size }

// grow makes room for a packet beyond the size of the queue, if no room is left.
func (r *ring) grow() {
	if r.n < len(r.slots) {
		return
	}
	more := ring{slots: make([]Slot, 2*r.n+8), at: make([]uint32, 2*r.n+8)}
	for k := range r.n {
		more.slots[k], more.at[k] = r.slots[r.index(k)], r.at[r.index(k)]
	}
	r.slots, r.at, r.head = more.slots, more.at, 0
}

// shrink frees the memory of an empty queue that has grown.
func (r *ring) shrink() {
	if len(r.slots) > r.size {
		r.slots, r.at, r.head = make([]Slot, r.size), make([]uint32, r.size), 0
	}
}

func (r *ring) push(s Slot, at uint32) {
	if r.n == len(r.slots) {
		panic("router: a packet came to a full channel: the peer had more credits than the channel has slots")
	}
	k := r.index(r.n)
	r.slots[k], r.at[k] = s, at
	r.n++
}

// index returns the index in slots of the k-th packet of the queue. The first packet is number 0.
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
	r.stay = max(0, r.stay-1)
	return s
}

// remove takes the slots for which f returns true out of the queue, and appends these slots to
// gone. The other slots keep their order. f must return false for a first packet of which the
// router has already made copies.
func (r *ring) remove(gone []Slot, f func(Slot) bool) []Slot {
	kept := 0
	for k := range r.n {
		s := r.slots[r.index(k)]
		if f(s) {
			gone = append(gone, s)
			continue
		}
		to := r.index(kept)
		r.slots[to], r.at[to] = s, r.at[r.index(k)]
		kept++
	}
	if r.n != kept {
		r.popped++
		r.stay = 0
	}
	r.n = kept
	return gone
}
