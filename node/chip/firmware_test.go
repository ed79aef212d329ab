package chip

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// host is host software that uses the queues of one ethernet tile, with loads and stores of the tile.
type host struct {
	w *fabric
	c *Chip
	x uint8
	y uint8
}

// host returns the host of the tile of a channel.
func (w *fabric) host(chip int, ch wire.Channel) *host {
	x, y, ok := noc.EthernetTile(w.m.Arch, ch)
	if !ok {
		w.t.Fatalf("channel %d has no tile", ch)
	}
	return &host{w, w.chips[chip], x, y}
}

func (h *host) read(off uint64, n int) []byte {
	h.w.t.Helper()
	b := make([]byte, n)
	if o := h.c.memory.Read(wire.NewNocAddr(h.x, h.y, off), b); o != wire.OutcomeDone {
		h.w.t.Fatalf("read of %d bytes at %#x: %s", n, off, o)
	}
	return b
}

func (h *host) write(off uint64, b []byte) {
	h.w.t.Helper()
	if o := h.c.memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(h.x, h.y, off)}, b); o != wire.OutcomeDone {
		h.w.t.Fatalf("write of %d bytes at %#x: %s", len(b), off, o)
	}
}

func (h *host) word(off uint64) uint32 { return binary.LittleEndian.Uint32(h.read(off, 4)) }

// push pushes an entry on to the submission queue (BDMS, "Queues").
func (h *host) push(e firmware.Entry, block []byte) {
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
func (h *host) pop() (firmware.Entry, []byte) {
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
func (h *host) queue() firmware.Tile {
	for _, q := range h.c.HostQueues() {
		if q.X == h.x && q.Y == h.y {
			return q
		}
	}
	h.w.t.Fatal("the tile has no queues")
	return firmware.Tile{}
}

// tileOf returns the state of the firmware of a channel's tile.
func (w *fabric) tileOf(chip int, ch wire.Channel) firmware.Tile { return w.chips[chip].HostQueues()[ch] }

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
