package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// entering returns a request from one mesh to another, by tables that no chip knows. entering also
// returns the port by which the request comes in at a chip of the other mesh.
func (w *fabric) entering(src, dst, entry, from wire.FabricNodeID, seq, base uint32) (in *port, v wire.PacketView) {
	for k := range w.at[entry].ports.list {
		if q := &w.at[entry].ports.list[k]; q.Peer.Node == from && q.Plane == 0 {
			in = q
		}
	}
	p := wire.Packet{Type: wire.PacketRequest, Src: src, Dst: dst, TTL: 99, Epoch: 77, FlowSeq: seq, FlowBase: base, Command: wire.Command{Type: wire.NocNone}, Route: make([]byte, 8)}
	return in, wire.PacketView(p.Append(nil))
}

// TestRouteStraightBack brings a request to an entry node whose tables lead straight back over the
// cable by which the request came in. The source chose a route round a fault that the entry node no
// longer knows. The entry node must send the request on over another cable.
func TestRouteStraightBack(t *testing.T) {
	w := newFabric(t, named(t, "spec-l1"))
	node := func(mesh, chip int) wire.FabricNodeID {
		return wire.FabricNodeID{Mesh: wire.MeshID(mesh), Chip: wire.ChipID(chip)}
	}
	for _, c := range []struct {
		src, dst, entry, from wire.FabricNodeID
		want                  string
	}{
		{node(0, 4), node(1, 5), node(2, 2), node(0, 8), "WWN"}, // back to M0 over the other cable
		{node(1, 7), node(3, 4), node(0, 5), node(1, 3), "SS"},  // → M2, not back to M1
	} {
		in, v := w.entering(c.src, c.dst, c.entry, c.from, 0, 0)
		if in == nil || !w.at[c.entry].enter(in, v) {
			t.Fatalf("%s does not take the packet from %s", c.entry, c.from)
		}
		if got := actions(v); got != c.want || v.Epoch() != wire.EpochMixed {
			t.Errorf("%s sends a packet from %s for %s by %s, epoch %08x; want %s and mixed tables", c.entry, c.from, c.dst, got, v.Epoch(), c.want)
		}
	}
}

// TestEntryKeepsTables brings requests of one flow to an entry node. The entry node does not know
// the tables that the first request names, and uses its own tables. Then the named tables replace
// the entry node's own tables. While the first request is open, further requests of the flow must
// take the same route.
func TestEntryKeepsTables(t *testing.T) {
	w := newFabric(t, named(t, "spec-l1"))
	src, dst := wire.FabricNodeID{Mesh: 1, Chip: 8}, wire.FabricNodeID{Mesh: 3, Chip: 7}
	entry := w.at[wire.FabricNodeID{Mesh: 3, Chip: 2}]
	send := func(seq, base uint32) string {
		in, v := w.entering(src, dst, entry.Node(), src, seq, base)
		v.SetEpoch(entry.tables.epoch)
		if seq == 0 {
			v.SetEpoch(77)
		}
		if !entry.enter(in, v) {
			t.Fatalf("request %d does not enter", seq)
		}
		return actions(v)
	}
	first := send(0, 0)
	var out []wire.PortID
	for _, k := range w.m.Cables {
		if a, b := k.A.Node, k.B.Node; a.Mesh == 3 && b.Mesh == 3 && (min(a.Chip, b.Chip) == 1 && max(a.Chip, b.Chip) == 2) {
			out = append(out, k.A, k.B)
		}
	}
	w.setTables(entry, entry.tables.base.Around(out))
	if got := send(1, 0); got != first {
		t.Errorf("while request 0 is open, request 1 goes %s, but request 0 went %s", got, first)
	}
	if got := send(2, 2); got == first {
		t.Errorf("after the end of requests 0 and 1, request 2 still goes %s", got)
	}
}

// TestFlowsShareEntrants brings packets of many flows to a chip. The chip must remember the tables of
// nearly all flows.
func TestFlowsShareEntrants(t *testing.T) {
	var e entrants
	force, other := &planned{epoch: 1}, &planned{epoch: 2}
	each := func(do func(v wire.PacketView)) {
		for src := range wire.ChipID(36) {
			for dst := range wire.ChipID(36) {
				p := wire.Packet{Type: wire.PacketRequest, Src: wire.FabricNodeID{Chip: src}, Dst: wire.FabricNodeID{Mesh: 1, Chip: dst}, Command: wire.Command{Type: wire.NocNone}}
				do(wire.PacketView(p.Append(nil)))
			}
		}
	}
	each(func(v wire.PacketView) { e.of(v, force).took(v, other) })
	kept := 0
	each(func(v wire.PacketView) {
		if e.of(v, force).open(v) == other {
			kept++
		}
	})
	const flows = 36 * 36
	if kept < flows*99/100 {
		t.Errorf("the chip remembers the tables of %d flows of %d", kept, flows)
	}
}

// TestMulticastToASilentMesh silences the only member of a multicast in another mesh. Multicasts must
// wait at their source, and end as done after the silence.
func TestMulticastToASilentMesh(t *testing.T) {
	w := newFabric(t, named(t, "spec-l1"))
	src, member := w.chips[0], w.at[wire.FabricNodeID{Mesh: 1, Chip: 4}]
	r := flow.Request{Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}, Payload: make([]byte, 64)}
	r.Dst = member.Node()
	r.Members.Add(member.Node().Chip)
	w.isolate(member, true)
	w.run(time.Second)
	if a := src.HandleRequest(w.now, r); a != flow.Busy {
		t.Errorf("a multicast to a silent member: %v, want busy", a)
	}
	w.isolate(member, false)
	w.run(2 * time.Second)
	if a := src.HandleRequest(w.now, r); a != flow.Accepted {
		t.Errorf("after the silence: %v", a)
	}
	if n := w.fates(0, time.Second); n[flow.FateDone] != 1 {
		t.Errorf("by fate: %v", n)
	}
}
