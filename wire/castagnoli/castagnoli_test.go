package castagnoli

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestVectors compares Checksum with the examples of RFC 3720 §B.4. The RFC prints each sum as
// bytes in the order of sending.
func TestVectors(t *testing.T) {
	up, down := make([]byte, 32), make([]byte, 32)
	ones := make([]byte, 32)
	for i := range up {
		up[i], down[i], ones[i] = byte(i), byte(31-i), 0xFF
	}
	for _, c := range []struct {
		b    []byte
		want uint32
	}{
		{make([]byte, 32), 0x8A9136AA}, {ones, 0x62A8AB43}, {up, 0x46DD794E}, {down, 0x113FDB5C}, {[]byte("123456789"), 0xE3069283},
	} {
		if got := Checksum(c.b); got != c.want {
			t.Errorf("%x: %08x, want %08x", c.b, got, c.want)
		}
	}
}

// TestEveryLength compares Checksum with the standard library for each length up to 16 KiB, which
// is about two of the longest frames. The inputs begin at all places within a block.
func TestEveryLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 16<<10+block)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	for n := range 16 << 10 {
		for _, at := range []int{0, n % block} {
			if got, want := Checksum(b[at:at+n]), crc32.Checksum(b[at:at+n], table); got != want {
				t.Fatalf("%d bytes from %d on: %08x, want %08x", n, at, got, want)
			}
		}
	}
}

// TestSingleBits sets each bit of a long input of zeros in turn. If fold ignored a bit, the
// checksum would be wrong for this bit.
func TestSingleBits(t *testing.T) {
	b := make([]byte, 1000)
	for i := range 8 * len(b) {
		b[i/8] ^= 1 << (i % 8)
		if got, want := Checksum(b), crc32.Checksum(b, table); got != want {
			t.Fatalf("bit %d: %08x, want %08x", i, got, want)
		}
		b[i/8] = 0
	}
}

func FuzzChecksum(f *testing.F) {
	f.Add([]byte("ttfabric"), 1000)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if len(b) == 0 {
			return
		}
		long := make([]byte, 0, 4096)
		for len(long) < min(max(n, 0), 9000) {
			long = append(long, b...)
		}
		if got, want := Checksum(long), crc32.Checksum(long, table); got != want {
			t.Errorf("%d bytes: %08x, want %08x", len(long), got, want)
		}
	})
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{64, 256, 512, 1024, 1408, 4248, 8192} {
		data := make([]byte, n)
		for _, c := range []struct {
			name string
			sum  func([]byte) uint32
		}{{"here", Checksum}, {"standard", func(p []byte) uint32 { return crc32.Checksum(p, table) }}} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					c.sum(data)
				}
			})
		}
	}
}
