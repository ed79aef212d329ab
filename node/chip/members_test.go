package chip

import (
	"fmt"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/wire"
)

// sparse returns an increment at a set of chips of a mesh.
func sparse(mesh wire.MeshID, m wire.Members) flow.Request {
	return flow.Request{Dst: wire.FabricNodeID{Mesh: mesh}, Members: m, Command: wire.Command{Type: wire.NocAtomicInc, Addr: counter, Value: 1}}
}

// TestSparseMulticastReachesEachMemberOnce multicasts an increment from every chip to every set of
// chips of each mesh. Spec §4 says: "Sends a packet from one node to multiple destination nodes
// simultaneously". Each member must perform each increment once.
func TestSparseMulticastReachesEachMemberOnce(t *testing.T) {
	for name, sets := range map[string]int{"line:4": 16, "ring:5": 32, "mesh:2x3": 64, "torus:3x3": 512, "spec-l1": 60} {
		m := named(t, name)
		w := newFabric(t, m)
		want := map[wire.FabricNodeID]int{}
		for i, c := range w.chips {
			for _, mesh := range m.Meshes {
				for n := range sets {
					set := wire.Members{uint64(n)}
					if sets == 60 { // there are too many sets to test all of them, so the test takes a few sets of each size
						set = wire.Members{uint64(n*n*7+i+1) % (1 << (mesh.Rows * mesh.Cols))}
					}
					r := sparse(mesh.ID, set)
					got, err := c.HandleRequest(w.now, r), c.CheckMulticast(&r)
					bad := !set.Any() || mesh.ID == c.Node().Mesh && set.Has(c.Node().Chip)
					if (err == nil) == bad || set.Any() && (got == flow.Accepted) == bad {
						t.Fatalf("%s to %s of mesh %d from %s: %d, %v", name, set, mesh.ID, c.Node(), got, err)
					}
					if !set.Any() {
						want[r.Dst]++ // without members, the request is a unicast to the first chip of the mesh
					} else if bad {
						continue
					}
					for k := range set.All() {
						want[wire.FabricNodeID{Mesh: mesh.ID, Chip: k}]++
					}
					for _, r := range w.results(i, 1) {
						if r.Fate != flow.FateDone || r.Members != nil {
							t.Fatalf("%s to %s from %s: %+v", name, set, c.Node(), r)
						}
					}
				}
			}
		}
		w.run(50 * time.Millisecond)
		for _, c := range w.chips {
			if got := word(t, c); got != want[c.Node()]&0xFFFF {
				t.Errorf("%s %s: %d, want %d", name, c.Node(), got, want[c.Node()])
			}
		}
		w.settled()
	}
}

// TestReportOfBothHalves drops a copy whose members lie in both halves of the largest mesh. A
// single drop report has no room for all these members, so that the chip sends two reports. If the
// outbox has room for one more report only, the second report is lost.
func TestReportOfBothHalves(t *testing.T) {
	w := newFabric(t, named(t, "mesh:3x3"))
	c, src := w.chips[4], w.chips[0].Node()
	p := wire.Packet{Type: wire.PacketRequest, Src: src, Dst: src, Group: 1, Trunk: wire.TrunkX, Members: wire.MembersOf(5, 200), Command: wire.Command{Type: wire.NocAtomicInc}}
	drop := func() { c.report(w.now, router.Drop{Reason: wire.DropTTL, Dir: wire.East}, p.Append(nil), false) }
	drop()
	rs := c.outbox.reports
	if len(rs) != 2 || rs[0].to != src || rs[1].to != src || rs[0].Members != wire.MembersOf(5) || rs[1].Members != wire.MembersOf(200) {
		t.Fatalf("reports %+v", rs)
	}
	for len(c.outbox.reports) < MaxReports-1 {
		drop()
		c.outbox.reports = c.outbox.reports[:len(c.outbox.reports)-1]
	}
	drop()
	if n, lost := len(c.outbox.reports), c.counters.ReportsLost; n != MaxReports || lost != 1 {
		t.Fatalf("%d reports wait, and %d are lost", n, lost)
	}
	w.run(100 * time.Millisecond)
	if n, bad := len(c.outbox.reports), w.chips[0].Status().Counters.Dropped[wire.DropMalformed]; n != 0 || bad != 0 {
		t.Fatalf("%d reports wait, and the source refused %d", n, bad)
	}
}

// TestSparseMulticastAtAFault cuts a cable of the tree. The result names exactly the members behind
// the cut, and the chip that dropped the copy.
func TestSparseMulticastAtAFault(t *testing.T) {
	w := newFabric(t, named(t, "mesh:3x3"))
	w.cut(w.chips[1], wire.East, true)
	w.run(3 * time.Second)
	if got := w.chips[0].HandleRequest(w.now, sparse(0, wire.MembersOf(1, 3, 5, 7, 8))); got != flow.Accepted {
		t.Fatal(got)
	}
	rs := w.results(0, 1)
	if len(rs) != 1 || rs[0].Fate != flow.FateLost || fmt.Sprint(nodes(rs[0])) != "[M0D5 M0D8]" || rs[0].At != w.chips[1].Node() || rs[0].Drop != wire.DropNextHopDead {
		t.Fatalf("%+v", rs)
	}
	for i, c := range w.chips {
		if got, want := word(t, c), map[int]int{1: 1, 3: 1, 7: 1}[i]; got != want {
			t.Errorf("%s has %d, want %d", c.Node(), got, want)
		}
	}
	w.cut(w.chips[1], wire.East, false)
	w.run(3 * time.Second)
	w.chips[0].HandleRequest(w.now, sparse(0, wire.MembersOf(1, 3, 5, 7, 8)))
	if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
		t.Fatalf("after the repair: %+v", rs)
	}
	w.settled()
}

// TestMulticastToAnotherMeshRoundAFault cuts the cable by which the route to another mesh leaves.
// The multicast then takes another cable, as a unicast does, and reaches all members.
func TestMulticastToAnotherMeshRoundAFault(t *testing.T) {
	m := named(t, "2xt3000")
	w := newFabric(t, m)
	r := sparse(1, wire.MembersOf(0, 3, 4, 6))
	src := w.chips[0]
	if src.HandleRequest(w.now, r) != flow.Accepted || w.results(0, 1)[0].Fate != flow.FateDone {
		t.Fatal("without a fault")
	}
	hops, _ := src.tables.plan.Walk(wire.ClassRequest, 0, src.Node(), r.Dst)
	for _, h := range hops {
		if h.To.Mesh != h.At.Mesh {
			w.cut(w.at[h.At], h.Dir, true)
		}
	}
	w.run(3 * time.Second)
	if got := src.HandleRequest(w.now, r); got != flow.Accepted {
		t.Fatal(got)
	}
	if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
		t.Fatalf("%+v", rs)
	}
	for _, c := range w.chips {
		want := 0
		if c.Node().Mesh == 1 && r.Members.Has(c.Node().Chip) {
			want = 2
		}
		if got := word(t, c); got != want {
			t.Errorf("%s has %d, want %d", c.Node(), got, want)
		}
	}
	w.settled()
}

// TestMulticastToAnUnreachableMesh cuts all cables between two meshes. A multicast to the other
// mesh must be refused as unreachable at once. A multicast that is under way must end.
func TestMulticastToAnUnreachableMesh(t *testing.T) {
	m := named(t, "2xt3000")
	w := newFabric(t, m)
	r := sparse(1, wire.MembersOf(1, 2))
	w.chips[0].HandleRequest(w.now, r)
	w.results(0, 1)
	for _, c := range w.chips {
		for _, p := range c.Channels() {
			if p.Peer.Node.Mesh != p.Local.Node.Mesh {
				w.cut(c, p.Dir, true)
			}
		}
	}
	if got := w.chips[0].HandleRequest(w.now, r); got != flow.Accepted {
		t.Fatal(got)
	}
	w.run(3 * time.Second)
	rs := w.results(0, 1)
	if len(rs) != 1 || rs[0].Fate == flow.FateDone || len(rs[0].Members) != 2 {
		t.Fatalf("%+v", rs)
	}
	if got := w.chips[0].HandleRequest(w.now, r); got != flow.Unreachable {
		t.Errorf("admission %d", got)
	}
}
