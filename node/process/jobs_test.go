package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ttfabric/node/fabric"
	"ttfabric/node/kernel"
	"ttfabric/node/session"
	"ttfabric/node/session/mesh"
	"ttfabric/wire"
)

const (
	shiftFrom = 0x20000 // the bytes that a kernel sends, and the bytes that arrive
	shiftTo   = 0x30000
)

var shiftTile = kernel.Tile{X: 2, Y: 2}

// kernels are the kernels of the test's programs.
var kernels = kernel.Table{
	// shift sends the chip's number to the right neighbour, and checks the left neighbour's number.
	"shift": func(k *kernel.Context) {
		right, left, sem := wire.FabricNodeID{Chip: wire.ChipID(k.Uint32(0))}, k.Uint32(1), k.Uint32(2)
		k.Store32(shiftFrom, uint32(k.Self().Chip))
		data := make([]byte, 4)
		k.Load(shiftFrom, data)
		ls, err := mesh.Connect(k.Sender(), 0)
		if err == nil {
			err = mesh.UnicastFusedAtomicInc(ls, data, k.Tile().Addr(shiftTo), k.Tile().Addr(uint64(sem)), 1, true, right)
		}
		if err != nil {
			panic(err)
		}
		k.NocSemaphoreWaitMin(sem, 1)
		if got := k.Load32(shiftTo); got != left {
			panic(fmt.Sprintf("got %d from chip %d", got, left))
		}
	},
	"wait": func(k *kernel.Context) { k.NocSemaphoreWait(0x1000, 1) },
	"hang": func(k *kernel.Context) { // hangs when the test stores 1
		k.NocSemaphoreWait(0x1000, 1)
		for i := 0; ; i++ {
			hangs = i
		}
	},
}

// hangs keeps the compiler from leaving the loop of the kernel out.
var hangs int

// part returns a chip's part of a job: one kernel on each chip.
func part(s *session.Session, id kernel.JobID, name string) (kernel.Job, error) {
	nodes := s.Topology().Nodes()
	i, n := slices.Index(nodes, s.Self()), len(nodes)
	b := kernel.NewBuilder(s.Topology())
	b.CreateKernel(name, shiftTile, uint32(nodes[(i+1)%n].Chip), uint32(nodes[(i+n-1)%n].Chip), b.CreateGlobalSemaphore(shiftTile))
	return b.Job(id, s.Topology())
}

// runJob runs a job in which the kernel of chip 1 is "odd", and the other chips' kernel is "name".
func runJob(ctx context.Context, s *session.Session, name, odd string) error {
	if err := s.Ready(ctx); err != nil {
		return err
	}
	if s.Self().Chip == 1 {
		name = odd
	}
	fmt.Printf("chip %s: all chips answer\n", s.Self())
	j, err := part(s, 1, name)
	if err == nil {
		err = s.Run(ctx, j)
	}
	fmt.Printf("chip %s: the job ended: %v\n", s.Self(), err)
	return nil
}

// logs waits until the log of each of the chips has the text.
func logs(t *testing.T, f *fabric.Fabric, nodes []wire.FabricNodeID, text string) {
	t.Helper()
	for _, n := range nodes {
		within(t, n.String()+" logs "+text, func() bool {
			log, _ := os.ReadFile(f.Dir.ChipPath(n, ".log"))
			return bytes.Contains(log, []byte(text))
		})
	}
}

// TestKernelsOnLiveChips runs the ring shift as kernels of live chips, each in a process of its own.
func TestKernelsOnLiveChips(t *testing.T) {
	f := made(t, "ring:4", "shift")
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	nodes, _ := started(ctx, t, f, nil)
	logs(t, f, nodes, "the job ended: <nil>")
}

// TestHungKernel runs a kernel that never yields on one of four chips. The process of that chip must end
// by itself, and the job must end on the other chips, which name the chip.
func TestHungKernel(t *testing.T) {
	f := made(t, "ring:4", "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	exits := make(fabric.Exits, 4)
	nodes, s := started(ctx, t, f, exits)
	logs(t, f, nodes, "all chips answer") // wait, because a program that still waits for the hanging chip would start no job
	if err := s.InlineWrite(ctx, nodes[1], shiftTile.Addr(0x1000), 1); err != nil {
		t.Logf("the chip hung before it answered: %v", err)
	}
	select {
	case e := <-exits:
		if e.Chip != nodes[1] {
			t.Errorf("chip %s ended, want M0D1", e.Chip)
		}
	case <-ctx.Done():
		t.Fatal("the chip with the kernel that hangs did not end")
	}
	if log, _ := os.ReadFile(f.Dir.ChipPath(nodes[1], ".log")); !strings.Contains(string(log), "kernel=hang@2-2") || !strings.Contains(string(log), "jobs_test.go") {
		t.Errorf("the log names neither the kernel nor its line:\n%s", log)
	}
	logs(t, f, []wire.FabricNodeID{nodes[0], nodes[2], nodes[3]}, "the job ended: job 1: chip died, first at chip M0D1")
}
