package node_test

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestPeersAreSoughtAtAShortestInterval asks a chip without peers to look for them again and again.
// However often this happens, the chip looks at most once in 50 ms.
func TestPeersAreSoughtAtAShortestInterval(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(context.Background(), config(m, newPool(), m.Chips[0].Node, 1000))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	one := m.Chips[1].Node
	var looks atomic.Int64
	begin := time.Now()
	for looks.Load() < 4 {
		n.Meet(func(p wire.PortID) (netip.AddrPort, bool) {
			if p.Node == one && p.Channel == m.Cables[0].B.Channel {
				looks.Add(1)
			}
			return netip.AddrPort{}, false
		})
	}
	got := looks.Load()
	if most := int64(time.Since(begin)/(50*time.Millisecond)) + 1; got > most {
		t.Errorf("%d looks, want at most %d", got, most)
	}
}
