package chip

import (
	"testing"

	"ttfabric/wire"
)

// TestFirstLives finds that incarnations that differ in few bits, as those of a
// caller who takes the time for randomness do, have flows of different epochs.
func TestFirstLives(t *testing.T) {
	const base = wire.Incarnation(0x18e9fe6d77f03ac1)
	for bit := range 64 {
		if other := base ^ 1<<bit; firstLife(base) == firstLife(other) {
			t.Errorf("incarnations %#x and %#x share an epoch", uint64(base), uint64(other))
		}
	}
	seen := map[uint32]wire.Incarnation{}
	for i := range wire.Incarnation(500) { // restarts within two minutes and a half
		e := firstLife(base + i*300_000_007)
		if other, dup := seen[e]; dup {
			t.Errorf("incarnations %#x and %#x share an epoch", uint64(other), uint64(base+i*300_000_007))
		}
		seen[e] = base + i*300_000_007
	}
}

// TestLives finds the order of lives, round and round.
func TestLives(t *testing.T) {
	e := firstLife(7)
	for range 100 {
		n := nextLife(e)
		if n&^lifeMask != e&^lifeMask || !olderLife(e, n) || olderLife(n, e) || olderLife(e, e) {
			t.Fatalf("%#x is followed by %#x", e, n)
		}
		e = n
	}
	if olderLife(firstLife(7), firstLife(8)) || olderLife(firstLife(8), firstLife(7)) {
		t.Error("lives of two incarnations have an order")
	}
}
