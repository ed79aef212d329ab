package chip

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// lender is a host that lends a chip its memory.
type lender struct {
	b    []byte
	hold bool                // the host performs transfers, and does not report their ends
	kept []firmware.Transfer // transfers that the host holds
	most int                 // largest number of bytes that were under way at once
}

// lend lends a chip n bytes of memory.
func (w *fabric) lend(c *Chip, n int) *lender {
	l := &lender{b: make([]byte, n)}
	if w.lent == nil {
		w.lent = map[*Chip]*lender{}
	}
	w.lent[c] = l
	c.Lend(w.now, uint64(n))
	return l
}

// serve performs the chip's transfers.
func (l *lender) serve(now mono.Time, c *Chip) (moved bool) {
	l.most = max(l.most, c.lent.bytes)
	for c.HasTransfer() {
		t, _ := c.PollTransfer()
		if t.Write {
			copy(l.b[t.Addr:], t.Data)
		}
		if l.kept = append(l.kept, t); !l.hold {
			l.release(now, c)
		}
		moved = true
	}
	return moved
}

// release tells the chip that the held transfers have ended.
func (l *lender) release(now mono.Time, c *Chip) {
	for _, t := range l.kept {
		var b []byte
		if !t.Write {
			b = bytes.Clone(l.b[t.Addr:][:t.Len])
		}
		c.HandleTransfer(now, t.ID, wire.OutcomeDone, b)
	}
	l.kept = nil
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// written waits until all writes of the tile's host have ended.
func (h *client) written() {
	h.w.t.Helper()
	for i := 0; ; i++ {
		h.w.run(time.Millisecond)
		if q := h.queue(); q.SQ.WrReq == q.SQ.WrResp && q.SQ.WrIdx == q.SQ.RdIdx {
			return
		}
		if i > 60000 {
			h.w.t.Fatalf("a write does not end: %+v", h.queue())
		}
	}
}

const (
	hostRead  = firmware.RdReq | firmware.DataBlock | firmware.DataBlockDRAM
	hostWrite = firmware.WrReq | firmware.DataBlock | firmware.DataBlockDRAM
	hostDone  = firmware.RdData | firmware.DataBlock | firmware.DataBlockDRAM
)

// TestHostMemoryBlocks moves blocks of many lengths from host memory to chips and back. The blocks
// go to L1 and to DRAM, on this chip and on the other chip, with and without Ordered. The cables
// lose frames.
func TestHostMemoryBlocks(t *testing.T) {
	w := n300(t, func(*Config) {})
	r := rand.New(rand.NewPCG(1, 2))
	w.lose = func(wire.PortID, []byte) bool { return r.IntN(50) == 0 }
	l := w.lend(w.chips[0], 4<<20)
	const out, in = 32, 2<<20 + 64 // host addresses
	for i, n := range []int{0, 4, 1020, 1024, 1028, 2048, 32<<10 - 4, 32 << 10, 32<<10 + 4, 100 << 10, 1<<20 - 4} {
		for _, c := range []struct {
			chip uint8
			at   wire.NocAddr
		}{{0, wire.NewNocAddr(1, 1, 0x40)}, {1, wire.NewNocAddr(1, 1, 0x40)}, {0, wire.NewNocAddr(0, 0, 0x1000)}, {1, wire.NewNocAddr(0, 0, 0x1000)}} {
			h, ordered := w.host(0, wire.Channel([]int{10, 8, 0}[i%3])), firmware.Flags(i%2)*firmware.Ordered
			want := randomBytes(r, n)
			copy(l.b[out:], want)
			clear(l.b[in-4:][:n+8])
			h.push(firmware.Entry{Target: firmware.NewTarget(c.chip, 0, c.at), Data: uint32(n), Flags: hostWrite | ordered, HostAddr: out}, nil)
			h.written()
			h.push(firmware.Entry{Target: firmware.NewTarget(c.chip, 0, c.at), Data: uint32(n), Flags: hostRead | ordered, HostAddr: in}, nil)
			e, _ := h.pop()
			if e.Flags != hostDone || e.Data != uint32(n) || e.HostAddr != in || !bytes.Equal(l.b[in:][:n], want) {
				t.Fatalf("%d bytes of chip %d at %s: entry %+v, or wrong bytes", n, c.chip, c.at, e)
			}
			if !bytes.Equal(l.b[in-4:][:4], make([]byte, 4)) || !bytes.Equal(l.b[in+n:][:4], make([]byte, 4)) {
				t.Fatalf("%d bytes of chip %d: bytes beside the block changed", n, c.chip)
			}
			got := make([]byte, n)
			if w.chips[c.chip].memory.Read(c.at, got); !bytes.Equal(got, want) {
				t.Fatalf("%d bytes of chip %d at %s: the chip has other bytes", n, c.chip, c.at)
			}
			if q := h.queue(); q.SQ.Errors != 0 || q.Open != 0 {
				t.Fatalf("%+v", q)
			}
		}
	}
	if l.most == 0 || l.most > MaxTransferBytes {
		t.Errorf("up to %d bytes were under way", l.most)
	}
}

// TestHostMemoryScatter writes three scatter pages that lie in host memory to the other chip.
func TestHostMemoryScatter(t *testing.T) {
	w := n300(t, func(*Config) {})
	l := w.lend(w.chips[0], 1<<20)
	for p := range 3 {
		page := l.b[p*1024:]
		binary.LittleEndian.PutUint32(page, 1|1<<8|1<<20|1<<26)      // one write to the tile 1-1
		binary.LittleEndian.PutUint32(page[4:], 2|3<<8)              // two words, behind the 12 bytes
		binary.LittleEndian.PutUint32(page[8:], 0x2000+uint32(p)*64) // address
		binary.LittleEndian.PutUint64(page[12:], uint64(p)+0x1122334455667700)
		page[20] = 0xF // padding
	}
	h := w.host(0, 10)
	h.push(firmware.Entry{Target: firmware.NewTarget(1, 0, 0), Data: 3 * 1024, Flags: hostWrite | firmware.Mod, HostAddr: 0}, nil)
	h.written()
	for p := range 3 {
		var b [8]byte
		w.chips[1].memory.Read(wire.NewNocAddr(1, 1, 0x2000+uint64(p)*64), b[:])
		if got := binary.LittleEndian.Uint64(b[:]); got != uint64(p)+0x1122334455667700 {
			t.Errorf("page %d wrote %#x", p, got)
		}
	}
	if q := h.queue(); q.SQ.Errors != 0 {
		t.Errorf("%+v", q)
	}
}

// TestHostMemoryLimits makes requests without a host, beyond the end of its memory, and across the end.
func TestHostMemoryLimits(t *testing.T) {
	w := n300(t, func(*Config) {})
	h := w.host(0, 10)
	at := firmware.NewTarget(1, 0, wire.NewNocAddr(1, 1, 0x40))
	refused := uint32(0)
	read := func(addr, n uint32, want firmware.Flags) {
		t.Helper()
		h.push(firmware.Entry{Target: at, Data: n, Flags: hostRead, HostAddr: addr}, nil)
		if e, _ := h.pop(); e.Flags != hostDone|want {
			t.Errorf("%d bytes at %#x: flags %#x", n, addr, uint32(e.Flags))
		}
		h.push(firmware.Entry{Target: at, Data: n, Flags: hostWrite, HostAddr: addr}, nil)
		h.written()
		if want != 0 {
			refused += 2
		}
		if q := h.queue(); q.SQ.Errors != refused || q.Open != 0 || q.SQ.RdReq != q.SQ.RdResp {
			t.Errorf("%d bytes at %#x: %+v, want %d errors", n, addr, q, refused)
		}
	}
	read(0, 64, firmware.DataBlockUnavailable)
	w.lend(w.chips[0], 1<<20)
	read(0, 64, 0)
	read(1<<20-64, 64, 0)
	read(1<<20-64, 68, firmware.DataBlockUnavailable)
	read(1<<20, 4, firmware.DataBlockUnavailable)
	read(1<<32-32, 32, firmware.DataBlockUnavailable)
	delete(w.lent, w.chips[0])
	w.chips[0].Lend(w.now, 0)
	read(0, 64, firmware.DataBlockUnavailable)
}

// TestFlagsWaitForTheHost holds the host's answers back. The flags of a completion must stay 0
// until the host has said that the last byte is in the host's memory.
func TestFlagsWaitForTheHost(t *testing.T) {
	w := n300(t, func(*Config) {})
	l := w.lend(w.chips[0], 1<<20)
	for chip := range uint8(2) {
		h := w.host(0, wire.Channel(10+chip))
		l.hold = true
		h.push(firmware.Entry{Target: firmware.NewTarget(chip, 0, wire.NewNocAddr(1, 1, 0x40)), Data: 2000, Flags: hostRead}, nil)
		w.run(firmware.AnswerTimeout / 4)
		if len(l.kept) != 2 || h.word(firmware.CQ+firmware.WrIdx) != 1 || h.word(firmware.CQ+firmware.Entries+12) != 0 {
			t.Errorf("chip %d: %d transfers are held; the completion has the flags %#x", chip, len(l.kept), h.word(firmware.CQ+firmware.Entries+12))
		}
		last := l.kept[1:]
		l.kept = l.kept[:1]
		l.release(w.now, w.chips[0])
		w.run(time.Millisecond)
		if v := h.word(firmware.CQ + firmware.Entries + 12); v != 0 {
			t.Errorf("chip %d: one of two writes was acknowledged, and the flags are %#x", chip, v)
		}
		l.kept, l.hold = last, false
		l.release(w.now, w.chips[0])
		if e, _ := h.pop(); e.Flags != hostDone {
			t.Errorf("chip %d: flags %#x", chip, uint32(e.Flags))
		}
	}
}

// TestHostGoesAway lets the host go away in the middle of transfers. Reads must end with
// DataBlockUnavailable, all counters must balance, and late answers must count for nothing. A new
// host can then use the queues. A host that stays and does not answer makes requests end after
// AnswerTimeout.
func TestHostGoesAway(t *testing.T) {
	for _, goes := range []bool{true, false} {
		w := n300(t, func(*Config) {})
		h := w.host(0, 10)
		l := w.lend(w.chips[0], 4<<20)
		l.hold = true
		for chip := range uint8(2) {
			e := firmware.Entry{Target: firmware.NewTarget(chip, 0, wire.NewNocAddr(0, 0, 0)), Data: 1 << 20, Flags: hostRead}
			h.push(e, nil)
			e.Flags = hostWrite
			h.push(e, nil)
		}
		w.run(10 * time.Millisecond)
		if len(l.kept) == 0 || h.queue().Open == 0 {
			t.Fatalf("no transfer is under way: %+v", h.queue())
		}
		began, why := w.now, firmware.DataBlockUnavailable
		if goes {
			delete(w.lent, w.chips[0])
			w.chips[0].Lend(w.now, 0)
		} else {
			why = firmware.DestUnreachable
		}
		for range 2 {
			if e, _ := h.pop(); e.Flags != hostDone|why {
				t.Errorf("host goes away: %v: flags %#x", goes, uint32(e.Flags))
			}
		}
		h.written()
		if d := w.now.Sub(began); goes && d > time.Second || d > 4*firmware.AnswerTimeout+time.Second {
			t.Errorf("host goes away: %v: the errors came after %v", goes, d)
		}
		l.release(w.now, w.chips[0]) // too late
		w.run(10 * time.Millisecond)
		if q := h.queue(); q.SQ.Errors != 4 || q.SQ.RdReq != 2 || q.SQ.RdResp != 2 || q.SQ.WrReq != 2 || q.SQ.WrResp != 2 || q.Open != 0 {
			t.Errorf("host goes away: %v: %+v", goes, q)
		}
		if err := w.chips[0].CheckInvariants(); err != nil || w.chips[0].lent.bytes != 0 {
			t.Errorf("host goes away: %v: %v, and %d bytes are under way", goes, err, w.chips[0].lent.bytes)
		}
		w.lend(w.chips[0], 1<<20)
		h.push(firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(0, 0, 0)), Data: 64 << 10, Flags: hostRead}, nil)
		if e, _ := h.pop(); e.Flags != hostDone {
			t.Errorf("with a new host: flags %#x", uint32(e.Flags))
		}
	}
}

// TestStoresOfAHost pushes a request as a host does that has mapped the tile's L1.
func TestStoresOfAHost(t *testing.T) {
	w := n300(t, func(*Config) {})
	h, c := w.host(0, 10), w.chips[0]
	e := firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq}
	for off, b := range map[uint64][]byte{firmware.SQ + firmware.Entries: e.Append(nil), firmware.SQ + firmware.WrIdx: words(1)} {
		if o := c.HandleStore(w.now, 10, off, b); o != wire.OutcomeDone {
			t.Errorf("a store at %#x: %s", off, o)
		}
	}
	if e, _ := h.pop(); e.Flags != firmware.RdData || e.Data != 2121 {
		t.Errorf("%+v", e)
	}
	for _, x := range []struct {
		ch  wire.Channel
		off uint64
	}{{16, 0}, {10, 256<<10 - 3}, {10, 1 << 40}, {10, 0xFFB20110}} {
		if o := c.HandleStore(w.now, x.ch, x.off, words(1)); o != wire.OutcomeBadAddress {
			t.Errorf("a store of channel %d at %#x: %s", x.ch, x.off, o)
		}
	}
}

// TestHostMemoryEndsInMidBlock writes a block whose end lies beyond the end of host memory. The parts before the
// refused transfer take place, and nothing behind these parts changes. The chip reads ahead, so the refusal comes
// before the earlier parts have left.
func TestHostMemoryEndsInMidBlock(t *testing.T) {
	w := n300(t, func(*Config) {})
	r := rand.New(rand.NewPCG(5, 6))
	const size, asked, good = 100 << 10, 160 << 10, 3 * firmware.PullAhead // the fourth transfer reaches beyond the end
	l := w.lend(w.chips[0], size)
	copy(l.b, randomBytes(r, size))
	for chip := range uint8(2) {
		h := w.host(0, wire.Channel(10+chip))
		at := wire.NewNocAddr(0, 0, 0x1000)
		h.push(firmware.Entry{Target: firmware.NewTarget(chip, 0, at), Data: asked, Flags: hostWrite}, nil)
		h.written()
		got := make([]byte, asked)
		w.chips[chip].memory.Read(at, got)
		if !bytes.Equal(got[:good], l.b[:good]) || !bytes.Equal(got[good:], make([]byte, asked-good)) {
			t.Errorf("chip %d: the parts before the refused transfer did not take place, or later parts did", chip)
		}
		if q := h.queue(); q.SQ.Errors != 1 || q.SQ.WrReq != 1 || q.SQ.WrResp != 1 || q.Open != 0 {
			t.Errorf("chip %d: %+v", chip, q)
		}
	}
}
