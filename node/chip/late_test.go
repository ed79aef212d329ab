package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/control"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// TestUnusedChannel sends packets whose flags name virtual channels that the fabric does not use.
// The next chip must drop the packets. If the next chip parked the packets, the packets would stay
// for ever, and take the room of other parked packets.
func TestUnusedChannel(t *testing.T) {
	const packets = 100
	for _, up := range []bool{false, true} {
		w := newFabric(t, named(t, "line:3"))
		c, next := w.chips[0], w.chips[1]
		d := c.ports.list[0].Dir
		for k := range packets {
			p := wire.Packet{Type: wire.PacketRequest, Src: c.Node(), Dst: w.chips[2].Node(), VC: wire.VCData, Detour: true, Up: up, TTL: 9,
				Epoch: wire.EpochMixed, FlowSeq: uint32(k), Command: wire.Command{Type: wire.NocNone}, Route: wire.AppendRoute(nil, []wire.Direction{d, d})}
			if !c.launch(w.now, 0, &p) {
				t.Fatalf("no room for packet %d", k)
			}
			w.run(time.Millisecond)
		}
		if n := next.router.InFlight(); n != 0 {
			t.Errorf("up %v: %d packets stay in the next chip", up, n)
		}
		if n := next.Status().Counters.Dropped[wire.DropMalformed]; n != packets {
			t.Errorf("up %v: the next chip dropped %d malformed packets, want %d", up, n, packets)
		}
	}
}

// TestNobodyWaitsBetweenDeadChips kills a chip, and then the neighbour that reported its cable to
// the chip as silent. After the two kills, no chip reports the cable as out of service. Reads must
// not wait for this cable.
func TestNobodyWaitsBetweenDeadChips(t *testing.T) {
	w := newFabric(t, named(t, "mesh:3x4"))
	c := w.chips[0]
	answers := func() bool {
		silent, _ := (*network)(c.machine).Answers(flow.Key{Node: w.chips[3].Node()})
		return silent
	}
	w.isolate(w.chips[5], true)
	w.run(time.Second)
	if !answers() {
		t.Error("a chip is silent, and reads do not wait")
	}
	w.isolate(w.chips[6], true)
	w.run(2*control.GiveUp + 5*time.Second)
	if answers() {
		t.Errorf("reads wait; silent chips: %v, unreachable chips: %v", c.Silent(), c.Unreachable())
	}
}

// TestReadsWaitBesideAnOldFault lets a cable of the replies' route fail, long before a chip on the
// replies' detour is late. The data of reads waits for the late chip, and must not count as lost.
func TestReadsWaitBesideAnOldFault(t *testing.T) {
	w := newFabric(t, named(t, "mesh:3x3"))
	src, dst := w.chips[0], w.chips[8]
	hops, _ := src.tables.base.Walk(wire.ClassReply, 0, dst.Node(), src.Node())
	w.cut(w.at[hops[0].At], hops[0].Dir, true)
	w.run(3 * time.Second)
	there, _ := src.tables.plan.Walk(wire.ClassRequest, 0, src.Node(), dst.Node())
	back, _ := src.tables.plan.Walk(wire.ClassReply, 0, dst.Node(), src.Node())
	busy := map[wire.FabricNodeID]bool{}
	for _, h := range there {
		busy[h.At], busy[h.To] = true, true
	}
	var late *Chip
	for _, h := range back {
		if late == nil && !busy[h.To] {
			late = w.at[h.To]
		}
	}
	if late == nil {
		t.Fatalf("no chip is only on the replies' route: requests %v, replies %v", there, back)
	}
	r := flow.Request{Dst: dst.Node(), Command: wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(1, 1, 0), Size: 64}}
	src.HandleRequest(w.now, r)
	w.fates(0, time.Second)
	w.isolate(late, true)
	const reads = 40
	for range reads {
		if a := src.HandleRequest(w.now, r); a != flow.Accepted {
			t.Fatal(a)
		}
		w.run(time.Millisecond)
	}
	if n := w.fates(0, 10*time.Second); n[flow.FateUnknown] != 0 {
		t.Errorf("while %s is late, reads end: %v", late.Node(), n)
	}
	w.isolate(late, false)
	if w.fates(0, 10*time.Second); src.Open() != 0 {
		t.Errorf("%d reads have not ended after %s came back", src.Open(), late.Node())
	}
}

// TestMulticastRouteBeyond changes the route through a mesh between the source and the members of a
// multicast. The flow must notice, as a flow to one chip does.
func TestMulticastRouteBeyond(t *testing.T) {
	w := newFabric(t, named(t, "spec-l1"))
	src := w.at[wire.FabricNodeID{Mesh: 0, Chip: 0}]
	n, base := (*network)(src.machine), src.tables.base
	to := flow.Tree{Mesh: 3}
	to.Members.Add(7)
	to.Members.Add(8)
	transit, _ := base.Port(wire.FabricNodeID{Mesh: 1, Chip: 3}, wire.East, 0)
	around := func(out ...wire.PortID) (*route.Plan, *flow.Route) {
		p := base.Around(out)
		src.enforce(p)
		_, r, ok := n.Tree(to)
		if !ok {
			t.Fatalf("no tree around %v", out)
		}
		return p, r
	}
	for _, a := range w.m.Cables {
		for _, b := range w.m.Cables {
			if a.A.Node.Mesh != 2 || a.B.Node.Mesh != 2 || b.A.Node.Mesh != 2 || b.B.Node.Mesh != 2 {
				continue // faults elsewhere, which leave equal room for routes in headers
			}
			p, before := around(a.A, b.A)
			q, after := around(a.A, b.A, transit)
			if p.LongestLeg() != q.LongestLeg() {
				continue
			}
			if before.Same(after) {
				t.Errorf("around %s and %s: without the cable at %s, the route is the same", a.A, b.A, transit)
			}
			return
		}
	}
	t.Error("no two faults leave equal room for the routes with and without the third fault")
}

// TestOutdated asks a chip which packets are outdated, after it has replaced tables. Of packets on
// detours, only packets of two sets of tables may wait, because the proofs compare two sets.
func TestOutdated(t *testing.T) {
	const unknown = 77
	w := newFabric(t, named(t, "mesh:3x3"))
	c := w.chips[0]
	base := c.tables.base
	one, two := base.Around([]wire.PortID{w.m.Cables[0].A, w.m.Cables[0].B}), base.Around([]wire.PortID{w.m.Cables[5].A, w.m.Cables[5].B})
	outdated := func(epoch uint32, detour bool) bool {
		p := wire.Packet{Type: wire.PacketRequest, Src: c.Node(), Dst: w.chips[1].Node(), Detour: detour, Epoch: epoch, Command: wire.Command{Type: wire.NocNone}}
		return c.outdated(wire.PacketView(p.Append(nil)))
	}
	check := func(when string, want map[uint32]bool) {
		t.Helper()
		for e, is := range want {
			if outdated(e, true) != is {
				t.Errorf("%s, a packet of epoch %08x on a detour is outdated: %v, want %v", when, e, !is, is)
			}
			if outdated(e, false) {
				t.Errorf("%s, a packet of epoch %08x on a plain route is outdated", when, e)
			}
		}
	}
	check("at first", map[uint32]bool{base.Hash(): false, unknown: false, wire.EpochMixed: true})
	w.setTables(c, one)
	check("after one fault", map[uint32]bool{one.Hash(): false, base.Hash(): false, unknown: false, wire.EpochMixed: true})
	w.setTables(c, two)
	check("after two faults", map[uint32]bool{two.Hash(): false, one.Hash(): false, base.Hash(): true, unknown: true, wire.EpochMixed: true})
	w.setTables(c, base)
	check("after the faults", map[uint32]bool{base.Hash(): false, two.Hash(): false, one.Hash(): true, unknown: true, wire.EpochMixed: true})
}

// setTables puts a plan in force, as the control plane does after a fault.
func (w *fabric) setTables(c *Chip, p *route.Plan) {
	c.tables.former.add(c.tables.planned, p.Hash(), false)
	c.enforce(p)
}

// TestEntryOrder lets cables of the other mesh come back. The source learns of the repair first,
// and begins a flow. The entry node of the other mesh does not know the source's tables yet. The
// entry node routes the flow's packets by a detour, on which the packets wait. Then the entry node
// also gets the source's tables. No later packet may overtake the packets on the detour.
func TestEntryOrder(t *testing.T) {
	m := named(t, "2xt3000")
	for _, x := range m.Chips[8:] {
		w := newFabric(t, m)
		src, dst := w.chips[0], w.at[x.Node]
		between := func(a, b wire.FabricNodeID) (out []wire.PortID) {
			for _, k := range m.Cables {
				if k.A.Node == a && k.B.Node == b || k.A.Node == b && k.B.Node == a {
					out = append(out, k.A, k.B)
				}
			}
			return out
		}
		far := between(m.Chips[10].Node, m.Chips[11].Node) // cables that stay out of service, so that the new tables are not those without faults
		now := src.tables.base.Around(far)
		direct, _ := now.Walk(wire.ClassRequest, 0, src.Node(), dst.Node())
		on := map[wire.FabricNodeID]bool{}
		var back []wire.PortID // cables that come back
		for _, h := range direct {
			if on[h.At], on[h.To] = true, true; back == nil && h.At.Mesh == 1 && h.To.Mesh == 1 {
				back = between(h.At, h.To)
			}
		}
		old := now.Around(append(back, far...))
		detour, ok := old.Walk(wire.ClassRequest, 0, src.Node(), dst.Node())
		var slow *Chip
		for _, h := range detour {
			if slow == nil && h.At.Mesh == 1 && !on[h.At] {
				slow = w.at[h.At]
			}
		}
		if back == nil || !ok || slow == nil {
			continue
		}
		for _, c := range w.chips {
			w.setTables(c, old)
			if c.Node().Mesh == 0 {
				w.setTables(c, now)
			}
			c.source.HandleTables(w.now)
		}
		for _, p := range slow.Channels() {
			slow.Command(w.now, p.Local.Channel, router.CommandPause)
		}
		write := flow.Request{Dst: dst.Node(), Payload: make([]byte, 64), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
		const writes = 4
		send := func() {
			for range writes {
				if a := src.HandleRequest(w.now, write); a != flow.Accepted {
					t.Fatal(a)
				}
			}
			w.run(20 * time.Millisecond)
		}
		send()
		for _, c := range w.chips[8:] {
			w.setTables(c, now)
			c.apply(w.now)
		}
		send()
		for _, p := range slow.Channels() {
			slow.Command(w.now, p.Local.Channel, router.CommandRun)
		}
		if n := w.fates(0, 5*time.Second); n[flow.FateDone] != 2*writes {
			t.Errorf("the writes to %s end: %v; want %d done", dst.Node(), n, 2*writes)
		}
		return
	}
	t.Error("no route to the other mesh suits the test")
}

// TestFlowToASilentChip sends 64 requests a millisecond to a chip that is silent for half a second.
// Meanwhile, requests between all other chips must end as done. After the silence, the requests to
// the silent chip must end as done, too.
func TestFlowToASilentChip(t *testing.T) {
	w := newFabric(t, named(t, "mesh:3x3"))
	late := w.chips[4]
	to := func(dst *Chip) flow.Request {
		return flow.Request{Dst: dst.Node(), Payload: make([]byte, 64), Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
	}
	sent := [9]int{}
	flood := func(ms int) {
		for range ms {
			for _, k := range []int{0, 3} { // M0D0 sends by way of another chip, M0D3 is a neighbour
				for range 64 {
					if w.chips[k].HandleRequest(w.now, to(late)) == flow.Accepted {
						sent[k]++
					}
					w.chips[k].Pump(w.now)
				}
			}
			w.run(time.Millisecond)
		}
	}
	flood(20)
	w.isolate(late, true)
	flood(500)
	open := [9]int{}
	for k, c := range w.chips {
		open[k] = c.Open()
		for _, dst := range w.chips {
			if c == late || dst == late || dst == c {
				continue
			}
			if a := c.HandleRequest(w.now, to(dst)); a != flow.Accepted {
				t.Errorf("%s to %s: %v", c.Node(), dst.Node(), a)
			}
		}
	}
	w.run(time.Second)
	for k, c := range w.chips {
		if n := c.Open(); n != open[k] {
			t.Errorf("%s has %d open requests, want the %d to the silent chip", c.Node(), n, open[k])
		}
		if n := c.router.InFlight(); n > 4*flow.MaxUnanswered {
			t.Errorf("%s: %d packets wait in its router", c.Node(), n)
		}
	}
	w.isolate(late, false)
	for k := range w.chips {
		if n := w.fates(k, 30*time.Second); k != 4 && n[flow.FateDone] != sent[k]+7 {
			t.Errorf("of %d requests of %s, by fate: %v", sent[k]+7, w.chips[k].Node(), n)
		}
	}
	w.settled()
}
