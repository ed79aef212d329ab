package main

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// link drives one TT-link as a live node does. A reader hands each batch of datagrams to the
// TT-link under a lock, and sends what the TT-link then wants to send. A timer calls the TT-link at
// its deadlines.
type link struct {
	mu    sync.Mutex
	cfg   ttlink.Config
	l     *ttlink.Link
	p     transport.Port
	start time.Time
	got   uint64
	on    func(now mono.Time, d ttlink.Delivery) // called for each piece of a packet that arrives; may be nil
	fill  func(now mono.Time)                    // hands packets to l as long as l takes them; may be nil
	armed mono.Time                              // time at which the timer calls l; Never: the timer is not set
	rearm chan struct{}
	up    chan struct{}
	stop  chan struct{}
	once  sync.Once
}

// newLink opens a link over UDP. The port impairs the datagrams that this end sends as the
// parameter "bad" says.
func newLink(far bool, slots string, gso transport.Mode, bad fault.Options) (conv, error) {
	p, err := transport.Listen(transport.Options{Local: anyPort(), GSO: gso, GRO: gso})
	if err != nil {
		return nil, err
	}
	if bad != (fault.Options{}) {
		if p, err = transport.Impair(p, 1, bad); err != nil {
			return nil, err
		}
	}
	a, b := wire.PortID{}, wire.PortID{Node: wire.FabricNodeID{Chip: 1}}
	cfg := ttlink.Config{Local: a, Peer: b, Incarnation: wire.Incarnation(time.Now().UnixNano()), Profile: ttlink.ProfileCrowded}
	if far {
		cfg.Local, cfg.Peer = b, a
	}
	for _, s := range router.SlotProfiles {
		if s.Name == slots {
			cfg.Slots = s.Receiver
		}
	}
	return &link{cfg: cfg, p: p, start: time.Now(), armed: mono.Never, rearm: make(chan struct{}, 1), up: make(chan struct{}), stop: make(chan struct{})}, nil
}

func (l *link) addr() string { return l.p.LocalAddr().String() }

func (l *link) dial(peer string) error {
	a, err := netip.ParseAddrPort(peer)
	if err != nil {
		return err
	}
	if err := l.p.SetPeer(a); err != nil {
		return err
	}
	// The MTU of the path is known now. A live node chooses the size of its frames in the same way.
	l.cfg.MaxPayload = framePayload(l.p.MaxDatagram())
	if l.l, err = ttlink.New(l.cfg); err != nil {
		return err
	}
	l.step(func(now mono.Time) { l.l.SetPath(now, true) })
	go l.read()
	go l.timer()
	select {
	case <-l.up:
		return nil
	case <-time.After(10 * time.Second):
		return errors.New("the link does not come up")
	}
}

// framePayload returns the largest padded payload of a frame, in bytes, on a path that takes
// datagrams of n bytes. The payload is not longer than the longest packet needs.
func framePayload(n int) int {
	return min((n-wire.FrameOverhead)/wire.PadUnit*wire.PadUnit, wire.PadTo(wire.MaxPacket))
}

// step runs f, and then runs the link until the link has nothing to send.
func (l *link) step(f func(now mono.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.arm()
	now := mono.Time(time.Since(l.start))
	f(now)
	for {
		if l.fill != nil {
			l.fill(now)
		}
		sent := false
		for {
			t, ok := l.l.PollTransmit(now)
			if !ok {
				break
			}
			l.p.Send(t.Data, t.Seg)
			sent = true
		}
		if !sent || l.fill == nil {
			break
		}
	}
	for {
		e, ok := l.l.PollEvent()
		if !ok {
			return
		}
		if e.Kind == ttlink.EventUp {
			l.once.Do(func() { close(l.up) })
		}
	}
}

func (l *link) read() {
	var b transport.Batch
	for {
		if err := l.p.Recv(&b); errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			continue
		}
		l.step(func(now mono.Time) {
			b.Each(func(d []byte) {
				if del, ok := l.l.HandleDatagram(now, d); ok {
					if l.on != nil {
						l.on(now, del)
					}
					if del.End {
						l.l.Free(del.VC)
					}
				}
			})
		})
	}
}

// timer calls the link at its deadlines, until close is called.
func (l *link) timer() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		l.mu.Lock()
		wait := time.Hour
		if l.armed != mono.Never {
			wait = l.armed.Sub(mono.Time(time.Since(l.start)))
		}
		l.mu.Unlock()
		t.Reset(wait)
		select {
		case <-l.stop:
			return
		case <-l.rearm:
			continue
		case <-t.C:
		}
		l.step(func(now mono.Time) {
			l.armed = mono.Never
			l.l.Tick(now)
		})
	}
}

// arm sets the timer to the next deadline, if the deadline is earlier than the time to which the
// timer is set.
func (l *link) arm() {
	if at, ok := l.l.Deadline(); ok && at.Before(l.armed) {
		l.armed = at
		select {
		case l.rearm <- struct{}{}:
		default:
		}
	}
}

// pump sends messages for the time d. A message that is longer than a packet goes as several
// packets.
func (l *link) pump(size int, d time.Duration) error {
	msg := bytes.Repeat([]byte{0xA5}, size)
	end := mono.Time(time.Since(l.start)).Add(d)
	off := 0 // offset in the message at which the next packet begins
	l.step(func(mono.Time) {
		l.fill = func(now mono.Time) {
			for !now.After(end) {
				n := min(size-off, wire.MaxPayload)
				if !l.l.CanSend(wire.VCData, n) || !l.l.Send(now, wire.VCData, msg[off:off+n]) {
					return
				}
				if off += n; off == size {
					off = 0
				}
			}
		}
	})
	time.Sleep(d)
	return nil
}

func (l *link) drain() func() uint64 {
	// A real receiver copies the packet into its slot.
	slot := make([]byte, wire.SlotSize)
	l.step(func(mono.Time) {
		l.on = func(_ mono.Time, d ttlink.Delivery) { l.got += uint64(copy(slot[d.Offset:], d.Data)) }
	})
	return func() uint64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.got
	}
}

// sendOwed makes the link send msg as many times as owe says, as soon as the link has credit. After
// each message, sendOwed takes 1 from owe and calls sent. A new session has no credit before the
// first grant.
func (l *link) sendOwed(msg []byte, owe *int, sent func()) {
	l.fill = func(now mono.Time) {
		for *owe > 0 && l.l.Send(now, wire.VCData, msg) {
			*owe--
			sent()
		}
	}
}

func (l *link) echo() {
	owe := 0
	l.step(func(mono.Time) {
		l.sendOwed(make([]byte, 64), &owe, func() {})
		l.on = func(mono.Time, ttlink.Delivery) { owe++ }
	})
}

func (l *link) pingpong(size, n int) ([]time.Duration, error) {
	var out []time.Duration
	done := make(chan struct{})
	var sent time.Time
	owe := 1
	l.step(func(mono.Time) {
		l.sendOwed(make([]byte, size), &owe, func() { sent = time.Now() })
		l.on = func(mono.Time, ttlink.Delivery) {
			if out = append(out, time.Since(sent)); len(out) == n {
				close(done)
			} else if len(out) < n {
				owe = 1
			}
		}
	})
	select {
	case <-done:
		return out, nil
	case <-time.After(pingTime):
		return nil, errors.New("the pings do not come back")
	}
}

func (l *link) close() {
	close(l.stop)
	l.p.Close()
}
