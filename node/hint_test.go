package node_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// claim adds a false member to the pool. The member claims to be the chip, at ports on which nobody
// listens, and to be the chip's latest incarnation.
func (p *pool) claim(chip wire.FabricNodeID, inc wire.Incarnation) string {
	m := membership.Meta{Node: chip, Incarnation: inc, Started: 1 << 60, InService: 0xffff}
	for i := range m.Ports {
		m.Ports[i] = 1 // the port of tcpmux, on which nobody listens
	}
	p.change(func() { p.view.Alive(m.Name(), netip.MustParseAddr("127.0.0.1"), m.Append(nil)) })
	return m.Name()
}

func (p *pool) gone(names ...string) {
	p.change(func() {
		for _, n := range names {
			p.view.Gone(n)
		}
	})
}

func linksUp(n *node.Node) int {
	s, _ := n.Status()
	return s.PortsUp
}

// allUp waits until all links are up. A link that went down on a busy machine comes up again. A
// link whose port sends to a wrong address stays down, and fails the test.
func allUp(t *testing.T, ns []*node.Node, links int) {
	t.Helper()
	for end := time.Now().Add(patience); linksUp(ns[0]) != links || linksUp(ns[1]) != links; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d and %d of %d links are up", linksUp(ns[0]), linksUp(ns[1]), links)
		}
	}
}

// hasty makes links go down after a short silence, for tests that wait for a link to go down.
func hasty(c *node.Config) { c.Profile = ttlink.ProfileLAN }

// TestGossipTakesNoLinkDown makes gossip report that a chip is dead, or is at another address,
// while the chip's frames flow. No link must go down.
func TestGossipTakesNoLinkDown(t *testing.T) {
	t.Parallel()
	m, p, ns := fabric(t, "n300")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(ns[0])
	at := wire.NewNocAddr(1, 1, 0)
	events, stop := ns[0].Events()
	defer stop()
	worst, before := standstill(t), retrains(ns)
	live := time.Now().Add(1500 * time.Millisecond)
	for round := 0; time.Now().Before(live); round++ {
		switch round {
		case 5:
			p.claim(chipID(1), 7) // gossip reports another address of chip 1
		case 40:
			p.gone(p.members[0].name, p.members[1].name) // gossip reports both chips dead
		case 60:
			p.claim(chipID(0), 8)
		case 80:
			p.gone(fmt.Sprintf("%s-%016x", chipID(1), 7))
		}
		if err := s.Write(ctx, chipID(1), at, []byte("still here")); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	allUp(t, ns, len(m.Cables))
	if n, stood := retrains(ns)-before, worst(); n != 0 && stood < ttlink.ProfileCrowded.DeadTraffic/hands {
		t.Errorf("links went down %d times, although this process never stood still for longer than %v", n, stood)
	}
	told := 0
	for {
		select {
		case e := <-events:
			if e.Member != nil && e.Member.Kind == membership.Rejected {
				told++
			}
			continue
		default:
		}
		break
	}
	if told == 0 {
		t.Error("no event says that a chip rejected the address from gossip")
	}
}

// TestGossipTakesNoIdleLinkDown checks that a false address takes no idle link down. A port must
// ask its peer before the port sends to another address.
func TestGossipTakesNoIdleLinkDown(t *testing.T) {
	t.Parallel()
	m, p, ns := fabricWith(t, "n300", hasty)
	worst, before := standstill(t), retrains(ns)
	p.claim(chipID(1), 7)
	time.Sleep(ttlink.ProfileLAN.DeadIdle + 500*time.Millisecond)
	allUp(t, ns, len(m.Cables))
	if n, stood := retrains(ns)-before, worst(); n != 0 && stood < ttlink.ProfileLAN.DeadTraffic/hands {
		t.Errorf("links went down %d times, although this process never stood still for longer than %v", n, stood)
	}
}

// TestGossipBringsNoLinkUp makes gossip report that a chip is alive while the chip's cables are
// cut. No link must come up.
func TestGossipBringsNoLinkUp(t *testing.T) {
	t.Parallel()
	m, p, ns := fabricWith(t, "n300", hasty)
	cut := func(on bool) {
		for _, n := range ns {
			for _, i := range n.Impairments() {
				if err := n.Cut(i.Local.Channel, on, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	down := func() bool { return linksUp(ns[0]) == 0 && linksUp(ns[1]) == 0 }
	cut(true)
	for end := time.Now().Add(patience); !down(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("cut links stay up")
		}
	}
	for i := range 40 {
		p.change(func() {}) // all chips read the pool again
		meta := membership.Meta{Node: chipID(1), Incarnation: 1001, Started: uint64(ns[1].Started().UnixMilli()), LinkVersion: 1000 + uint32(i), InService: 0xffff}
		for ch, a := range ns[1].Addresses() {
			meta.Ports[ch] = a.Port()
		}
		p.change(func() { p.view.Alive(p.members[1].name, netip.MustParseAddr("127.0.0.1"), meta.Append(nil)) })
		time.Sleep(10 * time.Millisecond)
		if !down() {
			t.Fatal("gossip has brought a cut link up")
		}
	}
	// The ports send to a wrong address until gossip reports the right address again.
	name := p.claim(chipID(1), 7)
	time.Sleep(50 * time.Millisecond)
	p.gone(name)
	cut(false)
	for end := time.Now().Add(patience); linksUp(ns[0]) != len(m.Cables); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("links stay down although their cables are repaired")
		}
	}
}

// TestRestartOfAnIdleChipIsBelieved restarts a chip at other ports while its links are idle. The
// links must come up again although no neighbour has noticed that the old incarnation is dead.
func TestRestartOfAnIdleChipIsBelieved(t *testing.T) {
	t.Parallel()
	m, p, ns := fabric(t, "n300")
	// Cutting all cables makes the chip fall silent, and gossip still reports the chip alive.
	for _, i := range ns[1].Impairments() {
		ns[1].Cut(i.Local.Channel, true, 0)
	}
	begin := time.Now()
	n, err := node.Start(context.Background(), config(m, p, chipID(1), 5000))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for end := time.Now().Add(patience); linksUp(n) != len(m.Cables); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the links to the new incarnation do not come up")
		}
	}
	t.Logf("up after %v", time.Since(begin))
	if !slices.ContainsFunc(ns[0].Members(), func(x membership.Member) bool { return x.Meta.Incarnation == 5000 }) {
		t.Error("the members do not include the new incarnation")
	}
}
