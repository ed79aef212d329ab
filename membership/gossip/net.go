package gossip

import (
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
	maxDelayed   = 4096                   // packets that wait for their delay to end; the network drops further packets
	streamResend = 200 * time.Millisecond // a stream sends lost data again after this time: TCP's shortest timeout on Linux
	bindTries    = 10                     // attempts to find a port that is free for both TCP and UDP
)

// network is memberlist's network with injected faults at its edge. The faults lose packets, delay
// packets and streams, or cut them off. While no fault is in force, network passes everything on.
type network struct {
	memberlist.NodeAwareTransport
	start    time.Time
	patience time.Duration // longest time that a piece of a stream may take
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	ending   chan struct{} // closed when nobody may wait any more
	closing  chan struct{} // closed when nobody needs to read any more
	done     chan struct{} // closed when the sockets are closed
	end      sync.Once
	active   atomic.Bool   // true: a fault is in force
	keyed    bool          // gossip is encrypted
	version  atomic.Uint64 // datagrams and streams that [network] dropped because of their encryption's version

	mu      sync.Mutex
	model   *fault.Model
	alone   bool
	apart   map[wire.FabricNodeID]bool   // chips from which this chip is cut off
	book    map[string]wire.FabricNodeID // the chip at each address, as far as the network has heard
	waiting int                          // packets that wait for their delay to end
	full    uint64                       // packets dropped because too many waited
}

// listen opens the sockets, TCP and UDP on one port, and returns the port.
func listen(bind netip.AddrPort, patience time.Duration, keyed bool, l *log.Logger) (*network, int, error) {
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
	w := &network{NodeAwareTransport: inner, start: time.Now(), patience: patience, keyed: keyed, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		ending: make(chan struct{}), closing: make(chan struct{}), done: make(chan struct{}), model: m, apart: map[wire.FabricNodeID]bool{}, book: map[string]wire.FabricNodeID{}}
	go w.receive()
	return w, inner.GetAutoBindPort(), nil
}

// receive passes on the packets and streams that come, unless the network is cut off. With keys,
// receive drops packets that are not encrypted as version 1.
func (w *network) receive() {
	for {
		select {
		case <-w.done:
			return
		case p := <-w.NodeAwareTransport.PacketCh():
			if w.active.Load() && w.cutOff("", p.From.String()) {
				continue
			}
			if w.keyed && !sealed(p.Buf) {
				w.version.Add(1)
				continue
			}
			select {
			case w.packets <- p:
			case <-w.closing: // the sockets cannot close while a packet waits to be read
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

// PacketCh implements memberlist's Transport.
func (w *network) PacketCh() <-chan *memberlist.Packet { return w.packets }

// StreamCh implements memberlist's Transport.
func (w *network) StreamCh() <-chan net.Conn { return w.streams }

// WriteTo implements memberlist's Transport.
func (w *network) WriteTo(b []byte, addr string) (time.Time, error) {
	return w.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress implements memberlist's NodeAwareTransport. A packet that the fault model loses or
// delays counts as sent.
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

// late sends a packet after its delay.
func (w *network) late(b []byte, a memberlist.Address) {
	w.mu.Lock()
	w.waiting--
	w.mu.Unlock()
	select {
	case <-w.done:
	default:
		_, _ = w.NodeAwareTransport.WriteToAddress(b, a) // a send that fails counts as a packet that the network loses
	}
}

// DialTimeout implements memberlist's Transport.
func (w *network) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return w.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

// DialAddressTimeout implements memberlist's NodeAwareTransport. If the chip at the address is cut
// off, DialAddressTimeout waits like a caller whose peer does not answer.
func (w *network) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	begin := time.Now()
	if w.active.Load() {
		if w.cutOff(a.Name, a.Addr) {
			w.sleep(d)
			return nil, fmt.Errorf("dial %s: the gossip is cut off on purpose: %w", a.Addr, os.ErrDeadlineExceeded)
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

// Shutdown implements memberlist's Transport.
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

// hurry ends all waiting.
func (w *network) hurry() { w.end.Do(func() { close(w.ending) }) }

func (w *network) now() mono.Time { return mono.Time(time.Since(w.start)) }

// sleep waits for d. When the pool ends, sleep reports false.
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

// carry waits for as long as a piece of a stream takes over the impaired network. A stream sends
// lost data again. If the piece does not get through before the deadline, carry reports false.
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

// stream is a connection over the impaired network.
type stream struct {
	net.Conn
	w     *network
	guard guard
}

// Read implements net.Conn. With keys, Read refuses a stream that is not encrypted as version 1.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.w.keyed && !s.guard.pass(b[:n]) {
		s.w.version.Add(1)
		s.Close()
		return 0, errVersion
	}
	return n, err
}

// Write implements net.Conn.
func (s *stream) Write(b []byte) (int, error) {
	if s.w.active.Load() && !s.w.carry(b, time.Now().Add(s.w.patience)) {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Write(b)
}

// know notes which chip is at an address.
func (w *network) know(n wire.FabricNodeID, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.book) >= membership.MaxClaims {
		clear(w.book)
	}
	w.book[addr] = n
}

// cutOff reports whether a chip is cut off. cutOff finds the chip by its member's name. If the name
// does not help, cutOff finds the chip by its address.
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

// impair changes the faults that the network injects into sent packets. A seed restarts the random
// numbers.
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

// cut cuts off the network, or parts of the network.
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
