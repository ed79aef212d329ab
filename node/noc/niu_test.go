package noc

import (
	"encoding/binary"
	"testing"

	"ttfabric/wire"
)

func load(t *testing.T, m *Memory, a wire.NocAddr) uint32 {
	t.Helper()
	var b [4]byte
	if o := m.Read(a, b[:]); o != wire.OutcomeDone {
		t.Fatalf("read of %s: %s", a, o)
	}
	return binary.LittleEndian.Uint32(b[:])
}

func harvested(t *testing.T, a wire.Arch, h Harvested) *Memory {
	t.Helper()
	m, err := New(a, 0)
	if err == nil {
		err = m.Harvest(h)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The masks of rows are those that the tt-isa-documentation's n300 example prints: 3137 on a chip
// whose rows 10 and 11 are harvested, and 2121 on a chip whose rows 3 and 11 are harvested. The mask
// of columns is 33 on both. Blackhole's masks are those of tt-zephyr-platforms (noc_init.c,
// ProgramBroadcastExclusion).
func TestMasksOfMulticast(t *testing.T) {
	const rows, cols = 0xFFB20110, 0xFFB20108
	for _, c := range []struct {
		arch       wire.Arch
		mask       Harvested
		x, y       uint8 // a tile
		cols, rows uint32
	}{
		{wire.Wormhole, 1<<8 | 1<<9, 8, 0, 33, 3137},
		{wire.Wormhole, 1<<2 | 1<<9, 8, 0, 33, 2121},
		{wire.Wormhole, 0, 1, 1, 33, 65},
		{wire.Wormhole, 513, 1, 1, 33, 65 | 1<<1 | 1<<11}, // a harvested tile has registers, too
		{wire.Blackhole, 0, 1, 1, 1 | 1<<8 | 1<<9, 3},
		{wire.Blackhole, 192, 7, 2, 1 | 1<<7 | 1<<8 | 1<<9 | 1<<10, 3},
	} {
		m := harvested(t, c.arch, c.mask)
		if got := load(t, m, wire.NewNocAddr(c.x, c.y, cols)); got != c.cols {
			t.Errorf("%s mask %d: columns %d, want %d", c.arch, c.mask, got, c.cols)
		}
		if got := load(t, m, wire.NewNocAddr(c.x, c.y, rows)); got != c.rows {
			t.Errorf("%s mask %d: rows %d, want %d", c.arch, c.mask, got, c.rows)
		}
	}
	m := harvested(t, wire.Wormhole, 1) // NoC 1 counts from the other end: row 1 is row 10 there, column 0 is column 9
	if got := load(t, m, wire.NewNocAddr(1, 2, rows+0x10000)); got != 1<<11|1<<5|1<<10 {
		t.Errorf("rows on NoC 1: %#x", got)
	}
	if got := load(t, m, wire.NewNocAddr(1, 2, cols+0x10000)); got != 1<<9|1<<4 {
		t.Errorf("columns on NoC 1: %#x", got)
	}
}

// The node id has the coordinates of the NoC and the size of the grid.
func TestNodeID(t *testing.T) {
	const first = 1 << 28
	for _, c := range []struct {
		arch wire.Arch
		a    wire.NocAddr
		want uint32
	}{
		{wire.Wormhole, wire.NewNocAddr(9, 6, 0xFFB2002C), 9 | 6<<6 | 10<<12 | 12<<19 | first},
		{wire.Wormhole, wire.NewNocAddr(9, 6, 0xFFB3002C), 0 | 5<<6 | 10<<12 | 12<<19},
		{wire.Wormhole, wire.NewNocAddr(5, 11, 0x1000A002C), 5 | 11<<6 | 10<<12 | 12<<19 | first}, // the third tile of a DRAM bank
		{wire.Wormhole, wire.NewNocAddr(5, 11, 0x1000A802C), 4 | 0<<6 | 10<<12 | 12<<19},
		{wire.Wormhole, wire.NewNocAddr(0, 0, 0x1000A002C), 0 | 11<<6 | 10<<12 | 12<<19 | first}, // the first tile shows the NIU of the third, where luwen reads it
		{wire.Wormhole, wire.NewNocAddr(5, 11, 0x10008002C), 5 | 0<<6 | 10<<12 | 12<<19 | first},
		{wire.Wormhole, wire.NewNocAddr(5, 11, 0x10009802C), 4 | 10<<6 | 10<<12 | 12<<19},
		{wire.Wormhole, wire.NewNocAddr(0, 10, 0xFFFB2002C), 0 | 10<<6 | 10<<12 | 12<<19 | first}, // ARC: tt-umd reads it to find a NoC that hangs
		{wire.Wormhole, wire.NewNocAddr(0, 3, 0xFFFB2002C), 0 | 3<<6 | 10<<12 | 12<<19 | first},
		{wire.Wormhole, wire.NewNocAddr(0, 8, 0xFFB2002C), 0 | 8<<6 | 10<<12 | 12<<19 | first},
		{wire.Blackhole, wire.NewNocAddr(8, 11, 0xFF000044), 8 | 11<<6 | 17<<12 | 12<<19 | first},
		{wire.Blackhole, wire.NewNocAddr(16, 2, 0xFFB20044), 16 | 2<<6 | 17<<12 | 12<<19 | first},
	} {
		m := harvested(t, c.arch, 0)
		if got := load(t, m, c.a); got != c.want {
			t.Errorf("%s %s: %#x, want %#x", c.arch, c.a, got, c.want)
		}
	}
}

// NIU registers can only be read, and only whole words of registers that exist.
func TestRegistersOfNIU(t *testing.T) {
	m := harvested(t, wire.Wormhole, 1)
	at := func(off uint64) wire.NocAddr { return wire.NewNocAddr(1, 1, off) }
	var b [8]byte
	for off, want := range map[uint64]wire.Outcome{0xFFB20000: wire.OutcomeBadAddress, 0xFFB2002E: wire.OutcomeMisaligned, 0xFFB20400: wire.OutcomeBadAddress, 0xFFB1FFFC: wire.OutcomeBadAddress} {
		if o := m.Read(at(off), b[:4]); o != want {
			t.Errorf("read of %#x: %s, want %s", off, o, want)
		}
	}
	if o := m.Read(at(0xFFB2002C), b[:8]); o != wire.OutcomeBadAddress || b != [8]byte{} {
		t.Errorf("a read beyond the register: %s % x", o, b)
	}
	if o := m.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: at(0xFFB2002C), Value: 1}, nil); o != wire.OutcomeBadCommand {
		t.Errorf("a write: %s", o)
	}
	if got := load(t, m, at(0xFFB20100)); got != 1<<14|1<<12 {
		t.Errorf("NIU_CFG_0 of a harvested tile: %#x", got)
	}
	if got := load(t, m, wire.NewNocAddr(1, 2, 0xFFB20100)); got != 1<<14 {
		t.Errorf("NIU_CFG_0: %#x", got)
	}
	if m.MapRegisters(at(0xFFB20200), 4, &bank{b: make([]byte, 4)}) == nil {
		t.Error("a window on the NIU's registers was accepted")
	}
}

// The processors of a Tensix tile are in reset at the start, and the processor of an ethernet tile
// runs. Each tile has its own register.
func TestSoftReset(t *testing.T) {
	m := harvested(t, wire.Wormhole, 0)
	tensix, eth := wire.NewNocAddr(1, 1, 0xFFB121B0), wire.NewNocAddr(1, 0, 0xFFB121B0)
	if a, b := load(t, m, tensix), load(t, m, eth); a != 0x47800 || b != 0 {
		t.Errorf("at the start: %#x and %#x", a, b)
	}
	if o := m.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: tensix, Value: 0x800}, nil); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	if a, b := load(t, m, tensix), load(t, m, wire.NewNocAddr(2, 1, 0xFFB121B0)); a != 0x800 || b != 0x47800 {
		t.Errorf("after a write: %#x and %#x", a, b)
	}
	if m.Resident() != 0 {
		t.Error("registers take pages")
	}
}

// Each Tensix tile has a debug bus register of its own, which holds what was stored. Other tiles have none.
func TestDebugBus(t *testing.T) {
	for _, c := range []struct {
		arch        wire.Arch
		tensix, eth wire.NocAddr
	}{{wire.Wormhole, wire.NewNocAddr(1, 1, DebugBus), wire.NewNocAddr(1, 0, DebugBus)}, {wire.Blackhole, wire.NewNocAddr(1, 2, DebugBus), wire.NewNocAddr(1, 1, DebugBus)}} {
		m := harvested(t, c.arch, 0)
		for _, v := range []uint32{0, 1, 2} {
			if got := load(t, m, c.tensix); got != max(v, 1)-1 {
				t.Errorf("%s: %#x before %#x is stored", c.arch, got, v)
			}
			if o := m.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: c.tensix, Value: v}, nil); o != wire.OutcomeDone {
				t.Fatalf("%s: %s", c.arch, o)
			}
			if got := load(t, m, c.tensix); got != v {
				t.Errorf("%s: %#x after %#x is stored", c.arch, got, v)
			}
		}
		if got := load(t, m, c.tensix+1<<36); got != 0 {
			t.Errorf("%s: another tile has %#x", c.arch, got)
		}
		if o := m.Check(c.eth, 4); o != wire.OutcomeBadAddress {
			t.Errorf("%s: an ethernet tile: %s", c.arch, o)
		}
	}
}

// A harvested tile refuses, and names the reason. All other tiles work.
func TestHarvestedTilesRefuse(t *testing.T) {
	for _, c := range []struct {
		arch wire.Arch
		mask Harvested
		off  func(x, y uint8) bool
		n    int
	}{
		{wire.Wormhole, 513, func(_, y uint8) bool { return y == 1 || y == 11 }, 16},
		{wire.Wormhole, 640, func(_, y uint8) bool { return y == 9 || y == 11 }, 16},
		{wire.Wormhole, 1<<4 | 1<<5, func(_, y uint8) bool { return y == 5 || y == 7 }, 16},
		{wire.Blackhole, 192, func(x, _ uint8) bool { return x == 7 || x == 10 }, 20},
	} {
		m := harvested(t, c.arch, c.mask)
		refused := 0
		for _, x := range m.Tiles() {
			a, want := wire.NewNocAddr(x.X, x.Y, 0x1000), wire.OutcomeDone
			if x.Size == 0 && x.Kind != Tensix {
				continue
			}
			if x.Kind == Tensix && c.off(x.X, x.Y) {
				want = wire.OutcomeHarvested
				refused++
			}
			if x.Harvested != (want != wire.OutcomeDone) || x.Harvested != (x.Size == 0) {
				t.Errorf("%s: tile %+v", c.arch, x)
			}
			var b [4]byte
			for _, o := range []wire.Outcome{m.Read(a, b[:]), m.Check(a, 4), m.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: a}, b[:])} {
				if o != want {
					t.Errorf("%s mask %d tile %s: %s, want %s", c.arch, c.mask, x.Name, o, want)
				}
			}
		}
		if refused != c.n {
			t.Errorf("%s mask %d: %d tiles refuse, want %d", c.arch, c.mask, refused, c.n)
		}
	}
	m, _ := New(wire.Wormhole, 0)
	if m.Harvest(1<<10) == nil || m.Harvest(MaxHarvested(wire.Wormhole)) != nil {
		t.Error("Harvest takes a row that does not exist, or refuses rows that exist")
	}
	if MaxHarvested(wire.Blackhole) != 1<<14-1 || MaxHarvested(wire.ArchUnknown) != 0 {
		t.Error("wrong largest masks")
	}
}

// The coordinates follow tt-umd: wormhole_coordinate_manager.cpp, and for Blackhole's DRAM and
// ethernet tiles also tt-zephyr-platforms (noc_init.c, ComputeNocTranslation).
func TestTranslatedCoordinates(t *testing.T) {
	for _, c := range []struct {
		arch wire.Arch
		mask Harvested
		from xy // translated
		to   xy // NoC 0
	}{
		{wire.Wormhole, 0, xy{18, 18}, xy{1, 1}}, {wire.Wormhole, 0, xy{25, 27}, xy{9, 11}}, {wire.Wormhole, 0, xy{22, 23}, xy{6, 7}},
		{wire.Wormhole, 513, xy{18, 18}, xy{1, 2}}, {wire.Wormhole, 513, xy{18, 25}, xy{1, 10}}, {wire.Wormhole, 513, xy{18, 26}, xy{1, 1}},
		{wire.Wormhole, 513, xy{18, 27}, xy{1, 11}}, {wire.Wormhole, 0, xy{25, 16}, xy{9, 0}}, {wire.Wormhole, 0, xy{18, 17}, xy{1, 6}},
		{wire.Wormhole, 0, xy{22, 16}, xy{6, 0}}, {wire.Blackhole, 0, xy{20, 25}, xy{1, 1}}, {wire.Blackhole, 0, xy{33, 25}, xy{10, 1}},
		{wire.Blackhole, 0, xy{17, 12}, xy{0, 0}}, {wire.Blackhole, 0, xy{18, 21}, xy{9, 5}}, {wire.Blackhole, 0, xy{18, 22}, xy{9, 7}},
	} {
		m := harvested(t, c.arch, c.mask)
		if x, ok := m.TileAt(c.from[0], c.from[1]); !ok || (xy{x.X, x.Y}) != c.to {
			t.Errorf("%s mask %d: %v is %v, want %v", c.arch, c.mask, c.from, xy{x.X, x.Y}, c.to)
		}
		logical := uint64(0xFFB20138)
		if c.arch == wire.Blackhole {
			logical = 0xFFB20148
		}
		if x, _ := m.TileAt(c.to[0], c.to[1]); x.Kind != DRAM {
			if got := load(t, m, wire.NewNocAddr(c.to[0], c.to[1], logical)); got != uint32(c.from[0])|uint32(c.from[1])<<6 {
				t.Errorf("%s mask %d: NOC_ID_LOGICAL of %v is %#x", c.arch, c.mask, c.to, got)
			}
		}
	}
}

// A byte that was written by one kind of coordinates is read by the others.
func TestCoordinatesNameOneByte(t *testing.T) {
	for _, arch := range []wire.Arch{wire.Wormhole, wire.Blackhole} {
		m := harvested(t, arch, 1)
		width := uint8(layouts[arch].width)
		for i, x := range m.Tiles() {
			if x.Size == 0 {
				continue
			}
			off := uint64(0x1000)
			if x.Kind == DRAM {
				off += uint64(i) * 16 // the tiles of a bank share their memory
			}
			zero, one := wire.NewNocAddr(x.X, x.Y, off), wire.NewNocAddr(width-1-x.X, 11-x.Y, off)|wire.NocOne
			tx, ty := func() (uint8, uint8) { l := layouts[arch]; return l.translated(&x, 1) }()
			m.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: one}, []byte{byte(i), 1})
			for _, a := range []wire.NocAddr{zero, one, wire.NewNocAddr(tx, ty, off)} {
				var b [2]byte
				if o := m.Read(a, b[:]); o != wire.OutcomeDone || b != [2]byte{byte(i), 1} {
					t.Errorf("%s tile %s at %s: %v, %s", arch, x.Name, a, b, o)
				}
				if c, ok := m.OnNoC0(a); !ok || c != zero {
					t.Errorf("%s on NoC 0 is %s, want %s", a, c, zero)
				}
			}
		}
		if _, ok := m.OnNoC0(wire.NewNocAddr(1, 2, 0) | 1<<48); ok {
			t.Error("a rectangle has one address on NoC 0")
		}
	}
}

// A multicast reaches each working Tensix tile of its rectangle once. A rectangle of translated
// coordinates means translated coordinates only.
func TestMulticast(t *testing.T) {
	m := harvested(t, wire.Wormhole, 1<<1) // row 2
	count := func(x, y uint8) uint32 {
		var b [4]byte
		m.Read(wire.NewNocAddr(x, y, 0x100), b[:])
		return binary.LittleEndian.Uint32(b[:])
	}
	inc := func(x0, y0, x1, y1 uint8, off uint64) wire.Outcome {
		a, ok := wire.NewNocRect(x0, y0, x1, y1, off)
		if !ok {
			t.Fatal("no rectangle")
		}
		return m.Execute(&wire.Command{Type: wire.NocMulticastInc, Addr: a, Value: 1}, nil)
	}
	if o := inc(4, 0, 63, 3, 0x100); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	for _, x := range m.Tiles() {
		want := uint32(0)
		if x.Kind == Tensix && x.X >= 4 && (x.Y == 1 || x.Y == 3) {
			want = 1
		}
		if got := count(x.X, x.Y); got != want && !x.Harvested {
			t.Errorf("tile %s at %d-%d: %d, want %d", x.Name, x.X, x.Y, got, want)
		}
	}
	if o := inc(18, 18, 25, 27, 0x100); o != wire.OutcomeDone { // all working tiles
		t.Fatal(o)
	}
	if a, b := count(4, 1), count(1, 1); a != 2 || b != 1 {
		t.Errorf("after a translated rectangle: %d and %d", a, b)
	}
	for name, o := range map[string][2]wire.Outcome{
		"harvested tiles only": {inc(1, 2, 9, 2, 0x100), wire.OutcomeBadAddress},
		"ethernet tiles only":  {inc(1, 0, 9, 0, 0x100), wire.OutcomeBadAddress},
		"beyond L1":            {inc(1, 1, 9, 3, wormholeL1), wire.OutcomeBadAddress},
		"misaligned":           {inc(1, 1, 9, 3, 2), wire.OutcomeMisaligned},
		"registers":            {inc(1, 1, 9, 3, 0xFFB121B0), wire.OutcomeBadCommand},
	} {
		if o[0] != o[1] {
			t.Errorf("%s: %s, want %s", name, o[0], o[1])
		}
	}
	if count(4, 1) != 2 {
		t.Error("a refused command did something")
	}
}

// A chip that translates no coordinates refuses the translated coordinates of every tile, and names the
// reason. Its NIU registers agree. The coordinates of both NoCs still work.
func TestUntranslated(t *testing.T) {
	for _, arch := range []wire.Arch{wire.Wormhole, wire.Blackhole} {
		on, off := harvested(t, arch, 1), harvested(t, arch, 1)
		off.Translate(false)
		l := layouts[arch]
		refused := 0
		for _, x := range off.Tiles() {
			tx, ty := l.translated(&x, 1)
			if x.Size == 0 {
				continue
			}
			own, there := wire.NewNocAddr(x.X, x.Y, 0x40), wire.NewNocAddr(tx, ty, 0x40)
			one := wire.NewNocAddr(uint8(l.width-1)-x.X, uint8(l.height-1)-x.Y, 0x40) | wire.NocOne
			want := wire.OutcomeUntranslated
			if own == there {
				want = wire.OutcomeDone
			} else {
				refused++
			}
			for a, want := range map[wire.NocAddr]wire.Outcome{own: wire.OutcomeDone, one: wire.OutcomeDone, there: want, there | wire.NocOne: want} {
				if own == there && a == there|wire.NocOne {
					continue // the address of another tile on NoC 1
				}
				var b [4]byte
				if o := off.Read(a, b[:]); o != want {
					t.Errorf("%s tile %s at %s: %s, want %s", arch, x.Name, a, o, want)
				}
				if o := on.Read(a, b[:]); o != wire.OutcomeDone {
					t.Errorf("%s tile %s at %s with translation: %s", arch, x.Name, a, o)
				}
			}
			if x.Kind == DRAM {
				continue
			}
			config, logical := wire.NewNocAddr(x.X, x.Y, 0xFFB20100), wire.NewNocAddr(x.X, x.Y, 0xFFB20138)
			if arch == wire.Blackhole {
				logical = wire.NewNocAddr(x.X, x.Y, 0xFFB20148)
			}
			if a, b := load(t, on, config), load(t, off, config); a != 1<<14 || b != 0 {
				t.Errorf("%s tile %s: NIU_CFG_0 is %#x with translation and %#x without", arch, x.Name, a, b)
			}
			if got := load(t, off, logical); got != uint32(x.X)|uint32(x.Y)<<6 {
				t.Errorf("%s tile %s: NOC_ID_LOGICAL is %#x", arch, x.Name, got)
			}
		}
		if refused < 14 {
			t.Errorf("%s: only %d tiles refuse", arch, refused)
		}
		var b [4]byte
		if o := off.Read(wire.NewNocAddr(40, 40, 0), b[:]); o != wire.OutcomeBadAddress {
			t.Errorf("%s: no tile anywhere: %s", arch, o)
		}
	}
	m := harvested(t, wire.Wormhole, 0)
	m.Translate(false)
	for rect, want := range map[[4]uint8]wire.Outcome{{18, 18, 25, 27}: wire.OutcomeUntranslated, {1, 1, 2, 2}: wire.OutcomeDone, {5, 0, 5, 1}: wire.OutcomeBadAddress} {
		a, _ := wire.NewNocRect(rect[0], rect[1], rect[2], rect[3], 0x100)
		if o := m.Execute(&wire.Command{Type: wire.NocMulticastInc, Addr: a, Value: 1}, nil); o != want {
			t.Errorf("rectangle %v: %s, want %s", rect, o, want)
		}
	}
}
