package chip

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/node/session/mesh"
	"ttfabric/router/control"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

const (
	shiftIn   = 0x20000
	shiftOut  = 0x40000
	shiftSize = 10000
)

var shiftTile = kernel.Tile{X: 1, Y: 1}

// shift writes the kernel's bytes to the right neighbour, and checks what comes from the left neighbour.
func shift(k *kernel.Context) {
	right := wire.FabricNodeID{Chip: wire.ChipID(k.Uint32(0))}
	left, sem := byte(k.Uint32(1)), k.Uint32(2)
	data := make([]byte, shiftSize)
	k.Load(shiftOut, data)
	ls, err := mesh.Connect(k.Sender(), 0)
	if err == nil {
		err = mesh.UnicastFusedAtomicInc(ls, data, k.Tile().Addr(shiftIn), k.Tile().Addr(uint64(sem)), 1, true, right)
	}
	if err != nil {
		panic(err)
	}
	k.NocSemaphoreWaitMin(sem, 1)
	k.Load(shiftIn, data)
	if !bytes.Equal(data, bytes.Repeat([]byte{left}, shiftSize)) {
		panic(fmt.Sprintf("chip %s: wrong bytes from chip %d", k.Self(), left))
	}
}

var testKernels = kernel.Table{
	"shift": shift,
	"wait":  func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 1) },
	"fail":  func(k *kernel.Context) { k.Sleep(time.Millisecond); k.Store32(1, 0) },
}

// jobFabric returns a fabric whose chips run kernels.
func jobFabric(t *testing.T, machine string, seed uint64) *fabric {
	m, err := topo.Named(machine)
	if err != nil {
		t.Fatal(err)
	}
	w := fabricOf(t, m, func(c *Config) { c.Kernels, c.KernelSeed = testKernels, seed })
	t.Cleanup(func() {
		for _, c := range w.chips {
			c.Close(w.now)
		}
	})
	return w
}

// startJob starts a job with one kernel on each chip.
func (w *fabric) startJob(id kernel.JobID, name func(i int) string, args func(i int) []uint32) {
	w.t.Helper()
	for i, c := range w.chips {
		if err := c.StartJob(w.now, w.part(id, name(i), args(i)...)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// part returns a chip's part of a job with one kernel.
func (w *fabric) part(id kernel.JobID, name string, args ...uint32) kernel.Job {
	w.t.Helper()
	b := kernel.NewBuilder(w.m)
	b.CreateKernel(name, shiftTile, append(args, b.CreateGlobalSemaphore(shiftTile))...)
	j, err := b.Job(id, w.m)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// kernelEvents returns the events of jobs of chip i, a line each.
func (w *fabric) kernelEvents(i int) string {
	var s strings.Builder
	for e, ok := w.chips[i].PollEvent(); ok; e, ok = w.chips[i].PollEvent() {
		if e.Kernel != nil {
			fmt.Fprintln(&s, e.Kernel.String())
		}
	}
	return s.String()
}

// TestRingShift runs the ring shift on all chips. Each kernel writes 10,000 bytes over the fabric,
// in several packets. The increment must come after all these packets.
func TestRingShift(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2} {
		w := jobFabric(t, "mesh:2x4", seed)
		n := len(w.chips)
		for i, c := range w.chips {
			for at := 0; at < shiftSize; at += wire.MaxPayload {
				size := min(wire.MaxPayload, shiftSize-at)
				c.Memory().Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: shiftTile.Addr(shiftOut + uint64(at))}, bytes.Repeat([]byte{byte(i)}, size))
			}
		}
		w.startJob(1, func(int) string { return "shift" }, func(i int) []uint32 { return []uint32{uint32((i + 1) % n), uint32((i + n - 1) % n)} })
		w.run(100 * time.Millisecond)
		for i := range w.chips {
			if got := w.kernelEvents(i); got != "job 1 started\njob 1 ended: done\n" {
				t.Errorf("seed %d, chip %d: events\n%s", seed, i, got)
			}
		}
	}
}

// TestJobEndsAsAWhole checks that a job ends on all chips if a kernel fails on one chip, or if a
// program stops the job on one chip. The job must also end on all chips if a chip starts anew or is
// cut off. Each chip must report the chip that ended the job.
func TestJobEndsAsAWhole(t *testing.T) {
	for name, c := range map[string]struct {
		kernels func(i int) string
		do      func(w *fabric)
		want    string // in the events of each chip that reports
		silent  int    // chip that reports nothing, because it is new; -1: none
	}{
		"fails": {func(i int) string {
			if i == 2 {
				return "fail"
			}
			return "wait"
		}, func(*fabric) {}, "job 1 ended: kernel failed, first at chip M0D2, kernel fail@1-1: store at 0x1 of tile 1-1: want a multiple of 4", -1},
		"stopped": {func(int) string { return "wait" }, func(w *fabric) {
			w.chips[3].EndJob(w.now, 1, kernel.End{Why: kernel.EndStopped, By: w.chips[3].Node(), Text: "by hand"})
		}, "job 1 ended: stopped, first at chip M0D3: by hand", -1},
		"restart": {func(int) string { return "wait" }, func(w *fabric) { w.restart(1, 77) }, "job 1 ended: chip started anew, first at chip M0D1", 1},
		"cut off": {func(int) string { return "wait" }, func(w *fabric) {
			for _, d := range []wire.Direction{wire.East, wire.West, wire.North, wire.South} {
				w.cut(w.chips[1], d, true)
			}
		}, "job 1 ended: chip died, first at chip M0D", -1},
	} {
		t.Run(name, func(t *testing.T) {
			w := jobFabric(t, "mesh:2x3", 0)
			w.startJob(1, c.kernels, func(int) []uint32 { return nil })
			w.run(20 * time.Millisecond)
			c.do(w)
			w.run(5 * time.Second)
			for i := range w.chips {
				if got := w.kernelEvents(i); i != c.silent && !strings.Contains(got, c.want) {
					t.Errorf("chip %d: want %q in the events:\n%s", i, c.want, got)
				}
				if n := len(w.chips[i].Jobs()); n != 0 {
					t.Errorf("chip %d still runs %d jobs", i, n)
				}
			}
			for _, x := range w.chips {
				if n := len(x.kernels.notices); n > 0 {
					t.Errorf("chip %s still has %d notices", x.Node(), n)
				}
			}
		})
	}
}

// TestLateStart starts a chip's part of a job after the job has ended on another chip, or after another
// chip has died. The part must end at once. A job with the number of a job that ended on all
// chips runs.
func TestLateStart(t *testing.T) {
	start := func(w *fabric, i int, kernel string) {
		t.Helper()
		if err := w.chips[i].StartJob(w.now, w.part(1, kernel)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		do   func(w *fabric)
		want string
	}{
		"fails": {func(w *fabric) { start(w, 0, "fail") }, "job 1 started\njob 1 ended: kernel failed, first at chip M0D0, kernel fail@1-1: store at 0x1 of tile 1-1: want a multiple of 4\n"},
		"dies": {func(w *fabric) {
			start(w, 0, "wait")
			for _, d := range []wire.Direction{wire.East, wire.West, wire.North, wire.South} {
				w.cut(w.chips[0], d, true)
			}
		}, "job 1 started\njob 1 ended: chip died, first at chip M0D0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := jobFabric(t, "mesh:2x3", 0)
			c.do(w)
			w.run(5 * time.Second)
			start(w, 4, "wait")
			w.run(time.Second)
			if got := w.kernelEvents(4); got != c.want {
				t.Errorf("want the events\n%s, got\n%s", c.want, got)
			}
		})
	}
	w := jobFabric(t, "mesh:2x3", 0)
	for range 2 {
		w.startJob(1, func(i int) string {
			if i == 0 {
				return "fail"
			}
			return "wait"
		}, func(int) []uint32 { return nil })
		w.run(500 * time.Microsecond)
		if n := len(w.chips[4].Jobs()); n != 1 {
			t.Errorf("%d jobs run, want 1", n)
		}
		w.run(time.Second)
	}
}

// FuzzNotice checks that the job register takes any bytes, and that a notice comes back.
func FuzzNotice(f *testing.F) {
	seed := kernel.Notice{Job: 7, End: kernel.End{Why: kernel.EndPanic, Kernel: "a@1-1", Text: "broken"}}.Bytes()
	f.Add(seed[:])
	f.Add(bytes.Repeat([]byte{255}, kernel.NoticeSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := kernel.ParseNotice(b)
		if !ok {
			return
		}
		back := n.Bytes()
		if again, ok := kernel.ParseNotice(back[:]); !ok || again.Job != n.Job || again.End.Why != n.End.Why || again.End.By != n.End.By {
			t.Errorf("%+v came back as %+v, %v", n, again, ok)
		}
	})
}

// TestNoticeBesideAFailure checks that a chip tells the other chips of a failure although a notice about
// another job comes in the same step.
func TestNoticeBesideAFailure(t *testing.T) {
	w := jobFabric(t, "mesh:2x3", 0)
	w.startJob(1, func(i int) string {
		if i == 0 {
			return "fail"
		}
		return "wait"
	}, func(int) []uint32 { return nil })
	b := kernel.Notice{Job: 999, End: kernel.End{Why: kernel.EndStopped}}.Bytes()
	for range 5 { // the kernel fails in one of these steps
		if o := w.chips[0].Memory().Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: kernel.NoticeAddr(w.m.Arch)}, b[:]); o != wire.OutcomeDone {
			t.Fatal(o)
		}
		w.run(time.Millisecond)
	}
	w.run(time.Second)
	for i, c := range w.chips {
		if n := len(c.Jobs()); n != 0 {
			t.Errorf("chip %d still runs %d jobs", i, n)
		}
	}
}

// TestCutOffChipEndsItsJobs cuts a chip off, and measures how long it takes until the job has ended
// on each chip. If the chips know of the cuts, the job ends within the link's silence and the grace
// period. If the chip is only silent, each chip first waits for [control.GiveUp], because a silent
// process may be late. The chip that is cut off must end the job by itself.
func TestCutOffChipEndsItsJobs(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(w *fabric, d wire.Direction)
		wait time.Duration
	}{
		"cut":    {func(w *fabric, d wire.Direction) { w.cut(w.chips[1], d, true) }, 0},
		"silent": {func(w *fabric, d wire.Direction) { w.silence(w.chips[1], d, true) }, control.GiveUp},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := jobFabric(t, "mesh:2x3", 0)
			w.startJob(1, func(int) string { return "wait" }, func(int) []uint32 { return nil })
			w.run(20 * time.Millisecond)
			begin, p := w.now, w.chips[0].cfg.Profile
			for _, d := range []wire.Direction{wire.East, wire.West, wire.North, wire.South} {
				c.cut(w, d)
			}
			limit := c.wait + p.DeadIdle + GraceDeadTimes*p.DeadTraffic
			for w.now.Sub(begin) < limit {
				w.run(time.Millisecond)
			}
			for i := range w.chips {
				by := "M0D1"
				if i == 1 {
					by = "M0D0" // of the chips that it no longer reaches, the first
				}
				if got := w.kernelEvents(i); !strings.Contains(got, "job 1 ended: chip died, first at chip "+by) {
					t.Errorf("chip %d has not ended the job after %v: %s", i, limit, got)
				}
			}
		})
	}
}
