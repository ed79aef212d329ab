package chip

import (
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// A chip starts anew while an answer for its former process is on the way. The answer counts for no request
// of the new process, although the request is the first of its tile, as the former request was.
func TestAnswersForAFormerProcessCountForNothing(t *testing.T) {
	w := n300(t, func(*Config) {})
	read := func(off uint64) {
		w.host(0, 10).push(firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(1, 1, off)), Flags: firmware.RdReq}, nil)
	}
	for i, v := range []uint32{1111, 2222} {
		w.put(w.m.Chips[1].Node, wire.NewNocAddr(1, 1, uint64(64*i)), words(v))
	}
	deaf := true
	w.lose = func(to wire.PortID, _ []byte) bool { return deaf && to.Node == w.m.Chips[0].Node }
	read(0)
	w.run(5 * time.Millisecond)
	served := uint64(0)
	for _, q := range w.chips[1].HostQueues() {
		served += q.Counters.Served
	}
	if served != 1 {
		t.Fatalf("chip 1 has served %d reads, want 1", served)
	}
	w.restart(0, 99)
	read(64)
	w.chips[0].Pump(w.now)
	deaf = false
	if e, _ := w.host(0, 10).pop(); e.Flags != firmware.RdData || e.Data != 2222 {
		t.Errorf("flags %#x, data %d; want the data of the new request, 2222", uint32(e.Flags), e.Data)
	}
	if late := w.host(0, 10).queue().Counters.Late; late != 1 {
		t.Errorf("%d late answers, want 1", late)
	}
}

// A kernel of a strict job holds a tile whose host waits for an answer. Answers to the hosts of other tiles,
// which come over the same cable, do not wait for the held tile.
func TestHeldTileKeepsItsAnswers(t *testing.T) {
	w := n300(t, func(cfg *Config) {
		cfg.Kernels = kernel.Table{"gate": func(k *kernel.Context) { k.NocSemaphoreWait(gate, 1) }}
	})
	read := firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq | firmware.Ordered}
	held, free := w.host(0, 10), w.host(0, 11)
	held.push(read, nil)
	w.chips[0].Pump(w.now)
	j := kernel.Job{ID: 1, Strict: true, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "gate", Tile: kernel.Tile{X: held.x, Y: held.y}}}}}}
	if err := w.chips[0].StartJob(w.now, j); err != nil {
		t.Fatal(err)
	}
	w.run(5 * time.Millisecond)
	free.push(read, nil)
	w.run(20 * time.Millisecond)
	if n := free.queue().SQ.RdResp; n != 1 {
		t.Errorf("%d reads of the free tile have ended, want 1", n)
	}
	w.run(2 * firmware.AnswerTimeout)
	if n := held.queue().SQ.RdResp; n != 0 {
		t.Errorf("the firmware of the held tile has worked: %d reads have ended", n)
	}
	held.write(gate, words(1))
	for _, h := range []*client{held, free} {
		if e, _ := h.pop(); e.Flags != firmware.RdData || e.Data != 2121 {
			t.Errorf("flags %#x, data %d", uint32(e.Flags), e.Data)
		}
	}
}

// A request that stores into rd_idx of its own queue makes the firmware accept the same request
// again and again. The chip must go on with its other work, and the host must be able to end the
// repetition.
func TestRequestThatFeedsItself(t *testing.T) {
	w := n300(t, func(*Config) {})
	h := w.host(0, 10)
	e := firmware.Entry{Target: firmware.NewTarget(0, 0, wire.NewNocAddr(h.x, h.y, firmware.SQ+firmware.RdIdx)), Flags: firmware.WrReq, Data: 7}
	h.push(e, nil)
	w.run(5 * time.Millisecond) // each step of the chip ends
	before := h.queue().SQ.WrReq
	if w.run(5 * time.Millisecond); before < 2 || h.queue().SQ.WrReq == before {
		t.Errorf("the firmware accepted %d requests and then %d", before, h.queue().SQ.WrReq-before)
	}
	h.write(firmware.SQ+firmware.WrIdx, words(0)) // the queue is empty
	w.run(5 * time.Millisecond)
	h.push(firmware.Entry{Target: firmware.NewTarget(0, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq}, nil)
	if e, _ := h.pop(); e.Flags != firmware.RdData || e.Data != 3137 {
		t.Errorf("the read after the circle: %+v", e)
	}
}

// A write waits at one tile and then at another, together for longer than [firmware.AnswerTimeout].
// The host has got the error before, so the write must no longer take place.
func TestLateWriteDoesNotTakePlace(t *testing.T) {
	w := n300(t, func(cfg *Config) {
		cfg.Kernels = kernel.Table{"gate": func(k *kernel.Context) { k.NocSemaphoreWait(gate, 1) }}
	})
	h, cable := w.host(0, 10), []*client{w.host(0, 8), w.host(1, 0)}
	for i, at := range cable {
		j := kernel.Job{ID: 1, Strict: true, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "gate", Tile: kernel.Tile{X: at.x, Y: at.y}}}}}}
		if err := w.chips[i].StartJob(w.now, j); err != nil {
			t.Fatal(err)
		}
	}
	w.run(5 * time.Millisecond)
	h.push(firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(1, 1, 64)), Flags: firmware.WrReq | firmware.Ordered, Data: 7}, nil)
	for _, at := range cable {
		w.run(firmware.AnswerTimeout * 9 / 10)
		at.write(gate, words(1))
	}
	w.run(5 * time.Millisecond)
	if q := h.queue().SQ; q.WrReq != 1 || q.WrResp != 1 || q.Errors != 1 {
		t.Errorf("the host sees %+v", q)
	}
	if b := w.get(w.m.Chips[1].Node, wire.NewNocAddr(1, 1, 64), 4); b[0] != 0 {
		t.Error("the write took place after its host had heard of the error")
	}
	if lost := w.tileOf(1, 0).Counters.Lost; lost != 1 {
		t.Errorf("the tile at the end has dropped %d messages, want 1", lost)
	}
}
