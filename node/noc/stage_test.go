package noc

import (
	"bytes"
	"testing"

	"ttfabric/wire"
)

const firmwareEnd = 0x18300

// TestSwap restores memory that was saved before further writes. The memory of the base firmware must stay.
func TestSwap(t *testing.T) {
	m, err := New(wire.Wormhole, 0)
	if err != nil {
		t.Fatal(err)
	}
	put := func(x, y uint8, off uint64, text string) {
		t.Helper()
		if o := m.Put(wire.NewNocAddr(x, y, off), []byte(text)); o != wire.OutcomeDone {
			t.Fatal(o)
		}
	}
	get := func(x, y uint8, off uint64) string {
		b := make([]byte, 4)
		if o := m.Read(wire.NewNocAddr(x, y, off), b); o != wire.OutcomeDone {
			t.Fatal(o)
		}
		return string(b)
	}
	put(1, 1, pageSize-2, "abcd") // two pages
	put(0, 0, 1<<30, "dram")
	put(9, 0, 0x10000, "firm")
	put(9, 0, 0x20000, "eth1")
	put(9, 0, firmwareEnd, "eth0")
	used := m.Used(firmwareEnd)
	s := m.NewStage(firmwareEnd)
	for _, u := range used {
		b := make([]byte, u.Len)
		m.Stored(u, b)
		if err := s.Put(u.X, u.Y, u.Off, b); err != nil {
			t.Fatal(err)
		}
	}
	put(1, 1, pageSize-2, "ABCD")
	put(2, 2, 0, "more")
	put(9, 0, 0x10000, "FIRM")
	put(9, 0, 0x30000, "eth2")
	put(9, 0, firmwareEnd, "ETH0")
	stores := 0
	m.Watch(Mapped, 9, 0, func(uint64, int) { stores++ })
	if o := m.Swap(s); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	for _, c := range []struct {
		x, y uint8
		off  uint64
		want string
	}{{1, 1, pageSize - 2, "abcd"}, {0, 0, 1 << 30, "dram"}, {2, 2, 0, "\x00\x00\x00\x00"}, {9, 0, 0x10000, "FIRM"}, {9, 0, firmwareEnd, "eth0"}, {9, 0, 0x20000, "eth1"}, {9, 0, 0x30000, "\x00\x00\x00\x00"}} {
		if got := get(c.x, c.y, c.off); got != c.want {
			t.Errorf("tile %d-%d at %#x has %q: want %q", c.x, c.y, c.off, got, c.want)
		}
	}
	if stores == 0 {
		t.Error("the watcher saw no store")
	}
	if n := len(m.Used(firmwareEnd)); n != len(used) {
		t.Errorf("%d pages in use after the swap: want %d", n, len(used))
	}
}

// TestStageRefuses puts wrong bytes into a stage.
func TestStageRefuses(t *testing.T) {
	m, err := New(wire.Wormhole, 2*pageSize)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Harvest(1 << 9); err != nil {
		t.Fatal(err)
	}
	s := m.NewStage(firmwareEnd)
	for _, c := range []struct {
		x, y uint8
		off  uint64
		n    int
	}{{5, 5, 3 << 30, 1}, {63, 63, 0, 1}, {255, 255, 0, 1}, {1, 1, pageSize - 1, 2}, {1, 1, wormholeL1, 1}, {1, 1, 1<<63 + 8, 8}, {1, 1, 0, 0}, {9, 0, 0x100, 4}, {1, 11, 0, 4}, {0, 3, 0, 4}} {
		if err := s.Put(c.x, c.y, c.off, make([]byte, c.n)); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	one := bytes.Repeat([]byte{1}, 8)
	for off, want := range map[uint64]bool{0: true} {
		if err := s.Put(1, 1, off, one); (err == nil) != want {
			t.Error(err)
		}
	}
	if err := s.Put(1, 1, 4, one); err == nil {
		t.Error("bytes come twice, and there is no error")
	}
	if err := s.Put(2, 1, 0, one); err != nil {
		t.Error(err)
	}
	if err := s.Put(3, 1, 0, one); err == nil {
		t.Error("the stage takes more than the limit of the memory")
	}
	if o := m.Put(wire.NewNocAddr(9, 0, 0x100), one); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	if o := m.Swap(s); o != wire.OutcomeNoMemory {
		t.Errorf("outcome %v: want out of memory", o)
	}
}
