package transport

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Limits of a memory port. The port drops received datagrams if its queue would hold more than
// memoryQueue datagrams or memoryBytes bytes.
const (
	memoryQueue = 4096          // datagrams in the queue
	memoryBytes = DefaultBuffer // bytes in the queue
	memoryFree  = 256           // buffers that the port keeps for reuse
)

// Memory connects ports within one process, for programs and tests without sockets. A Memory keeps
// datagrams in order. Between two open ports that are each other's peers, a Memory loses datagrams
// only if the receiver's queue is full.
type Memory struct {
	mu    sync.Mutex
	ports map[netip.AddrPort]*memoryPort
	next  uint16
}

// NewMemory returns a Memory without ports.
func NewMemory() *Memory { return &Memory{ports: map[netip.AddrPort]*memoryPort{}} }

// NewPair returns two ports of one [Memory]. The caller must still call SetPeer on both ports.
func NewPair() (a, b Port) {
	m := NewMemory()
	return m.Listen(), m.Listen()
}

// Listen opens a port with a new address. One Memory can open 65,535 ports in all, and closed ports
// count.
func (m *Memory) Listen() Port {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next++; m.next == 0 {
		panic("transport: a Memory of more than 65535 ports")
	}
	p := &memoryPort{net: m, addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), m.next)}
	p.cond.L = &p.mu
	m.ports[p.addr] = p
	return p
}

func (m *Memory) find(a netip.AddrPort) *memoryPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ports[a]
}

// memoryPort is a port of a Memory.
type memoryPort struct {
	net  *Memory
	addr netip.AddrPort
	peer atomic.Pointer[netip.AddrPort]

	mu     sync.Mutex
	cond   sync.Cond // signalled when datagrams enter the queue, and when the port is closed
	queue  []memoryDatagram
	head   int // index in queue of the oldest datagram that waits
	bytes  int // bytes of the datagrams that wait
	free   [][]byte
	closed bool
	stats  Stats
}

type memoryDatagram struct {
	data []byte
	from netip.AddrPort
}

// Send implements [Port].
func (p *memoryPort) Send(data []byte, seg int) (int, error) {
	r := Run{data, seg}
	total := r.datagrams()
	to := p.peer.Load()
	p.mu.Lock()
	switch {
	case p.closed:
		p.mu.Unlock()
		return 0, net.ErrClosed
	case to == nil:
		p.stats.NoPeer += uint64(total)
		p.mu.Unlock()
		return 0, nil
	case min(seg, len(data)) > MaxDatagram:
		p.stats.TooLong += uint64(total)
		p.mu.Unlock()
		return 0, nil
	}
	p.stats.Sent += uint64(total)
	p.stats.SentBytes += uint64(len(data))
	p.mu.Unlock()
	if other := p.net.find(*to); other == nil || !other.put(r, p.addr) {
		p.mu.Lock()
		p.stats.Refused++
		p.mu.Unlock()
	}
	return total, nil
}

// SendBatch implements [Port].
func (p *memoryPort) SendBatch(runs []Run) (int, error) { return SendEach(p, runs) }

// put adds the datagrams of a run to the queue. The argument "from" is the sender's address. put
// drops and counts datagrams for which the queue has no room. If the port is closed, put returns
// false.
func (p *memoryPort) put(r Run, from netip.AddrPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	for rest := r.Data; len(rest) > 0; {
		d := rest[:min(r.Seg, len(rest))]
		rest = rest[len(d):]
		if len(p.queue)-p.head >= memoryQueue || p.bytes+len(d) > memoryBytes {
			p.stats.Overrun++
			continue
		}
		var buf []byte
		if k := len(p.free); k > 0 {
			buf, p.free = p.free[k-1], p.free[:k-1]
		}
		if p.head > memoryQueue {
			p.queue = p.queue[:copy(p.queue, p.queue[p.head:])]
			p.head = 0
		}
		p.queue = append(p.queue, memoryDatagram{append(buf[:0], d...), from})
		p.bytes += len(d)
	}
	p.cond.Signal()
	return true
}

// Recv implements [Port].
func (p *memoryPort) Recv(b *Batch) error {
	b.Reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	for b.n == 0 {
		for p.head == len(p.queue) && !p.closed {
			p.cond.Wait()
		}
		if p.closed {
			return net.ErrClosed
		}
		p.take(b)
	}
	return nil
}

// take moves datagrams from the queue into b until the queue is empty or b is full. take drops
// datagrams whose sender is not the peer. The method "put" does not make this check, because the
// peer may change between "put" and "take".
func (p *memoryPort) take(b *Batch) {
	peer := p.peer.Load()
	for ; p.head < len(p.queue); p.head++ {
		d := &p.queue[p.head]
		if peer == nil || *peer != d.from {
			p.stats.Foreign++
		} else if b.Append(d.data, d.from) {
			p.stats.Received++
			p.stats.ReceivedBytes += uint64(len(d.data))
		} else {
			return
		}
		p.bytes -= len(d.data)
		if len(p.free) < memoryFree {
			p.free = append(p.free, d.data)
		}
		*d = memoryDatagram{}
	}
	p.queue, p.head = p.queue[:0], 0
}

// SetPeer implements [Port].
func (p *memoryPort) SetPeer(a netip.AddrPort) error {
	if !a.IsValid() || a.Port() == 0 {
		return fmt.Errorf("memory port %s: peer %s: want an address and a port", p.addr, a)
	}
	p.peer.Store(&a)
	return nil
}

// LocalAddr implements [Port].
func (p *memoryPort) LocalAddr() netip.AddrPort { return p.addr }

// MaxDatagram implements [Port].
func (p *memoryPort) MaxDatagram() int { return MaxDatagram }

// Refusals implements [Port]. A memory port refuses no datagram.
func (p *memoryPort) Refusals() uint64 { return 0 }

// Stats implements [Port].
func (p *memoryPort) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Batching = true
	s.ReceiveBuffer, s.ReceiveBufferAsked, s.Largest = memoryBytes, memoryBytes, MaxDatagram
	return s
}

// Close implements [Port].
func (p *memoryPort) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.queue, p.free, p.head, p.bytes = nil, nil, 0, 0
	p.cond.Broadcast()
	return nil
}
