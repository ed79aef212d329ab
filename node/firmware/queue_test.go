package firmware

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"ttfabric/node/firmware/board"
	"ttfabric/wire"
)

// TestLayout compares the addresses with the structures of BDMS "Queues".
func TestLayout(t *testing.T) {
	const counters, queue, cmd = 16 * 8, 8*4 + 4*4 + 4*4 + 4*32, 8 + 4 + 4 + 2 + 5*2 + 4
	for _, c := range []struct {
		field     string
		got, want uint64
	}{
		{"eth_base_firmware_queues_t::sq", SQ, 0x11000 + counters},
		{"eth_base_firmware_queues_t::cq", CQ, 0x11000 + counters + 2*queue},
		{"eth_base_firmware_queues_t::buffers", Buffers, 0x11000 + 4096},
		{"eth_base_firmware_queues_t::internal_buffers", InternalBuffers, 0x11000 + 4096 + 4*1024},
		{"the end", End, 0x11000 + 4096 + 24*1024},
		{"eth_queue_t::wr_idx", WrIdx, 0x20},
		{"eth_queue_t::rd_idx", RdIdx, 0x30},
		{"eth_queue_t::entries", Entries, 0x40},
		{"sizeof(eth_queue_t)", QueueSize, queue},
		{"sizeof(routing_cmd_t)", EntrySize, cmd},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#x, want %#x", c.field, c.got, c.want)
		}
	}
	if wordsEnd > Buffers {
		t.Errorf("the firmware's own words end at %#x", wordsEnd)
	}
	w := newRig(t, named(t, "n300"), 0)
	for ch := range wire.Channel(16) {
		if got := w.user(0, ch).word(0x170); got != 0x11000 {
			t.Errorf("E%d publishes %#x", ch, got)
		}
	}
}

// Indices count modulo 8, an entry is index & 3, and a block is in the buffer of its entry (BDMS, "Queues").
// Requests are consumed in order, and completions are allocated in order.
func TestQueuesWrap(t *testing.T) {
	w := newRig(t, named(t, "n300"), 0)
	h := w.user(0, 10)
	for i := range uint32(20) {
		at := tensix.Addr(uint64(i) * 1024)
		h.push(Entry{Target: NewTarget(1, 0, at), Data: 1024, Flags: WrReq | DataBlock | Ordered}, fill(1024 + int(i))[i:])
		h.push(Entry{Target: NewTarget(1, 0, at), Data: 1024, Flags: RdReq | DataBlock | Ordered}, nil)
		if h.word(SQ+WrIdx) != 2*(i+1)&7 {
			t.Fatal("the test is wrong")
		}
		w.settle()
		if q := h.queue(); q.SQ.RdIdx != 2*(i+1)&7 || q.CQ.WrIdx != (i+1)&7 {
			t.Fatalf("%+v", q)
		}
		slot := i & 3
		if b := h.read(Buffers+uint64(slot)*BlockSize, BlockSize); !bytes.Equal(b, fill(1024 + int(i))[i:]) {
			t.Errorf("read %d: buffers[%d] has other bytes", i, slot)
		}
		if _, _, ok := h.pop(); !ok {
			t.Fatalf("read %d has not ended", i)
		}
	}
	w.quiet()
}

// The firmware accepts a read only if the completion queue has room for the completion. Otherwise
// the read and the requests behind the read wait in the submission queue.
func TestFullCompletionQueue(t *testing.T) {
	w := newRig(t, named(t, "n300"), 0)
	h := w.user(0, 10)
	read := Entry{Target: NewTarget(1, 0, tensix.Addr(64)), Flags: RdReq}
	for range 4 {
		h.push(read, nil)
	}
	w.settle()
	for range 3 {
		h.push(read, nil)
	}
	h.push(Entry{Target: NewTarget(1, 0, tensix.Addr(64)), Data: 7, Flags: WrReq}, nil)
	w.settle()
	if q := h.queue().SQ; q.RdReq != 4 || q.WrReq != 0 || !h.full() {
		t.Errorf("%+v", q)
	}
	for i := range 7 {
		if _, _, ok := h.pop(); !ok {
			t.Fatalf("completion %d is missing", i)
		}
		w.settle()
	}
	if q := h.queue().SQ; q.RdReq != 7 || q.RdResp != 7 || q.WrResp != 1 {
		t.Errorf("%+v", q)
	}
	w.quiet()
}

// The same buffers hold data of writes and of reads (BDMS: "the same buffers array is used"). A host that
// pushes a write before it has popped its reads loses bytes.
func TestBuffersAreShared(t *testing.T) {
	w := newRig(t, named(t, "n300"), 0)
	h := w.user(0, 10)
	h.push(Entry{Target: NewTarget(0, 0, tensix.Addr(0)), Data: 64, Flags: RdReq | DataBlock}, nil)
	w.settle()
	h.push(Entry{Target: NewTarget(0, 0, tensix.Addr(64)), Data: 7, Flags: WrReq}, nil)
	h.push(Entry{Target: NewTarget(0, 0, tensix.Addr(64)), Data: 7, Flags: WrReq}, nil)
	h.push(Entry{Target: NewTarget(0, 0, tensix.Addr(64)), Data: 7, Flags: WrReq}, nil)
	w.settle()
	h.push(Entry{Target: NewTarget(0, 0, tensix.Addr(1024)), Data: 64, Flags: WrReq | DataBlock}, fill(64)) // slot 0 again
	if _, b, ok := h.pop(); !ok || !bytes.Equal(b[:64], fill(64)) {
		t.Error("the write did not overwrite the bytes of the read")
	}
}

// Indices that name more than four entries stop a queue, with one event. The queue goes on when the host
// stores a right index.
func TestWrongIndices(t *testing.T) {
	w := newRig(t, named(t, "n300"), 0)
	h := w.user(0, 10)
	for wr := range uint32(20) {
		h.write(SQ+WrIdx, words(h.word(SQ+RdIdx)+5+wr%3))
		w.settle()
	}
	e, ok := h.u.m.PollEvent()
	_, more := h.u.m.PollEvent()
	if q := h.queue(); !ok || more || e.Reason != BadIndex || q.SQ.WrReq+q.SQ.RdReq != 0 || q.Open != 0 {
		t.Errorf("%+v, event %v %v, another %v", q, e, ok, more)
	}
	h.write(SQ+WrIdx, words(h.word(SQ+RdIdx)))
	h.push(Entry{Target: NewTarget(0, 0, tensix.Addr(64)), Flags: RdReq}, nil)
	w.settle()
	if _, _, ok := h.pop(); !ok {
		t.Error("the queue stands still")
	}
}

// Each refusal adds to the error counter. Only the first [MaxReports] refusals of a tile are
// events, and the last event says that no further events follow.
func TestReportsEnd(t *testing.T) {
	w := newRig(t, named(t, "n300"), 0)
	h := w.user(0, 10)
	last, events := Event{}, 0
	for range MaxReports + 10 {
		h.push(Entry{Target: NewTarget(0, 0, tensix.Addr(2)), Flags: WrReq}, nil)
		w.settle()
		for e, ok := h.u.m.PollEvent(); ok; e, ok = h.u.m.PollEvent() {
			last, events = e, events+1
		}
	}
	want := fmt.Sprintf("firmware of ethernet tile E10 refused a host's request (flags 0x1, chip (0, 0, 0, 0) 1-1:0x2): misaligned address; the tile only counts further such requests, because it has reported %d", MaxReports)
	if events != MaxReports || !last.Last || last.String() != want {
		t.Errorf("%d events, the last: %s", events, last.String())
	}
	if q := h.queue(); q.SQ.Errors != MaxReports+10 || q.Counters.Refused != MaxReports+10 {
		t.Errorf("%+v", q)
	}
}

// With Ordered, requests to one chip take the same cables and keep their order. Without Ordered,
// requests may take different cables, and the later request may be performed first (BDMS, "Stage
// 2").
func TestOrder(t *testing.T) {
	for _, flags := range []Flags{Ordered, 0} {
		swapped := 0
		for seed := range uint64(40) {
			w := newRig(t, named(t, "n300"), seed+1)
			h, to := w.user(0, 10), w.chips[1]
			for i := range uint64(QueueLen) {
				h.push(Entry{Target: NewTarget(1, 0, tensix.Addr(4*i)), Data: 1, Flags: WrReq | flags}, nil)
			}
			w.settle()
			if len(to.stores) != QueueLen {
				t.Fatalf("%d stores", len(to.stores))
			}
			for i := 1; i < QueueLen; i++ {
				if to.stores[i].Addr < to.stores[i-1].Addr {
					swapped++
				}
			}
			w.quiet()
		}
		if (swapped > 0) != (flags == 0) {
			t.Errorf("flags %#x: %d requests overtook others", uint32(flags), swapped)
		}
	}
}

// Without a seed, a tile's requests to a chip keep their order. At the end, each byte of the chip must be from the last
// request that wrote the byte. The requests are words, blocks, and blocks in host memory. They take several hops, while
// links are down for a moment. luwen relies on this order.
func TestOrderWithoutSeed(t *testing.T) {
	together := 0 // times that several requests with data in host memory were under way
	for seed := range uint64(20) {
		w := newRig(t, named(t, "t3000"), 0)
		w.rng = rand.New(rand.NewPCG(seed+1, 0))
		h, p := w.user(0, 10), w.chips[[]int{3, 6}[seed%2]] // two and three hops
		pos, want := board.Coords(w.m)[p.self], make([]byte, 16<<10)
		turn := func() {
			for _, u := range w.chips {
				for _, port := range w.m.Ports(u.self) {
					w.down[port.Local] = w.rng.IntN(3) == 0
				}
				u.m.Run(w.now)
				u.transferred()
				u.deliver()
			}
		}
		for i := range 40 {
			n, flags, host := 4*(1+w.rng.IntN(1500)), WrReq|DataBlock|DataBlockDRAM, uint64(i)<<16
			switch w.rng.IntN(5) {
			case 0:
				n, flags = 4, WrReq
			case 1:
				n, flags = 4*(2+w.rng.IntN(255)), WrReq|DataBlock
			}
			at := 32 * w.rng.IntN((len(want)-n)/32)
			b := fill(n + i)[i:]
			e := Entry{Target: NewTarget(pos.X, pos.Y, tensix.Addr(uint64(at))), RackXY: uint16(pos.Rack) | uint16(pos.Shelf)<<8, Data: uint32(n), Flags: flags, HostAddr: uint32(host)}
			if flags == WrReq {
				e.Data = binary.LittleEndian.Uint32(b)
			}
			for k, v := range b {
				h.u.host[host+uint64(k)] = v
			}
			for turns := 0; h.full(); turns++ {
				if turn(); turns > 10_000 {
					t.Fatal("the firmware takes no requests")
				}
			}
			if flags&DataBlockDRAM != 0 {
				b = nil
			}
			h.push(e, b)
			copy(want[at:], fill(n + i)[i:])
			spread := 0
			for _, r := range h.u.m.tile(h.ch).open {
				if r.entry.Flags&DataBlockDRAM != 0 && r.next > 0 {
					spread++
				}
			}
			if spread > 1 {
				together++
			}
			turn()
		}
		clear(w.down)
		w.settle()
		got := make([]byte, len(want))
		p.memory.Read(tensix.Addr(0), got)
		if i := 0; !bytes.Equal(got, want) {
			for got[i] == want[i] {
				i++
			}
			t.Fatalf("seed %d: byte %#x is not from the last write", seed, i)
		}
		w.quiet()
	}
	if together == 0 {
		t.Error("requests for different bytes wait for each other")
	}
}
