package ttlink

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"ttfabric/wire"
)

// TestSlab places and releases frames at random, and compares the slab with a list of the frames'
// contents. No frame may be overwritten while the ring wraps and grows. If fits returns true, place
// must succeed.
func TestSlab(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		window := MinWindow + rng.IntN(5*MinWindow)
		first := wire.Seq(rng.Uint32())
		var s slab
		var want [][]byte
		next := first
		for range 3000 {
			if rng.IntN(100) < 40+int(seed%30) {
				size := wire.PadTo(1 + rng.IntN(4000))
				if n := 1 + rng.IntN(4); s.fits(n, wire.FrameOverhead+size, window) {
					for range n {
						b := s.place(next, frameMeta{padded: uint16(size)}, window)
						for at := 0; at+8 <= len(b); at += 8 {
							binary.LittleEndian.PutUint64(b[at:], rng.Uint64())
						}
						want = append(want, bytes.Clone(b))
						next = next.Add(1)
					}
				} else if s.used+4*5000 < window/2 && len(s.buf) < window {
					t.Fatalf("seed %d: %d of %d bytes used, but fits refuses %d frames of %d bytes", seed, s.used, window, n, size)
				}
			} else if len(want) > 0 {
				s.release(s.oldest)
				want = want[1:]
			}
			if s.count != len(want) || len(s.buf) > window {
				t.Fatalf("seed %d: %d frames, want %d; ring of %d, window %d", seed, s.count, len(want), len(s.buf), window)
			}
		}
		for i, w := range want {
			if q := s.oldest.Add(i); !bytes.Equal(s.bytes(s.at(q)), w) {
				t.Fatalf("seed %d: frame %d of %d has been overwritten", seed, i, len(want))
			}
		}
	}
}
