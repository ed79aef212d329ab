package chip

import (
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// gate is the word that a kernel of TestStrictJob waits for.
const gate = 0x19000

// The firmware of a tile with a kernel of a strict job works only inside RunRouting (CCL guide,
// "Link Health and Retraining"). Without the option, the firmware works beside the kernel.
func TestStrictJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		strict bool
		tile   wire.Channel // tile of the kernel
		inside bool         // the kernel waits in a call that itself runs the routing
		served bool         // the firmware serves the host although the kernel waits
	}{
		{name: "beside kernels", tile: 10, served: true},
		{name: "host's own tile", strict: true, tile: 10},
		{name: "tile with the cable", strict: true, tile: 8},
		{name: "another tile", strict: true, tile: 12, served: true},
		{name: "inside a call with RunRouting", strict: true, tile: 8, inside: true, served: true},
	} {
		w := n300(t, func(cfg *Config) {
			cfg.Kernels = kernel.Table{"gate": func(k *kernel.Context) {
				for turn := range uint32(3) {
					if c.inside {
						k.EthNocSemaphoreWait(gate, turn+1)
					} else {
						k.NocSemaphoreWait(gate, turn+1)
						k.RunRouting()
					}
				}
			}}
		})
		at := w.host(0, c.tile)
		h := w.host(0, 10)
		j := kernel.Job{ID: 1, Strict: c.strict, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "gate", Tile: kernel.Tile{X: at.x, Y: at.y}}}}}}
		if err := w.chips[0].StartJob(w.now, j); err != nil {
			t.Fatal(err)
		}
		w.run(5 * time.Millisecond)
		if jobs := w.chips[0].Jobs(); len(jobs) != 1 || jobs[0].Strict != c.strict {
			t.Errorf("%s: jobs %+v", c.name, jobs)
		}
		done := func() uint32 { return h.queue().SQ.RdResp }
		h.push(firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq}, nil)
		w.run(20 * time.Millisecond)
		if got := done() == 1; got != c.served {
			t.Errorf("%s: served: %v, want %v", c.name, got, c.served)
		}
		for turn := range uint32(3) { // each turn lets the firmware work once: for the request, and for the response
			at.write(gate, words(turn+1))
			w.run(20 * time.Millisecond)
		}
		if len(w.chips[0].Jobs()) != 0 || done() != 1 {
			t.Errorf("%s: %d jobs run, %d reads ended", c.name, len(w.chips[0].Jobs()), done())
		}
	}
}

// While a kernel holds a tile, no request of the tile ends. A request whose time is over ends when
// the firmware may work again.
func TestStrictJobHoldsDeadlines(t *testing.T) {
	w := n300(t, func(cfg *Config) {
		cfg.Kernels = kernel.Table{"gate": func(k *kernel.Context) { k.NocSemaphoreWait(gate, 1) }}
	})
	h := w.host(0, 10)
	w.silence(w.chips[0], wire.East, true)
	h.push(firmware.Entry{Target: firmware.NewTarget(1, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq}, nil)
	w.run(5 * time.Millisecond)
	j := kernel.Job{ID: 1, Strict: true, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "gate", Tile: kernel.Tile{X: h.x, Y: h.y}}}}}}
	if err := w.chips[0].StartJob(w.now, j); err != nil {
		t.Fatal(err)
	}
	w.run(2 * firmware.AnswerTimeout)
	if q := h.queue(); q.SQ.RdReq != 1 || q.SQ.RdResp != 0 {
		t.Errorf("the firmware of a held tile has worked: %+v", q)
	}
	if at, ok := w.chips[0].firmware.Deadline(); ok && !at.After(w.now) {
		t.Errorf("a held tile keeps the chip busy")
	}
	h.write(gate, words(1))
	w.run(5 * time.Millisecond)
	if e, _ := h.pop(); e.Flags != firmware.RdData|firmware.DestUnreachable {
		t.Errorf("flags %#x", uint32(e.Flags))
	}
}

// A host's store asks the firmware to train a link again. A strict job on the link's tile holds the retrain back
// until its kernel is inside RunRouting.
func TestStrictJobHoldsRetrains(t *testing.T) {
	w := n300(t, func(cfg *Config) {
		cfg.Kernels = kernel.Table{"gate": func(k *kernel.Context) {
			k.NocSemaphoreWait(gate, 1)
			k.RunRouting()
		}}
	})
	const force, count = 0x1EFC, 0x1EDC // tt-umd: the retrain word, and the number of retrains
	h := w.host(0, 8)
	j := kernel.Job{ID: 1, Strict: true, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "gate", Tile: kernel.Tile{X: h.x, Y: h.y}}}}}}
	if err := w.chips[0].StartJob(w.now, j); err != nil {
		t.Fatal(err)
	}
	w.run(5 * time.Millisecond)
	h.write(force, words(1))
	w.run(time.Second)
	if h.word(force) != 1 || h.word(count) != 0 {
		t.Errorf("the link has trained again: force %d, retrains %d", h.word(force), h.word(count))
	}
	h.write(gate, words(1))
	w.run(time.Second)
	if h.word(force) != 0 || h.word(count) != 1 {
		t.Errorf("inside RunRouting: force %d, retrains %d", h.word(force), h.word(count))
	}
}
