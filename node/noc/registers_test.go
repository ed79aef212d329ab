package noc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"ttfabric/wire"
)

// bank is a window of registers for the tests. A load adds 1 to each word that was read, after the
// read. A store of a word with the value refused is refused.
type bank struct {
	b     []byte
	calls int
}

const refused = 0xDEAD0000

func (r *bank) Load(off uint64, b []byte) wire.Outcome {
	r.calls++
	copy(b, r.b[off:])
	for i := 0; i < len(b); i += wordSize {
		w := r.b[int(off)+i:]
		binary.LittleEndian.PutUint32(w, binary.LittleEndian.Uint32(w)+1)
	}
	return wire.OutcomeDone
}

func (r *bank) Store(off uint64, b []byte) wire.Outcome {
	r.calls++
	for i := 0; i < len(b); i += wordSize {
		if binary.LittleEndian.Uint32(b[i:]) == refused {
			return wire.OutcomeAgain
		}
	}
	copy(r.b[off:], b)
	return wire.OutcomeDone
}

// placed is the place of a window in the test's tile.
type placed struct {
	off  uint64
	n    int
	regs bool
}

// naive is a simple second implementation of one tile with windows: every byte of the address
// space is in a map, and each window of registers has its number there.
type naive struct {
	size   uint64
	bytes  map[uint64]byte
	window map[uint64]int // by offset: 1 + number of the window of registers
}

// in returns the number of the window that all n bytes lie in. For bytes of memory, in returns 0.
func (t *naive) in(off uint64, n int) (int, wire.Outcome) {
	if n == 0 && off == t.size {
		return 0, wire.OutcomeDone
	}
	found := -1
	for i := range max(n, 1) {
		w := t.window[off+uint64(i)]
		if w == 0 && off+uint64(i) >= t.size || found >= 0 && w != found {
			return 0, wire.OutcomeBadAddress
		}
		found = w
	}
	if n == 0 && off < t.size {
		found = 0 // a range without bytes in the memory touches no window
	}
	if found > 0 && (off%wordSize != 0 || n%wordSize != 0) {
		return 0, wire.OutcomeMisaligned
	}
	return found, wire.OutcomeDone
}

func (t *naive) get(off uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = t.bytes[off+uint64(i)]
	}
	return b
}

func (t *naive) put(off uint64, b []byte) {
	for i, x := range b {
		t.bytes[off+uint64(i)] = x
	}
}

func (t *naive) word(off uint64, add uint32) { // adds to each word
	t.put(off, binary.LittleEndian.AppendUint32(nil, binary.LittleEndian.Uint32(t.get(off, wordSize))+add))
}

func (t *naive) write(off uint64, b []byte) wire.Outcome {
	w, o := t.in(off, len(b))
	if o != wire.OutcomeDone {
		return o
	}
	for i := 0; w > 0 && i < len(b); i += wordSize {
		if binary.LittleEndian.Uint32(b[i:]) == refused {
			return wire.OutcomeAgain
		}
	}
	t.put(off, b)
	return wire.OutcomeDone
}

func (t *naive) read(off uint64, n int) ([]byte, wire.Outcome) {
	w, o := t.in(off, n)
	if o != wire.OutcomeDone {
		return nil, o
	}
	b := t.get(off, n)
	for i := 0; w > 0 && i < n; i += wordSize {
		t.word(off+uint64(i), 1)
	}
	return b, o
}

// execute performs a command of which all addresses are in the tile.
func (t *naive) execute(c *wire.Command, data []byte) wire.Outcome {
	word := func(a wire.NocAddr, inline bool) wire.Outcome {
		w, o := t.in(a.Offset(), wordSize)
		switch {
		case a.Offset()%wordSize != 0:
			return wire.OutcomeMisaligned
		case o == wire.OutcomeDone && w > 0 && !inline:
			return wire.OutcomeBadCommand
		}
		return o
	}
	memory := func(a wire.NocAddr, n int) wire.Outcome {
		w, o := t.in(a.Offset(), n)
		if o == wire.OutcomeDone && w > 0 {
			return wire.OutcomeBadCommand
		}
		return o
	}
	switch c.Type {
	case wire.NocUnicastWrite:
		return t.write(c.Addr.Offset(), data)
	case wire.NocInlineWrite:
		if o := word(c.Addr, true); o != wire.OutcomeDone {
			return o
		}
		return t.write(c.Addr.Offset(), binary.LittleEndian.AppendUint32(nil, c.Value))
	case wire.NocAtomicInc:
		if o := word(c.Addr, false); o != wire.OutcomeDone {
			return o
		}
		t.word(c.Addr.Offset(), c.Value)
	case wire.NocFusedInc:
		if o := memory(c.Addr, len(data)); o != wire.OutcomeDone {
			return o
		}
		if o := word(c.Sem, false); o != wire.OutcomeDone {
			return o
		}
		t.put(c.Addr.Offset(), data)
		t.word(c.Sem.Offset(), c.Value)
	case wire.NocScatterWrite:
		first := int(c.Sizes[0])
		if first > len(data) {
			return wire.OutcomeBadCommand
		}
		for i, n := range []int{first, len(data) - first} {
			if o := memory(c.Scatter[i], n); o != wire.OutcomeDone {
				return o
			}
		}
		t.put(c.Scatter[0].Offset(), data[:first])
		t.put(c.Scatter[1].Offset(), data[first:])
	}
	return wire.OutcomeDone
}

// A tile with windows of registers and of memory, within its memory and beyond, does what a naive
// model does: outcomes, bytes and side effects.
func TestWindowsAgainstNaiveModel(t *testing.T) {
	const x, y = 9, 0
	top := uint64(wormholeEthL1)
	places := []placed{{0x11000, 0x300, false}, {0x11300, 64, true}, {pageSize - 16, 48, true}, {top - 32, 32, true},
		{top, 16, true}, {top + 16, 32, true}, {0xFFB90000, 0x100, true}, {wire.MaxNocOffset + 1 - 16, 16, true}}
	at := func(off uint64) wire.NocAddr { return wire.NewNocAddr(x, y, off) }
	outcomes := map[string]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		m, _ := New(wire.Wormhole, 0)
		model := &naive{top, map[uint64]byte{}, map[uint64]int{}}
		var regs []*bank
		var slice []byte
		for _, i := range r.Perm(len(places)) {
			p := places[i]
			var err error
			if !p.regs {
				slice = make([]byte, p.n)
				err = m.Map(at(p.off), slice)
			} else {
				regs = append(regs, &bank{b: make([]byte, p.n)})
				err = m.MapRegisters(at(p.off), p.n, regs[len(regs)-1])
				for k := range p.n {
					model.window[p.off+uint64(k)] = len(regs)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		draw := func() wire.NocAddr {
			p := places[r.IntN(len(places))]
			off := p.off + uint64(r.IntN(p.n+40)) - 20
			if r.IntN(4) > 0 {
				off &^= 3
			}
			return at(min(off, wire.MaxNocOffset-64))
		}
		calls := func() (n int) {
			for _, b := range regs {
				n += b.calls
			}
			return n
		}
		for range 400 {
			data := make([]byte, r.IntN(24))
			if r.IntN(3) > 0 {
				data = data[:len(data)&^3]
			}
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			if len(data) >= 4 && r.IntN(8) == 0 {
				binary.LittleEndian.PutUint32(data, refused)
			}
			c := wire.Command{Type: wire.NocSendType(r.IntN(5)), Addr: draw(), Sem: draw(), Value: r.Uint32(), Chunks: 2,
				Scatter: [wire.MaxScatter]wire.NocAddr{draw(), draw()}, Sizes: [wire.MaxScatter]uint16{uint16(r.IntN(len(data) + 2))}}
			if c.Type == wire.NocInlineWrite || c.Type == wire.NocAtomicInc {
				data = nil
			}
			before := calls()
			want := model.execute(&c, data)
			if got := m.Execute(&c, data); got != want {
				t.Fatalf("seed %d: %+v with %d bytes: %v, want %v", seed, c, len(data), got, want)
			}
			reached := calls() - before
			if reached > 1 || reached == 1 && want != wire.OutcomeDone && want != wire.OutcomeAgain {
				t.Fatalf("seed %d: %+v ended as %v and called registers %d times", seed, c, want, reached)
			}
			outcomes[fmt.Sprint(c.Type, " ", want, " ", reached)]++
			a, n := draw(), r.IntN(24)
			b, o := model.read(a.Offset(), n)
			got := bytes.Repeat([]byte{0xEE}, n)
			if check := m.Check(a, n); check != o {
				t.Fatalf("seed %d: check of %d bytes at %v: %v, want %v", seed, n, a, check, o)
			}
			if m.Read(a, got) != o || o == wire.OutcomeDone && !bytes.Equal(got, b) || o != wire.OutcomeDone && !bytes.Equal(got, bytes.Repeat([]byte{0xEE}, n)) {
				t.Fatalf("seed %d: read of %d bytes at %v (%v): % x, want % x", seed, n, a, o, got, b)
			}
		}
		if !bytes.Equal(slice, model.get(places[0].off, places[0].n)) {
			t.Fatalf("seed %d: the slice differs", seed)
		}
	}
	for _, want := range []string{"write done 1", "write again 1", "write misaligned 0", "write bad address 0", "inline-write done 1", "inline-write misaligned 0",
		"atomic-inc bad command 0", "atomic-inc done 0", "fused-write-inc bad command 0", "fused-write-inc done 0", "scatter-write bad command 0", "scatter-write done 0"} {
		if outcomes[want] < 20 {
			t.Errorf("%q was drawn %d times: the commands don't test it", want, outcomes[want])
		}
	}
}

func TestWindowsRefused(t *testing.T) {
	m, _ := New(wire.Wormhole, 0)
	at := func(off uint64) wire.NocAddr { return wire.NewNocAddr(9, 0, off) }
	r := &bank{b: make([]byte, 64)}
	if err := m.MapRegisters(at(0x100), 64, r); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"on a window":              m.MapRegisters(at(0x13C), 8, r),
		"around a window":          m.MapRegisters(at(0xF0), 128, r),
		"memory on registers":      m.Map(at(0x13F), make([]byte, 1)),
		"no tile":                  m.MapRegisters(wire.NewNocAddr(5, 63, 0), 4, r),
		"a multicast address":      m.MapRegisters(at(0x1000)|1<<48, 4, r),
		"odd offset":               m.MapRegisters(at(0x1002), 4, r),
		"odd length":               m.MapRegisters(at(0x1000), 6, r),
		"no length":                m.MapRegisters(at(0x1000), 0, r),
		"across the end of L1":     m.MapRegisters(at(wormholeEthL1-4), 8, r),
		"across the largest":       m.MapRegisters(at(wire.MaxNocOffset+1-4), 8, r),
		"memory beyond the memory": m.Map(at(wormholeEthL1), make([]byte, 4)),
		"memory without bytes":     m.Map(at(0), nil),
	} {
		if err == nil {
			t.Errorf("%s: a window was accepted", what)
		}
	}
	for i := 1; i < MaxWindows; i++ {
		if err := m.MapRegisters(at(uint64(0x1000+8*i)), 4, r); err != nil {
			t.Fatal(err)
		}
	}
	if m.MapRegisters(at(0x4000), 4, r) == nil {
		t.Errorf("window %d was accepted", MaxWindows+1)
	}
	if err := m.MapRegisters(wire.NewNocAddr(1, 0, 0x100), 64, r); err != nil {
		t.Errorf("the same place in another tile: %v", err)
	}
}

// Commands to memory and to registers allocate nothing.
func TestWindowsAllocateNothing(t *testing.T) {
	m, _ := New(wire.Wormhole, 0)
	at := func(off uint64) wire.NocAddr { return wire.NewNocAddr(9, 0, off) }
	if m.Map(at(0x1000), make([]byte, 64)) != nil || m.MapRegisters(at(0x2000), 64, &bank{b: make([]byte, 64)}) != nil {
		t.Fatal("no window")
	}
	data := make([]byte, 64)
	for _, off := range []uint64{0, 0xFF0, 0x1000, 0x2000} {
		c := wire.Command{Type: wire.NocUnicastWrite, Addr: at(off)}
		m.Execute(&c, data)
		if n := testing.AllocsPerRun(100, func() {
			if m.Execute(&c, data) != wire.OutcomeDone || m.Read(c.Addr, data) != wire.OutcomeDone {
				t.Fatal("refused")
			}
		}); n != 0 {
			t.Errorf("%#x: %v allocations", off, n)
		}
	}
	c := wire.Command{Type: wire.NocInlineWrite, Addr: at(0x2000)}
	if n := testing.AllocsPerRun(100, func() { m.Execute(&c, nil) }); n != 0 {
		t.Errorf("an inline write to a register: %v allocations", n)
	}
}
