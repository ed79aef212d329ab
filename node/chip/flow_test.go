package chip

import (
	"testing"

	"ttfabric/wire"
)

// TestFirstLives finds that lives have an order, and that without one given
// incarnations that differ in few bits have flows of different epochs.
func TestFirstLives(t *testing.T) {
	for _, n := range []uint32{1, 1000, 1<<27 - 1, 1<<32 - 2} {
		a, b := firstLife(&Config{Life: n}), firstLife(&Config{Life: n + 1})
		if !olderLife(a, b) || olderLife(a, a) || olderLife(b, a) {
			t.Errorf("life %d has the epoch %#x, the next one %#x", n, a, b)
		}
	}
	const base = wire.Incarnation(0x18e9fe6d77f03ac1)
	for bit := range 64 {
		if other := base ^ 1<<bit; firstLife(&Config{Incarnation: base}) == firstLife(&Config{Incarnation: other}) {
			t.Errorf("incarnations %#x and %#x share an epoch", uint64(base), uint64(other))
		}
	}
}

// TestLives finds the order of lives, also where they wrap.
func TestLives(t *testing.T) {
	e := uint32(1<<32 - 50)
	for range 100 {
		n := nextLife(e)
		if !olderLife(e, n) || olderLife(n, e) || olderLife(e, e) {
			t.Fatalf("%#x is followed by %#x", e, n)
		}
		e = n
	}
}

// TestClockSetBack starts a chip anew with a lower life than before: its
// first requests are refused and end as unknown, and from then on all is well.
func TestClockSetBack(t *testing.T) {
	w := newFabric(t, named(t, "line:3"))
	send := func() Result {
		w.chips[0].HandleRequest(w.now, Request{Dst: w.m.Chips[2].Node, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 64), Value: 7}})
		rs := w.results(0, 1)
		if len(rs) != 1 {
			t.Fatalf("%+v", rs)
		}
		return rs[0]
	}
	if r := send(); r.Fate != FateDone {
		t.Fatalf("%+v", r)
	}
	f := w.chips[0].out[flowKey{node: w.m.Chips[2].Node}]
	f.epoch -= 160 // as if it had started anew, by a clock that was set back
	f.next, f.base = 0, 0
	if r := send(); r.Fate != FateUnknown || r.Doubt != DoubtOlder {
		t.Errorf("%+v", r)
	}
	if r := send(); r.Fate != FateDone {
		t.Errorf("%+v", r)
	}
	if n := w.chips[2].Status().Counters; n.Performed != 2 || n.StaleRequests != 1 {
		t.Errorf("%+v", n)
	}
}
