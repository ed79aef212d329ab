package chip

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/wire"
)

// p150s returns a cable between two P150 boards.
func p150s(t *testing.T) *cable {
	m := named(t, "line:2")
	m.Arch = wire.Blackhole
	for i := range m.Chips {
		m.Chips[i].Board = "p150"
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return cableOf(t, m)
}

// The windows of queue q of a Blackhole tile.
func txqOf(q int) uint32 { return 0xFFB90000 + uint32(q)*0x1000 }
func rxqOf(q int) uint32 { return 0xFFB94000 + uint32(q)*0x1000 }

// set stores a register of chip a's port.
func (w *cable) set(at, v uint32) wire.Outcome { return w.put(w.a, w.p, at, words(v)) }

// copyBy sends n bytes from 0x20000 to 0x30000 by queue q of chip a, and waits until they have arrived.
func (w *cable) copyBy(q, n int) {
	w.t.Helper()
	for _, r := range []struct{ at, v uint32 }{{0x14, 0x20000}, {0x18, uint32(n)}, {0x1C, 0x30000}, {0x04, 2}} {
		if o := w.set(txqOf(q)+r.at, r.v); o != wire.OutcomeDone {
			w.t.Fatalf("register %#x of queue %d: %s", r.at, q, o)
		}
	}
	w.run(5 * time.Millisecond)
}

// TestBlackholeTransmitRegisters has a case for each row of the table of transmit registers of a Blackhole
// (tt-isa-documentation, BlackholeA0/EthernetTile/EthernetTxRx.md, "TX Queue Memory Map"), for each queue.
func TestBlackholeTransmitRegisters(t *testing.T) {
	w := p150s(t)
	for q := range 3 {
		base := txqOf(q)
		get := func(at uint32) uint32 { return w.register(w.a, w.p, base+at) }
		counts := func() (v [4]uint32) {
			for i, at := range []uint32{0x30, 0x34, 0x3C, 0x40} {
				v[i] = get(at)
			}
			return v
		}
		holds := func(at, v uint32) {
			t.Helper()
			if o := w.set(base+at, v); o != wire.OutcomeDone || get(at) != v {
				t.Errorf("queue %d, register %#x: %s, %#x after a store of %#x", q, at, o, get(at), v)
			}
		}
		rows := map[string]func(){
			"0x00 CTRL": func() {
				if get(0) != 1|8 { // KEEPALIVE and DIS_DROP
					t.Errorf("queue %d: CTRL is %#x", q, get(0))
				}
				holds(0, 1)
			},
			"0x04 CMD and 0x08 STATUS": func() {
				w.put(w.a, w.p, base+0x14, words(0x20000, 4096, 0x30000))
				if o := w.set(base+4, 2); o != wire.OutcomeDone || get(4) != 0 || get(8) != 1<<16 {
					t.Errorf("queue %d: %s, CMD reads %#x and STATUS %#x, want 0 and bit 16", q, o, get(4), get(8))
				}
				if o := w.set(base+4, 2); o != wire.OutcomeAgain {
					t.Errorf("queue %d takes a command while it is busy: %s", q, o)
				}
				if w.run(5 * time.Millisecond); get(4) != 0 || get(8) != 0 {
					t.Errorf("queue %d: CMD %#x, STATUS %#x after the command", q, get(4), get(8))
				}
				for _, cmd := range []uint32{0, 1, 3, 5} {
					if o := w.set(base+4, cmd); o != wire.OutcomeBadCommand {
						t.Errorf("queue %d, command %d in TT-link mode: %s", q, cmd, o)
					}
				}
			},
			"0x0C MAX_PKT_SIZE": func() {
				if get(0xC) != 1500 {
					t.Errorf("queue %d: MAX_PKT_SIZE is %d", q, get(0xC))
				}
				before := get(0x34)
				holds(0xC, 16+64)
				if w.copyBy(q, 640); get(0x34)-before != 10 {
					t.Errorf("queue %d: 640 bytes in %d frames, want 10", q, get(0x34)-before)
				}
				holds(0xC, 1500)
			},
			"0x14 START, 0x18 SIZE, 0x1C DEST": func() {
				want := bytes.Repeat([]byte{byte(q + 1)}, 48)
				w.put(w.a, w.p, 0x21000, want)
				for _, r := range []struct{ at, v uint32 }{{0x14, 0x21000}, {0x18, 48}, {0x1C, 0x31000}} {
					holds(r.at, r.v)
				}
				if w.set(base+4, 2); !w.arrives(0x31000, want) {
					t.Errorf("queue %d: other bytes arrived", q)
				}
				for _, r := range [][3]uint32{{8, 16, 0}, {0, 8, 0}, {0, 16, 8}} {
					if o := w.put(w.a, w.p, base+4, words(2, 0, 1500, 0, r[0], r[1], r[2])); o != wire.OutcomeMisaligned {
						t.Errorf("queue %d, %v: %s", q, r, o)
					}
				}
			},
			"0x30 TRANSFER_CNT, 0x34 PKT_START_CNT, 0x3C PKT_END_CNT, 0x40 WORD_CNT": func() {
				before := counts()
				w.copyBy(q, 16) // 32 bytes with the header: one line
				w.copyBy(q, 96) // 112 bytes: two lines
				got := counts()
				for i, want := range []uint32{2, 2, 2, 3} {
					if got[i]-before[i] != want {
						t.Errorf("queue %d: counter %d grew by %d, want %d", q, i, got[i]-before[i], want)
					}
				}
				if w.set(base+0x30, 0); counts() != got {
					t.Errorf("queue %d: a store changed a counter", q)
				}
			},
			"0x44 REMOTE_REG_DATA": func() { // a register of the other end's receive queue 0
				holds(0x44, 0x1230+uint32(q))
				w.set(base+0x1C, rxqOf(0)+0x0C)
				o := w.set(base+4, 4)
				w.run(5 * time.Millisecond)
				got := w.register(w.b, w.q, rxqOf(0)+0x0C)
				if q < 2 && (o != wire.OutcomeDone || got != 0x1230+uint32(q)) || q == 2 && o != wire.OutcomeBadCommand {
					t.Errorf("queue %d: MMIO write %s, the register is %#x", q, o, got)
				}
			},
			"0x48 REMOTE_SEQ_TIMEOUT":       func() { holds(0x48, 1000) },
			"0x4C LOCAL_SEQ_UPDATE_TIMEOUT": func() { holds(0x4C, 2000) },
			"0x80 TXPKT_CFG_SEL_SW":         func() { holds(0x80, 0x321) },
			"0x84 TXPKT_CFG_SEL_HW":         func() { holds(0x84, 4) },
			"0x88 TXPKT_CFG_SEL_OVL":        func() { holds(0x88, 0x76543210) },
			"0x50 to 0x60: Wormhole's MAC addresses do not exist": func() {
				for at := uint32(0x50); at <= 0x60; at += 4 {
					if o := w.set(base+at, 5); o != wire.OutcomeDone || get(at) != 0 {
						t.Errorf("queue %d: register %#x is %#x", q, at, get(at))
					}
				}
			},
		}
		for name, row := range rows {
			t.Run(name, func(t *testing.T) { row() })
		}
	}
	var b [4]byte
	if o := w.a.memory.Read(w.p.tileAddr(txqOf(3)), b[:]); o != wire.OutcomeBadAddress {
		t.Errorf("there is a fourth queue: %s", o)
	}
}

// arrives waits until chip b has the bytes at an address of its tile.
func (w *cable) arrives(at uint32, want []byte) bool {
	for range 20 {
		w.run(time.Millisecond)
		if bytes.Equal(w.get(w.b, w.q, at, len(want)), want) {
			return true
		}
	}
	return false
}

// TestBlackholeReceiveRegisters has a case for each row of the table of receive registers of a Blackhole
// ("RX Queue Memory Map"), for each queue.
func TestBlackholeReceiveRegisters(t *testing.T) {
	w := p150s(t)
	for q := range 3 {
		get := func(at uint32) uint32 { return w.register(w.b, w.q, rxqOf(q)+at) }
		set := func(at, v uint32) { w.put(w.b, w.q, rxqOf(q)+at, words(v)) }
		grows := func(name string, at uint32, n int, want uint32) {
			t.Helper()
			before := get(at)
			if w.copyBy(q, n); get(at)-before != want {
				t.Errorf("queue %d: %s grew by %d for %d bytes, want %d", q, name, get(at)-before, n, want)
			}
		}
		for name, row := range map[string]func(){
			"0x00 CTRL": func() {
				set(0, 1|2|4|8) // only BUF_WRAP of queue 0 takes a value
				if want := map[bool]uint32{true: 2 | 4, false: 2}[q == 0]; get(0) != want {
					t.Errorf("queue %d: CTRL is %#x, want %#x", q, get(0), want)
				}
				set(0, 0)
			},
			"0x04 BYTE_CNT": func() { grows("BYTE_CNT", 4, 3200, 3200) },
			"0x08 BUF_PTR, 0x0C BUF_START_WORD_ADDR, 0x10 BUF_SIZE_WORDS": func() {
				for at := uint32(8); at <= 0x10; at += 4 {
					set(at, 0x20+at)
					if want := map[bool]uint32{true: 0x20 + at}[q == 0]; get(at) != want {
						t.Errorf("queue %d: register %#x is %#x, want %#x", q, at, get(at), want)
					}
				}
			},
			"0x14 WORD_CNT": func() { grows("WORD_CNT", 0x14, 96, 2) },
			"0x18 HDR_CTRL": func() {
				if get(0x18) != 14 {
					t.Errorf("queue %d: HDR_CTRL is %d", q, get(0x18))
				}
				if set(0x18, 0); get(0x18) != 0 {
					t.Errorf("queue %d: HDR_CTRL is %d after a store of 0", q, get(0x18))
				}
			},
			"0x24 PKT_START_CNT": func() { grows("PKT_START_CNT", 0x24, 16, 1) },
			"0x28 PKT_END_CNT":   func() { grows("PKT_END_CNT", 0x28, 2000, 2) },
			"0x40 LOCAL_RX_SEQ_NUM, 0x44 REMOTE_RX_SEQ_NUM": func() {
				seq := w.register(w.a, w.p, rxqOf(q)+0x44)
				grows("LOCAL_RX_SEQ_NUM", 0x40, 16, 1)
				if got := w.register(w.a, w.p, rxqOf(q)+0x44) - seq; got != 1 {
					t.Errorf("queue %d: REMOTE_RX_SEQ_NUM grew by %d", q, got)
				}
			},
			"0x48 TILE_HEADER_FORMAT": func() {
				if set(0x48, 0xFFFFFFFF); get(0x48) != 0x3FFF {
					t.Errorf("queue %d: TILE_HEADER_FORMAT is %#x", q, get(0x48))
				}
			},
			"0x4C PACKET_DROP_CNT": func() {
				before := w.register(w.b, w.q, rxqOf(0)+0x4C)
				w.put(w.a, w.p, txqOf(0)+4, words(4, 0, 1500, 0, 0, 0, 0x100)) // to an address in L1, which has no registers
				w.run(5 * time.Millisecond)
				if got := w.register(w.b, w.q, rxqOf(0)+0x4C) - before; got != 1 {
					t.Errorf("%d frames dropped, want 1", got)
				}
				if q > 0 && get(0x4C) != 0 {
					t.Errorf("queue %d dropped frames of queue 0", q)
				}
			},
			"0x50 OUTSTANDING_WR_CNT": func() {
				if set(0x50, 1); get(0x50) != 0 {
					t.Errorf("queue %d: OUTSTANDING_WR_CNT is %d", q, get(0x50))
				}
			},
		} {
			t.Run(name, func(t *testing.T) { row() })
		}
	}
}

// TestBlackholeHeaderTable stores the fields of each entry of the TX header table ("TX Header Table Memory Map").
func TestBlackholeHeaderTable(t *testing.T) {
	w := p150s(t)
	fields := []uint32{0x00, 0x04, 0x10, 0x14, 0x18, 0x1C, 0x20, 0x24, 0x28, 0x30, 0x54, 0x60, 0x70}
	for i := range uint32(10) {
		for _, f := range fields {
			at := 0xFFB98200 + i*0x80 + f
			if v := w.register(w.a, w.p, at); v != 0 {
				t.Errorf("entry %d, offset %#x is %#x at the start", i, f, v)
			}
			if o := w.set(at, i<<16|f+1); o != wire.OutcomeDone {
				t.Fatal(o)
			}
		}
	}
	for i := range uint32(10) {
		for _, f := range fields {
			if v := w.register(w.a, w.p, 0xFFB98200+i*0x80+f); v != i<<16|f+1 {
				t.Errorf("entry %d, offset %#x is %#x", i, f, v)
			}
		}
	}
	if o := w.set(0xFFB98200+10*0x80, 1); o != wire.OutcomeBadAddress {
		t.Errorf("an eleventh entry: %s", o)
	}
}

// TestBlackholeCompliance sends raw payloads by all three transmit queues of a Blackhole. At the end of a
// buffer without wrap, the beginning of a payload is stored and the rest dropped.
func TestBlackholeCompliance(t *testing.T) {
	w := p150s(t)
	w.mode(router.CommandRaw)
	rx := rxqOf(0)
	drops := w.register(w.b, w.q, rx+0x4C)
	w.put(w.b, w.q, rx+8, words(0, 0x3000, 3)) // 48 bytes at 0x30000
	for q, text := range []string{"first payload, ", "second payload, ", "third payload, cut here"} {
		w.put(w.a, w.p, 0x24000, []byte(text))
		if o := w.put(w.a, w.p, txqOf(q)+4, words(1, 0, 1500, 0, 0x24000, uint32(len(text)))); o != wire.OutcomeDone {
			t.Fatalf("queue %d: %s", q, o)
		}
		w.run(2 * time.Millisecond)
		if got := [3]uint32{w.register(w.a, w.p, txqOf(q)+0x30), w.register(w.a, w.p, txqOf(q)+0x34), w.register(w.a, w.p, txqOf(q)+0x40)}; got != [3]uint32{1, 1, 1} {
			t.Errorf("queue %d: TRANSFER_CNT, PKT_START_CNT and WORD_CNT are %v", q, got)
		}
	}
	if got := w.get(w.b, w.q, 0x30000, 64); string(bytes.TrimRight(got, "\x00")) != "first payload, second payload, third payload, cu" {
		t.Errorf("buffer %q", got)
	}
	for at, want := range map[uint32]uint32{0x04: 48, 0x08: 48, 0x4C: drops + 1, 0x14: 2} {
		if got := w.register(w.b, w.q, rx+at); got != want {
			t.Errorf("register %#x is %d, want %d", at, got, want)
		}
	}
}

// TestTilesWithoutACable reads and writes the registers of an ethernet tile without a cable. The
// registers must have the values of a chip that has just started, and must refuse commands.
func TestTilesWithoutACable(t *testing.T) {
	for _, w := range []*cable{newCable(t, "mesh:1x2"), p150s(t)} {
		ch := wire.Channel(0)
		for w.a.ports.index(ch) >= 0 {
			ch++
		}
		x, y, _ := noc.EthernetTile(w.m.Arch, ch)
		rx, header := uint64(0xFFB92000), uint32(0)
		if w.m.Arch == wire.Blackhole {
			rx, header = 0xFFB94000, 14
		}
		get := func(off uint64) uint32 {
			t.Helper()
			return binary.LittleEndian.Uint32(w.fabric.get(w.a.Node(), wire.NewNocAddr(x, y, off), 4))
		}
		set := func(off uint64, v ...uint32) wire.Outcome {
			return w.a.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(x, y, off)}, words(v...))
		}
		for off, want := range map[uint64]uint32{0xFFB90000: 9, 0xFFB90004: 0, 0xFFB9000C: 1500, 0xFFB91030: 0, rx: 2, rx + 0x18: header, rx + 0x1040: 0, rx + 0x4C: 0} {
			if got := get(off); got != want {
				t.Errorf("%s, register %#x of a tile without a cable: %#x, want %#x", w.m.Arch, off, got, want)
			}
		}
		if o := set(0xFFB90014, 0x20000, 16, 0x30000); o != wire.OutcomeDone || get(0xFFB90018) != 16 {
			t.Errorf("%s: a store to SIZE: %s", w.m.Arch, o)
		}
		for cmd := range uint32(5) {
			if o := set(0xFFB90004, cmd); o != wire.OutcomeBadCommand {
				t.Errorf("%s: command %d of a tile without a cable: %s", w.m.Arch, cmd, o)
			}
		}
		if o := set(rx+8, 1, 2, 3); o != wire.OutcomeDone || get(rx+8) != 0 || set(0xFFB9000C, 64) != wire.OutcomeDone {
			t.Errorf("%s: a store to a receive queue: %s", w.m.Arch, o)
		}
	}
}

// TestWormholeHasTwoQueues checks that a Wormhole tile has no third queue, neither for its own commands nor
// for frames that come.
func TestWormholeHasTwoQueues(t *testing.T) {
	w := newCable(t, "mesh:1x2")
	if o := w.set(0xFFB92004, 2); o != wire.OutcomeDone { // receive queue 0 begins here
		t.Error(o)
	}
	ch := w.p.Local.Channel
	if o := w.a.startWrite(ch, 2, 0x20000, 0x30000, 1); o != wire.OutcomeBadCommand {
		t.Errorf("an L1 write on queue 2: %s", o)
	}
	if o := w.a.startRegister(ch, 2, 0xFFB9200C, 7); o != wire.OutcomeBadCommand {
		t.Errorf("an MMIO write on queue 2: %s", o)
	}
	w.put(w.a, w.p, 0x20000, []byte("sixteen bytes 16"))
	for _, start := range []func() bool{
		func() bool { return w.p.link.StartWrite(2, 0x20000, 0x30000, 1) },
		func() bool { return w.p.link.StartRegister(2, 0xFFB9200C, 7) },
	} {
		before := w.q.writes
		if !start() {
			t.Fatal("the link is busy")
		}
		w.run(5 * time.Millisecond)
		if got := w.q.writes; got.Refused != before.Refused+1 || got.Stored != before.Stored || got.Registers != before.Registers {
			t.Errorf("a frame on queue 2: %+v, before %+v", got, before)
		}
	}
}
