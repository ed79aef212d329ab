package chip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// client is host software that uses the queues of one ethernet tile, with loads and stores of the tile.
type client struct {
	w *fabric
	c *Chip
	x uint8
	y uint8
}

// host returns the host of the tile of a channel.
func (w *fabric) host(chip int, ch wire.Channel) *client {
	x, y, ok := noc.EthernetTile(w.m.Arch, ch)
	if !ok {
		w.t.Fatalf("channel %d has no tile", ch)
	}
	return &client{w, w.chips[chip], x, y}
}

func (h *client) read(off uint64, n int) []byte {
	h.w.t.Helper()
	b := make([]byte, n)
	if o := h.c.memory.Read(wire.NewNocAddr(h.x, h.y, off), b); o != wire.OutcomeDone {
		h.w.t.Fatalf("read of %d bytes at %#x: %s", n, off, o)
	}
	return b
}

func (h *client) write(off uint64, b []byte) {
	h.w.t.Helper()
	if o := h.c.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(h.x, h.y, off)}, b); o != wire.OutcomeDone {
		h.w.t.Fatalf("write of %d bytes at %#x: %s", len(b), off, o)
	}
}

func (h *client) word(off uint64) uint32 { return binary.LittleEndian.Uint32(h.read(off, 4)) }

// push pushes an entry on to the submission queue (BDMS, "Queues").
func (h *client) push(e firmware.Entry, block []byte) {
	h.w.t.Helper()
	wr := h.word(firmware.SQ + firmware.WrIdx)
	for i := 0; (wr-h.word(firmware.SQ+firmware.RdIdx))&7 >= 4; i++ {
		if i > 20000 {
			h.w.t.Fatal("the submission queue stays full")
		}
		h.w.run(time.Millisecond)
	}
	h.write(firmware.SQ+firmware.Entries+uint64(wr&3)*firmware.EntrySize, e.Append(nil))
	if len(block) > 0 {
		h.write(firmware.Buffers+uint64(wr&3)*firmware.BlockSize, block)
	}
	h.write(firmware.SQ+firmware.WrIdx, words((wr+1)&7))
}

// pop pops a completion: its entry, and its buffer. The entry must come first with flags 0.
func (h *client) pop() (firmware.Entry, []byte) {
	h.w.t.Helper()
	rd := h.word(firmware.CQ + firmware.RdIdx)
	for i := 0; rd == h.word(firmware.CQ+firmware.WrIdx); i++ {
		if i > 20000 {
			h.w.t.Fatal("the completion queue stays empty")
		}
		h.w.run(time.Millisecond)
	}
	at := uint64(firmware.CQ + firmware.Entries + rd&3*firmware.EntrySize)
	for i := 0; h.word(at+12) == 0; i++ {
		if i > 20000 {
			h.w.t.Fatal("the completion entry stays empty")
		}
		h.w.run(time.Millisecond)
	}
	e := firmware.ParseEntry(h.read(at, firmware.EntrySize))
	b := h.read(firmware.Buffers+uint64(rd&3)*firmware.BlockSize, firmware.BlockSize)
	h.write(firmware.CQ+firmware.RdIdx, words((rd+1)&7))
	return e, b
}

// queue returns the state of the tile's queues.
func (h *client) queue() firmware.Tile {
	for _, q := range h.c.HostQueues() {
		if q.X == h.x && q.Y == h.y {
			return q
		}
	}
	h.w.t.Fatal("the tile has no queues")
	return firmware.Tile{}
}

// tileOf returns the state of the firmware of a channel's tile.
func (w *fabric) tileOf(chip int, ch wire.Channel) firmware.Tile {
	return w.chips[chip].HostQueues()[ch]
}

// n300 returns a board n300 with the harvesting of the article's board (part 4 of the Wormhole series).
func n300(t *testing.T, change func(*Config)) *fabric {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	m.Chips[0].Harvested, m.Chips[1].Harvested = 768, 516
	return fabricOf(t, m, change)
}

// TestArticleProgram is the program of part 4 of the Wormhole series: four plain reads through the tile
// E10, which has no cable. The requests for the second chip go through E8, its cable, and E0.
func TestArticleProgram(t *testing.T) {
	w := n300(t, func(*Config) {})
	h := w.host(0, 10)
	if h.x != 8 || h.y != 6 || h.word(firmware.QueuePointer) != firmware.QueueBase {
		t.Fatalf("tile %d-%d, pointer %#x", h.x, h.y, h.word(firmware.QueuePointer))
	}
	got := ""
	for y := range uint8(2) {
		for x := range uint8(2) {
			const disableCol = 0xFFB20110 // RV_ADDR_NOC0_MC_DISABLE_COL
			h.push(firmware.Entry{Target: firmware.NewTarget(x, y, wire.NewNocAddr(8, 0, disableCol)), Flags: firmware.RdReq}, nil)
			e, _ := h.pop()
			if e.Flags == firmware.RdData {
				got += fmt.Sprintf("(%d, %d) -> value %d\n", x, y, e.Data)
			} else {
				got += fmt.Sprintf("(%d, %d) -> error %#08x\n", x, y, uint32(e.Flags))
			}
		}
	}
	want := "(0, 0) -> value 3137\n(1, 0) -> value 2121\n(0, 1) -> error 0x80000008\n(1, 1) -> error 0x80000008\n"
	if got != want {
		t.Errorf("the program prints\n%swant\n%s", got, want)
	}
	q := h.queue()
	if want := (firmware.Queue{RdReq: 4, RdResp: 4, Errors: 2, WrIdx: 4, RdIdx: 4}); q.SQ != want {
		t.Errorf("submission queue %+v, want %+v", q.SQ, want)
	}
	if want := (firmware.Queue{WrIdx: 4, RdIdx: 4}); q.CQ != want {
		t.Errorf("completion queue %+v, want %+v", q.CQ, want)
	}
	e8, e0 := w.tileOf(0, 8).Counters, w.tileOf(1, 0).Counters
	if q.Counters.Passed != 1 || e8.Sent != 1 || e8.Received != 1 || e0.Received != 1 || e0.Served != 1 || e0.Sent != 1 {
		t.Errorf("E10 %+v, E8 %+v, E0 %+v", q.Counters, e8, e0)
	}
	if n := w.chips[0].Memory().Resident(); n > 2*32<<10 {
		t.Errorf("the tiles take %d bytes", n)
	}
}

// TestRequestsOverManyHops makes random requests from random tiles to random chips, over cables that lose
// frames. Every read must have the right bytes, and in the end all counters balance.
func TestRequestsOverManyHops(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		seed uint64
	}{{"n300", 60, 0}, {"t3000", 150, 1}, {"t3000", 60, 0}, {"mesh:3x4", 80, 2}, {"torus:4x4", 80, 3}, {"ring:7", 60, 4}} {
		w := fabricOf(t, named(t, c.name), func(cfg *Config) {
			if c.seed != 0 {
				cfg.KernelSeed = c.seed + uint64(cfg.Node.Chip)
			}
		})
		r := rand.New(rand.NewPCG(c.seed, 7))
		w.lose = func(wire.PortID, []byte) bool { return r.IntN(20) == 0 }
		at := board.Coords(w.m)
		model := map[wire.FabricNodeID][]byte{} // the first bytes of tile 1-1
		hosts := map[[2]int]*client{}
		for range c.n {
			k := [2]int{r.IntN(len(w.chips)), r.IntN(16)}
			if hosts[k] == nil {
				hosts[k] = w.host(k[0], wire.Channel(k[1]))
			}
			h, to := hosts[k], w.chips[r.IntN(len(w.chips))].Node()
			if model[to] == nil {
				model[to] = make([]byte, 4096)
			}
			pos, off, n := at[to], r.IntN(190)*16, 4*r.IntN(257)
			e := firmware.Entry{RackXY: uint16(pos.Rack) | uint16(pos.Shelf)<<8, Flags: firmware.DataBlock, Data: uint32(n)}
			if r.IntN(3) == 0 {
				off, n, e.Flags = 4*r.IntN(1000), 4, 0
			}
			if r.IntN(2) == 0 {
				e.Flags |= firmware.Ordered
			}
			e.Target = firmware.NewTarget(pos.X, pos.Y, wire.NewNocAddr(1, 1, uint64(off)))
			if r.IntN(2) == 0 {
				b := make([]byte, n)
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				copy(model[to][off:], b)
				if e.Flags |= firmware.WrReq; e.Flags&firmware.DataBlock == 0 {
					e.Data, b = binary.LittleEndian.Uint32(b), nil
				}
				h.push(e, b)
				for i := 0; h.queue().SQ.WrReq != h.queue().SQ.WrResp || i == 0; i++ {
					if i > 20000 {
						t.Fatalf("%s: a write does not end: %+v", c.name, h.queue())
					}
					w.run(time.Millisecond)
				}
				continue
			}
			e.Flags |= firmware.RdReq
			h.push(e, nil)
			a, b := h.pop()
			want := firmware.RdData | e.Flags&firmware.DataBlock
			if want&firmware.DataBlock == 0 {
				b = words(a.Data)
			}
			if a.Flags != want || !bytes.Equal(b[:n], model[to][off:][:n]) {
				t.Fatalf("%s: read of %s: flags %#x, or wrong bytes", c.name, e.String(), uint32(a.Flags))
			}
		}
		w.run(2 * time.Second) // the last numbers between tiles come
		sent := uint64(0)
		for i, x := range w.chips {
			if err := x.CheckInvariants(); err != nil {
				t.Error(err)
			}
			for _, q := range x.HostQueues() {
				s := q.SQ
				if s.WrReq != s.WrResp || s.RdReq != s.RdResp || s.Errors != 0 || q.Open != 0 || q.In != [2]int{} || q.Out != [2]int{} || q.Counters.Bad+q.Counters.Lost+q.Counters.Late != 0 {
					t.Errorf("%s: chip %d: %+v", c.name, i, q)
				}
				sent += q.Counters.Sent
			}
		}
		if sent == 0 {
			t.Errorf("%s: no message took a cable", c.name)
		}
	}
}

// TestCutCable cuts both cables of an n300: requests end with DestUnreachable in the stated time. After the
// repair, requests reach the chip again.
func TestCutCable(t *testing.T) {
	w := n300(t, func(*Config) {})
	h := w.host(0, 10)
	read := firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq}
	w.cut(w.chips[0], wire.East, true)
	began := w.now
	for range 4 {
		h.push(read, nil)
	}
	for range 4 {
		if e, _ := h.pop(); e.Flags != firmware.RdData|firmware.DestUnreachable {
			t.Errorf("flags %#x", uint32(e.Flags))
		}
	}
	if d := w.now.Sub(began); d > firmware.AnswerTimeout+time.Second {
		t.Errorf("the errors came after %v", d)
	}
	if q := h.queue(); q.SQ.RdReq != 4 || q.SQ.RdResp != 4 || q.SQ.Errors != 4 {
		t.Errorf("%+v", q)
	}
	w.cut(w.chips[0], wire.East, false)
	w.run(20 * time.Second)
	h.push(read, nil)
	if e, _ := h.pop(); e.Flags != firmware.RdData || e.Data != 2121 {
		t.Errorf("after the repair: %+v", e)
	}
}

// TestKilledChip kills the chip in the middle of a line while requests are under way through it.
func TestKilledChip(t *testing.T) {
	w := fabricOf(t, named(t, "mesh:1x3"), func(*Config) {})
	h := w.host(0, 3)
	for i := range 4 {
		e := firmware.Entry{Target: firmware.NewTarget(2, 0, wire.NewNocAddr(1, 1, 64)), Flags: firmware.RdReq}
		if i%2 == 0 {
			e.Flags = firmware.WrReq
		}
		h.push(e, nil)
	}
	w.chips[0].Pump(w.now)
	w.isolate(w.chips[1], true)
	w.run(firmware.AnswerTimeout + time.Second)
	if q := h.queue(); q.SQ.RdReq != 2 || q.SQ.RdResp != 2 || q.SQ.WrReq != 2 || q.SQ.WrResp != 2 || q.SQ.Errors != 4 || q.Open != 0 {
		t.Errorf("%+v", q)
	}
}

// TestRandomQueues stores random bytes into the queues, the internal buffers and the indices of random
// tiles, also while requests are under way. Nothing may panic or hang, and no chip may break its invariants.
func TestRandomQueues(t *testing.T) {
	for seed := range uint64(12) {
		w := n300(t, func(*Config) {})
		r := rand.New(rand.NewPCG(seed, 17))
		for range 150 {
			c, ch := r.IntN(2), wire.Channel([]int{8, 9, 0, 1, 10, 2}[r.IntN(6)])
			h := w.host(c, ch)
			e := firmware.Entry{Target: r.Uint64(), Data: r.Uint32N(1200), Flags: firmware.Flags(r.Uint32()), RackXY: uint16(r.Uint32()), HostAddr: r.Uint32()}
			if r.IntN(3) > 0 { // more like a request
				e = firmware.Entry{Target: firmware.NewTarget(uint8(r.IntN(3)), 0, wire.NewNocAddr(uint8(r.IntN(10)), uint8(r.IntN(12)), r.Uint64N(1<<18)&^3)), Data: 4 * r.Uint32N(300),
					Flags: []firmware.Flags{firmware.RdReq, firmware.WrReq}[r.IntN(2)] | []firmware.Flags{0, firmware.DataBlock, firmware.DataBlock | firmware.Mod, firmware.DataBlock | firmware.DataBlockDRAM}[r.IntN(4)]}
			}
			block := make([]byte, firmware.BlockSize)
			for i := range block {
				block[i] = byte(r.Uint32())
			}
			if r.IntN(2) == 0 {
				block[0], block[1] = 1|byte(r.IntN(2))<<4, byte(r.IntN(5)) // a section of a scatter page
			}
			slot := uint64(r.IntN(4))
			h.write(firmware.SQ+firmware.Entries+slot*firmware.EntrySize, e.Append(nil))
			h.write(firmware.Buffers+slot*firmware.BlockSize, block)
			if r.IntN(8) == 0 { // what only the firmware should write
				h.write(firmware.QueueBase+r.Uint64N(firmware.End-firmware.QueueBase-64), block[:64])
			}
			h.write(firmware.SQ+firmware.WrIdx, words(r.Uint32N(9)))
			if r.IntN(2) == 0 {
				h.write(firmware.CQ+firmware.RdIdx, words(h.word(firmware.CQ+firmware.WrIdx)))
			}
			w.run(time.Duration(r.IntN(2000)) * time.Microsecond)
		}
		w.run(3 * firmware.AnswerTimeout)
		for i, c := range w.chips {
			if err := c.CheckInvariants(); err != nil {
				t.Errorf("seed %d, chip %d: %v", seed, i, err)
			}
		}
	}
}
