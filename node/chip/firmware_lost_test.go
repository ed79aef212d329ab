package chip

import (
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/wire"
)

// A write that was on a cable whose session ends has an unknown fate. The origin must learn the
// unknown fate, although the tile has no room for responses at that moment.
func TestLostWritesAreToldWhenThereIsRoom(t *testing.T) {
	w := fabricOf(t, named(t, "mesh:1x3"), func(*Config) {})
	deaf := map[wire.FabricNodeID]bool{w.chips[2].Node(): true} // chips that hear nothing from chip 1
	w.lose = func(to wire.PortID, b []byte) bool { return deaf[to.Node] }
	const hosts = 8
	ask := func(x uint8, flags firmware.Flags, n int) {
		for i := range hosts {
			for range n {
				w.host(0, wire.Channel(i)).push(firmware.Entry{Target: firmware.NewTarget(x, 0, wire.NewNocAddr(1, 1, 64)), Flags: flags}, nil)
			}
		}
	}
	ask(2, firmware.WrReq, 1)
	w.run(3 * time.Millisecond)
	deaf[w.chips[0].Node()] = true
	ask(1, firmware.RdReq, 4)
	w.run(3 * time.Millisecond)
	waiting := 0
	for _, q := range w.chips[1].HostQueues() {
		waiting += q.Out[1]
	}
	if waiting != 10 {
		t.Fatalf("%d responses wait at chip 1, want all buffers of both cables", waiting)
	}
	w.restart(2, 99)
	deaf[w.chips[2].Node()] = false
	w.run(20 * time.Millisecond)
	lost := uint64(0)
	for _, q := range w.chips[1].HostQueues() {
		lost += q.Counters.Lost
	}
	if lost != hosts {
		t.Fatalf("the end of the session lost %d writes, want %d", lost, hosts)
	}
	deaf = nil
	w.run(3 * time.Second) // less than AnswerTimeout
	for i := range hosts {
		q := w.host(0, wire.Channel(i)).queue()
		if q.SQ.WrReq != 1 || q.SQ.WrResp != 1 || q.SQ.Errors != 1 || q.SQ.RdResp != 4 || q.Open != 0 {
			t.Errorf("E%d: %+v", i, q)
		}
	}
	for i, c := range w.chips {
		if err := c.CheckInvariants(); err != nil {
			t.Errorf("chip %d: %v", i, err)
		}
	}
}

// The firmware must refuse a whole scatter page if the page's writes need more memory than the chip
// has. The firmware must also refuse the page if registers may refuse one of the writes. No write
// of the page may take place.
func TestRefusedScatterPageWritesNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		second wire.NocAddr
		limit  int64
	}{
		{"memory limit", wire.NewNocAddr(2, 1, 64), 2 * 32 << 10}, // one page for the queues, one for 1-1
		{"register that can only be read", wire.NewNocAddr(8, 0, 0xFFB20110), 0},
		{"command of a transaction queue", wire.NewNocAddr(9, 0, 0xFFB90004), 0},
	} {
		w := n300(t, func(cfg *Config) { cfg.MemoryLimit = c.limit })
		h := w.host(0, 10)
		var page []byte
		for _, a := range []wire.NocAddr{wire.NewNocAddr(1, 1, 64), c.second} {
			page = append(page, section(false, 1, 1, 3, a, nil, words(0x11223344))...)
		}
		page = append(page, 0xF)
		for len(page)%4 != 0 {
			page = append(page, 0)
		}
		h.push(firmware.Entry{Flags: firmware.WrReq | firmware.DataBlock | firmware.Mod, Data: uint32(len(page))}, page)
		w.run(10 * time.Millisecond)
		if q := h.queue().SQ; q.WrReq != 1 || q.WrResp != 1 || q.Errors != 1 {
			t.Errorf("%s: %+v", c.name, q)
		}
		b := make([]byte, 4)
		if w.chips[0].Memory().Read(wire.NewNocAddr(1, 1, 64), b); b[0] != 0 {
			t.Errorf("%s: the first write of the page took place", c.name)
		}
	}
}

// section returns a write section of a scatter page (BDMS, "Scatter pages"). The argument size is p_size and
// offset is p_offset, in words.
func section(vary bool, count, size, offset int, a wire.NocAddr, offsets []uint32, payload []byte) []byte {
	first := uint32(1) | uint32(count)<<8 | uint32(uint64(a)>>32)<<16
	if vary {
		first |= 1 << 4
	}
	b := words(first, uint32(size)|uint32(offset)<<8, uint32(a))
	b = append(b, words(offsets...)...)
	for len(b) < 4*offset {
		b = append(b, 0)
	}
	return append(b, payload...)
}
