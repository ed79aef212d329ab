package allgather

import (
	"testing"

	"ttfabric/node/edm"
	"ttfabric/node/edm/edmtest"
	"ttfabric/router/topo"
)

// FuzzArguments starts the two workers with arbitrary arguments, see [edmtest.RunWorker].
func FuzzArguments(f *testing.F) {
	m, err := topo.Named("mesh:1x2")
	if err != nil {
		f.Fatal(err)
	}
	line, err := edm.NewLine(m, m.Nodes(), 1)
	if err != nil {
		f.Fatal(err)
	}
	op, err := New(m, 1, line, Settings{Scheme: Halfway, Workers: 1, Pages: 12, PageSize: 64, Inner: 3, Layout: edm.Sharded, Banks: 2})
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range op.Parts[m.Chips[0].Node].Programs[0].Kernels {
		f.Add(k.Kernel == senderName, k.Args)
		f.Add(k.Kernel == senderName, k.Args[:len(k.Args)-4])
	}
	f.Fuzz(func(t *testing.T, sends bool, args []byte) {
		name := receiverName
		if sends {
			name = senderName
		}
		edmtest.RunWorker(t, m, Kernels, name, args, 4)
	})
}
