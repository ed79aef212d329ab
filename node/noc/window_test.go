package noc

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"ttfabric/wire"
)

// A tile with a window behaves as a tile without a window. Equal commands have equal outcomes and
// show equal bytes. The window's slice holds the bytes of the window's addresses.
func TestWindowIsMemory(t *testing.T) {
	const from, size = pageSize - 100, 4352 // the window crosses the end of a page
	at := func(off uint64) wire.NocAddr { return wire.NewNocAddr(9, 0, off) }
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		plain, _ := New(wire.Wormhole, 0)
		m, _ := New(wire.Wormhole, 0)
		region := make([]byte, size)
		if err := m.Map(at(from), region); err != nil {
			t.Fatal(err)
		}
		near := func() uint64 { return uint64(from - 300 + r.IntN(size+600)) }
		for range 300 {
			data := make([]byte, r.IntN(2*wire.MaxPayload)/(1+r.IntN(20)))
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			c := wire.Command{Type: wire.NocSendType(r.IntN(5)), Addr: at(near()), Sem: at(near() &^ 3), Value: r.Uint32(), Chunks: 2,
				Scatter: [wire.MaxScatter]wire.NocAddr{at(near()), at(near())}, Sizes: [wire.MaxScatter]uint16{uint16(len(data) / 3)}}
			if c.Type == wire.NocInlineWrite || c.Type == wire.NocAtomicInc {
				data = nil
			}
			if got, want := m.Execute(&c, data), plain.Execute(&c, data); got != want {
				t.Fatalf("seed %d: %+v with %d bytes: %v, want %v", seed, c, len(data), got, want)
			}
			a, n := at(near()), r.IntN(2*size)
			got, want := make([]byte, n), make([]byte, n)
			if x, y := m.Read(a, got), plain.Read(a, want); x != y || !bytes.Equal(got, want) {
				t.Fatalf("seed %d: %d bytes at %v differ", seed, n, a)
			}
			off := a.Offset()
			if touch := n > 0 && off < from+size && off+uint64(n) > from; m.Overlaps(a, n) != touch {
				t.Fatalf("%d bytes at %v: overlaps %v", n, a, !touch)
			}
		}
		want := make([]byte, size)
		plain.Read(at(from), want)
		if !bytes.Equal(region, want) {
			t.Fatalf("seed %d: the window holds something else than the memory", seed)
		}
	}
}

func TestWindowNeedsNoPage(t *testing.T) {
	m, _ := New(wire.Wormhole, pageSize)
	a := wire.NewNocAddr(9, 0, 0x30000)
	if err := m.Map(a, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	write := func(off uint64, n int) wire.Outcome {
		return m.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(9, 0, off)}, make([]byte, n))
	}
	if o := write(0, 1); o != wire.OutcomeDone { // takes the only page that the limit allows
		t.Fatal(o)
	}
	if o := write(0x30000, 64); o != wire.OutcomeDone || m.Resident() != pageSize {
		t.Errorf("a write to the window: %v, %d bytes held", o, m.Resident())
	}
	if o := write(0x30000, 65); o != wire.OutcomeNoMemory {
		t.Errorf("a write beyond the window: %v", o)
	}
	if m.Map(a.Add(63), make([]byte, 2)) == nil || m.Map(wire.NewNocAddr(1, 1, 1<<30), make([]byte, 1)) == nil || m.Map(wire.NewNocAddr(0, 3, 0), make([]byte, 1)) == nil {
		t.Error("Map accepts a window on another window, a window beyond the tile, or a window where no tile is")
	}
}
