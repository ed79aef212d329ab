package fault

import "math/bits"

// dice is a random number generator that gives the same numbers as [math/rand/v2.PCG]. dice can
// also postpone draws whose values do not matter. dice makes all postponed draws before the next
// draw whose value matters. The time for the postponed draws grows only with the logarithm of their
// number.
type dice struct {
	hi, lo uint64 // upper and lower half of the 128-bit state of the linear congruential generator
	off    uint64 // number of postponed draws
}

// pcgStep is the step that leads from one state of the generator to the next.
var pcgStep = step{mul: [2]uint64{2549297995355413924, 4865540595714422341}, add: [2]uint64{6364136223846793005, 1442695040888963407}}

// pcgMix is the multiplier of DXSM, the function that computes a random number from the state.
const pcgMix = 0xda942042e4dd58b5

// step is the function x·mul + add of a 128-bit number x, modulo 2¹²⁸. Element 0 of mul and add is
// the upper half, element 1 the lower half.
type step struct{ mul, add [2]uint64 }

func (s *step) apply(hi, lo uint64) (uint64, uint64) {
	h, l := mul128(hi, lo, s.mul)
	l, c := bits.Add64(l, s.add[1], 0)
	h, _ = bits.Add64(h, s.add[0], c)
	return h, l
}

func mul128(hi, lo uint64, by [2]uint64) (uint64, uint64) {
	h, l := bits.Mul64(lo, by[1])
	return h + hi*by[1] + lo*by[0], l
}

// Uint64 makes the postponed draws, and then draws a number.
func (d *dice) Uint64() uint64 {
	if d.off > 0 {
		d.catchUp()
	}
	d.hi, d.lo = pcgStep.apply(d.hi, d.lo)
	hi := d.hi
	hi ^= hi >> 32
	hi *= pcgMix
	hi ^= hi >> 48
	return hi * (d.lo | 1)
}

// catchUp makes the postponed draws: catchUp squares the step repeatedly (Brown, "Random Number
// Generation with Arbitrary Strides", 1994).
func (d *dice) catchUp() {
	s := pcgStep
	for ; d.off > 0; d.off >>= 1 {
		if d.off&1 != 0 {
			d.hi, d.lo = s.apply(d.hi, d.lo)
		}
		// The step s applied twice is x·mul² + (add·mul + add).
		s.add[0], s.add[1] = s.apply(s.add[0], s.add[1])
		s.mul[0], s.mul[1] = mul128(s.mul[0], s.mul[1], s.mul)
	}
}
