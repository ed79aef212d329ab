package chip

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Spec §7.3: the router reports packets that cannot move, drops these packets, and drains channels.
// Each action has a switch of its own. The four chips of §6.1 deadlock, because their routes have
// no order of dimensions and each chip serves its own packets first. Events, drops and results must
// show the actions that are switched on. The chip always counts timeouts.
func TestTimeoutActions(t *testing.T) {
	m, err := topo.Named("mesh:2x2")
	if err != nil {
		t.Fatal(err)
	}
	for _, actions := range []string{"none", "notify", "drop", "drain", "notify,drop", "notify,drain", "drop,drain", "notify,drop,drain"} {
		t.Run(actions, func(t *testing.T) {
			timeout, err := router.ParseTimeout(actions)
			if err != nil {
				t.Fatal(err)
			}
			timeout.After = 40 * time.Millisecond
			w := fabricOf(t, m, func(c *Config) { c.Route.Order, c.LocalFirst, c.Timeout = route.NoOrder, true, timeout })
			write := flow.Request{Payload: make([]byte, 64), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
			for range 100 {
				for i, c := range w.chips {
					for write.Dst = m.Chips[3-i].Node; c.HandleRequest(w.now, write) == flow.Accepted; {
					}
				}
				w.run(time.Millisecond)
			}
			w.run(200 * time.Millisecond)
			stuck, lost, counted, dropped := 0, 0, uint64(0), uint64(0)
			for _, c := range w.chips {
				for e, ok := c.PollEvent(); ok; e, ok = c.PollEvent() {
					if e.Stuck != nil {
						stuck++
					}
				}
				for r, ok := c.PollResult(); ok; r, ok = c.PollResult() {
					if r.Fate == flow.FateLost && r.Drop == wire.DropTimeout {
						lost++
					}
				}
				counted += c.counters.Timeouts
				for i := range c.ports.list {
					dropped += c.router.Status(i).Classes[wire.ClassRequest].Dropped[wire.DropTimeout]
				}
			}
			if counted == 0 || (stuck > 0) == timeout.Quiet || (lost > 0) != (timeout.Drop || timeout.Drain) || (dropped > 0) != (timeout.Drop || timeout.Drain) {
				t.Errorf("%d timeouts counted, %d told of, %d packets dropped, %d sources told", counted, stuck, dropped, lost)
			}
			w.check()
		})
	}
}

// Spec §7.2: "With a TTL of 10 the packet hops are shown in the table below". On a 4×4
// grid, a packet of D1 runs in a loop. The packet passes D5 D6 D7 D11 D10 D9 D5 D6 D7,
// and its TTL falls by 1 at each chip. D11 then drops the packet.
func TestSpecificationsTTL(t *testing.T) {
	m, err := topo.Named("mesh:4x4")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	w.chips[0].cfg.TTL = 10
	var seen []string
	w.watch = func(to wire.PortID, v wire.PacketView) {
		if v.Type() == wire.PacketRequest {
			seen = append(seen, fmt.Sprint("D", to.Node.Chip+1, " ", v.TTL()))
		}
	}
	write := loopingWrite(m)
	if got := w.chips[0].HandleRequest(w.now, write); got != flow.Accepted {
		t.Fatalf("not taken: %d", got)
	}
	rs := w.results(0, 1)
	if len(rs) != 1 || rs[0].Fate != flow.FateLost || rs[0].Drop != wire.DropTTL || rs[0].At != m.Chips[10].Node {
		t.Fatalf("ended as %+v, want dropped at D11 with its TTL used up", rs)
	}
	want := []string{"D5 9", "D6 8", "D7 7", "D11 6", "D10 5", "D9 4", "D5 3", "D6 2", "D7 1", "D11 0"}
	if !slices.Equal(seen, want) {
		t.Errorf("the packet came by %v, the specification says %v", seen, want)
	}
}

// A packet with a TTL equal to the number of hops must arrive. If the TTL is lower, the chip at
// which the TTL is used up must drop the packet.
func TestTTLIsEnough(t *testing.T) {
	m, err := topo.Named("mesh:4x4")
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	for _, c := range []struct {
		ttl  uint16
		fate flow.Fate
		at   int
	}{{6, flow.FateDone, 15}, {5, flow.FateLost, 11}, {1, flow.FateLost, 1}} {
		w.chips[0].cfg.TTL, w.chips[0].tables.ttl = c.ttl, c.ttl
		write := flow.Request{Dst: m.Chips[15].Node, Payload: []byte("far"), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
		if got := w.chips[0].HandleRequest(w.now, write); got != flow.Accepted {
			t.Fatalf("not taken: %d", got)
		}
		if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != c.fate || c.fate == flow.FateLost && (rs[0].Drop != wire.DropTTL || rs[0].At != m.Chips[c.at].Node) {
			t.Errorf("with %d hops to live: %+v", c.ttl, rs)
		}
	}
}

// With StrictTTL, a packet must not arrive with a TTL of 0: "If for any reason a router sees a fabric
// packet with TTL parameter of 0, the packet is marked as expired, dropped" (Spec §7.2). The TTL that
// the chip chooses itself must be enough for every pair of chips, for reads with their replies, for
// routes that a user names, and for multicasts.
func TestStrictTTL(t *testing.T) {
	m, err := topo.Named("mesh:4x4")
	if err != nil {
		t.Fatal(err)
	}
	w := fabricOf(t, m, func(c *Config) { c.StrictTTL = true })
	last := len(m.Chips) - 1
	ask := func(r flow.Request) flow.Result {
		t.Helper()
		r.Command = wire.Command{Type: cmp.Or(r.Command.Type, wire.NocUnicastWrite), Size: r.Command.Size, Addr: wire.NewNocAddr(1, 1, 0)}
		if got := w.chips[0].HandleRequest(w.now, r); got != flow.Accepted {
			t.Fatalf("not taken: %d", got)
		}
		rs := w.results(0, 1)
		if len(rs) != 1 {
			t.Fatalf("%d results, want 1", len(rs))
		}
		return rs[0]
	}
	far := flow.Request{Dst: m.Chips[last].Node, Payload: []byte("far")}
	e, s := wire.East, wire.South
	for name, r := range map[string]flow.Request{
		"write": far,
		"read":  {Dst: far.Dst, Command: wire.Command{Type: wire.NocRead, Size: 4}},
		"group": {Ranges: hops(3, 0, 0, 3), Payload: far.Payload},
		"named": {Dst: far.Dst, Payload: far.Payload, Via: []wire.Direction{e, s, e, s, e, s}},
	} {
		if got := ask(r); got.Fate != flow.FateDone {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, c := range []struct {
		ttl  uint16
		fate flow.Fate
		at   int
	}{{7, flow.FateDone, 15}, {6, flow.FateLost, 15}, {5, flow.FateLost, 11}, {1, flow.FateLost, 1}} {
		w.chips[0].cfg.TTL = c.ttl
		if got := ask(far); got.Fate != c.fate || c.fate == flow.FateLost && (got.Drop != wire.DropTTL || got.At != m.Chips[c.at].Node) {
			t.Errorf("with a TTL of %d: %+v", c.ttl, got)
		}
	}
}

// loopingWrite returns a write from the first chip of a 4×4 grid by a route with a loop. The route
// is D1 D5 D6 D7 D11 D10 D9 D5 D6 D7 D11 D10 …
func loopingWrite(m *topo.Topology) flow.Request {
	e, s, we, n := wire.East, wire.South, wire.West, wire.North
	via := []wire.Direction{s}
	for range 3 {
		via = append(via, e, e, s, we, we, n)
	}
	return flow.Request{Dst: m.Chips[4].Node, Via: via, Payload: []byte("loop"), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
}
