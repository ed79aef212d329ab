package gossip

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/wire"
)

// TestMove cuts a chip off until the other chips believe it dead, and then calls Move. The other
// chips must then see the chip at the new address.
func TestMove(t *testing.T) {
	t.Parallel()
	var addrs []string
	start := func(chip int, bind, advertise string) *Pool {
		m := membership.Meta{Node: wire.FabricNodeID{Chip: wire.ChipID(chip)}, Incarnation: wire.Incarnation(chip + 1), Topology: 1}
		known := append([]string(nil), addrs...)
		p, err := Start(context.Background(), Config{Node: m.Node, Incarnation: m.Incarnation, Bind: netip.MustParseAddrPort(bind), Advertise: netip.MustParseAddr(advertise),
			Meta: m, Seeds: func() []string { return known }, Seed: 1, pace: quick})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(0) })
		addrs = append(addrs, netip.AddrPortFrom(netip.MustParseAddr(advertise), p.Addr().Port()).String())
		return p
	}
	one, two := start(0, "127.0.0.1:0", "127.0.0.1"), start(1, "127.0.0.1:0", "127.0.0.1")
	mover := start(2, "0.0.0.0:0", "127.0.0.1")
	at := func(p *Pool) netip.Addr {
		for _, m := range p.View() {
			if m.Meta.Node == mover.cfg.Node {
				return m.Addr
			}
		}
		return netip.Addr{}
	}
	old, moved := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	eventually(t, patience, "all see it", func() bool { return at(one) == old && at(two) == old && len(mover.View()) == 3 })
	mover.Cut(true, nil)
	eventually(t, patience, "the others believe it dead", func() bool { return !at(one).IsValid() && !at(two).IsValid() })
	mover.Move(moved)
	mover.Cut(false, nil)
	eventually(t, patience, "all see it at its new address", func() bool { return at(one) == moved && at(two) == moved })
	if got := mover.Addr().Addr(); got != moved {
		t.Errorf("the chip says that it is at %s", got)
	}
	begin := time.Now()
	mover.Move(netip.IPv6Loopback()) // Move ignores an address of another IP version
	if got := mover.Addr().Addr(); got != moved {
		t.Errorf("the chip went to %s", got)
	}
	if mover.Close(0); time.Since(begin) > soon {
		t.Errorf("a pool that has moved took %v to close", time.Since(begin))
	}
}
