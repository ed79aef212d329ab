package server_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
	"ttfabric/node/chip"
	"ttfabric/node/firmware"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/capture"
	"ttfabric/wire/mono"
)

// article is the program of part 4 of the Wormhole series, with plain loads and stores in the L1 of tile E10.
// article returns what the program prints.
func (l *live) article(t *testing.T, l1 []byte) string {
	t.Helper()
	load := func(off int) uint32 { return atomic.LoadUint32((*uint32)(unsafe.Pointer(&l1[off]))) }
	store := func(off int, v uint32) { atomic.StoreUint32((*uint32)(unsafe.Pointer(&l1[off])), v) }
	const sq, cq = firmware.SQ, firmware.CQ
	if load(firmware.QueuePointer) != firmware.QueueBase {
		t.Fatalf("the queues are at %#x", load(firmware.QueuePointer))
	}
	var out strings.Builder
	for y := range uint8(2) {
		for x := range uint8(2) {
			wr := load(sq + firmware.WrIdx)
			l.eventually(t, "room in the submission queue", func() bool { return (wr-load(sq+firmware.RdIdx))&4 == 0 })
			e := firmware.Entry{Target: firmware.NewTarget(x, y, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq}
			copy(l1[sq+firmware.Entries+int(wr&3)*firmware.EntrySize:], e.Append(nil))
			store(sq+firmware.WrIdx, (wr+1)&7)
			rd := load(cq + firmware.RdIdx)
			l.eventually(t, "a completion", func() bool { return load(cq+firmware.WrIdx) != rd })
			at := cq + firmware.Entries + int(rd&3)*firmware.EntrySize
			l.eventually(t, "a whole completion", func() bool { return load(at+12) != 0 })
			if flags := load(at + 12); flags == uint32(firmware.RdData) {
				fmt.Fprintf(&out, "(%d, %d) -> value %d\n", x, y, load(at+8))
			} else {
				fmt.Fprintf(&out, "(%d, %d) -> error %#08x\n", x, y, flags)
			}
			store(cq+firmware.RdIdx, (rd+1)&7)
		}
	}
	return out.String()
}

// TestProgramOfTheArticle runs the program of part 4 of the Wormhole series, with plain loads and
// stores in the mapped L1 of tile E10. The program runs first with both cables, while the chips capture
// the frames of their ports. The program then runs with the cable of E8 cut, and then with both cables
// cut. The chip is recorded, and its recording replays without the program.
func TestProgramOfTheArticle(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("chips share memory on Linux only")
	}
	dir := t.TempDir()
	l := startWith(t, "n300", dir, func(m *topo.Topology) { m.Chips[0].Harvested, m.Chips[1].Harvested = 768, 516 })
	h, err := attach.DialHost(l.ctx, l.paths[0])
	check(t, err)
	defer h.Close()
	l1, err := h.Tile(8, 6)
	check(t, err)
	tiles := func() (q []firmware.Tile) {
		l.nodes[0].WithChip(func(_ mono.Time, c *chip.Chip) { q = c.HostQueues() })
		return q
	}
	const first, there, gone, others = "(0, 0) -> value 3137\n", "(1, 0) -> value 2121\n", "(1, 0) -> error 0x80000008\n", "(0, 1) -> error 0x80000008\n(1, 1) -> error 0x80000008\n"
	crossed := l.crossings(t)
	if got := l.article(t, l1); got != first+there+others {
		t.Errorf("the program prints\n%swant\n%s", got, first+there+others)
	}
	checkCrossings(t, crossed())
	l.eventually(t, "the last index", func() bool { return tiles()[10].CQ.RdIdx == 4 })
	q := tiles()
	if q[10].CQ != (firmware.Queue{WrIdx: 4, RdIdx: 4}) || q[10].Counters.Passed != 1 || q[8].Counters.Received == 0 {
		t.Errorf("E10 has %+v and %+v, and E8 has received %d messages", q[10].CQ, q[10].Counters, q[8].Counters.Received)
	}
	if want := (firmware.Queue{RdReq: 4, RdResp: 4, Errors: 2, WrIdx: 4, RdIdx: 4}); q[10].SQ != want || q[8].Counters.Sent == 0 {
		t.Errorf("E10 has %+v, want %+v; E8 has sent %d messages", q[10].SQ, want, q[8].Counters.Sent)
	}
	cut := func(here, peer wire.Channel) {
		t.Helper()
		check(t, l.nodes[0].Cut(here, true, 0))
		check(t, l.nodes[1].Cut(peer, true, 0))
	}
	cut(8, 0)
	l.eventually(t, "the way by E9", func() bool { // a chip that gets no processor for 10 s may give a request up
		got := l.article(t, l1)
		if got != first+there+others && got != first+gone+others {
			t.Fatalf("without the cable of E8, the program prints\n%swant\n%s", got, first+there+others)
		}
		return got == first+there+others
	})
	byE9 := tiles()[9].Counters.Sent > 0 // or the link of E8 sends its frames over the cable of E9
	s, _ := l.nodes[0].Status()
	for _, p := range s.Ports {
		byE9 = byE9 || p.Local.Channel == 8 && p.Link.Path != ttlink.Own && p.Link.Path.Channel() == 9
	}
	if !byE9 {
		t.Error("without the cable of E8, the request did not go over the cable of E9")
	}
	cut(9, 1)
	if got := l.article(t, l1); got != first+gone+others {
		t.Errorf("without both cables, the program prints\n%swant\n%s", got, first+gone+others)
	}
	if q := tiles()[10].SQ; q.RdReq < 12 || q.RdResp != q.RdReq || q.Errors < 7 || q.Errors > q.RdReq {
		t.Errorf("at the end, E10 has %+v", q)
	}
	file, err := l.nodes[0].EndRecording()
	check(t, err)
	replays(t, file)
}

// crossing is a message of the firmware in a captured L1 write.
type crossing struct {
	chip   int // index of the chip that captured the frame
	sent   bool
	to     wire.Channel // channel of the receiver's port
	header []byte       // see "In a capture" in the package documentation of firmware
}

// crossings captures the L1 writes of all ports of all chips. The returned function ends the captures, and
// returns the messages of the firmware, chip by chip.
func (l *live) crossings(t *testing.T) func() []crossing {
	t.Helper()
	const headers, headersEnd = firmware.QueueBase + 0x400, firmware.QueueBase + 0x900
	filter, err := capture.ParseFilter("write")
	check(t, err)
	var captures []*node.Capture
	for _, n := range l.nodes {
		c, err := n.Capture(node.CaptureConfig{Filter: filter})
		check(t, err)
		t.Cleanup(c.Close)
		captures = append(captures, c)
	}
	return func() (all []crossing) {
		for i, c := range captures {
			c.Close()
			for err = nil; err == nil; {
				err = c.Read(l.ctx, func(f *node.Captured) {
					for b := f.Data; len(b) > 0; {
						var x capture.TTLink
						check(t, x.DecodeFromBytes(b, nil))
						if x.Fault != nil {
							t.Fatalf("chip %d captured a frame with a fault: %v", i, x.Fault)
						}
						if at := x.Frame.Dest; x.Frame.Kind == wire.KindWrite && at >= headers && at < headersEnd {
							all = append(all, crossing{i, f.Sent, x.Frame.Channel, bytes.Clone(x.Payload)})
						}
						b = b[x.Len():]
					}
				})
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		return all
	}
}

// checkCrossings checks the messages that the chips captured while the program of the article ran. The one
// request for the other chip of the board goes from E8 to E0, and its answer goes back. The request comes
// from tile E10, and reads the register of tile E2. The other requests of the program never leave the chip.
func checkCrossings(t *testing.T, all []crossing) {
	t.Helper()
	le := binary.LittleEndian
	seen := ""
	for _, x := range all {
		h := x.header
		answer := h[8] == 1
		text := fmt.Sprintf("chip %d, sent %v, to E%d, answer %v: ", x.chip, x.sent, x.to, answer)
		if len(h) != 64 || h[20] != 10 || wire.NocAddr(le.Uint64(h[32:])) != wire.NewNocAddr(8, 0, 0xFFB20110) && !answer {
			t.Errorf("%sheader %x: want a request of tile E10 for the register of tile 8-0", text, h)
		}
		if flags := firmware.Flags(le.Uint32(h[40:])); flags != firmware.RdReq {
			t.Errorf("%sflags %#x", text, uint32(flags))
		}
		if answer && (h[21] != 0 || le.Uint16(h[22:]) != 4 || le.Uint32(h[56:]) != 2121) {
			t.Errorf("%sheader %x: want the value 2121", text, h)
		}
		if !strings.Contains(seen, text) { // the link may send a frame again
			seen += text
		}
	}
	want := "chip 0, sent true, to E0, answer false: chip 0, sent false, to E8, answer true: " +
		"chip 1, sent false, to E0, answer false: chip 1, sent true, to E8, answer true: "
	if seen != want {
		t.Errorf("the chips captured\n%s\nwant\n%s", seen, want)
	}
}
