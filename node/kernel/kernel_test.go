package kernel_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// alone is the host of a chip without cables: every request ends at once as refused, and every queue is
// busy for ever.
type alone struct{}

func (alone) Start(mono.Time, *flow.Request) flow.Admission { return flow.NoSuchChip }
func (alone) Busy(wire.Channel, int) bool                   { return true }
func (alone) Send(_ mono.Time, _ kernel.JobID, _ wire.Channel, q int, _, _ uint32, _ int) (int, bool) {
	return q, false
}
func (alone) MoveHost(uint64, uint64, []byte, int) bool { return false }
func (alone) Released(wire.Channel, uint32) bool        { return true }
func (alone) Sending(wire.Channel, uint32, int) bool    { return false }

var t11, t21 = kernel.Tile{X: 1, Y: 1}, kernel.Tile{X: 2, Y: 1}

// bench is a machine with a memory and a clock.
type bench struct {
	t        testing.TB
	m        *kernel.Machine
	memory   *noc.Memory
	topology *topo.Topology
	now      mono.Time
	events   []kernel.Event
}

func newBench(t testing.TB, table kernel.Table, seed uint64) *bench {
	t.Helper()
	return newBenchOf(t, table, seed, 0)
}

// newBenchOf returns a bench with a limit of the memory, in bytes.
func newBenchOf(t testing.TB, table kernel.Table, seed uint64, limit int64) *bench {
	t.Helper()
	top, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := noc.New(wire.Wormhole, limit)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, memory: memory, topology: top}
	b.m = kernel.New(kernel.Config{Self: top.Chips[0].Node, Topology: top, Memory: memory, Host: alone{}, Table: table, Seed: seed})
	t.Cleanup(func() { b.m.Close(b.now) })
	return b
}

// run runs the machine until nothing is due at the time "until" or before.
func (b *bench) run(until mono.Time) {
	b.t.Helper()
	for steps := 0; ; steps++ {
		if steps > 1e6 {
			b.t.Fatal("the machine does not come to rest")
		}
		b.m.Step()
		for b.m.Run(b.now) {
		}
		for e, ok := b.m.PollEvent(); ok; e, ok = b.m.PollEvent() {
			b.events = append(b.events, e)
		}
		d, ok := b.m.Deadline()
		if !ok || d.After(until) {
			return
		}
		b.now = max(b.now, d)
	}
}

func (b *bench) start(j kernel.Job) {
	b.t.Helper()
	if err := b.m.Start(b.now, j); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) word(t kernel.Tile, a uint32) uint32 {
	var w [4]byte
	b.memory.Read(t.Addr(uint64(a)), w[:])
	return uint32(w[0]) | uint32(w[1])<<8 | uint32(w[2])<<16 | uint32(w[3])<<24
}

func (b *bench) log() string {
	var s strings.Builder
	for i := range b.events {
		fmt.Fprintln(&s, b.events[i].String())
	}
	return s.String()
}

const forever = mono.Time(1 << 60)

func one(id kernel.JobID, starts ...kernel.Start) kernel.Job {
	return kernel.Job{ID: id, Programs: []kernel.Program{{Kernels: starts}}}
}

// TestPingPong lets two kernels send a word back and forth. The increment of one kernel ends the
// wait of the other kernel.
func TestPingPong(t *testing.T) {
	const rounds = 100
	side := func(other kernel.Tile, first bool) kernel.Func {
		return func(k *kernel.Context) {
			for i := uint32(1); i <= rounds; i++ {
				if first {
					k.NocSemaphoreInc(other.Addr(0x1000), 1)
				}
				k.NocSemaphoreWait(0x1000, i)
				if !first {
					k.NocSemaphoreInc(other.Addr(0x1000), 1)
				}
			}
		}
	}
	for _, seed := range []uint64{0, 1, 2, 3} {
		b := newBench(t, kernel.Table{"ping": side(t21, true), "pong": side(t11, false)}, seed)
		b.start(one(1, kernel.Start{Kernel: "ping", Tile: t11}, kernel.Start{Kernel: "pong", Tile: t21}))
		b.run(forever)
		if b.word(t11, 0x1000) != rounds || b.word(t21, 0x1000) != rounds || !strings.HasSuffix(b.log(), "job 1 ended: done\n") {
			t.Errorf("seed %d: %d and %d increments, want %d; events:\n%s", seed, b.word(t11, 0x1000), b.word(t21, 0x1000), rounds, b.log())
		}
	}
}

// TestPollingYields checks that a kernel that polls a word in a loop lets another kernel change the word.
func TestPollingYields(t *testing.T) {
	b := newBench(t, kernel.Table{
		"poll": func(k *kernel.Context) {
			for k.Load32(0x1000) == 0 {
			}
			k.Store32(0x1004, 7)
		},
		"set": func(k *kernel.Context) {
			k.Sleep(time.Second)
			k.NocInlineWrite(t11.Addr(0x1000), 1)
		},
	}, 0)
	b.start(one(1, kernel.Start{Kernel: "poll", Tile: t11}, kernel.Start{Kernel: "set", Tile: t21}))
	b.run(forever)
	if b.word(t11, 0x1004) != 7 {
		t.Errorf("the polling kernel did not see the word; events:\n%s", b.log())
	}
}

// TestWaitSeesEachStore checks that a wait for a value ends although the value changes again before the
// kernel continues.
func TestWaitSeesEachStore(t *testing.T) {
	b := newBench(t, kernel.Table{
		"wait": func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 1); k.Store32(0x1004, k.Load32(0x1000)) },
		"inc": func(k *kernel.Context) {
			k.NocSemaphoreInc(t11.Addr(0x1000), 1)
			k.NocSemaphoreInc(t11.Addr(0x1000), 1)
		},
	}, 0)
	b.start(one(1, kernel.Start{Kernel: "wait", Tile: t11}, kernel.Start{Kernel: "inc", Tile: t21}))
	b.run(forever)
	if b.word(t11, 0x1004) != 2 {
		t.Errorf("the kernel saw %d when it continued, want 2; events:\n%s", b.word(t11, 0x1004), b.log())
	}
}

// TestSourceOverwritten stores into the source of a NoC write that is under way. The machine must
// report the store, and the bytes of the store must arrive.
func TestSourceOverwritten(t *testing.T) {
	b := newBench(t, kernel.Table{"bad": func(k *kernel.Context) {
		k.Store32(0x1000, 1)
		k.NocAsyncWrite(0x1000, t21.Addr(0x1000), 4)
		k.Store32(0x1000, 2)
		k.NocAsyncWriteBarrier()
		k.Store32(0x1000, 3) // allowed
	}}, 0)
	b.start(one(1, kernel.Start{Kernel: "bad", Tile: t11}))
	b.run(forever)
	if got := b.word(t21, 0x1000); got != 2 {
		t.Errorf("the destination has %d, want 2", got)
	}
	if n := strings.Count(b.log(), "overwritten"); n != 1 || !strings.Contains(b.log(), "kernel bad@1-1: the source of a NoC command was overwritten") {
		t.Errorf("%d reports; events:\n%s", n, b.log())
	}
}

// TestEndsOfJobs checks how jobs end: by a panic, by a wrong call, by a stop, and with the chip.
func TestEndsOfJobs(t *testing.T) {
	table := kernel.Table{
		"panics":  func(k *kernel.Context) { k.Sleep(time.Millisecond); var p *int; *p = 1 },
		"faults":  func(k *kernel.Context) { k.Store32(2, 1) },
		"waits":   func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 1) },
		"ignores": func(k *kernel.Context) { defer func() { recover() }(); k.NocSemaphoreWait(0x1000, 1) },
		"polls": func(k *kernel.Context) {
			for {
				k.Load32(0)
			}
		},
	}
	for _, c := range []struct {
		kernels []string
		stop    bool
		want    []string
	}{
		{[]string{"panics", "waits"}, false, []string{"kernel failed", "panics@1-1", "nil pointer dereference at kernel_test.go:"}},
		{[]string{"faults", "waits"}, false, []string{"kernel failed", "store at 0x2 of tile 1-1: want a multiple of 4"}},
		{[]string{"waits", "polls"}, true, []string{"job 1 ended: stopped, first at chip M0D1"}},
		{[]string{"ignores"}, true, []string{"kernel ignores@1-1 recovered from being stopped", "ended: stopped"}},
	} {
		before := runtime.NumGoroutine()
		b := newBench(t, table, 0)
		var starts []kernel.Start
		for i, n := range c.kernels {
			starts = append(starts, kernel.Start{Kernel: n, Tile: kernel.Tile{X: uint8(1 + i), Y: 1}})
		}
		b.start(one(1, starts...))
		b.run(mono.Time(time.Second))
		if c.stop && !b.m.End(b.now, 1, kernel.End{Why: kernel.EndStopped, By: wire.FabricNodeID{Chip: 1}}) {
			t.Errorf("%v: the job ended before it was stopped", c.kernels)
		}
		b.run(mono.Time(time.Second))
		for _, w := range c.want {
			if !strings.Contains(b.log(), w) {
				t.Errorf("%v: want %q in the events:\n%s", c.kernels, w, b.log())
			}
		}
		if !b.m.Idle() {
			t.Errorf("%v: the job still runs", c.kernels)
		}
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%v: %d goroutines before, %d after", c.kernels, before, after)
		}
	}
}

// TestRefusedJobs checks that Start names what is wrong with a job, and changes nothing.
func TestRefusedJobs(t *testing.T) {
	b := newBench(t, kernel.Table{"waits": func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 1) }}, 0)
	b.start(kernel.Job{ID: 1, Name: "first", Owner: "rank 3", Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "waits", Tile: t11}},
		Buffers: []kernel.Buffer{{Tile: t11, Addr: 0x2000, Size: 0x100}}}}})
	for want, j := range map[string]kernel.Job{
		"a job of this id runs already":            one(1),
		"no kernel of this name":                   one(2, kernel.Start{Kernel: "none", Tile: t11}),
		"no Tensix or ethernet tile 0-0":           one(2, kernel.Start{Kernel: "waits"}),
		"belongs to job 1, \"first\", of rank 3; ": {ID: 2, Programs: []kernel.Program{{Buffers: []kernel.Buffer{{Tile: t11, Addr: 0x20ff, Size: 1}}}}},
		"tile 1-1 has 1499136 bytes":               {ID: 2, Programs: []kernel.Program{{Buffers: []kernel.Buffer{{Tile: t11, Addr: 0xffffffff, Size: 0xffffffff}}}}},
		"semaphore at 0x4 of tile 1-1: want a mu":  {ID: 2, Programs: []kernel.Program{{Semaphores: []kernel.Semaphore{{Tile: t11, Addr: 4}}}}},
	} {
		if err := b.m.Start(b.now, j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if n := len(b.m.Jobs()); n != 1 {
		t.Errorf("%d jobs run, want 1", n)
	}
}

// TestProgramsInOrder checks that the programs of a job run one after another, and that an idle machine
// has no deadline.
func TestProgramsInOrder(t *testing.T) {
	b := newBench(t, kernel.Table{"add": func(k *kernel.Context) {
		k.Sleep(time.Duration(k.Uint32(0)))
		k.Store32(0x1000, k.Load32(0x1000)*10+k.Uint32(1))
	}}, 0)
	bld := func(sleep, digit uint32) kernel.Program {
		p := kernel.NewBuilder(b.topology)
		p.CreateKernel("add", t11, sleep, digit)
		made, err := p.Build()
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	b.start(kernel.Job{ID: 1, Programs: []kernel.Program{bld(3000, 1), bld(2000, 2), bld(1000, 3)}})
	b.run(forever)
	if got := b.word(t11, 0x1000); got != 123 {
		t.Errorf("the programs left %d, want 123", got)
	}
	if d, ok := b.m.Deadline(); ok {
		t.Errorf("an idle machine has a deadline at %v", d)
	}
}

// TestJobsEndTogether checks that several jobs can end in one step.
func TestJobsEndTogether(t *testing.T) {
	b := newBench(t, kernel.Table{"sleep": func(k *kernel.Context) { k.Sleep(time.Millisecond) }}, 0)
	for i := range 5 {
		b.start(one(kernel.JobID(i+1), kernel.Start{Kernel: "sleep", Tile: kernel.Tile{X: uint8(1 + i%4), Y: 1}}))
	}
	b.run(forever)
	if n := strings.Count(b.log(), "ended: done"); n != 5 || !b.m.Idle() {
		t.Errorf("%d of 5 jobs ended:\n%s", n, b.log())
	}
}

// BenchmarkWake measures the time in which a store wakes a kernel, and the kernel waits again.
func BenchmarkWake(b *testing.B) {
	x := newBench(b, kernel.Table{"wait": func(k *kernel.Context) {
		for i := uint32(1); ; i++ {
			k.NocSemaphoreWait(0x1000, i)
		}
	}}, 0)
	x.start(one(1, kernel.Start{Kernel: "wait", Tile: t11}))
	x.run(0)
	cmd := wire.Command{Type: wire.NocAtomicInc, Addr: t11.Addr(0x1000), Value: 1}
	b.ReportAllocs()
	for b.Loop() {
		x.memory.Execute(&cmd, nil)
		x.m.Step()
		for x.m.Run(0) {
		}
	}
}

// TestLaunchWord checks the word launch_user_kernel of an ethernet tile. The word is 1 while kernels
// run on the tile, and 0 before and afterwards, also after a job that failed. A Tensix tile has no such
// word.
func TestLaunchWord(t *testing.T) {
	eth := kernel.Tile{X: 9, Y: 0}
	table := kernel.Table{
		"waits":  func(k *kernel.Context) { k.NocSemaphoreWait(kernel.EthBase+0x100, 1) },
		"panics": func(k *kernel.Context) { k.NocSemaphoreWait(kernel.EthBase+0x100, 1); panic("bad") },
	}
	for name, end := range map[string]string{"waits": "ended: done", "panics": "kernel failed"} {
		b := newBench(t, table, 0)
		check := func(when string, want uint32) {
			t.Helper()
			if got := b.word(eth, kernel.EriscInfo); got != want {
				t.Errorf("%s, %s: launch_user_kernel is %d, want %d", name, when, got, want)
			}
			if got := b.word(t11, kernel.EriscInfo); got != 0 {
				t.Errorf("%s, %s: the word of a Tensix tile is %d", name, when, got)
			}
		}
		check("before", 0)
		b.start(one(1, kernel.Start{Kernel: name, Tile: eth}, kernel.Start{Kernel: "waits", Tile: t11}))
		b.run(mono.Time(time.Second))
		check("during", 1)
		for _, tile := range []kernel.Tile{t11, eth} {
			b.memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: tile.Addr(kernel.EthBase + 0x100), Value: 1}, nil)
		}
		b.run(mono.Time(2 * time.Second))
		check("afterwards", 0)
		if !strings.Contains(b.log(), end) {
			t.Errorf("%s: want %q in the events:\n%s", name, end, b.log())
		}
	}
}
