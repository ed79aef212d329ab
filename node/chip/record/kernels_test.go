package record_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestJobsReplayIdentically records a chip that runs a job with random delays, and replays the
// recording. With the job's kernels, the replay is identical to the bit. If a program lacks a
// kernel of the recording, the error names the kernel. If the program's kernel does something else,
// the replay finds the difference.
func TestJobsReplayIdentically(t *testing.T) {
	count := func(step time.Duration) kernel.Func {
		return func(k *kernel.Context) {
			for i := range uint32(20) {
				k.NocSemaphoreInc(k.Tile().Addr(0x1000), i)
				k.NocAsyncWriteBarrier()
				k.Sleep(step)
				k.Print("step %d: %d", i, k.Load32(0x1000))
			}
		}
	}
	table := kernel.Table{"count": count(time.Millisecond), "wait": func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 7) }}
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	cfg := chip.Config{Node: m.Chips[0].Node, Incarnation: 5, Topology: m, MaxPayload: 1408, Kernels: table, KernelSeed: 9}
	now := mono.Time(1)
	c, err := chip.New(now, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := record.NewWriter(&file, record.Header{Started: now, Config: cfg}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	r := record.NewRecorder(now, func(b []byte) ([]byte, error) { return b[:0], w.Block(b) })
	c.Wrap(r.Wrap)
	job := func(id kernel.JobID, name string, x uint8) kernel.Job {
		return kernel.Job{ID: id, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: name, Tile: kernel.Tile{X: x, Y: 1}, Args: []byte{1, 2, 3, 4}}}}}}
	}
	if err := c.StartJob(now, job(1, "count", 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.StartJob(now, job(2, "wait", 2)); err != nil {
		t.Fatal(err)
	}
	prints, ended := 0, 0
	for end := now.Add(60 * time.Millisecond); now.Before(end); now = now.Add(100 * time.Microsecond) {
		c.Tick(now)
		c.Pump(now)
		for _, _, ok := c.PollTransmit(now); ok; _, _, ok = c.PollTransmit(now) {
		}
		for e, ok := c.PollEvent(); ok; e, ok = c.PollEvent() {
			switch {
			case e.Kernel != nil && e.Kernel.Kind == kernel.KernelPrints:
				prints++
			case e.Kernel != nil && e.Kernel.Kind == kernel.JobEnded:
				ended++
			}
		}
	}
	c.EndJob(now, 2, kernel.End{Why: kernel.EndStopped, By: wire.FabricNodeID{}})
	for _, ok := c.PollEvent(); ok; _, ok = c.PollEvent() {
	}
	if prints != 20 || ended != 1 {
		t.Fatalf("%d prints and %d ends of jobs, want 20 and 1", prints, ended)
	}
	if r.End(); r.Err() != record.ErrEnded {
		t.Fatal(r.Err())
	}
	if err := w.End(record.EndClosed, ""); err != nil {
		t.Fatal(err)
	}
	c.Close(now)

	again := func(table kernel.Table) (record.Summary, error) {
		rd, err := record.NewReader(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		return record.Replay(rd, record.Options{Kernels: table})
	}
	if s, err := again(table); err != nil || s.Cut != nil || s.End != record.EndClosed {
		t.Errorf("with the kernels: %+v, %v", s, err)
	}
	if _, err := again(kernel.Table{"count": table["count"]}); err == nil || !strings.Contains(err.Error(), `kernel "wait"`) {
		t.Errorf("without a kernel: %v", err)
	}
	if _, err := again(kernel.Table{"count": count(2 * time.Millisecond), "wait": table["wait"]}); err == nil || strings.Contains(err.Error(), "lacks") {
		t.Errorf("with another kernel of the same name: %v", err)
	}
}
