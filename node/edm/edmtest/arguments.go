package edmtest

import (
	"encoding/binary"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// maxArguments is the length of the longest arguments that RunWorker takes, in bytes.
const maxArguments = 4096

// RunWorker starts a worker with arbitrary arguments, on a chip of the machine m. RunWorker takes the part of EDMs
// that always have the buffer ready. The list "semaphores" has the places of the worker's semaphores in the
// arguments, in words. The worker may end its job with a fault that names the argument. The test fails if the worker
// panics in any other way.
func RunWorker(t *testing.T, m *topo.Topology, table kernel.Table, name string, args []byte, semaphores ...int) {
	t.Helper()
	memory, err := noc.New(wire.Wormhole, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	k := kernel.New(kernel.Config{Self: m.Chips[0].Node, Topology: m, Memory: memory, Table: table})
	s := kernel.Start{Kernel: name, Tile: kernel.Tile{X: 3, Y: 3}, Args: args}
	if len(args) > maxArguments || k.Start(0, kernel.Job{ID: 1, Programs: []kernel.Program{{Kernels: []kernel.Start{s}}}}) != nil {
		return
	}
	now := mono.Time(0)
	for range 30 {
		k.Step()
		for i := 0; i < 100 && k.Run(now); i++ {
		}
		now = now.Add(time.Millisecond)
		for _, i := range semaphores {
			if len(args) >= 4*i+4 {
				a := s.Tile.Addr(uint64(binary.LittleEndian.Uint32(args[4*i:])))
				memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: a, Value: 1}, nil)
			}
		}
	}
	k.Close(now)
	for e, ok := k.PollEvent(); ok; e, ok = k.PollEvent() {
		if e.End.Stack != "" {
			t.Fatalf("%s\n%s", e.String(), e.End.Stack)
		}
	}
}
