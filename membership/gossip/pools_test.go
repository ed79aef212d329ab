package gossip

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"ttfabric/membership"
	"ttfabric/wire"
)

// TestExitNodesMeet starts two meshes of three chips, each with one exit node. The exit nodes must
// see their own mesh and each other. The other chips must see only their own mesh.
func TestExitNodesMeet(t *testing.T) {
	t.Parallel()
	exits := &swarm{t: t}
	inc := wire.Incarnation(0)
	start := func(s *swarm, n wire.FabricNodeID, i wire.Incarnation, label string) *Pool {
		m := membership.Meta{Node: n, Incarnation: i, Started: uint64(i), Topology: 1}
		p, err := Start(context.Background(), Config{Node: n, Incarnation: i, Bind: loopback, Label: label, Meta: m, Seeds: s.seeds, Seed: uint64(i), pace: quick})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(0) })
		s.mu.Lock()
		s.addrs = append(s.addrs, p.Addr().String())
		s.mu.Unlock()
		return p
	}
	var alone []*Pool
	var both []*Pools
	for mesh := range 2 {
		s := &swarm{t: t}
		for chip := range 3 {
			inc++
			n := wire.FabricNodeID{Mesh: wire.MeshID(mesh), Chip: wire.ChipID(chip)}
			p := start(s, n, inc, fmt.Sprintf("mesh%d", mesh))
			if chip > 0 {
				alone = append(alone, p)
				continue
			}
			j := Join(p, start(exits, n, inc, "exits"))
			t.Cleanup(func() { j.Close(0) })
			both = append(both, j)
		}
	}
	seen := func(v []membership.Member) (names []string) {
		for _, m := range v {
			names = append(names, m.Meta.Node.String())
		}
		slices.Sort(names)
		return names
	}
	want := [][]string{{"M0D0", "M0D1", "M0D2", "M1D0"}, {"M0D0", "M1D0", "M1D1", "M1D2"}}
	for i, p := range both {
		eventually(t, patience, fmt.Sprintf("%v in the exit node's view", want[i]), func() bool { return slices.Equal(seen(p.View()), want[i]) })
		if p.Addr() == p.ExitAddr() {
			t.Error("one socket for both pools")
		}
	}
	for _, p := range alone {
		eventually(t, patience, "own mesh only", func() bool { return len(p.View()) == 3 })
	}
	// The other exit node sees a change of this exit node's metadata, and then the end of this exit
	// node once. The own mesh of this exit node also sees the end.
	m := both[1].mesh.cfg.Meta
	m.InService, m.LinkVersion = 5, 1
	both[1].UpdateMeta(m)
	eventually(t, patience, "the other exit node hears the news", func() bool {
		for _, x := range both[0].View() {
			if x.Meta.Node == m.Node {
				return x.Meta.InService == 5
			}
		}
		return false
	})
	both[0].Events()
	if err := both[1].Close(patience); err != nil {
		t.Error(err)
	}
	eventually(t, patience, "the end of the other exit node", func() bool {
		select {
		case <-both[0].Notify():
		default:
		}
		left := 0
		for _, e := range both[0].Events() {
			if e.Kind == membership.Left && e.Member.Meta.Node == m.Node {
				left++
			}
		}
		return left == 1
	})
	eventually(t, patience, "gone for its own mesh", func() bool { return len(alone[2].View()) == 2 })
	if err := both[1].Close(0); err != nil {
		t.Error("closing again:", err)
	}
}
