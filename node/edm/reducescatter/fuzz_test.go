package reducescatter

import (
	"testing"

	"ttfabric/node/edm"
	"ttfabric/node/edm/edmtest"
	"ttfabric/router/topo"
)

// FuzzArguments starts the worker with arbitrary arguments, see [edmtest.RunWorker].
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
	f.Fuzz(func(t *testing.T, args []byte) { edmtest.RunWorker(t, m, Kernels, workerName, args, 4, 9) })
}
