// Package transporttest is the test suite for every transport. The suite checks that a port does
// what [transport.Port] documents.
package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"ttfabric/ttlink/transport"
)

const (
	wait   = 30 * time.Second      // longest time for which a test waits for an event that must happen
	settle = 50 * time.Millisecond // time for which a test checks that an event does not happen
	burst  = 64 << 10              // bytes of waiting datagrams that every transport must be able to hold for a slow receiver
)

// Pair returns two ports without peers, and closes them at the end of the test. Within one test,
// the port a of any call can be the peer of the port b of any call.
type Pair func(t *testing.T) (a, b transport.Port)

// Run runs the test suite on ports that pair opens.
func Run(t *testing.T, pair Pair) {
	for _, c := range []struct {
		name string
		f    func(t *testing.T, pair Pair)
	}{
		{"no datagrams before the peer is known", beforePeer},
		{"content and boundaries", boundaries},
		{"every size of a datagram", sizes},
		{"several runs at once", runs},
		{"both directions at once", duplex},
		{"datagrams of strangers are dropped", stranger},
		{"the peer changes its address", moves},
		{"a bad peer address is refused", badPeer},
		{"a closed peer causes no error", deadPeer},
		{"a datagram that is too long", tooLong},
		{"close ends everything", closing},
		{"counters", counters},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			t.Run("", func(t *testing.T) { c.f(t, pair) }) // when the inner Run returns, the test's clean-up has finished
			for end := time.Now().Add(wait); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d goroutines still run after the test", runtime.NumGoroutine()-before)
				}
			}
		})
	}
}

// end is a port and a goroutine that receives from the port.
type end struct {
	transport.Port
	t    *testing.T
	got  chan []byte
	left chan error // the error with which Recv ended
}

// open starts a goroutine that receives from p until p is closed. open closes p at the end of the
// test.
func open(t *testing.T, p transport.Port) *end {
	e := &end{Port: p, t: t, got: make(chan []byte, 4096), left: make(chan error, 1)}
	stop := make(chan struct{})
	go func() {
		var b transport.Batch
		for {
			if err := p.Recv(&b); err != nil {
				e.left <- err
				return
			}
			if b.Len() == 0 {
				e.left <- errors.New("no datagram, although Recv returned")
				return
			}
			b.Each(func(d []byte) {
				select {
				case e.got <- bytes.Clone(d):
				case <-stop:
				}
			})
		}
	}()
	t.Cleanup(func() { close(stop); p.Close() })
	return e
}

// joined returns two ports that have each other as peer.
func joined(t *testing.T, pair Pair) (a, b *end) {
	t.Helper()
	x, y := pair(t)
	a, b = open(t, x), open(t, y)
	join(a, b)
	return a, b
}

func join(a, b *end) {
	a.t.Helper()
	if err := errors.Join(a.SetPeer(b.LocalAddr()), b.SetPeer(a.LocalAddr())); err != nil {
		a.t.Fatal(err)
	}
	for until := time.Now().Add(wait); !a.ready() || !b.ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			a.t.Fatalf("no keys were agreed within %v, counters %+v and %+v", wait, a.Stats(), b.Stats())
		}
	}
}

// ready reports whether the port can carry datagrams. A port that needs no keys is always ready.
func (e *end) ready() bool {
	k, ok := e.Port.(transport.Keyed)
	return !ok || k.Ready()
}

// send sends data. If the port does not accept all datagrams, send fails the test.
func (e *end) send(data []byte, seg int) {
	e.t.Helper()
	want := (len(data) + seg - 1) / seg
	if n, err := e.Send(data, seg); err != nil || n != want {
		e.t.Fatalf("the port accepted %d of %d datagrams of %d bytes, error %v, counters %+v", n, want, seg, err, e.Stats())
	}
}

// next waits for the next received datagram and returns it.
func (e *end) next() []byte {
	e.t.Helper()
	select {
	case d := <-e.got:
		return d
	case err := <-e.left:
		e.t.Fatalf("Recv: %v", err)
	case <-time.After(wait):
		e.t.Fatalf("no datagram came within %v, counters %+v", wait, e.Stats())
	}
	return nil
}

// expect checks that the next received datagrams are data, cut into datagrams of seg bytes.
func (e *end) expect(data []byte, seg int) {
	e.t.Helper()
	for i := 0; i*seg < len(data); i++ {
		want := data[i*seg : min((i+1)*seg, len(data))]
		if got := e.next(); !bytes.Equal(got, want) {
			e.t.Fatalf("%d bytes in datagrams of %d: datagram %d has %d bytes and differs from the sent datagram of %d bytes", len(data), seg, i, len(got), len(want))
		}
	}
}

// silent checks that no datagram comes for some time.
func (e *end) silent(why string) {
	e.t.Helper()
	select {
	case d := <-e.got:
		e.t.Fatalf("%s: %d bytes came: %.20q", why, len(d), d)
	case err := <-e.left:
		e.t.Fatalf("%s: Recv: %v", why, err)
	case <-time.After(settle):
	}
}

func pattern(n int, salt byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ salt ^ byte(i>>8)
	}
	return b
}

func beforePeer(t *testing.T, pair Pair) {
	x, y := pair(t)
	a, b := open(t, x), open(t, y)
	if n, err := a.Send(pattern(250, 0), 100); err != nil || n != 0 {
		t.Fatalf("without a peer, Send accepted %d datagrams, %v", n, err)
	}
	if got := a.Stats().NoPeer; got != 3 {
		t.Errorf("NoPeer = %d, want 3", got)
	}
	if n := a.MaxDatagram(); n < 1 || n > transport.MaxDatagram {
		t.Errorf("MaxDatagram is %d", n)
	}
	if err := a.SetPeer(b.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send([]byte("b has no peer yet"), 100); err != nil {
		t.Fatal(err)
	}
	b.silent("without a peer")
	join(a, b)
	a.send([]byte("hello"), 5)
	b.expect([]byte("hello"), 5)
}

func boundaries(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	for _, seg := range []int{1, 28, 64, 1000, 1200, 1452, 4224, a.MaxDatagram()} {
		if seg > a.MaxDatagram() {
			continue
		}
		for _, total := range []int{1, seg - 1, seg, seg + 1, 2 * seg, 5*seg - seg/2, 64 * seg, 64*seg + 1, 200 * seg} {
			if total == 0 || total > burst && total > seg {
				continue
			}
			data := pattern(total, byte(seg))
			a.send(data, seg)
			b.expect(data, seg)
		}
	}
}

func sizes(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	top := min(a.MaxDatagram(), b.MaxDatagram())
	data := pattern(top, 3)
	one := func(n int) {
		a.send(data[top-n:], n)
		b.expect(data[top-n:], n)
	}
	for n := 1; n <= min(top, 1600); n++ {
		one(n)
	}
	for n := 1600; n < top-16; n += n/9 + 1 {
		one(n)
	}
	for n := max(1, top-16); n <= top; n++ {
		one(n)
	}
}

func runs(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	var all []transport.Run
	total := 0
	for i, r := range [][2]int{{6400, 64}, {64, 64}, {0, 64}, {5000, 1000}, {900, 1000}, {1, 1}, {12000, 1200}, {100, 64}, {3000, 1000}, {3001, 1000},
		{640, 64}, {640, 64}, {640, 64}, {640, 64}} {
		all = append(all, transport.Run{Data: pattern(r[0], byte(i)), Seg: r[1]})
		total += (r[0] + r[1] - 1) / r[1]
	}
	if n, err := a.SendBatch(all); err != nil || n != total {
		t.Fatalf("SendBatch accepted %d of %d datagrams, %v", n, total, err)
	}
	for _, r := range all {
		b.expect(r.Data, r.Seg)
	}
	if n, err := a.SendBatch(nil); n != 0 || err != nil {
		t.Errorf("SendBatch without runs: %d, %v", n, err)
	}
}

func duplex(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	const rounds, per, size = 200, 20, 500
	done := make(chan string, 2)
	for _, p := range [][2]*end{{a, b}, {b, a}} {
		from, to := p[0], p[1]
		go func() {
			for i := range rounds { // only one round is under way at a time, so no buffer overflows
				data := pattern(per*size, byte(i))
				if n, err := from.Send(data, size); n != per || err != nil {
					done <- fmt.Sprintf("round %d: Send accepted %d of %d datagrams, %v", i, n, per, err)
					return
				}
				for k := range per {
					select {
					case d := <-to.got:
						if !bytes.Equal(d, data[k*size:(k+1)*size]) {
							done <- fmt.Sprintf("round %d: datagram %d differs from the sent datagram", i, k)
							return
						}
					case <-time.After(wait):
						done <- fmt.Sprintf("round %d: datagram %d did not come", i, k)
						return
					}
				}
			}
			done <- ""
		}()
	}
	for range 2 {
		if msg := <-done; msg != "" {
			t.Error(msg)
		}
	}
}

func stranger(t *testing.T, pair Pair) {
	x, y := pair(t)
	_, z := pair(t)
	a, b, c := open(t, x), open(t, y), open(t, z)
	if err := c.SetPeer(a.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	garbage := func() {
		for n := 1; n < 2000; n += 97 {
			if _, err := c.Send(pattern(3*n, 9), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	garbage()
	join(a, b)
	garbage()
	a.silent("garbage of a stranger")
	b.send([]byte("mine"), 4)
	a.expect([]byte("mine"), 4)
}

func moves(t *testing.T, pair Pair) {
	x, y := pair(t)
	_, z := pair(t)
	a, b, c := open(t, x), open(t, y), open(t, z)
	at := a.LocalAddr()
	join(c, a)
	for i, p := range []*end{b, c, b, b} {
		join(a, p)
		data := pattern(4000, byte(i))
		a.send(data, 1000)
		p.expect(data, 1000)
		p.send(data, 900)
		a.expect(data, 900)
		if a.LocalAddr() != at {
			t.Fatalf("the port moved from %s to %s", at, a.LocalAddr())
		}
	}
	if _, err := c.Send([]byte("the peer that was"), 100); err != nil {
		t.Fatal(err)
	}
	a.silent("the former peer")
}

func deadPeer(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	b.Close()
	for range 20 {
		if _, err := a.Send(pattern(3000, 2), 1000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	a.silent("a dead peer")
	_, x := pair(t)
	c := open(t, x)
	join(a, c) // the peer is back at another address
	c.send([]byte("back"), 4)
	a.expect([]byte("back"), 4)
	a.send([]byte("seen"), 4)
	c.expect([]byte("seen"), 4)
}

func badPeer(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	for _, addr := range []netip.AddrPort{{}, netip.AddrPortFrom(b.LocalAddr().Addr(), 0)} {
		if err := a.SetPeer(addr); err == nil {
			t.Errorf("SetPeer accepted %s", addr)
		}
	}
	a.send([]byte("as before"), 9)
	b.expect([]byte("as before"), 9)
	b.send([]byte("both ways"), 9)
	a.expect([]byte("both ways"), 9)
}

func tooLong(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	long := pattern(transport.MaxDatagram+1, 0)
	n, err := a.Send(long, len(long))
	if n != 0 || err != nil {
		t.Fatalf("Send accepted %d datagrams, %v", n, err)
	}
	if got := a.Stats().TooLong; got != 1 {
		t.Errorf("TooLong = %d, want 1", got)
	}
	a.send([]byte("goes on"), 7)
	b.expect([]byte("goes on"), 7)
}

func closing(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	time.Sleep(5 * time.Millisecond) // Recv needs time to begin its wait
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-a.left:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Recv ended with %v, want net.ErrClosed", err)
		}
	case <-time.After(wait):
		t.Fatal("Recv still waits after Close")
	}
	if _, err := a.Send([]byte("x"), 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send after Close: %v, want net.ErrClosed", err)
	}
	var batch transport.Batch
	if err := a.Recv(&batch); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Recv after Close: %v, want net.ErrClosed", err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("Close after Close: %v", err)
	}
	_ = a.Stats()
	_ = b
}

func counters(t *testing.T, pair Pair) {
	a, b := joined(t, pair)
	a.send(pattern(10*500+1, 1), 500)
	b.expect(pattern(10*500+1, 1), 500)
	s, r := a.Stats(), b.Stats()
	if s.Sent != 11 || s.SentBytes != 5001 || r.Received != 11 || r.ReceivedBytes != 5001 {
		t.Errorf("sent %d datagrams, %d bytes; received %d datagrams, %d bytes; want 11 datagrams, 5001 bytes each", s.Sent, s.SentBytes, r.Received, r.ReceivedBytes)
	}
	if _, keyed := b.Port.(transport.Keyed); keyed {
		r.Foreign = 0 // handshake messages that came before SetPeer count as Foreign
	}
	if drops := s.SendFull + s.NoPeer + s.TooLong + r.Foreign + r.Truncated + r.Overrun; drops != 0 {
		t.Errorf("%d datagrams were dropped: %+v %+v", drops, s, r)
	}
}
