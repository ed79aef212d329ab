package gossip

import (
	"bytes"
	"fmt"
	"log"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"ttfabric/membership"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits of the impairment of gossip.
const (
	maxDelayed   = 4096                   // largest number of packets that wait for their injected delay; the network drops further packets
	streamResend = 200 * time.Millisecond // how long after a loss a stream sends again; equal to TCP's shortest timeout on Linux
	bindTries    = 10                     // largest number of attempts to find a port that is free for both TCP and UDP
)

// network is a transport for memberlist that can inject faults. The faults lose or delay packets,
// slow streams down, or cut chips off. While no fault is set, network passes all packets and
// streams on.
type network struct {
	memberlist.NodeAwareTransport
	start    time.Time
	patience time.Duration // longest time for which the faults may delay a write to a stream
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	ending   chan struct{} // closed when the pool begins to close, which ends all waiting
	closing  chan struct{} // closed when Shutdown is called, after which nobody reads packets and streams
	done     chan struct{} // closed when the sockets are closed
	end      sync.Once
	active   atomic.Bool // a fault is set, or this chip is cut off from a chip
	repeats  *repeats    // finds repeated announcements, for the goroutine that runs receive; nil: gossip is encrypted
	dropped  dropped

	mu      sync.Mutex
	model   *fault.Model
	alone   bool                         // this chip is cut off from all chips
	apart   map[wire.FabricNodeID]bool   // chips that this chip is cut off from
	book    map[string]wire.FabricNodeID // chips by gossip address, as known from gossip
	waiting int                          // number of packets that wait for their injected delay
	full    uint64                       // number of packets dropped because maxDelayed packets were waiting
}

// dropped counts datagrams and streams that a network dropped because no member sends such data.
type dropped struct {
	long    atomic.Uint64 // datagrams that were longer than maxPacket
	version atomic.Uint64 // datagrams that were not encrypted as version 1, and streams that were encrypted with another version
}

// listen opens a TCP and a UDP socket on the same port, and returns the port. If the port in bind is
// 0, the system chooses the port.
func listen(bind netip.AddrPort, label string, patience time.Duration, keyed bool, l *log.Logger) (*network, int, error) {
	var inner *memberlist.NetTransport
	var err error
	for range bindTries {
		inner, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{bind.Addr().String()}, BindPort: int(bind.Port()), Logger: l})
		if err == nil || bind.Port() != 0 {
			break
		}
	}
	if err != nil {
		return nil, 0, err
	}
	m, err := fault.New(0, fault.Options{})
	if err != nil {
		return nil, 0, err
	}
	w := &network{NodeAwareTransport: inner, start: time.Now(), patience: patience, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		ending: make(chan struct{}), closing: make(chan struct{}), done: make(chan struct{}), model: m, apart: map[wire.FabricNodeID]bool{}, book: map[string]wire.FabricNodeID{}}
	if !keyed {
		w.repeats = newRepeats(label)
	}
	go w.receive()
	return w, inner.GetAutoBindPort(), nil
}

// keyed reports whether gossip is encrypted.
func (w *network) keyed() bool { return w.repeats == nil }

// receive passes received packets and streams to memberlist. receive drops packets from chips that
// are cut off, and packets longer than maxPacket. If this chip is cut off from all chips, receive
// also drops streams. With keys, receive also drops packets that are not encrypted as version 1.
//
// Memberlist reads each packet into memory of its own, of 64 KiB. Messages that wait in memberlist's
// queues keep the memory of their packet. receive therefore passes on a copy of each packet.
func (w *network) receive() {
	for {
		select {
		case <-w.done:
			return
		case p := <-w.NodeAwareTransport.PacketCh():
			if w.active.Load() && w.cutOff("", p.From.String()) {
				continue
			}
			if len(p.Buf) > maxPacket {
				w.dropped.long.Add(1)
				continue
			}
			if w.keyed() && !sealed(p.Buf) {
				w.dropped.version.Add(1)
				continue
			}
			if !w.keyed() {
				if p.Buf = w.repeats.strip(p.Timestamp, p.Buf); p.Buf == nil {
					continue
				}
			}
			p.Buf = bytes.Clone(p.Buf)
			select {
			case w.packets <- p:
			case <-w.closing: // drop the packet, because the sockets cannot close while a packet waits
			}
		case c := <-w.NodeAwareTransport.StreamCh():
			if w.active.Load() && w.cutOff("", "") {
				c.Close()
				continue
			}
			select {
			case w.streams <- &stream{Conn: c, w: w}:
			case <-w.closing:
				c.Close()
			}
		}
	}
}

// PacketCh returns the channel of received packets. PacketCh implements memberlist's Transport.
func (w *network) PacketCh() <-chan *memberlist.Packet { return w.packets }

// StreamCh returns the channel of streams that other members open. StreamCh implements memberlist's
// Transport.
func (w *network) StreamCh() <-chan net.Conn { return w.streams }

// WriteTo sends a packet to an address. WriteTo implements memberlist's Transport.
func (w *network) WriteTo(b []byte, addr string) (time.Time, error) {
	return w.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet to a member. WriteToAddress implements memberlist's
// NodeAwareTransport. If a fault loses or delays the packet, WriteToAddress returns no error.
func (w *network) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if !w.active.Load() {
		return w.NodeAwareTransport.WriteToAddress(b, a)
	}
	cut := w.cutOff(a.Name, a.Addr)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model.Cut(cut)
	now := w.now()
	for _, o := range w.model.Apply(now, b) {
		switch {
		case !o.At.After(now):
			if at, err := w.NodeAwareTransport.WriteToAddress(o.Data, a); err != nil {
				return at, err
			}
		case w.waiting >= maxDelayed:
			w.full++
		default:
			w.waiting++
			time.AfterFunc(o.At.Sub(now), func() { w.late(o.Data, a) })
		}
	}
	return time.Now(), nil
}

// The method "late" sends a packet after its injected delay, if the sockets are still open.
func (w *network) late(b []byte, a memberlist.Address) {
	w.mu.Lock()
	w.waiting--
	w.mu.Unlock()
	select {
	case <-w.done:
	default:
		_, _ = w.NodeAwareTransport.WriteToAddress(b, a) // ignore the error, because a network may also lose the packet
	}
}

// DialTimeout opens a stream to an address. DialTimeout implements memberlist's Transport.
func (w *network) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return w.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

// DialAddressTimeout opens a stream to a member. DialAddressTimeout implements memberlist's
// NodeAwareTransport. If the member is cut off, DialAddressTimeout fails after the time d, as if
// the member did not answer.
func (w *network) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	begin := time.Now()
	if w.active.Load() {
		if w.cutOff(a.Name, a.Addr) {
			w.sleep(d)
			return nil, fmt.Errorf("dial %s: an injected fault cuts the gossip off: %w", a.Addr, os.ErrDeadlineExceeded)
		}
		if !w.carry(nil, begin.Add(d)) {
			return nil, fmt.Errorf("dial %s: %w", a.Addr, os.ErrDeadlineExceeded)
		}
	}
	c, err := w.NodeAwareTransport.DialAddressTimeout(a, max(d-time.Since(begin), time.Millisecond))
	if err != nil {
		return nil, err
	}
	return &stream{Conn: c, w: w}, nil
}

// Shutdown closes the sockets. Shutdown implements memberlist's Transport.
func (w *network) Shutdown() error {
	w.hurry()
	select {
	case <-w.closing:
		return nil
	default:
	}
	close(w.closing)
	err := w.NodeAwareTransport.Shutdown()
	close(w.done)
	return err
}

// hurry ends all waits for injected delays and timeouts.
func (w *network) hurry() { w.end.Do(func() { close(w.ending) }) }

func (w *network) now() mono.Time { return mono.Time(time.Since(w.start)) }

// sleep waits for d and returns true. If the pool closes first, sleep returns false at once.
func (w *network) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ending:
		return false
	}
}

// carry waits for the time that the injected faults add to a piece b of a stream. Each injected
// loss adds streamResend, because a stream sends lost data again. If the faults keep the piece
// beyond the deadline, or if the pool closes first, carry returns false.
func (w *network) carry(b []byte, deadline time.Time) bool {
	for time.Now().Before(deadline) {
		w.mu.Lock()
		w.model.Cut(w.alone)
		now := w.now()
		out := w.model.Apply(now, b)
		wait := streamResend
		if len(out) > 0 {
			wait = out[0].At.Sub(now)
		}
		w.mu.Unlock()
		if wait > 0 && !w.sleep(min(wait, time.Until(deadline))) {
			return false
		}
		if len(out) > 0 {
			return time.Now().Before(deadline)
		}
	}
	return false
}

// stream is a TCP connection to which network adds its faults.
type stream struct {
	net.Conn
	w     *network
	guard guard
}

// Read implements net.Conn. With keys, Read refuses a stream whose first message is encrypted with
// another version than 1.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.w.keyed() && !s.guard.pass(b[:n]) {
		s.w.dropped.version.Add(1)
		s.Close()
		return 0, errVersion
	}
	return n, err
}

// Write writes b to the connection after the delay that the faults add. If the delay is longer than
// network.patience, Write returns [os.ErrDeadlineExceeded]. Write implements net.Conn.
func (s *stream) Write(b []byte) (int, error) {
	if s.w.active.Load() && !s.w.carry(b, time.Now().Add(s.w.patience)) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Write(b)
}

// know stores the chip n that gossips from an address.
func (w *network) know(n wire.FabricNodeID, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.book) >= membership.MaxClaims {
		clear(w.book)
	}
	w.book[addr] = n
}

// cutOff reports whether this chip is cut off from a member. cutOff finds the member's chip by the
// member's name. If the name contains no chip, cutOff finds the chip by the member's address. If
// the member's chip is unknown, cutOff reports false. If this chip is cut off from all chips, cutOff
// reports true for all members.
func (w *network) cutOff(name, addr string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alone || len(w.apart) == 0 {
		return w.alone
	}
	chip, _, _ := strings.Cut(name, "-")
	n, err := wire.ParseFabricNodeID(chip)
	if err != nil {
		var known bool
		if n, known = w.book[addr]; !known {
			return false
		}
	}
	return w.apart[n]
}

// impair changes the faults that the network injects into sent packets and streams. If seed is not
// nil, the sequence of random numbers starts again from seed.
func (w *network) impair(o fault.Options, seed *uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seed != nil {
		w.model.Seed(*seed)
	}
	err := w.model.Set(o)
	w.enforce()
	return err
}

// cut replaces the set of chips that this chip is cut off from. If "alone" is true, this chip is
// cut off from all chips.
func (w *network) cut(alone bool, apart map[wire.FabricNodeID]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alone, w.apart = alone, maps.Clone(apart)
	w.enforce()
}

func (w *network) enforce() {
	w.active.Store(w.alone || len(w.apart) > 0 || w.model.Options() != fault.Options{})
}

func (w *network) counts() fault.Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.model.Counts()
	c.Overflowed += w.full
	return c
}
