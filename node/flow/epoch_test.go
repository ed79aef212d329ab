package flow

import (
	"testing"

	"ttfabric/wire"
)

// TestFirstEpochs checks first epochs. A chip with a greater configured epoch must have a
// later first epoch. Without a configured epoch, incarnations that differ in one bit must have different
// first epochs.
func TestFirstEpochs(t *testing.T) {
	for _, n := range []uint32{1, 1000, 1<<27 - 1, 1<<32 - 2} {
		a, b := firstEpoch(&Config{Epoch: n}), firstEpoch(&Config{Epoch: n + 1})
		if !olderEpoch(a, b) || olderEpoch(a, a) || olderEpoch(b, a) {
			t.Errorf("configured epoch %d gives first epoch %#x, the next number gives %#x: want a later epoch", n, a, b)
		}
	}
	const base = wire.Incarnation(0x18e9fe6d77f03ac1)
	for bit := range 64 {
		if other := base ^ 1<<bit; firstEpoch(&Config{Incarnation: base}) == firstEpoch(&Config{Incarnation: other}) {
			t.Errorf("incarnations %#x and %#x share an epoch", uint64(base), uint64(other))
		}
	}
}

// TestEpochs checks the order of consecutive epochs, also across the wrap of the number.
func TestEpochs(t *testing.T) {
	e := uint32(1<<32 - 50)
	for range 100 {
		n := nextEpoch(e)
		if !olderEpoch(e, n) || olderEpoch(n, e) || olderEpoch(e, e) {
			t.Fatalf("%#x is followed by %#x", e, n)
		}
		e = n
	}
}
