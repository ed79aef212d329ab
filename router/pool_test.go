package router

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"ttfabric/wire"
)

// TestPoolHoldsWhatIsOut takes, fills and returns buffers of all lengths at random. The test finds
// that each buffer in use keeps its bytes, and that the limit bounds the buffers in use.
func TestPoolHoldsWhatIsOut(t *testing.T) {
	const limit = 40
	rng := rand.New(rand.NewPCG(1, 2))
	p := NewPool(limit)
	out := map[Slot][]byte{}
	lengths := []int{0, 1, smallPacket - 1, smallPacket, smallPacket + 1, wire.MaxPacket}
	for range 100_000 {
		if rng.IntN(2) == 0 {
			n := lengths[rng.IntN(len(lengths))]
			s, ok := p.Get(n)
			if ok != (len(out) < limit) {
				t.Fatalf("Get(%d) with %d of %d buffers in use: %v", n, len(out), limit, ok)
			}
			if !ok {
				continue
			}
			if _, twice := out[s]; twice || len(p.Bytes(s)) != n {
				t.Fatalf("Get(%d) gave slot %d of %d bytes; slot in use already: %v", n, s, len(p.Bytes(s)), twice)
			}
			want := bytes.Repeat([]byte{byte(rng.Uint32())}, n)
			copy(p.Bytes(s), want)
			out[s] = want
		}
		for s, want := range out {
			if !bytes.Equal(p.Bytes(s), want) {
				t.Fatalf("the bytes of slot %d have changed", s)
			}
			if rng.IntN(2) == 0 {
				p.Put(s)
				delete(out, s)
			}
			break
		}
		if p.InUse() != len(out) {
			t.Fatalf("%d buffers in use, want %d", p.InUse(), len(out))
		}
	}
	if _, ok := p.Get(wire.MaxPacket + 1); ok {
		t.Errorf("Get gave a buffer of %d bytes", wire.MaxPacket+1)
	}
}

// TestPoolOfSmallPackets finds that 1000 packets of 256 bytes take little more than 256 kB of
// memory.
func TestPoolOfSmallPackets(t *testing.T) {
	p := NewPool(1000)
	for range 1000 {
		if _, ok := p.Get(smallPacket); !ok {
			t.Fatal("no buffer")
		}
	}
	if got := p.Resident(); got > 1000*smallPacket+smallChunk*smallPacket {
		t.Errorf("%d bytes held", got)
	}
}
