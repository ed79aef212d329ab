package chip

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/wire"
)

// resetKernels wait, or put the processor of tile 1-1 into reset. A kernel does so with a store,
// with a NoC command, or with a request over the fabric.
var resetKernels = kernel.Table{
	"wait": func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 1) },
	"own": func(k *kernel.Context) {
		k.Sleep(time.Millisecond)
		k.Store32(noc.SoftReset, noc.ResetFirst)
		k.Store32(0x1004, 1) // the processor is in reset
	},
	"noc": func(k *kernel.Context) {
		k.NocInlineWrite(shiftTile.Addr(noc.SoftReset), noc.ResetFirst)
		k.NocSemaphoreWait(0x1000, 1)
	},
}

// resetFabric returns three chips in a row whose chips run resetKernels.
func resetFabric(t *testing.T) *fabric {
	w := fabricOf(t, named(t, "line:3"), func(c *Config) { c.Kernels = resetKernels })
	t.Cleanup(func() {
		for _, c := range w.chips {
			c.Close(w.now)
		}
	})
	return w
}

// TestResetStopsKernels puts the processor of a tile into reset in each way in which a store can come. The
// kernel of the tile must stop at once, its job must end on all chips, and each report must say who stored.
// A kernel of another job on another tile goes on.
func TestResetStopsKernels(t *testing.T) {
	line := named(t, "line:3")
	cable := line.Cables[0] // between chips 0 and 1
	eth, _ := kernel.EthernetTile(line.Arch, cable.B.Channel)
	store := func(w *fabric, from int) {
		cmd := wire.Command{Type: wire.NocInlineWrite, Addr: shiftTile.Addr(noc.SoftReset), Value: 0x47800}
		if a := w.chips[from].HandleRequest(w.now, flow.Request{Dst: w.chips[1].Node(), Command: cmd}); a != flow.Accepted {
			t.Fatal(a)
		}
	}
	for name, c := range map[string]struct {
		tile   kernel.Tile
		kernel string // of chip 1
		do     func(w *fabric)
		want   string
	}{
		"another chip": {shiftTile, "wait", func(w *fabric) { store(w, 2) }, "kernel wait@1-1: chip M0D2 put the processor of tile 1-1 into reset"},
		"own chip":     {shiftTile, "wait", func(w *fabric) { store(w, 1) }, "kernel wait@1-1: chip M0D1 put the processor of tile 1-1 into reset"},
		"the cable": {eth, "wait", func(w *fabric) {
			if o := w.chips[0].startRegister(cable.A.Channel, 0, noc.SoftReset, noc.ResetFirst); o != wire.OutcomeDone {
				t.Fatal(o)
			}
		}, "kernel wait@" + eth.String() + ": chip M0D0 put the processor of tile " + eth.String() + " into reset"},
		"itself": {shiftTile, "own", func(*fabric) {}, "kernel own@1-1: kernel own@1-1 of chip M0D1 put the processor of tile 1-1 into reset"},
		"another kernel": {shiftTile, "wait", func(w *fabric) {
			j := kernel.Job{ID: 3, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "noc", Tile: kernel.Tile{X: 3, Y: 3}}}}}}
			if err := w.chips[1].StartJob(w.now, j); err != nil {
				t.Fatal(err)
			}
		}, "kernel wait@1-1: kernel noc@3-3 of chip M0D1 put the processor of tile 1-1 into reset"},
		"a host": {shiftTile, "wait", func(w *fabric) {
			h := w.host(1, 9)
			h.push(firmware.Entry{Target: firmware.NewTarget(1, 0, shiftTile.Addr(noc.SoftReset)), Flags: firmware.WrReq, Data: noc.ResetFirst}, nil)
		}, "kernel wait@1-1: a host, through the queues of the base firmware, put the processor of tile 1-1 into reset"},
	} {
		t.Run(name, func(t *testing.T) {
			w := resetFabric(t)
			part := func(id kernel.JobID, name string, at kernel.Tile) kernel.Job {
				return kernel.Job{ID: id, Chips: w.m.Nodes(), Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: name, Tile: at}}}}}
			}
			for i, x := range w.chips {
				if err := x.StartJob(w.now, part(2, "wait", kernel.Tile{X: 2, Y: 2})); err != nil {
					t.Fatal(err)
				}
				k := "wait"
				if i == 1 {
					k = c.kernel
				}
				if err := x.StartJob(w.now, part(1, k, c.tile)); err != nil {
					t.Fatal(err)
				}
			}
			w.run(time.Millisecond)
			c.do(w)
			w.run(time.Second)
			for i, x := range w.chips {
				if got, want := w.kernelEvents(i), "job 1 ended: processor reset, first at chip M0D1, "+c.want+"\n"; !strings.Contains(got, want) {
					t.Errorf("chip %d: want %q in the events:\n%s", i, want, got)
				}
				for _, j := range x.Jobs() {
					if j.Job == 1 {
						t.Errorf("chip %d still runs the job", i)
					}
				}
				if !strings.Contains(w.runs(i), "wait@2-2") {
					t.Errorf("chip %d: the kernel of the other job does not run: %s", i, w.runs(i))
				}
			}
			if b := w.get(w.chips[1].Node(), shiftTile.Addr(0x1004), 4); b[0] != 0 {
				t.Error("the kernel ran on after it had put its own processor into reset")
			}
		})
	}
}

// runs lists the kernels that run on chip i.
func (w *fabric) runs(i int) string {
	var all []string
	for _, j := range w.chips[i].Jobs() {
		all = append(all, j.Kernels...)
	}
	return strings.Join(all, " ")
}

// TestOutOfReset starts jobs on a tile whose processor a store holds in reset: the chip refuses,
// and says how the processor comes out of reset. After the reset, nothing runs on the tile until
// the next job. A program that starts later on such a tile ends its job. A program takes a Tensix
// tile out of the reset at the chip's start.
func TestOutOfReset(t *testing.T) {
	w := resetFabric(t)
	c := w.chips[0]
	reg := func() uint32 {
		return binary.LittleEndian.Uint32(w.get(c.Node(), shiftTile.Addr(noc.SoftReset), 4))
	}
	set := func(v uint32) {
		cmd := wire.Command{Type: wire.NocInlineWrite, Addr: shiftTile.Addr(noc.SoftReset), Value: v}
		if r := w.end(flow.Request{Dst: c.Node(), Command: cmd}); r.Fate != flow.FateDone {
			t.Fatal(r)
		}
	}
	job := func(id kernel.JobID, names ...string) error {
		j := kernel.Job{ID: id}
		for _, n := range names {
			j.Programs = append(j.Programs, kernel.Program{Kernels: []kernel.Start{{Kernel: n, Tile: shiftTile}}})
		}
		return c.StartJob(w.now, j)
	}
	if reg() != 0x47800 {
		t.Errorf("the register is %#x at the start", reg())
	}
	if err := job(1, "wait"); err != nil {
		t.Fatal(err)
	}
	if w.run(time.Millisecond); reg() != 0 || w.runs(0) != "wait@1-1" {
		t.Errorf("with a kernel, the register is %#x, and %q runs", reg(), w.runs(0))
	}
	if set(1 << 12); w.runs(0) != "wait@1-1" { // TRISC 0 runs no kernel here
		t.Error("the reset of TRISC 0 stopped the kernel")
	}
	if set(noc.ResetFirst); w.runs(0) != "" {
		t.Error("the kernel runs in reset")
	}
	want := "the processor of tile 1-1 is held in reset; a store of the word 0 at 1-1:0xffb121b0 takes it out of reset"
	if err := job(2, "wait"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	if set(0); w.runs(0) != "" {
		t.Error("the stopped kernel goes on out of reset")
	}
	if err := job(3, "wait", "wait"); err != nil {
		t.Fatal(err)
	}
	w.run(time.Millisecond)
	c.kernels.Reset(w.now, "") // nothing is in reset
	if w.runs(0) != "wait@1-1" {
		t.Error("no kernel runs out of reset")
	}
	set(noc.ResetFirst)
	set(0)
	if err := job(4, "own", "wait"); err != nil { // the second program would start in reset
		t.Fatal(err)
	}
	w.run(5 * time.Millisecond)
	w.kernelEvents(0)
	set(0)
	j := kernel.Job{ID: 5, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "noc", Tile: kernel.Tile{X: 3, Y: 3}}}}, {Kernels: []kernel.Start{{Kernel: "wait", Tile: shiftTile}}}}}
	if err := c.StartJob(w.now, j); err != nil {
		t.Fatal(err)
	}
	w.run(time.Millisecond)
	w.put(c.Node(), wire.NewNocAddr(3, 3, 0x1000), []byte{1}) // ends the first program
	w.run(time.Millisecond)
	if got := w.kernelEvents(0); !strings.Contains(got, "job 5 ended: processor reset, first at chip M0D0, kernel wait@1-1: the processor of tile 1-1 was in reset at the start of the program") {
		t.Errorf("events\n%s", got)
	}
}

// TestResetStopsTheFirmware puts the processor of an ethernet tile into reset. The tile then serves
// no host, and the tile's heartbeat does not change. After the reset, the firmware serves the
// request that waits.
func TestResetStopsTheFirmware(t *testing.T) {
	w := newFabric(t, named(t, "n300"))
	h := w.host(0, 3)
	reset := func(v uint32) {
		cmd := wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(h.x, h.y, noc.SoftReset), Value: v}
		if r := w.end(flow.Request{Dst: w.chips[0].Node(), Command: cmd}); r.Fate != flow.FateDone {
			t.Fatal(r)
		}
	}
	beats := func() bool {
		before := h.word(0x1C)
		w.run(2 * time.Millisecond)
		return h.word(0x1C) != before
	}
	if !beats() {
		t.Error("the heartbeat stands still")
	}
	reset(noc.ResetFirst)
	h.push(firmware.Entry{Target: firmware.NewTarget(0, 0, wire.NewNocAddr(8, 0, 0xFFB20110)), Flags: firmware.RdReq}, nil)
	w.run(20 * time.Millisecond)
	if q := h.queue(); q.SQ.RdIdx != 0 || q.Counters.Accepted != 0 {
		t.Errorf("the firmware works in reset: %+v", q)
	}
	if beats() || h.word(0x1C) != 0xABCD0000 {
		t.Errorf("the heartbeat is %#x in reset", h.word(0x1C))
	}
	reset(0)
	if e, _ := h.pop(); e.Flags != firmware.RdData || !beats() {
		t.Errorf("out of reset, the answer is %+v", e)
	}
}
