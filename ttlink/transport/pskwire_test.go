package transport

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/wire"
)

func testHello(kind byte) pskHello {
	h := pskHello{kind: kind, fabric: [4]byte{1, 2, 3, 4}, from: wire.PortID{Channel: 3}, to: wire.PortID{Node: wire.FabricNodeID{Mesh: 1, Chip: 2}, Channel: 9}, incarnation: 77}
	h.nonce[0] = 5
	if kind == pskAnswer {
		h.echo[31] = 6
	}
	return h
}

// TestPSKVector compares the keys and a sealed datagram of version 1 with known values. Other
// implementations can use the values as test vectors.
func TestPSKVector(t *testing.T) {
	k, err := newPSKKeys([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	ask, answer := testHello(pskAsk), testHello(pskAnswer)
	x, y := ask.appendTo(nil, k.handshake), answer.appendTo(nil, k.handshake)
	a, b, id, err := k.session(x, y)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newPSKSession(&k, x, y, true)
	if err != nil {
		t.Fatal(err)
	}
	d := make([]byte, pskHeader)
	putPSKHeader(d, id, 1)
	d = s.seal.Seal(d, []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, []byte("frame"), d)
	for what, got := range map[string]string{
		"root": hex.EncodeToString(k.root), "handshake": hex.EncodeToString(k.handshake), "hmac": hex.EncodeToString(x[pskSigned:]),
		"asker": hex.EncodeToString(a), "answerer": hex.EncodeToString(b), "sealed": hex.EncodeToString(d),
	} {
		if want := pskVector[what]; got != want {
			t.Errorf("%q: %q,", what, got)
		}
	}
}

// pskVector holds the known values. All values but "sealed" were also computed with Python's hmac
// module.
var pskVector = map[string]string{
	"root":      "11da77b2649b93694802e9c6132c73dd08a45c98f945191ded0bfe0036337e27",
	"handshake": "d8495629ca5793412dadd86018d4aa92534ee09e64ae63a9279e652943587162",
	"hmac":      "d72081c8f2ed355b542008508c0c4713411047bbd594134e96845006f0540a20",
	"asker":     "e6b69129d23a9ccce1bce9350fc457229174e35a255f8eaec4e6bcacd2607c24",
	"answerer":  "de318bfe956eaeafc2b827958070ad7a3ca4d481685c7973913c49a0fc7384ed",
	"sealed":    "544b0103d5a19ad3010000000000000062ee7706f043dff19aadb2a628c27b804ab290ab1e",
}

func TestPSKHelloRoundTrip(t *testing.T) {
	key := []byte("a key of the handshake, 32 bytes")
	for _, kind := range []byte{pskAsk, pskAnswer} {
		h := testHello(kind)
		b := h.appendTo(nil, key)
		if len(b) != pskHelloLen {
			t.Fatalf("%d bytes", len(b))
		}
		if got, err := decodePSKHello(b, key); err != nil || got != h {
			t.Errorf("%+v %v", got, err)
		}
		for n := range b {
			if _, err := decodePSKHello(b[:n], key); err != errPSKMalformed {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		for i := range b {
			x := bytes.Clone(b)
			x[i] ^= 0x40
			if _, err := decodePSKHello(x, key); err == nil {
				t.Errorf("a hello with byte %d changed is accepted", i)
			}
		}
	}
}

// TestReplayWindow compares a replayWindow with a set of all counters that came, for random
// counters.
func TestReplayWindow(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var w replayWindow
		seen := map[uint64]bool{}
		var newest uint64
		for range 20000 {
			var c uint64
			switch rng.IntN(10) {
			case 0:
				c = newest + rng.Uint64N(3*ReplayWindow)
			case 1, 2, 3:
				c = newest - min(newest, rng.Uint64N(ReplayWindow+100))
			default:
				c = newest + rng.Uint64N(4)
			}
			old := len(seen) > 0 && c < newest && newest-c >= ReplayWindow
			want := !seen[c] && !old
			if got := w.check(c); got != want {
				t.Fatalf("seed %d: check(%d) with %d newest is %v", seed, c, newest, got)
			}
			if got := w.take(c); got != want {
				t.Fatalf("seed %d: take(%d) with %d newest is %v", seed, c, newest, got)
			}
			if want {
				seen[c] = true
				newest = max(newest, c)
			}
		}
	}
}

func FuzzPSKHello(f *testing.F) {
	key := []byte("a key of the handshake, 32 bytes")
	for _, kind := range []byte{pskAsk, pskAnswer} {
		h := testHello(kind)
		f.Add(h.appendTo(nil, key))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodePSKHello(b, key)
		if err == nil && !bytes.Equal(h.appendTo(nil, key), b) {
			t.Fatalf("%x is written as %x", b, h.appendTo(nil, key))
		}
	})
}

// FuzzPSKPort checks that a sealed port accepts no random bytes as a datagram, and does not panic.
func FuzzPSKPort(f *testing.F) {
	f.Add([]byte{}, byte(1))
	f.Add(append([]byte("TK\x01\x03"), make([]byte, 60)...), byte(40))
	h := testHello(pskAsk)
	f.Add(h.appendTo(nil, []byte("x")), byte(128))
	a, b := NewPair()
	p, err := PSK(a, bytes.Repeat([]byte{1}, 32), Cable{Fabric: "f", From: wire.PortID{Channel: 1}, To: wire.PortID{Channel: 2}, Incarnation: 1})
	if err != nil {
		f.Fatal(err)
	}
	p.SetPeer(b.LocalAddr())
	k := p.(*psk)
	f.Fuzz(func(t *testing.T, d []byte, seg byte) {
		if len(d) == 0 || seg == 0 {
			return
		}
		k.rx.Lock()
		defer k.rx.Unlock()
		if s := (Super{Data: d, Seg: int(seg)}); k.opened(&s) {
			t.Fatalf("%x was taken", d)
		}
	})
}

// TestPSKRenews checks that the ends agree on new keys after rekeyAfter datagrams, and that no
// datagram is lost by the change.
func TestPSKRenews(t *testing.T) {
	ma, mb := NewPair()
	key := bytes.Repeat([]byte{1}, 32)
	x, _ := PSK(ma, key, Cable{From: wire.PortID{Channel: 1}, To: wire.PortID{Channel: 2}, Incarnation: 1})
	y, _ := PSK(mb, key, Cable{From: wire.PortID{Channel: 2}, To: wire.PortID{Channel: 1}, Incarnation: 2})
	a, b := x.(*psk), y.(*psk)
	defer a.Close()
	defer b.Close()
	a.rekeyAfter, a.rekeyBounds = 100, 100000
	got := make(chan byte, 20000)
	for _, p := range []Port{a, b} {
		go func() {
			var r Batch
			for p.Recv(&r) == nil {
				r.Each(func(d []byte) { got <- d[0] })
			}
		}()
	}
	a.SetPeer(b.LocalAddr())
	b.SetPeer(a.LocalAddr())
	for !a.Ready() || !b.Ready() {
		time.Sleep(time.Millisecond)
	}
	for i, end := 0, time.Now().Add(30*time.Second); i < 5000 || a.Stats().Auth.Keyings < 3 && time.Now().Before(end); i++ {
		if n, _ := a.Send([]byte{byte(i)}, 1); n != 1 {
			t.Fatalf("datagram %d was not taken, %+v", i, a.Stats())
		}
		if d := <-got; d != byte(i) {
			t.Fatalf("datagram %d came as %d", i, d)
		}
	}
	if s := a.Stats().Auth; s.Keyings < 3 {
		t.Errorf("keyed %d times", s.Keyings)
	}
	// If the peer does not answer the ask for new keys, the port stops sending at rekeyBounds.
	b.Close()
	a.rekeyBounds = 0
	for range 200 {
		a.Send([]byte{1}, 1)
	}
	before := a.current.Load().sent.Load()
	if n, err := a.Send([]byte{1}, 1); n != 0 || err != nil || a.current.Load().sent.Load() != before {
		t.Errorf("%d datagrams were sent under a key that has reached its limit, %v", n, err)
	}
}
