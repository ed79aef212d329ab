package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestEndAmongPrints lets kernels print more lines than the machine keeps. The machine must still
// report the end of the job.
func TestEndAmongPrints(t *testing.T) {
	b := newBench(t, kernel.Table{"talk": func(k *kernel.Context) {
		for range kernel.MaxEvents {
			k.Print("x")
		}
		k.Fail("bad")
	}}, 0)
	b.start(one(1, kernel.Start{Kernel: "talk", Tile: t11}, kernel.Start{Kernel: "talk", Tile: t21}))
	b.run(forever)
	if !strings.Contains(b.log(), "job 1 ended: kernel failed") {
		t.Errorf("%d events, and none is the end of the job", len(b.events))
	}
}

// TestMaxKernels starts jobs until the machine refuses one. Kernels of programs that wait count, too.
func TestMaxKernels(t *testing.T) {
	b := newBench(t, kernel.Table{"sleep": func(k *kernel.Context) { k.Sleep(time.Hour) }}, 0)
	program := func(n int) (p kernel.Program) {
		for range n {
			p.Kernels = append(p.Kernels, kernel.Start{Kernel: "sleep", Tile: t11})
		}
		return p
	}
	const half = kernel.MaxKernels / 2
	b.start(kernel.Job{ID: 1, Programs: []kernel.Program{program(1), program(half)}})
	b.start(kernel.Job{ID: 2, Programs: []kernel.Program{program(half)}})
	if err := b.m.Start(b.now, kernel.Job{ID: 3, Programs: []kernel.Program{program(1)}}); !errors.Is(err, kernel.ErrTooMany) {
		t.Errorf("one kernel too many: %v", err)
	}
	b.m.End(b.now, 1, kernel.End{Why: kernel.EndStopped})
	b.start(kernel.Job{ID: 3, Programs: []kernel.Program{program(half)}})
}

// TestStepBudget runs kernels that never wait. The kernels must make at most StepBudget calls in
// one step. A long store must count as several calls.
func TestStepBudget(t *testing.T) {
	calls, size := 0, 4
	busy := func(k *kernel.Context) {
		for data := make([]byte, size); ; calls++ {
			k.Store(0x20000, data)
		}
	}
	for size = range map[int]bool{4: true, 1 << 20: true} {
		calls = 0
		b := newBench(t, kernel.Table{"busy": busy}, 0)
		b.start(one(1, kernel.Start{Kernel: "busy", Tile: t11}, kernel.Start{Kernel: "busy", Tile: t11}))
		b.m.Step()
		for range 3 {
			b.m.Run(b.now)
		}
		each := (size + wire.MaxPayload - 1) / wire.MaxPayload
		if calls*each > kernel.StepBudget || calls == 0 {
			t.Errorf("%d stores of %d bytes in one step; a step has %d calls", calls, size, kernel.StepBudget)
		}
		b.m.End(b.now, 1, kernel.End{Why: kernel.EndStopped})
	}
}

// TestWatchdogSeesTheStop checks that the machine tells the watchdog of the code that a stopped
// kernel still runs.
func TestWatchdogSeesTheStop(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := noc.New(wire.Wormhole, 0)
	if err != nil {
		t.Fatal(err)
	}
	var runs, inStop fmt.Stringer
	k := kernel.New(kernel.Config{Self: m.Chips[0].Node, Topology: m, Memory: memory, Host: alone{}, Running: func(s fmt.Stringer) { runs = s },
		Table: kernel.Table{"defers": func(k *kernel.Context) {
			defer func() { inStop = runs }()
			k.Sleep(time.Hour)
		}}})
	if err := k.Start(0, one(1, kernel.Start{Kernel: "defers", Tile: t11})); err != nil {
		t.Fatal(err)
	}
	k.Step()
	k.Run(0)
	if k.End(0, 1, kernel.End{Why: kernel.EndStopped}); inStop == nil || runs != nil {
		t.Errorf("while the kernel stopped, the watchdog knew %v, and afterwards %v", inStop, runs)
	}
}
