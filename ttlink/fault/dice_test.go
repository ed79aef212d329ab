package fault

import (
	"math/rand/v2"
	"testing"
)

// TestDice throws the dice as rand.PCG does, with any number of throws put off in between.
func TestDice(t *testing.T) {
	for seed := range uint64(50) {
		d, want := &dice{hi: seed, lo: ^seed << 7}, rand.NewPCG(seed, ^seed<<7)
		lengths := rand.New(rand.NewPCG(seed, 0))
		for n := range 100 {
			off := lengths.IntN(1 << lengths.IntN(12))
			d.off += uint64(off)
			for range off {
				want.Uint64()
			}
			if got, want := d.Uint64(), want.Uint64(); got != want {
				t.Fatalf("seed %d, throw %d after %d put off: %#x, want %#x", seed, n, off, got, want)
			}
		}
	}
}

// TestQuietDice checks that options at zero leave the dice of others as they were, throw for throw.
func TestQuietDice(t *testing.T) {
	m, want := model(t, 7, Options{}), rand.New(rand.NewPCG(7, 0x6661756c74))
	for range 1000 {
		m.Send(0, 100)
	}
	for range 1000 * 6 { // two of bursts, loss, reordering, corruption, duplication
		want.Uint64()
	}
	if got, want := m.rng.Uint64(), want.Uint64(); got != want {
		t.Errorf("the dice after 1000 datagrams show %#x, want %#x", got, want)
	}
}
