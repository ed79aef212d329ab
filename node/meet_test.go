package node_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestPeersMeetWithoutGossip starts two chips whose gossip pools never hear of each other. The first
// chip looks for its peer before the peer exists. The links must come up nevertheless.
func TestPeersMeetWithoutGossip(t *testing.T) {
	t.Parallel()
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	known := map[wire.FabricNodeID]*node.Node{}
	looked := make(chan struct{}, 1)
	find := func(p wire.PortID) (netip.AddrPort, bool) {
		mu.Lock()
		defer mu.Unlock()
		n := known[p.Node]
		if n == nil {
			select {
			case looked <- struct{}{}:
			default:
			}
			return netip.AddrPort{}, false
		}
		return n.Addresses()[p.Channel], true
	}
	for i, c := range m.Chips {
		n, err := node.Start(context.Background(), config(m, newPool(), c.Node, wire.Incarnation(1000+i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		mu.Lock()
		known[c.Node] = n
		mu.Unlock()
		n.Meet(find)
		if i == 0 {
			<-looked
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := session.New(known[m.Chips[0].Node]).Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

// lonely starts the first chip of an n300, without the other chip.
func lonely(t *testing.T) (*topo.Topology, *node.Node) {
	t.Helper()
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(context.Background(), config(m, newPool(), m.Chips[0].Node, 1000))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return m, n
}

// TestPeersAreSoughtAtGrowingIntervals asks a chip without peers to look for them again and again.
// However often this happens, the chip looks at most every 10 ms.
func TestPeersAreSoughtAtGrowingIntervals(t *testing.T) {
	t.Parallel()
	m, n := lonely(t)
	one := m.Chips[1].Node
	looks := make(chan struct{}, 100)
	begin := time.Now()
	for len(looks) < 8 {
		n.Meet(func(p wire.PortID) (netip.AddrPort, bool) {
			if p.Node == one && p.Channel == m.Cables[0].B.Channel {
				looks <- struct{}{}
			}
			return netip.AddrPort{}, false
		})
		time.Sleep(time.Millisecond)
	}
	if got, most := len(looks), int(time.Since(begin)/(10*time.Millisecond))+1; got > most {
		t.Errorf("%d looks, want at most %d", got, most)
	}
}
