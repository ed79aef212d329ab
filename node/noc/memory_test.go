package noc

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"ttfabric/wire"
)

func TestFloorPlans(t *testing.T) {
	for _, c := range []struct {
		arch              wire.Arch
		tensix, eth, dram int // numbers of tiles
		cols, rows        uint8
		l1, ethL1, bytes  uint64 // sizes of one L1, one ethernet L1, and all DRAM
	}{
		{wire.Wormhole, 80, 16, 18, 10, 12, 1499136, 262144, 12 << 30},
		{wire.Blackhole, 140, 14, 24, 17, 12, 1572864, 524288, 32 << 30},
	} {
		m, err := New(c.arch, 0)
		if err != nil {
			t.Fatal(err)
		}
		n, size := map[Kind]int{}, map[Kind]uint64{Tensix: c.l1, Ethernet: c.ethL1}
		banks, stops, seen := map[int32]uint64{}, map[int32]int{}, map[xy]bool{}
		for _, x := range m.Tiles() {
			n[x.Kind]++
			if x.Kind == DRAM {
				banks[x.bank] = x.Size
				stops[x.bank]++
			} else if x.Size != size[x.Kind] {
				t.Errorf("%s %s: %d bytes", c.arch, x.Name, x.Size)
			}
			if seen[xy{x.X, x.Y}] || x.X >= c.cols || x.Y >= c.rows {
				t.Errorf("%s: tile at %d-%d is there twice or outside the grid", c.arch, x.X, x.Y)
			}
			seen[xy{x.X, x.Y}] = true
			if got, ok := m.TileAt(x.X, x.Y); !ok || got != x {
				t.Errorf("%s: TileAt(%d, %d) is %v", c.arch, x.X, x.Y, got)
			}
		}
		var sum uint64
		for b, s := range banks {
			sum += s
			if stops[b] != 3 {
				t.Errorf("%s: bank %d has %d stops", c.arch, b, stops[b])
			}
		}
		if n[Tensix] != c.tensix || n[Ethernet] != c.eth || n[DRAM] != c.dram || sum != c.bytes {
			t.Errorf("%s: %v tiles and %d bytes of DRAM", c.arch, n, sum)
		}
		for _, p := range []xy{{0, 63}, {63, 0}, {64, 1}, {255, 255}, {c.cols, 1}} {
			if x, ok := m.TileAt(p[0], p[1]); ok {
				t.Errorf("%s: there is a tile %v at %v", c.arch, x, p)
			}
		}
		m.Tiles()[0].Size = 0
		if m.Tiles()[0].Size == 0 {
			t.Error("the list of tiles is not the caller's own")
		}
	}
}

// The ethernet tiles have the coordinates that tt-umd lists by channel (ETH_CORES_NOC0).
func TestEthernetTilesByChannel(t *testing.T) {
	for arch, want := range map[wire.Arch]map[string]xy{
		wire.Wormhole:  {"E0": {9, 0}, "E1": {1, 0}, "E7": {4, 0}, "E8": {9, 6}, "E15": {4, 6}},
		wire.Blackhole: {"E0": {1, 1}, "E1": {16, 1}, "E12": {7, 1}, "E13": {10, 1}},
	} {
		m, _ := New(arch, 0)
		for name, p := range want {
			if x, _ := m.TileAt(p[0], p[1]); x.Name != name || x.Kind != Ethernet {
				t.Errorf("%s %v: got %s %s, want ethernet %s", arch, p, x.Kind, x.Name, name)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(wire.ArchUnknown, 0); err == nil {
		t.Error("an unknown architecture was accepted")
	}
	for _, limit := range []int64{-1, 1, pageSize - 1} {
		if _, err := New(wire.Wormhole, limit); err == nil {
			t.Errorf("a limit of %d was accepted", limit)
		}
	}
}

// model is a simple second implementation of Memory: a map of bytes, and the set of pages that
// were ever written. The tests compare Memory with model.
type model struct {
	m     *Memory // used only for its floor plan
	bytes map[[2]uint64]byte
	pages map[[2]uint64]bool
	limit int
}

func (mo *model) write(a wire.NocAddr, b []byte) {
	t, _ := mo.m.TileAt(a.X(), a.Y())
	for i, x := range b {
		off := a.Offset() + uint64(i)
		mo.bytes[[2]uint64{uint64(t.bank), off}] = x
		mo.pages[[2]uint64{uint64(t.bank), off / pageSize}] = true
	}
}

func (mo *model) read(a wire.NocAddr, n int) []byte {
	t, _ := mo.m.TileAt(a.X(), a.Y())
	b := make([]byte, n)
	for i := range b {
		b[i] = mo.bytes[[2]uint64{uint64(t.bank), a.Offset() + uint64(i)}]
	}
	return b
}

func (mo *model) inside(a wire.NocAddr, n int) bool {
	t, ok := mo.m.TileAt(a.X(), a.Y())
	return ok && uint64(a)>>48 == 0 && a.Offset()+uint64(n) <= t.Size
}

func (mo *model) word(a wire.NocAddr) wire.Outcome {
	t, _ := mo.m.TileAt(a.X(), a.Y())
	switch {
	case a.Offset()%4 != 0:
		return wire.OutcomeMisaligned
	case !mo.inside(a, 4):
		return wire.OutcomeBadAddress
	case t.Kind == DRAM:
		return wire.OutcomeBadCommand
	}
	return wire.OutcomeDone
}

// piece is data, and the address to write the data to.
type piece struct {
	a wire.NocAddr
	b []byte
}

// execute performs a command on the model, and returns the outcome that Memory must return.
func (mo *model) execute(c *wire.Command, data []byte) wire.Outcome {
	var pieces []piece
	var word wire.NocAddr
	hasWord := false
	switch c.Type {
	case wire.NocUnicastWrite:
		pieces = []piece{{c.Addr, data}}
	case wire.NocInlineWrite, wire.NocAtomicInc:
		if len(data) > 0 {
			return wire.OutcomeBadCommand
		}
		word, hasWord = c.Addr, true
	case wire.NocFusedInc:
		pieces, word, hasWord = []piece{{c.Addr, data}}, c.Sem, true
	case wire.NocScatterWrite:
		if c.Chunks < 2 || c.Chunks > 4 {
			return wire.OutcomeBadCommand
		}
		rest := data
		for i := range int(c.Chunks) - 1 {
			if int(c.Sizes[i]) > len(rest) {
				return wire.OutcomeBadCommand
			}
			pieces = append(pieces, piece{c.Scatter[i], rest[:c.Sizes[i]]})
			rest = rest[c.Sizes[i]:]
		}
		pieces = append(pieces, piece{c.Scatter[c.Chunks-1], rest})
	default:
		return wire.OutcomeBadCommand
	}
	for _, p := range pieces {
		if !mo.inside(p.a, len(p.b)) {
			return wire.OutcomeBadAddress
		}
	}
	if hasWord {
		if o := mo.word(word); o != wire.OutcomeDone {
			return o
		}
	}
	after := map[[2]uint64]bool{}
	touch := func(a wire.NocAddr, n int) {
		t, _ := mo.m.TileAt(a.X(), a.Y())
		for i := range n {
			if k := [2]uint64{uint64(t.bank), (a.Offset() + uint64(i)) / pageSize}; !mo.pages[k] {
				after[k] = true
			}
		}
	}
	for _, p := range pieces {
		touch(p.a, len(p.b))
	}
	if hasWord {
		touch(word, 4)
	}
	if len(after) > 0 && len(mo.pages)+len(after) > mo.limit {
		return wire.OutcomeNoMemory
	}
	for _, p := range pieces {
		mo.write(p.a, p.b)
	}
	if hasWord {
		v := c.Value
		if c.Type != wire.NocInlineWrite {
			v += binary.LittleEndian.Uint32(mo.read(word, 4))
		}
		mo.write(word, binary.LittleEndian.AppendUint32(nil, v))
	}
	return wire.OutcomeDone
}

// draw returns a random address near the border of a page or near the end of a tile, and
// sometimes a bad address.
func draw(r *rand.Rand, ts []Tile) wire.NocAddr {
	tensix := slices.IndexFunc(ts, func(x Tile) bool { return x.Kind == Ethernet })
	dram := slices.IndexFunc(ts, func(x Tile) bool { return x.Kind == DRAM })
	x := ts[[]int{0, 1, tensix, dram, dram + 1, dram + 2}[r.IntN(6)]]
	off := uint64(r.IntN(3)) * pageSize
	if r.IntN(4) == 0 {
		off = x.Size
	}
	off += uint64(r.IntN(64))
	if d := uint64(r.IntN(48)); d < off {
		off -= d
	}
	if r.IntN(2) == 0 {
		off &^= 3
	}
	switch r.IntN(40) {
	case 0:
		return wire.NewNocAddr(5, 63, off)
	case 1:
		return wire.NewNocAddr(x.X, x.Y, off) | 1<<(48+r.IntN(16))
	case 2:
		return wire.NocAddr(r.Uint64())
	}
	return wire.NewNocAddr(x.X, x.Y, off)
}

func TestAgainstNaiveModel(t *testing.T) {
	outcomes, types := map[wire.Outcome]int{}, map[wire.NocSendType]int{}
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 0))
		limit := 1 + r.IntN(16) // in pages
		m, _ := New([]wire.Arch{wire.Wormhole, wire.Blackhole}[seed%2], int64(limit)*pageSize+int64(r.IntN(pageSize)))
		mo := &model{m, map[[2]uint64]byte{}, map[[2]uint64]bool{}, limit}
		ts := m.Tiles()
		for range 400 {
			data := make([]byte, r.IntN(100))
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			c := wire.Command{Type: wire.NocSendType(r.IntN(8)), Addr: draw(r, ts), Sem: draw(r, ts), Value: r.Uint32(), Flush: r.IntN(2) == 0, Chunks: uint8(1 + r.IntN(5))}
			for i := range c.Scatter {
				c.Scatter[i], c.Sizes[i] = draw(r, ts), uint16(r.IntN(len(data)/2+2))
			}
			if c.Type == wire.NocInlineWrite || c.Type == wire.NocAtomicInc {
				data = data[:len(data)*r.IntN(20)/19]
				if r.IntN(8) > 0 {
					data = nil
				}
			}
			want := mo.execute(&c, data)
			if got := m.Execute(&c, data); got != want {
				t.Fatalf("seed %d: %+v with %d bytes: got %v, want %v", seed, c, len(data), got, want)
			}
			if m.Resident() != int64(len(mo.pages))*pageSize {
				t.Fatalf("seed %d: %+v with %d bytes: %d bytes resident, want %d pages", seed, c, len(data), m.Resident(), len(mo.pages))
			}
			outcomes[want]++
			if want == wire.OutcomeDone {
				types[c.Type]++
			}
			a, got := draw(r, ts), make([]byte, r.IntN(100))
			o := m.Read(a, got)
			if mo.inside(a, len(got)) != (o == wire.OutcomeDone) || o != m.Check(a, len(got)) {
				t.Fatalf("seed %d: read of %d at %v: %v", seed, len(got), a, o)
			}
			if o == wire.OutcomeDone && !bytes.Equal(got, mo.read(a, len(got))) {
				t.Fatalf("seed %d: read of %d at %v differs", seed, len(got), a)
			}
		}
		mo.compare(t, seed)
	}
	for _, o := range []wire.Outcome{wire.OutcomeDone, wire.OutcomeBadAddress, wire.OutcomeMisaligned, wire.OutcomeBadCommand, wire.OutcomeNoMemory} {
		if outcomes[o] < 100 {
			t.Errorf("%v was the outcome %d times: the commands drawn don't test it", o, outcomes[o])
		}
	}
	for c := wire.NocUnicastWrite; c <= wire.NocScatterWrite; c++ {
		if types[c] < 100 {
			t.Errorf("%v was performed %d times: the commands drawn don't test it", c, types[c])
		}
	}
}

// compare reads every byte that was ever written, through every tile that shares the byte's bank.
func (mo *model) compare(t *testing.T, seed uint64) {
	t.Helper()
	stops := map[uint64][]Tile{}
	for _, x := range mo.m.Tiles() {
		stops[uint64(x.bank)] = append(stops[uint64(x.bank)], x)
	}
	for k, v := range mo.bytes {
		for _, x := range stops[k[0]] {
			var b [1]byte
			mo.m.Read(wire.NewNocAddr(x.X, x.Y, k[1]), b[:])
			if b[0] != v {
				t.Fatalf("seed %d: %s offset %#x: got %d, want %d", seed, x.Name, k[1], b[0], v)
			}
		}
	}
}

func TestAtomicWrapsAt32Bits(t *testing.T) {
	m, _ := New(wire.Wormhole, 0)
	a := wire.NewNocAddr(1, 1, 0x100)
	m.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: a}, []byte{0xFF, 0xFF, 0xFF, 0xFF, 7})
	m.Execute(&wire.Command{Type: wire.NocAtomicInc, Addr: a, Value: 3}, nil)
	var b [5]byte
	if m.Read(a, b[:]); b != [5]byte{2, 0, 0, 0, 7} {
		t.Errorf("got %v", b)
	}
}

// The limit counts a page once, even if two chunks of a command need the page.
func TestHostMemoryLimit(t *testing.T) {
	m, _ := New(wire.Wormhole, 2*pageSize)
	at := func(off uint64) wire.NocAddr { return wire.NewNocAddr(1, 1, off) }
	w := func(off uint64) wire.Outcome {
		return m.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: at(off)}, []byte{1})
	}
	if o := w(0); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	twice := wire.Command{Type: wire.NocScatterWrite, Chunks: 2, Scatter: [4]wire.NocAddr{at(pageSize), at(pageSize + 9)}, Sizes: [4]uint16{1}}
	if o := m.Execute(&twice, []byte{1, 2}); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	if o := w(2 * pageSize); o != wire.OutcomeNoMemory || m.Resident() != 2*pageSize {
		t.Errorf("beyond the limit: %v with %d bytes", o, m.Resident())
	}
	if o := w(5); o != wire.OutcomeDone {
		t.Errorf("in a page that is there: %v", o)
	}
}

func FuzzExecute(f *testing.F) {
	f.Add(uint8(0), uint64(0x41000000000), uint64(0), uint32(1), []byte("abc"))
	f.Add(uint8(4), uint64(1)<<36, uint64(1)<<42, uint32(0xFFFF), []byte("0123456789"))
	f.Fuzz(func(t *testing.T, kind uint8, a, b uint64, v uint32, data []byte) {
		m, _ := New(wire.Wormhole, 1<<20)
		mo := &model{m, map[[2]uint64]byte{}, map[[2]uint64]bool{}, 1 << 20 / pageSize}
		c := wire.Command{Type: wire.NocSendType(kind), Addr: wire.NocAddr(a), Sem: wire.NocAddr(b), Value: v, Chunks: uint8(v),
			Scatter: [4]wire.NocAddr{wire.NocAddr(a), wire.NocAddr(b), wire.NocAddr(a ^ b), wire.NocAddr(b)}, Sizes: [4]uint16{uint16(v >> 8), uint16(v >> 16)}}
		want := mo.execute(&c, data)
		if got := m.Execute(&c, data); got != want {
			t.Fatalf("%+v: got %v, want %v", c, got, want)
		}
		if want != wire.OutcomeDone && m.Resident() != 0 {
			t.Fatalf("%v left %d bytes behind", want, m.Resident())
		}
		mo.compare(t, 0)
	})
}

func BenchmarkWrite4KiB(b *testing.B) {
	m, _ := New(wire.Wormhole, 0)
	c := wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0x20000)}
	data := make([]byte, 4096)
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		m.Execute(&c, data)
	}
}
