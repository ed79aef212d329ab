package reducescatter

import (
	"encoding/binary"
	"testing"
	"time"

	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// FuzzArguments starts the worker with arbitrary arguments, on a chip whose EDMs always have the buffer ready. The
// worker may end its job with a fault that names the argument. The worker must not panic in any other way.
func FuzzArguments(f *testing.F) {
	m, err := topo.Named("mesh:1x2")
	if err != nil {
		f.Fatal(err)
	}
	ring, err := edm.NewRing(m, m.Nodes(), 1)
	if err != nil {
		f.Fatal(err)
	}
	op, err := New(m, 1, ring, Settings{Workers: 1, Pages: 12, PageSize: 64, Inner: 3, Layout: edm.Sharded, Banks: 2})
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range op.Parts[m.Chips[0].Node].Programs[0].Kernels {
		if k.Kernel == workerName {
			f.Add(k.Args)
			f.Add(k.Args[:len(k.Args)-4])
		}
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		memory, err := noc.New(wire.Wormhole, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		k := kernel.New(kernel.Config{Self: m.Chips[0].Node, Topology: m, Memory: memory, Table: Kernels})
		s := kernel.Start{Kernel: workerName, Tile: kernel.Tile{X: 3, Y: 3}, Args: args}
		if len(args) > 4096 || k.Start(0, kernel.Job{ID: 1, Programs: []kernel.Program{{Kernels: []kernel.Start{s}}}}) != nil {
			return
		}
		now := mono.Time(0)
		for range 30 {
			k.Step()
			for i := 0; i < 100 && k.Run(now); i++ {
			}
			now = now.Add(time.Millisecond)
			for _, local := range []int{16, 36} { // the worker's semaphores: gives the buffers to the worker
				if len(args) >= local+4 {
					a := s.Tile.Addr(uint64(binary.LittleEndian.Uint32(args[local:])))
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
	})
}
