package board_test

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// idle is a chip whose links have never come up.
type idle mono.Time

func (i idle) Now() mono.Time { return mono.Time(i) }

func (idle) Works(wire.Channel) bool { return true }

func (idle) Link(ch wire.Channel) (ttlink.Status, ttlink.Counters, bool) {
	return ttlink.Status{State: ttlink.StateTraining}, ttlink.Counters{}, ch == 8
}

func chipOf(t testing.TB, a wire.Arch) (*noc.Memory, *board.Board) {
	m, err := noc.New(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	n300 := named(t, "n300")
	n300.Arch = a
	b := board.New(n300, n300.Chips[0].Node, idle(5e9))
	if err := b.Map(m); err != nil {
		t.Fatal(err)
	}
	return m, b
}

// held is an idle chip on which the firmware of channel 8 does not work.
type held struct{ idle }

func (held) Works(ch wire.Channel) bool { return ch != 8 }

// TestHeldFirmware checks that the words about an ethernet tile stand still while the tile's firmware
// does not work: both heartbeats, and the tile's bit in the telemetry.
func TestHeldFirmware(t *testing.T) {
	m, err := noc.New(wire.Wormhole, 0)
	if err != nil {
		t.Fatal(err)
	}
	n300 := named(t, "n300")
	if err := board.New(n300, n300.Chips[0].Node, held{idle(5e9)}).Map(m); err != nil {
		t.Fatal(err)
	}
	word := func(x, y uint8, off uint64) uint32 {
		b := make([]byte, 4)
		if o := m.Read(wire.NewNocAddr(x, y, off), b); o != wire.OutcomeDone {
			t.Fatalf("0x%x: %s", off, o)
		}
		return binary.LittleEndian.Uint32(b)
	}
	for _, ch := range []wire.Channel{8, 9} {
		x, y, _ := noc.EthernetTile(wire.Wormhole, ch)
		new, old, live := word(x, y, 0x1C)&0xFFFF, word(x, y, 0x1EC0+4*48), word(0, 10, 0x820078D60+4*48)>>ch&1
		if runs := ch == 9; (new != 0) != runs || (old != 0) != runs || (live != 0) != runs {
			t.Errorf("channel %d: heartbeats %d and %d, bit %d; the firmware works: %v", ch, new, old, live, runs)
		}
	}
}

// Random loads and stores in the windows neither panic nor reach another tile.
func FuzzWindows(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0x6C, 4, 1}, false)
	f.Add([]byte{1, 0, 0x50, 0, 8, 1}, true)
	bases := []uint64{0x880030000, 0x880030060, 0x880030100, 0x880042000, 0x810075000, 0x810076000, 0x810078000, 0x820078D60, 0x10075000, 0x10076000, 0x80030000, 0x80030400, 0, 0x1000, 0x1EC0, 0x7CC00}
	f.Fuzz(func(t *testing.T, ops []byte, blackhole bool) {
		a, arcX, arcY := wire.Wormhole, uint8(0), uint8(10)
		if blackhole {
			a, arcX, arcY = wire.Blackhole, 8, 0
		}
		m, _ := chipOf(t, a)
		ethX, ethY, _ := noc.EthernetTile(a, 8)
		for len(ops) >= 6 {
			x, y := arcX, arcY
			if ops[0]&1 != 0 {
				x, y = ethX, ethY
			}
			at := wire.NewNocAddr(x, y, bases[ops[1]%16]+uint64(ops[2])<<8+uint64(ops[3]))
			if b := make([]byte, ops[4]); ops[5]&1 == 0 {
				m.Read(at, b)
			} else {
				binary.LittleEndian.PutUint32(append(b, 0, 0, 0, 0)[:4], uint32(ops[5])<<16|0xAA00|uint32(ops[0]))
				cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: at}
				m.Execute(&cmd, b)
				word := wire.Command{Type: wire.NocInlineWrite, Addr: at, Value: uint32(ops[5]) << 16}
				m.Execute(&word, nil)
			}
			ops = ops[6:]
		}
		for _, tile := range m.Tiles() {
			b := make([]byte, 4096)
			if (tile.X != ethX || tile.Y != ethY) && tile.Kind == noc.Tensix && m.Read(wire.NewNocAddr(tile.X, tile.Y, 0), b) == wire.OutcomeDone {
				for _, v := range b {
					if v != 0 {
						t.Fatalf("tile %s changed", tile.Name)
					}
				}
			}
		}
	})
}

// A message that the firmware does not know gets the answer of an unknown message, and TEST counts.
func TestMessages(t *testing.T) {
	m, _ := chipOf(t, wire.Wormhole)
	word := func(off uint64, v uint32) {
		cmd := wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(0, 10, 0x880030000+off), Value: v}
		if o := m.Execute(&cmd, nil); o != wire.OutcomeDone {
			t.Fatal(o)
		}
	}
	for _, c := range []struct{ code, arg, status, answer uint32 }{
		{0xAA90, 41, 0x90, 42}, {0xAA52, 0, 0x52, 0}, {0xAA34, 0, 0x34, 1000}, {0xAA54, 0, 0x54, 0}, {0xAA34, 0, 0x34, 500}, {0xAA2C, 0, 0x2C, 0x10078D60}, {0xAAEE, 7, 0xFFFFFFFF, 7}, {0x1234, 7, 0x1234, 7}} {
		word(0x6C, c.arg)
		word(0x74, c.code)
		word(0x100, 1<<16)
		var b [12]byte
		m.Read(wire.NewNocAddr(0, 10, 0x88003006C), b[:])
		if a, s := binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[8:]); a != c.answer || s != c.status {
			t.Errorf("message %#x: answer %#x, status %#x", c.code, a, s)
		}
	}
	cmd := wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(0, 10, 0x88004225C), Value: 1}
	if o := m.Execute(&cmd, nil); o != wire.OutcomeBadCommand {
		t.Errorf("a store to the efuses: %s", o)
	}
	if n := unsafe.Sizeof(board.Board{}); n > 128 {
		t.Errorf("a board takes %d bytes of an idle chip", n)
	}
}
