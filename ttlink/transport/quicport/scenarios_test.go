package quicport_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/quicport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The scenarios of ttlink/scenarios_test.go, in real time and over real
// sockets, for each way to carry frames; the faults are beneath it.

// patience is what a machine that is busy with other things may take.
const patience = 80 * time.Second

// opens makes either end's port, and says how patient a link over it is.
type opens struct {
	ends    [2]func(t testing.TB) transport.Port
	profile ttlink.Profile
}

func carriers(t testing.TB) map[string]opens {
	a, b := ends(t)
	local := netip.MustParseAddrPort("127.0.0.1:0")
	udp := func(t testing.TB) transport.Port {
		p, err := transport.Listen(transport.Options{Local: local})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var lives sync.Mutex
	life := wire.Incarnation(1000)
	sealed := func(from, to wire.PortID) func(t testing.TB) transport.Port {
		return func(t testing.TB) transport.Port {
			lives.Lock()
			life++
			c := transport.Cable{Fabric: "lab", From: from, To: to, Incarnation: life}
			lives.Unlock()
			p, err := transport.PSK(udp(t), bytes.Repeat([]byte{9}, 32), c)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	return map[string]opens{
		"udp": {[2]func(t testing.TB) transport.Port{udp, udp}, ttlink.ProfileCrowded},
		"psk": {[2]func(t testing.TB) transport.Port{sealed(lower, upper), sealed(upper, lower)}, ttlink.ProfileCrowded},
		"quic": {[2]func(t testing.TB) transport.Port{
			func(t testing.TB) transport.Port { return a(t, quicport.Options{}) }, func(t testing.TB) transport.Port { return b(t, quicport.Options{}) }},
			ttlink.ProfilePaced}, // as 'up' chooses it
	}
}

// side is one end: a link, its port, and an application that checks what it gets.
type side struct {
	w     *lab
	i     int
	start time.Time

	mu      sync.Mutex
	link    *ttlink.Link
	port    transport.Port
	on      bool
	size    int
	toSend  int
	sent    uint64 // packets so far; the next one's number
	got     uint64 // packets that came
	next    uint64 // least number that may come
	unknown int
	ended   int // sessions
	hold    bool
	held    int
	partial []byte
	bad     string
	dead    bool
}

// lab is two sides and the relay between them.
type lab struct {
	t     testing.TB
	open  opens
	relay *relay
	sides [2]*side
	lives wire.Incarnation
}

func newLab(t testing.TB, o opens, seed uint64, f fault.Options) *lab {
	w := &lab{t: t, open: o, relay: newRelay(t, seed, f), lives: wire.Incarnation(seed*100 + 1)}
	for i := range w.sides {
		w.begin(i)
	}
	t.Cleanup(func() {
		for _, s := range w.sides {
			s.stop()
		}
	})
	return w
}

// begin starts a life of an end.
func (w *lab) begin(i int) {
	w.t.Helper()
	from, to := lower, upper
	if i == 1 {
		from, to = upper, lower
	}
	w.lives++
	l, err := ttlink.New(ttlink.Config{Local: from, Peer: to, Incarnation: w.lives, Fabric: 7, MaxPayload: 1152, Slots: [wire.NumVCs]int{16, 5, 3},
		Seed: uint64(w.lives), Profile: w.open.profile})
	if err != nil {
		w.t.Fatal(err)
	}
	s := &side{w: w, i: i, start: time.Now(), link: l, port: w.open.ends[i](w.t)}
	w.sides[i] = s
	w.relay.at(i, s.port.LocalAddr())
	if err := s.port.SetPeer(w.relay.addr(i)); err != nil {
		w.t.Fatal(err)
	}
	go s.read()
	go s.tick()
}

func (s *side) stop() {
	s.mu.Lock()
	s.dead = true
	s.mu.Unlock()
	s.port.Close()
}

func (s *side) read() {
	var b transport.Batch
	for s.port.Recv(&b) == nil {
		s.step(func(now mono.Time) {
			b.Each(func(d []byte) {
				if x, ok := s.link.HandleDatagram(now, d); ok {
					s.piece(&x)
				}
			})
		})
	}
}

func (s *side) tick() {
	for alive := true; alive; time.Sleep(time.Millisecond) {
		alive = s.step(func(now mono.Time) {
			k, keyed := s.port.(transport.Keyed)
			if ready := !keyed || k.Ready(); ready && !s.on {
				s.on = true
				s.resize(now)
				s.link.SetPath(now, true)
			}
			if at, ok := s.link.Deadline(); ok && !now.Before(at) {
				s.link.Tick(now)
			}
		})
	}
}

// resize tells the link what the path takes, as a node does.
func (s *side) resize(now mono.Time) {
	if n := min((s.port.MaxDatagram()-wire.FrameOverhead)/wire.PadUnit*wire.PadUnit, 1408); n != s.size {
		s.size = n
		s.link.SetMaxPayload(now, n)
	}
}

// piece takes a part of a packet; a whole one must be the next, or at least a later one.
func (s *side) piece(x *ttlink.Delivery) {
	if x.Offset == 0 {
		s.partial = s.partial[:0]
	}
	s.partial = append(s.partial, x.Data...)
	if !x.End {
		return
	}
	n := binary.LittleEndian.Uint64(s.partial)
	switch {
	case n < s.next:
		s.bad = fmt.Sprintf("packet %d came behind %d", n, s.next-1)
	case !bytes.Equal(s.partial, packet(n)):
		s.bad = fmt.Sprintf("packet %d is damaged", n)
	}
	s.next = n + 1
	s.got++
	if s.hold {
		s.held++
	} else {
		s.link.Free(x.VC)
	}
}

func (s *side) step(f func(now mono.Time)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return false
	}
	now := mono.Time(time.Since(s.start)) + 1
	f(now)
	for s.toSend > 0 && s.link.Send(now, wire.VCData, packet(s.sent)) {
		s.sent++
		s.toSend--
	}
	for e, ok := s.link.PollEvent(); ok; e, ok = s.link.PollEvent() {
		if e.Kind == ttlink.EventSessionEnded {
			s.ended++
			for _, n := range e.Unknown {
				s.unknown += n
			}
		}
	}
	for t, ok := s.link.PollTransmit(now); ok; t, ok = s.link.PollTransmit(now) {
		if n, _ := s.port.Send(t.Data, t.Seg); n < len(t.Data)/t.Seg {
			if k, keyed := s.port.(transport.Keyed); !keyed || k.Ready() {
				s.resize(now)
			}
		}
	}
	return true
}

// packet is the n-th packet of an end: its number, and bytes that depend on it.
func packet(n uint64) []byte {
	b := make([]byte, 8+n*37%2000)
	for i := range b {
		b[i] = byte(n) ^ byte(i*3)
	}
	binary.LittleEndian.PutUint64(b, n)
	return b
}

// load has both ends send so many packets more.
func (w *lab) load(n int) {
	for _, s := range w.sides {
		s.mu.Lock()
		s.toSend += n
		s.mu.Unlock()
	}
}

func (s *side) look() (got, sent uint64, left int, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got, s.sent, s.toSend, s.link.Status().State == ttlink.StateUp
}

// up waits for the link.
func (w *lab) up(within time.Duration) {
	w.t.Helper()
	w.until(within, "the link is up", func() bool {
		_, _, _, a := w.sides[0].look()
		_, _, _, b := w.sides[1].look()
		return a && b
	})
}

func (w *lab) until(within time.Duration, what string, f func() bool) {
	w.t.Helper()
	for end := time.Now().Add(within); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			for _, s := range w.sides {
				s.mu.Lock()
				w.t.Logf("end %d: sent %d, %d left, got %d, %d sessions ended, %+v\n%+v", s.i, s.sent, s.toSend, s.got, s.ended, s.link.Status(), s.port.Stats())
				s.mu.Unlock()
			}
			w.t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// done waits until all that was sent has come, exactly once and in order.
func (w *lab) done(within time.Duration) {
	w.t.Helper()
	w.until(within, "all has come", func() bool {
		a, as, al, _ := w.sides[0].look()
		b, bs, bl, _ := w.sides[1].look()
		return al == 0 && bl == 0 && a == bs && b == as
	})
	w.sane(0)
}

// sane wants nothing damaged, doubled or out of order, and so many sessions ended at most.
func (w *lab) sane(ended int) {
	w.t.Helper()
	for _, s := range w.sides {
		s.mu.Lock()
		if s.bad != "" || s.ended > ended {
			w.t.Errorf("end %d: %s, %d sessions ended", s.i, s.bad, s.ended)
		}
		s.mu.Unlock()
	}
}

func TestScenarios(t *testing.T) {
	const ms = time.Millisecond
	plain := func(n int) func(w *lab) {
		return func(w *lab) { w.load(n); w.done(patience) }
	}
	handshake := func(w *lab) {
		w.up(patience)
		w.relay.set(fault.Options{}, 0, 1)
		w.load(50)
		w.done(patience)
	}
	all := carriers(t)
	var wg sync.WaitGroup
	room := make(chan struct{}, 10) // most of them wait most of the time, more than t.Parallel runs at once
	for _, c := range []struct {
		name string
		o    fault.Options
		run  func(w *lab)
	}{
		{"narrow path", fault.Options{Delay: 1 * ms}, narrowPath},
		{"nothing", fault.Options{}, plain(300)},
		{"handshake loss 30 % in bursts", fault.Options{Delay: 5 * ms, Burst: fault.Burst{ToBad: .2, ToGood: .5, LossBad: 1}}, handshake},
		{"handshake corruption 30 %", fault.Options{Delay: 5 * ms, Corrupt: .3}, handshake},
		{"transfer loss 2 %", fault.Options{Delay: 2 * ms, Loss: .02}, plain(120)},
		{"transfer corruption 2 %", fault.Options{Delay: 2 * ms, Corrupt: .02}, plain(120)},
		{"duplication 10 %", fault.Options{Delay: 2 * ms, Duplicate: .1}, plain(120)},
		{"reorder 25 %", fault.Options{Delay: 2 * ms, Reorder: .25}, plain(120)},
		{"750 ms", fault.Options{Delay: 750 * ms}, plain(20)},
		{"asymmetric delay", fault.Options{Delay: 1 * ms}, func(w *lab) {
			w.relay.set(fault.Options{Delay: 150 * ms, Jitter: 10 * ms}, 1)
			w.load(100)
			w.done(patience)
		}},
		{"blackhole", fault.Options{Delay: 1 * ms}, blackhole},
		{"a cut longer than any timeout", fault.Options{Delay: 1 * ms}, longCut},
		{"one-way cut", fault.Options{Delay: 1 * ms}, oneWayCut},
		{"rebinding", fault.Options{Delay: 1 * ms}, rebinding},
		{"restart mid-window", fault.Options{Delay: 1 * ms}, restart},
		{"replay of all that was ever sent", fault.Options{Delay: 1 * ms}, replay},
		{"slow receiver", fault.Options{Delay: 1 * ms}, slowReceiver},
	} {
		for name, o := range all {
			if c.name == "narrow path" && name != "quic" {
				continue // they learn it from the kernel, which a relay does not tell
			}
			wg.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				t.Run(name+"/"+c.name, func(t *testing.T) { c.run(newLab(t, o, uint64(len(c.name)), c.o)) })
			})
		}
	}
	wg.Wait()
}

func blackhole(w *lab) {
	w.up(patience)
	w.load(800)
	for range 4 {
		time.Sleep(150 * time.Millisecond)
		w.relay.cut(true, 0, 1)
		time.Sleep(500 * time.Millisecond)
		w.relay.cut(false, 0, 1)
	}
	w.done(patience)
}

func longCut(w *lab) {
	w.up(patience)
	w.load(200)
	time.Sleep(20 * time.Millisecond)
	w.relay.cut(true, 0, 1)
	w.load(200)
	time.Sleep(6500 * time.Millisecond)
	w.relay.cut(false, 0, 1)
	w.done(patience)
}

func oneWayCut(w *lab) {
	w.up(patience)
	w.load(400)
	time.Sleep(5 * time.Millisecond)
	w.relay.cut(true, 1)
	time.Sleep(700 * time.Millisecond)
	w.relay.cut(false, 1)
	w.done(patience)
}

func rebinding(w *lab) {
	w.up(patience)
	w.load(500)
	for range 3 {
		time.Sleep(30 * time.Millisecond)
		w.relay.rebind()
		for i, s := range w.sides {
			if err := s.port.SetPeer(w.relay.addr(i)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.done(patience)
}

func restart(w *lab) {
	w.up(patience)
	w.load(500)
	time.Sleep(30 * time.Millisecond)
	old := w.sides[1]
	old.stop()
	w.begin(1)
	w.until(patience, "the other end knows of the new life, and what it sends arrives", func() bool {
		s := w.sides[0]
		s.mu.Lock()
		s.next = 0 // of the new life
		ended, left := s.ended, s.toSend
		s.mu.Unlock()
		_, _, _, up := w.sides[1].look()
		return up && ended == 1 && left == 0
	})
	s := w.sides[0]
	w.until(patience, "each packet has come or is reported", func() bool {
		s.mu.Lock()
		sent, unknown := s.sent, s.unknown
		s.mu.Unlock()
		got, _, _, _ := w.sides[1].look()
		old.mu.Lock()
		before := old.got
		old.mu.Unlock()
		return got+before+uint64(unknown) >= sent
	})
	s.mu.Lock()
	s.bad = "" // next was put back
	s.mu.Unlock()
	w.sane(1)
}

func replay(w *lab) {
	w.relay.mu.Lock()
	w.relay.keep = true
	w.relay.mu.Unlock()
	w.up(patience)
	w.load(300)
	w.done(patience)
	w.relay.mu.Lock()
	w.relay.keep = false
	rec := w.relay.record
	w.relay.mu.Unlock()
	w.load(300)
	for i, ds := range rec {
		for n, d := range ds {
			w.relay.deliver(1-i, d)
			if n%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	w.done(patience)
}

func slowReceiver(w *lab) {
	w.up(patience)
	s := w.sides[1]
	s.mu.Lock()
	s.hold = true
	s.mu.Unlock()
	w.load(200)
	time.Sleep(time.Second)
	w.until(patience, "all slots are taken", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.held >= 16
	})
	s.step(func(mono.Time) {
		if s.held > 16 {
			s.bad = fmt.Sprintf("%d packets in 16 slots", s.held)
		}
		for s.hold = false; s.held > 0; s.held-- {
			s.link.Free(wire.VCData)
		}
	})
	w.done(patience)
}

// narrowPath swallows long datagrams without a word.
func narrowPath(w *lab) {
	w.relay.mu.Lock()
	w.relay.longest = 1300
	w.relay.mu.Unlock()
	w.up(patience)
	w.load(100)
	w.done(patience)
	if n := w.sides[0].port.MaxDatagram(); n > 1300 || n < 1100 {
		w.t.Errorf("the largest datagram is %d", n)
	}
}
