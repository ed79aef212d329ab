package transport

import (
	"net/netip"
	"sync"
)

const (
	batchMessages = 8        // messages of one receive call
	messageBytes  = 64 << 10 // bytes of each message; no UDP datagram and therefore no super-packet is longer
)

// Super is a super-packet: consecutive datagrams of one sender in one buffer.
type Super struct {
	Data []byte // not empty
	Seg  int    // bytes of each datagram; the last datagram may be shorter
	From netip.AddrPort
}

// Each calls f for each datagram in order.
func (s *Super) Each(f func(datagram []byte)) {
	d := s.Data
	for ; len(d) > s.Seg; d = d[s.Seg:] {
		f(d[:s.Seg:s.Seg])
	}
	f(d[:len(d):len(d)])
}

// Batch holds the datagrams that one [Port.Recv] returns. The zero value is ready for use. The
// caller should use a Batch again. While a Batch holds datagrams, the Batch borrows its memory from
// a pool. A port without traffic therefore holds no memory. All data that a Batch hands out is
// valid until the next Recv into the Batch.
type Batch struct {
	_      noCopy
	block  *block
	supers [batchMessages]Super
	n      int
	sys    receiver
}

// block is a batch's memory.
type block [batchMessages][messageBytes]byte

// blocks holds the memory blocks that are not in use. The garbage collector frees blocks that are
// unused for a while.
var blocks = sync.Pool{New: func() any { return new(block) }}

// noCopy lets vet find copies of a Batch, which points into itself.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Supers returns the super-packets in the order of arrival. A wrapper may change the slice and its
// datagrams in place.
func (b *Batch) Supers() []Super { return b.supers[:b.n] }

// Each calls f for each datagram in the order of arrival.
func (b *Batch) Each(f func(datagram []byte)) {
	for i := range b.n {
		b.supers[i].Each(f)
	}
}

// Len returns the number of datagrams.
func (b *Batch) Len() int {
	n := 0
	for i := range b.n {
		s := &b.supers[i]
		n += (len(s.Data) + s.Seg - 1) / s.Seg
	}
	return n
}

// Reset empties b and gives the memory of b back. Reset and [Batch.Append] are for code that itself
// fills batches.
func (b *Batch) Reset() {
	b.n = 0
	if b.block != nil {
		b.supers = [batchMessages]Super{}
		blocks.Put(b.block)
		b.block = nil
	}
}

// Append copies a datagram of 1 to [MaxDatagram] bytes into b. Append reports false if b has no
// room for the datagram. Consecutive datagrams of equal size share a super-packet.
func (b *Batch) Append(datagram []byte, from netip.AddrPort) bool {
	if len(datagram) == 0 || len(datagram) > messageBytes {
		return false
	}
	b.borrow()
	if b.n > 0 {
		s := &b.supers[b.n-1]
		if s.From == from && len(datagram) <= s.Seg && len(s.Data)%s.Seg == 0 && len(s.Data)+len(datagram) <= messageBytes {
			s.Data = append(s.Data, datagram...)
			return true
		}
	}
	if b.n == batchMessages {
		return false
	}
	buf := b.block[b.n][:0]
	b.supers[b.n] = Super{Data: append(buf, datagram...), Seg: len(datagram), From: from}
	b.n++
	return true
}

// borrow makes sure that b has memory.
func (b *Batch) borrow() {
	if b.block == nil {
		b.block = blocks.Get().(*block)
	}
}
