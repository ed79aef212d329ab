package chip

import (
	"math/rand/v2"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// avoid takes cables out of service, and waits until all chips have the new link states.
func (w *fabric) avoid(out []wire.PortID) {
	w.t.Helper()
	for _, p := range out {
		if !w.at[p.Node].Avoid(w.now, p.Channel, true) {
			w.t.Fatalf("no channel %v", p)
		}
	}
	w.run(500 * time.Millisecond)
}

// tablesOf polls all events of a chip, and returns the tables of the events about tables.
func tablesOf(c *Chip) (list []Tables) {
	for e, ok := c.PollEvent(); ok; e, ok = c.PollEvent() {
		if e.Tables != nil {
			list = append(list, *e.Tables)
		}
	}
	return list
}

// edge returns all cables between the two chips of cable c, as ports of chip c.A.Node.
func edge(m *topo.Topology, c topo.Cable) (out []wire.PortID) {
	for _, p := range m.Ports(c.A.Node) {
		if p.Peer.Node == c.B.Node {
			out = append(out, p.Local)
		}
	}
	return out
}

// A chip refuses tables that can deadlock. With dimension order, the chip puts the tables
// around a fault in force. Without dimension order, the tables around the fault can
// deadlock, and the chip keeps its present tables.
func TestUnsoundTablesAreRefused(t *testing.T) {
	m, err := topo.Named("2xt3000")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		order   route.Order
		refused bool
	}{{route.XY, false}, {route.NoOrder, true}} {
		w := fabricOf(t, m, func(cfg *Config) { cfg.Route.Order = c.order })
		before := w.chips[0].Plan().Hash()
		w.avoid(edge(m, m.Cables[0]))
		for _, x := range w.chips {
			told := tablesOf(x)
			if len(told) == 0 {
				t.Fatalf("%s: %s tells of no tables", c.order, x.Node())
			}
			for _, e := range told {
				if e.Refused != c.refused || len(e.Out) == 0 || e.Epoch == before {
					t.Errorf("%s: %s tells of %+v", c.order, x.Node(), e)
				}
			}
			if x.Intact() != c.refused || c.refused && x.Plan().Hash() != before {
				t.Errorf("%s: %s has tables %08x, before %08x", c.order, x.Node(), x.Plan().Hash(), before)
			}
		}
	}
}

// conflict finds two sets of faults in a mesh, given as lists of ports. The detours
// around the second set can close a cycle with the detours around the first set. conflict
// also finds a pair of chips whose route detours around the first set, and returns the
// route's hops.
func conflict(t *testing.T, m *topo.Topology) (first, second []wire.PortID, src, dst wire.FabricNodeID, hops []wire.Direction) {
	t.Helper()
	base, err := route.New(m, route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		first, second = nil, nil
		for range 3 {
			first = append(first, edge(m, m.Cables[r.IntN(len(m.Cables))])...)
			second = append(second, edge(m, m.Cables[r.IntN(len(m.Cables))])...)
		}
		second = append(second, first...)
		old := base.Around(first)
		now := base.Around(second)
		if now.Replaces(old) != route.OldDetours {
			continue
		}
		for _, a := range m.Chips {
			for _, b := range m.Chips {
				w, ok := old.Route(nil, wire.ClassRequest, 0, a.Node, b.Node)
				if _, still := now.Route(nil, wire.ClassRequest, 0, a.Node, b.Node); ok && still && w.Detour && len(w.Hops) >= 3 {
					return first, second, a.Node, b.Node, w.Hops
				}
			}
		}
	}
	t.Fatal("none found")
	return
}

// A chip proves new tables together with the packets that are under way by the old tables. If
// packets of old and new tables could close a cycle, the packets of the old tables that go round a
// fault are outdated. Outdated packets keep their route and their order, and no packet is lost.
func TestOldDetoursAreKept(t *testing.T) {
	m, err := topo.Named("mesh:4x4")
	if err != nil {
		t.Fatal(err)
	}
	first, second, src, dst, path := conflict(t, m)
	w := newFabric(t, m)
	w.avoid(first)
	at := -1 // index of the first chip after src; the test pauses the chip's next port on the route
	for i, c := range w.chips {
		tablesOf(c)
		if to, _ := m.Neighbour(src, path[0], 0); to == c.Node() {
			at = i
		}
	}
	from := w.at[src]
	w.command(at, path[1], router.CommandPause)
	write := flow.Request{Dst: dst, Payload: []byte("detour"), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
	if got := from.HandleRequest(w.now, write); got != flow.Accepted {
		t.Fatalf("not taken: %d", got)
	}
	w.run(50 * time.Millisecond)
	for _, p := range second {
		w.at[p.Node].Avoid(w.now, p.Channel, true)
	}
	w.run(150 * time.Millisecond)
	strict := false
	for _, c := range w.chips {
		for _, x := range tablesOf(c) {
			strict = strict || x.Strict
		}
	}
	if !strict || from.Open() == 0 {
		t.Fatalf("outdated packets: %v; %d open", strict, from.Open())
	}
	w.command(at, path[1], router.CommandRun)
	if rs := w.results(int(src.Chip), 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
		t.Errorf("by the old tables: %+v", rs)
	}
	if got := from.HandleRequest(w.now, write); got != flow.Accepted {
		t.Fatalf("not taken: %d", got)
	}
	if rs := w.results(int(src.Chip), 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
		t.Errorf("by the new tables: %+v", rs)
	}
	w.check()
}

// A cable goes out of service and comes back, twice. The chip proves each of the two
// changes once, and remembers the results. When another cable goes out of service, the
// chip makes a new proof.
func TestProofsAreRemembered(t *testing.T) {
	m, err := topo.Named("mesh:3x3")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	a, b := edge(m, m.Cables[0]), edge(m, m.Cables[len(m.Cables)-1])
	give := func(out []wire.PortID, on bool) {
		for _, p := range out {
			w.at[p.Node].Avoid(w.now, p.Channel, on)
			w.run(500 * time.Millisecond)
		}
	}
	give(a, true)
	give(a, false)
	c := w.chips[0]
	n, told := len(c.tables.former.checked), len(tablesOf(c))
	if n == 0 || told != n || !c.Intact() {
		t.Fatalf("%d proofs for %d tables, intact: %v", n, told, c.Intact())
	}
	give(a, true)
	give(a, false)
	if again := len(tablesOf(c)); len(c.tables.former.checked) != n || again != told {
		t.Errorf("the same once more: %d proofs, before %d, for %d tables", len(c.tables.former.checked), n, again)
	}
	give(b, true)
	if len(c.tables.former.checked) <= n {
		t.Error("other tables were not proved")
	}
}
