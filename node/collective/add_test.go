package collective

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAddFloats compares sums of all lengths and places with sums of single elements, bit for bit. The sum of two
// values that are not numbers must not depend on the place of the element.
func TestAddFloats(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	value := func() float32 {
		if r.IntN(4) == 0 {
			return math.Float32frombits(0x7FC00000 | r.Uint32N(1<<20)) // not a number
		}
		return math.Float32frombits(r.Uint32())
	}
	for n := range 70 {
		for off := range 4 {
			g, w, d := make([]float32, n+off), make([]float32, n+off), make([]float32, n+off+1)
			for i := range g {
				g[i], w[i] = value(), value()
			}
			d[n+off] = 7
			addFloats(d[off:n+off], g[off:], w[off:])
			for i := off; i < n+off; i++ {
				one := make([]float32, 1)
				if addFloats(one, g[i:i+1], w[i:i+1]); math.Float32bits(d[i]) != math.Float32bits(one[0]) {
					t.Fatalf("%d elements from %d on: element %d is %x, alone %x", n, off, i, math.Float32bits(d[i]), math.Float32bits(one[0]))
				}
				if sum := g[i] + w[i]; sum == sum && sum != d[i] {
					t.Fatalf("%d elements from %d on: %v + %v is %v, want %v", n, off, g[i], w[i], d[i], sum)
				}
			}
			if d[n+off] != 7 {
				t.Fatalf("%d elements from %d on: the element behind them has changed", n, off)
			}
			addFloats(g[off:], g[off:], w[off:])
			for i := off; i < n+off; i++ {
				if math.Float32bits(g[i]) != math.Float32bits(d[i]) {
					t.Fatalf("%d elements in place: element %d differs", n, i)
				}
			}
		}
	}
}
