package transport

import (
	"net/netip"
	"sync"
	"time"
)

const (
	batchMessages = 8        // largest number of messages that one receive call returns
	messageBytes  = 64 << 10 // bytes of memory for each message; no UDP datagram and no super-packet is longer
)

// Super is a super-packet: consecutive datagrams of one sender in one buffer.
type Super struct {
	Data []byte // not empty
	Seg  int    // bytes of each datagram; the last datagram may be shorter
	From netip.AddrPort
}

// Each calls f for each datagram, in the order in which the datagrams lie in s.Data.
func (s *Super) Each(f func(datagram []byte)) {
	d := s.Data
	for ; len(d) > s.Seg; d = d[s.Seg:] {
		f(d[:s.Seg:s.Seg])
	}
	f(d[:len(d):len(d)])
}

// Batch holds the datagrams that one [Port.Recv] received. The zero value is ready for use. A
// caller should use one Batch for many calls of Recv. A Batch borrows memory from a pool only while
// it holds datagrams, so that ports without traffic need no memory. All data of a Batch is valid
// until the next Recv into the Batch.
type Batch struct {
	// Poll is the time for which [Port.Recv] looks for datagrams again and again, before the calling
	// goroutine sleeps. Between two looks, other goroutines run if they are ready. Poll is for a
	// caller that expects a datagram sooner than a sleeping process wakes up. If polling is in vain
	// again and again, Recv polls only for a small share of the time. Only UDP ports on Linux poll,
	// and only in a process whose GOMAXPROCS is 1.
	Poll time.Duration

	_      noCopy
	block  *block
	supers [batchMessages]Super
	n      int
	sys    receiver
}

// block is the memory that a Batch borrows for the datagrams of one receive call.
type block [batchMessages][messageBytes]byte

// blocks is the pool of unused blocks. The garbage collector frees blocks that stay in the pool for
// some time.
var blocks = sync.Pool{New: func() any { return new(block) }}

// noCopy makes go vet report code that copies a Batch. A Batch contains pointers into itself, so a
// copy would be wrong.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Supers returns the super-packets in the order of arrival. A wrapper around a port may change the
// super-packets and their bytes in place.
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

// Reset empties b and returns the memory of b to the pool. Reset and [Batch.Append] are for ports
// that fill batches themselves.
func (b *Batch) Reset() {
	b.n = 0
	if b.block != nil {
		b.supers = [batchMessages]Super{}
		blocks.Put(b.block)
		b.block = nil
	}
}

// Append copies a datagram of 1 to [MaxDatagram] bytes into b, and returns true. If the length is
// out of range, or b has no room for the datagram, Append returns false. Consecutive datagrams of
// one size and one sender share a super-packet.
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

// borrow takes a block from the pool if b has none.
func (b *Batch) borrow() {
	if b.block == nil {
		b.block = blocks.Get().(*block)
	}
}
