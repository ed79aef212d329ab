package router

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Slot is the index of a packet's buffer in its chip's [Pool].
type Slot int32

// NoSlot is no buffer.
const NoSlot Slot = -1

// Pool holds the packet buffers of one chip. Channels hand packets on by
// index, so a packet is not copied between ports. Buffers are allocated when
// first used, up to the pool's limit.
type Pool struct {
	bufs  [][]byte // len = the packet's length, cap = wire.SlotStride's share
	free  []Slot
	limit int // buffers
}

// NewPool returns a pool of at most limit buffers of [wire.MaxPacket] bytes.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get takes a buffer of length n out of the pool; false when all are in use or n exceeds [wire.MaxPacket].
func (p *Pool) Get(n int) (Slot, bool) {
	if n > wire.MaxPacket {
		return NoSlot, false
	}
	if len(p.free) == 0 {
		if len(p.bufs) == p.limit {
			return NoSlot, false
		}
		p.bufs = append(p.bufs, make([]byte, 0, wire.MaxPacket))
		p.free = append(p.free, Slot(len(p.bufs)-1))
	}
	s := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.bufs[s] = p.bufs[s][:n]
	return s, true
}

// Bytes returns the packet in s; valid until s is put back.
func (p *Pool) Bytes(s Slot) []byte { return p.bufs[s] }

// SetLen sets the length of the packet in s.
func (p *Pool) SetLen(s Slot, n int) { p.bufs[s] = p.bufs[s][:n] }

// Put gives a buffer back.
func (p *Pool) Put(s Slot) {
	p.bufs[s] = p.bufs[s][:0]
	p.free = append(p.free, s)
}

// InUse is the number of buffers that are out.
func (p *Pool) InUse() int { return len(p.bufs) - len(p.free) }

// Resident is the number of bytes that the pool holds.
func (p *Pool) Resident() int { return len(p.bufs) * wire.MaxPacket }

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
