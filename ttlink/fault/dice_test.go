package fault

import (
	"math/rand/v2"
	"testing"
)

// TestDice checks that dice and rand.PCG give the same numbers. Before each number, the test
// postpones up to 2047 draws of dice.
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
				t.Fatalf("seed %d, draw %d after %d postponed draws: %#x, want %#x", seed, n, off, got, want)
			}
		}
	}
}

// TestQuietDice checks that each datagram takes six random numbers even if all options are zero. A
// change of one option then leaves the random numbers of the other options unchanged.
func TestQuietDice(t *testing.T) {
	m, want := model(t, 7, Options{}), rand.New(rand.NewPCG(7, 0x6661756c74))
	for range 1000 {
		m.Send(0, 100)
	}
	for range 1000 * 6 { // six draws per datagram: two for bursts, and one each for loss, reordering, corruption, duplication
		want.Uint64()
	}
	if got, want := m.rng.Uint64(), want.Uint64(); got != want {
		t.Errorf("the next random number after 1000 datagrams is %#x, want %#x", got, want)
	}
}
