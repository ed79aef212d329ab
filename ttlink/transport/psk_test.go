package transport_test

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/transporttest"
	"ttfabric/wire"
)

var (
	pskKey = bytes.Repeat([]byte{7}, 32)
	lower  = wire.PortID{Channel: 3}
	upper  = wire.PortID{Node: wire.FabricNodeID{Chip: 1}, Channel: 9}
)

// notices collects the notices of a port.
type notices struct {
	mu  sync.Mutex
	all []transport.Notice
}

func (n *notices) tell(x transport.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, x)
}

// refusals returns the reasons of all refusals so far.
func (n *notices) refusals() (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.all {
		if x.Refused != "" {
			out = append(out, x.Refused)
		}
	}
	return out
}

var lives wire.Incarnation = 100

// seal wraps p in a sealed port for the cable c.
func seal(t testing.TB, p transport.Port, key []byte, c transport.Cable) transport.Keyed {
	t.Helper()
	if c.Fabric == "" {
		c.Fabric = "lab"
	}
	if lives++; c.Incarnation == 0 {
		c.Incarnation = lives
	}
	s, err := transport.PSK(p, key, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(transport.Keyed)
}

func TestPSKConforms(t *testing.T) {
	wraps := map[string]func(t *testing.T, p transport.Port) transport.Port{
		"plain": func(_ *testing.T, p transport.Port) transport.Port { return p },
		"impair": func(t *testing.T, p transport.Port) transport.Port {
			return impair(t, p, fault.Options{Duplicate: .2})
		},
	}
	for name, o := range map[string]transport.Options{"udp": {}, "udp without offloads": {GSO: transport.Off, GRO: transport.Off, Batch: transport.Off}, "memory": {ReceiveBuffer: -1}} {
		for wn, wrap := range wraps {
			t.Run(name+" "+wn, func(t *testing.T) {
				m := transport.NewMemory()
				get := func(t *testing.T) transport.Port { return m.Listen() }
				if o.ReceiveBuffer == 0 {
					get = func(t *testing.T) transport.Port { return open(t, o) }
				}
				transporttest.Run(t, func(t *testing.T) (transport.Port, transport.Port) {
					return seal(t, wrap(t, get(t)), pskKey, transport.Cable{From: lower, To: upper}), seal(t, wrap(t, get(t)), pskKey, transport.Cable{From: upper, To: lower})
				})
			})
		}
	}
}

// wireTap is a pair of sealed ports, with a record of the datagrams that both ends send.
type wireTap struct {
	a, b   transport.Keyed
	ma, mb transport.Port // memory ports beneath a and b
	life   *mortal        // the wrapper between a and ma
	said   [2]notices
	mu     sync.Mutex
	seen   [2][][]byte // datagrams sent by a, and by b
	got    chan []byte // datagrams that b received and opened
}

// mortal wraps a port. A test can stop the wrapper, and the port stays open.
type mortal struct {
	transport.Port
	over atomic.Bool
}

// Recv returns an error after the stop. A Recv that already waits loses the next datagram.
func (m *mortal) Recv(x *transport.Batch) error {
	if err := m.Port.Recv(x); err != nil || m.over.Load() {
		return net.ErrClosed
	}
	return nil
}

func (m *mortal) Send(b []byte, seg int) (int, error) {
	if m.over.Load() {
		return 0, net.ErrClosed
	}
	return m.Port.Send(b, seg)
}

func tapped(t *testing.T, change func(a, b *transport.Cable, ka, kb *[]byte)) *wireTap {
	t.Helper()
	w := &wireTap{got: make(chan []byte, 10000)}
	w.ma, w.mb = transport.NewPair()
	see := func(i int) func(transport.Tapped) {
		return func(x transport.Tapped) {
			if x.Sent {
				w.mu.Lock()
				w.seen[i] = append(w.seen[i], bytes.Clone(x.Data))
				w.mu.Unlock()
			}
		}
	}
	ca, cb := transport.Cable{From: lower, To: upper, Tell: w.said[0].tell}, transport.Cable{From: upper, To: lower, Tell: w.said[1].tell}
	ka, kb := pskKey, pskKey
	if change != nil {
		change(&ca, &cb, &ka, &kb)
	}
	w.life = &mortal{Port: w.ma}
	w.a = seal(t, transport.Tap(w.life, see(0)), ka, ca)
	w.b = seal(t, transport.Tap(w.mb, see(1)), kb, cb)
	go func() {
		var x transport.Batch
		for w.a.Recv(&x) == nil {
		}
	}()
	go func() {
		var x transport.Batch
		for w.b.Recv(&x) == nil {
			x.Each(func(d []byte) { w.got <- bytes.Clone(d) })
		}
	}()
	w.a.SetPeer(w.b.LocalAddr())
	w.b.SetPeer(w.a.LocalAddr())
	return w
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func (w *wireTap) keyed(t *testing.T) *wireTap {
	t.Helper()
	until(t, "keys are agreed", func() bool { return w.a.Ready() && w.b.Ready() })
	return w
}

// sealedOf returns the sealed datagrams that end i has sent so far.
func (w *wireTap) sealedOf(i int) (out [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.seen[i] {
		if len(d) > 32 && d[3] == 3 {
			out = append(out, d)
		}
	}
	return out
}

// TestPSKSealsAndRefuses checks that sealed datagrams hide their content and never repeat a
// counter. Replayed, changed and reflected datagrams must be dropped and counted.
func TestPSKSealsAndRefuses(t *testing.T) {
	w := tapped(t, nil).keyed(t)
	secret := []byte("nobody reads this, whoever listens")
	for range 50 {
		w.a.Send(bytes.Repeat(secret, 3), len(secret))
	}
	until(t, "all came", func() bool { return len(w.got) == 150 })
	sealed := w.sealedOf(0)
	counters := map[string]bool{}
	for _, d := range sealed {
		if bytes.Contains(d, secret[:8]) {
			t.Fatal("the content is in the clear")
		}
		if counters[string(d[4:16])] {
			t.Fatal("a counter came twice under one key")
		}
		counters[string(d[4:16])] = true
	}
	if len(sealed) != 150 {
		t.Fatalf("%d sealed datagrams were seen", len(sealed))
	}
	before := w.b.Stats()
	for _, d := range sealed { // replay every datagram to b
		w.ma.Send(d, len(d))
	}
	for i := range sealed[0] { // change each byte of one datagram in turn
		d := bytes.Clone(sealed[0])
		d[i] ^= 1 << (i % 8)
		w.ma.Send(d, len(d))
	}
	for _, d := range sealed { // send every datagram of a back to a
		w.mb.Send(d, len(d))
	}
	until(t, "all refused datagrams are counted", func() bool {
		b, a := w.b.Stats().Auth, w.a.Stats().Auth
		return b.Rejected()-before.Auth.Rejected() >= 150+uint64(len(sealed[0])) && a.Forged+a.Replayed >= 150
	})
	if len(w.got) != 150 {
		t.Errorf("b received %d refused datagrams", len(w.got)-150)
	}
	b := w.b.Stats().Auth
	if b.Replayed < 150 || b.Forged == 0 || b.UnknownKey == 0 || b.Malformed == 0 {
		t.Errorf("counted %+v", b)
	}
	w.a.Send([]byte("goes on"), 7)
	for range 151 {
		<-w.got
	}
}

// TestPSKOldLives checks that replayed datagrams of an earlier incarnation are refused after a
// restart.
func TestPSKOldLives(t *testing.T) {
	w := tapped(t, nil).keyed(t)
	w.a.Send([]byte("first life"), 10)
	<-w.got
	old := w.sealedOf(0)
	w.mu.Lock()
	hellos := slices.Clone(w.seen[0])
	w.mu.Unlock()
	// The chip with port w.a restarts. Port again belongs to the new incarnation, and has the same
	// address and cable.
	w.life.over.Store(true)
	again := seal(t, w.ma, pskKey, transport.Cable{From: lower, To: upper})
	again.SetPeer(w.b.LocalAddr())
	go func() {
		var x transport.Batch
		for again.Recv(&x) == nil {
		}
	}()
	until(t, "the new incarnation has keys", again.Ready)
	until(t, "b receives from the new incarnation", func() bool {
		again.Send([]byte("second life"), 11)
		select {
		case d := <-w.got:
			return string(d) == "second life"
		case <-time.After(10 * time.Millisecond):
			return false
		}
	})
	time.Sleep(20 * time.Millisecond) // gives b time to answer a handshake message (an ask) that is under way
	keyings := w.b.Stats().Auth.Keyings
	for _, d := range append(hellos, old...) {
		w.ma.Send(d, len(d))
	}
	until(t, "b still receives from the new incarnation", func() bool {
		again.Send([]byte("still here"), 10) // a datagram sent during a change of keys may be lost
		for {
			select {
			case d := <-w.got:
				if string(d) == "still here" {
					return true
				} else if string(d) != "second life" {
					t.Errorf("heard %q", d)
				}
			case <-time.After(10 * time.Millisecond):
				return false
			}
		}
	})
	// The replayed datagrams have unknown keys, so b sends one ask, which the new incarnation
	// answers.
	if s := w.b.Stats().Auth; s.UnknownKey == 0 || s.Keyings > keyings+1 {
		t.Errorf("%+v, keyed %d times before", s, keyings)
	}
}

func TestPSKRefusesWithReason(t *testing.T) {
	t.Parallel()
	other := wire.PortID{Node: wire.FabricNodeID{Chip: 5}, Channel: 1}
	for _, c := range []struct {
		name, want string
		change     func(a, b *transport.Cable, ka, kb *[]byte)
	}{
		{"key", "another pre-shared key", func(_, _ *transport.Cable, ka, _ *[]byte) { *ka = bytes.Repeat([]byte{8}, 32) }},
		{"fabric", "another fabric", func(a, _ *transport.Cable, _, _ *[]byte) { a.Fabric = "other" }},
		{"chip", "mesh 0 chip 5 channel 1", func(a, _ *transport.Cable, _, _ *[]byte) { a.From = other }},
		{"cable", "a cable to mesh 0 chip 5", func(a, _ *transport.Cable, _, _ *[]byte) { a.To = other }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := tapped(t, c.change)
			until(t, "b says why", func() bool { return len(w.said[1].refusals()) > 0 })
			time.Sleep(200 * time.Millisecond) // time for several more asks
			if got := w.said[1].refusals(); len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("refusals %q, want one that contains %q", got, c.want)
			}
			if w.a.Ready() || w.b.Ready() {
				t.Error("keys were agreed")
			}
			if n, err := w.a.Send([]byte("x"), 1); n != 0 || err != nil || w.a.Stats().Auth.Unkeyed != 1 {
				t.Errorf("%d datagrams accepted, %v, %+v", n, err, w.a.Stats().Auth)
			}
		})
	}
	t.Run("plain", func(t *testing.T) {
		ma, mb := transport.NewPair()
		var said notices
		b := seal(t, mb, pskKey, transport.Cable{From: upper, To: lower, Tell: said.tell})
		go func() {
			var x transport.Batch
			for b.Recv(&x) == nil {
			}
		}()
		b.SetPeer(ma.LocalAddr())
		ma.SetPeer(mb.LocalAddr())
		ma.Send([]byte("TT in the clear"), 100)
		until(t, "b says why", func() bool { return len(said.refusals()) == 1 })
		if !strings.Contains(said.refusals()[0], "without encryption") || b.Stats().Auth.Plain != 1 {
			t.Errorf("%q %+v", said.refusals(), b.Stats().Auth)
		}
	})
}

// TestPSKAsksAreLimited replays an ask 1000 times, as an attacker may do. The port must answer few
// of the replays, and keep its keys.
func TestPSKAsksAreLimited(t *testing.T) {
	w := tapped(t, nil).keyed(t)
	w.mu.Lock()
	var ask []byte
	for _, d := range w.seen[0] {
		if d[3] == 1 {
			ask = d
		}
	}
	n := len(w.seen[1])
	w.mu.Unlock()
	keyings := w.b.Stats().Auth.Keyings
	for range 1000 {
		w.ma.Send(ask, len(ask))
	}
	until(t, "all refused datagrams are counted", func() bool { a := w.b.Stats().Auth; return a.Stale+a.Limited >= 900 })
	w.mu.Lock()
	answers := len(w.seen[1]) - n
	w.mu.Unlock()
	if answers > 100 {
		t.Errorf("%d answers to 1000 replayed asks", answers)
	}
	if got := w.b.Stats().Auth.Keyings; got != keyings {
		t.Errorf("keyed %d times, before %d", got, keyings)
	}
	w.a.Send([]byte("as before"), 9)
	if d := <-w.got; string(d) != "as before" {
		t.Errorf("%q", d)
	}
}

// TestPSKOverABadPath checks that the ends agree on keys over a path that loses, corrupts,
// duplicates or reorders datagrams. Each datagram must arrive at most once and unchanged.
func TestPSKOverABadPath(t *testing.T) {
	for _, o := range []fault.Options{{Loss: .3}, {Corrupt: .3}, {Duplicate: .3}, {Delay: 2 * time.Millisecond, Jitter: 2 * time.Millisecond, Reorder: .25}} {
		m := transport.NewMemory()
		a := seal(t, impair(t, m.Listen(), o), pskKey, transport.Cable{From: lower, To: upper})
		b := seal(t, impair(t, m.Listen(), o), pskKey, transport.Cable{From: upper, To: lower})
		var mu sync.Mutex
		got := map[string]int{}
		for _, p := range []transport.Port{a, b} {
			go func() {
				var x transport.Batch
				for p.Recv(&x) == nil {
					mu.Lock()
					x.Each(func(d []byte) { got[string(d)]++ })
					mu.Unlock()
				}
			}()
		}
		a.SetPeer(b.LocalAddr())
		b.SetPeer(a.LocalAddr())
		until(t, "keys", func() bool { return a.Ready() && b.Ready() })
		for i := range 2000 {
			a.Send([]byte{byte(i), byte(i >> 8), 1, 2, 3, 4}, 6)
		}
		until(t, "half of the datagrams came", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) >= 1000
		})
		time.Sleep(50 * time.Millisecond) // time for duplicates that must not come
		mu.Lock()
		for d, n := range got {
			if n != 1 || len(d) != 6 || d[2:] != "\x01\x02\x03\x04" {
				t.Errorf("%+v: %x came %d times", o, d, n)
			}
		}
		mu.Unlock()
	}
}

func TestPSKErrors(t *testing.T) {
	p, _ := transport.NewPair()
	good := transport.Cable{From: lower, To: upper, Incarnation: 1}
	for _, c := range []struct {
		key  []byte
		c    transport.Cable
		want string
	}{
		{pskKey[:15], good, "15 bytes"},
		{pskKey, transport.Cable{From: lower, To: lower, Incarnation: 1}, "two ports"},
		{pskKey, transport.Cable{From: lower, To: upper}, "incarnation"},
	} {
		if _, err := transport.PSK(p, c.key, c.c); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestPSKAllocatesNothing(t *testing.T) {
	a, b := open(t, transport.Options{}), open(t, transport.Options{})
	x, y := seal(t, a, pskKey, transport.Cable{From: lower, To: upper}), seal(t, b, pskKey, transport.Cable{From: upper, To: lower})
	var bx, by transport.Batch
	go func() {
		for x.Recv(&bx) == nil {
		}
	}()
	go func() {
		for y.Recv(&by) == nil {
		}
	}()
	x.SetPeer(y.LocalAddr())
	y.SetPeer(x.LocalAddr())
	until(t, "keys", func() bool { return x.Ready() && y.Ready() })
	data := make([]byte, 40*1472)
	if n := testing.AllocsPerRun(200, func() { x.Send(data, 1472) }); n > 2 {
		t.Errorf("%v allocations per run of 40 datagrams", n)
	}
}

func BenchmarkPSK(b *testing.B) {
	x, y := seal(b, open(b, transport.Options{}), pskKey, transport.Cable{From: lower, To: upper}), seal(b, open(b, transport.Options{}), pskKey, transport.Cable{From: upper, To: lower})
	for _, p := range []transport.Port{x, y} {
		go func() {
			var r transport.Batch
			for p.Recv(&r) == nil {
			}
		}()
	}
	x.SetPeer(y.LocalAddr())
	y.SetPeer(x.LocalAddr())
	for !x.Ready() {
		time.Sleep(time.Millisecond)
	}
	data := make([]byte, 40*1472)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		x.Send(data, 1472)
	}
}
