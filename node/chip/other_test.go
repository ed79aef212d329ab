package chip

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// opposite returns a write from chip 0 of a ring of six to chip 3, the opposite chip. If
// "other" is true, the write takes the other direction round the ring.
func opposite(w *fabric, other bool, token uint64) flow.Request {
	return flow.Request{Token: token, Dst: w.m.Chips[3].Node, Other: other, Payload: []byte{byte(token)},
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 64*token)}}
}

// The two routes round a ring to the opposite chip belong to two separate flows. Each
// request, reply and completion names its flow. Each router sees only the packets of the
// route that passes it.
func TestBothWaysRoundARing(t *testing.T) {
	w := newFabric(t, named(t, "ring:6"))
	type seen struct {
		at    wire.ChipID
		typ   wire.PacketType
		other bool
	}
	saw, next := map[seen]int{}, map[bool]uint32{}
	w.watch = func(to wire.PortID, v wire.PacketView) {
		if v.Type() != wire.PacketLinkState {
			saw[seen{to.Node.Chip, v.Type(), v.Other()}]++
		}
		if v.Type() == wire.PacketRequest && to.Node == w.m.Chips[3].Node {
			if _, seq := v.Flow(); seq != next[v.Other()] {
				t.Errorf("other %v: request %d came as number %d of its flow", v.Other(), next[v.Other()], seq)
			}
			next[v.Other()]++
		}
	}
	const each = 3
	for i := range uint64(each) {
		for _, other := range []bool{false, true} {
			r := opposite(w, other, 1+2*i)
			if other {
				r.Token++
				r.Command.Addr = r.Command.Addr.Add(64)
				r.Payload = []byte{byte(r.Token)}
			}
			read := r
			read.Token, read.Payload, read.Command.Type, read.Command.Size = r.Token+100, nil, wire.NocRead, 1
			for _, q := range []flow.Request{r, read} {
				if a := w.chips[0].HandleRequest(w.now, q); a != flow.Accepted {
					t.Fatalf("not taken: %d", a)
				}
			}
		}
	}
	rs := w.results(0, 4*each)
	for _, r := range rs {
		if r.Fate != flow.FateDone || r.Token > 100 && !bytes.Equal(r.Data, []byte{byte(r.Token - 100)}) {
			t.Errorf("%+v", r)
		}
	}
	stale := w.chips[0].Status().Counters
	if len(rs) != 4*each || w.chips[0].Open() != 0 || stale.StaleCompletions+stale.StaleReplies != 0 {
		t.Errorf("%d results, %d open, %d stale completions, %d stale replies", len(rs), w.chips[0].Open(), stale.StaleCompletions, stale.StaleReplies)
	}
	for _, other := range []bool{false, true} {
		if next[other] != 2*each {
			t.Errorf("other %v: the flow had %d requests, want %d", other, next[other], 2*each)
		}
	}
	// In this ring, the usual route goes east, by chips 1 and 2. The other route goes west, by
	// chips 5 and 4.
	for i, side := range [][]wire.ChipID{{1, 2}, {5, 4}} {
		for _, at := range side {
			for _, other := range []bool{false, true} {
				want := 0
				if other == (i == 1) {
					want = 1
				}
				if got := saw[seen{at, wire.PacketRequest, other}]; got != want*2*each {
					t.Errorf("chip %d saw %d requests, other way %v, want %d", at, got, other, want*2*each)
				}
				if got := saw[seen{at, wire.PacketReply, other}]; got != want*each {
					t.Errorf("chip %d saw %d replies, other way %v, want %d", at, got, other, want*each)
				}
			}
		}
	}
	if saw[seen{0, wire.PacketCompletion, false}] == 0 || saw[seen{0, wire.PacketCompletion, true}] == 0 {
		t.Errorf("completions: %v", saw)
	}
}

// A drop report names the direction of the dropped packet round the ring. With this direction, the
// source finds the flow of the dropped request.
func TestDropsOfOneWay(t *testing.T) {
	w := fabricOf(t, named(t, "ring:6"), func(c *Config) { c.TTL = 2 })
	for i, other := range []bool{true, false} {
		for token := range uint64(2) {
			if a := w.chips[0].HandleRequest(w.now, opposite(w, other, token)); a != flow.Accepted {
				t.Fatalf("not taken: %d", a)
			}
		}
		rs, at := w.results(0, 2), []wire.FabricNodeID{w.m.Chips[4].Node, w.m.Chips[2].Node}[i]
		if len(rs) != 2 {
			t.Fatalf("other %v: %d results", other, len(rs))
		}
		for k, r := range rs {
			if r.Token != uint64(k) || r.Fate != flow.FateLost || r.Drop != wire.DropTTL || r.At != at {
				t.Errorf("other %v: %+v, want it dropped at %s", other, r, at)
			}
		}
	}
}

// A request with Via or with Ranges cannot set Other.
func TestOtherWayRefused(t *testing.T) {
	w := newFabric(t, named(t, "ring:6"))
	via := opposite(w, true, 1)
	via.Via = []wire.Direction{wire.East, wire.East, wire.East}
	if a := w.chips[0].HandleRequest(w.now, via); a != flow.BadVia {
		t.Errorf("with hops: %d", a)
	}
	many := opposite(w, true, 1)
	many.Ranges.Hops[wire.East] = 2
	if a := w.chips[0].HandleRequest(w.now, many); a != flow.BadRanges || w.chips[0].CheckMulticast(&many) == nil {
		t.Errorf("a multicast: %d, %v", a, w.chips[0].CheckMulticast(&many))
	}
	many.Other = false
	if err := w.chips[0].CheckMulticast(&many); err != nil {
		t.Error(err)
	}
}

// In a row of chips, only one route leads to a destination. Requests with Other take this
// route too, but belong to a flow of their own.
func TestOtherWayOfALine(t *testing.T) {
	w := newFabric(t, named(t, "mesh:1x4"))
	next := map[bool]uint32{} // requests that came in order, by Other of their flow
	w.watch = func(to wire.PortID, v wire.PacketView) {
		if _, seq := v.Flow(); v.Type() == wire.PacketRequest && to.Node == w.m.Chips[3].Node && seq == next[v.Other()] {
			next[v.Other()]++
		}
	}
	for token := range uint64(6) {
		if a := w.chips[0].HandleRequest(w.now, opposite(w, token%2 == 0, token)); a != flow.Accepted {
			t.Fatalf("not taken: %d", a)
		}
	}
	if rs := w.results(0, 6); len(rs) != 6 || next[false] != 3 || next[true] != 3 || w.chips[0].tables.routes.sides != 1 {
		t.Errorf("%d results, %v requests by flow, routes of %d sides", len(rs), next, w.chips[0].tables.routes.sides)
	}
}

// A fault breaks one of the two routes round a ring. Requests for the broken route then
// take the intact route. Requests for the intact route keep their route. Once the cable
// is back in service, both routes are used again.
func TestOtherWayAroundAFault(t *testing.T) {
	w := newFabric(t, named(t, "ring:6"))
	sides := map[bool]map[wire.ChipID]bool{}
	w.watch = func(to wire.PortID, v wire.PacketView) {
		if v.Type() == wire.PacketRequest {
			sides[v.Other()][to.Node.Chip] = true
		}
	}
	both := func(usual, other string) {
		t.Helper()
		sides = map[bool]map[wire.ChipID]bool{false: {}, true: {}}
		for _, o := range []bool{false, true} {
			if a := w.chips[0].HandleRequest(w.now, opposite(w, o, 1)); a != flow.Accepted {
				t.Fatalf("other %v: not taken: %d", o, a)
			}
		}
		for _, r := range w.results(0, 2) {
			if r.Fate != flow.FateDone {
				t.Errorf("%+v", r)
			}
		}
		if got := [2]string{fmt.Sprint(sides[false]), fmt.Sprint(sides[true])}; got != [2]string{usual, other} {
			t.Errorf("by chips %v, want %s and %s", got, usual, other)
		}
	}
	east, west := "map[1:true 2:true 3:true]", "map[3:true 4:true 5:true]"
	both(east, west)
	cable := func(a, b int) (out []wire.PortID) {
		for _, p := range w.m.Ports(w.m.Chips[a].Node) {
			if p.Peer.Node == w.m.Chips[b].Node {
				out = append(out, p.Local)
			}
		}
		return out
	}
	back := func(out []wire.PortID) {
		for _, p := range out {
			w.at[p.Node].Avoid(w.now, p.Channel, false)
		}
		w.run(10 * time.Second)
	}
	w.avoid(cable(4, 5))
	both(east, east)
	back(cable(4, 5))
	both(east, west)
	w.avoid(cable(1, 2))
	both(west, west)
	back(cable(1, 2))
	both(east, west)
}

// The entry node of a mesh writes a packet's new route. The route goes round the ring in
// the direction that the packet asks for.
func TestEntryRoutersTakeTheOtherWay(t *testing.T) {
	text := "mesh_descriptors { name: \"M\" arch: WORMHOLE_B0 device_topology { dims: [ 4, 4 ] dim_types: [ LINE, RING ] } channels { count: 2 } }\n" +
		"graph_descriptors { name: \"G\" type: \"FABRIC\" instances { mesh { mesh_descriptor: \"M\" mesh_id: 0 } } instances { mesh { mesh_descriptor: \"M\" mesh_id: 1 } }\n" +
		" instances { mesh { mesh_descriptor: \"M\" mesh_id: 2 } } graph_topology: RING channels { count: 2 } }\ntop_level_instance { graph { graph_descriptor: \"G\" graph_id: 0 } }\n"
	m, err := topo.Load("tori.textproto", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w := newFabric(t, m)
	paths := map[wire.FabricNodeID]map[bool]string{} // chips that requests pass within the second mesh, by destination and Other
	w.watch = func(to wire.PortID, v wire.PacketView) {
		if v.Type() == wire.PacketRequest && to.Node.Mesh == 1 {
			paths[v.Dst()][v.Other()] += fmt.Sprint(to.Node, " ")
		}
	}
	for _, c := range m.Chips {
		if c.Node.Mesh != 1 {
			continue
		}
		paths[c.Node] = map[bool]string{}
		for _, other := range []bool{false, true} {
			r := flow.Request{Dst: c.Node, Other: other, Payload: []byte{1}, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
			if a := w.chips[0].HandleRequest(w.now, r); a != flow.Accepted {
				t.Fatalf("%s, other %v: %d", c.Node, other, a)
			}
			if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
				t.Errorf("%s, other %v: %+v", c.Node, other, rs)
			}
		}
	}
	differ := 0
	for dst, path := range paths {
		a, b := path[false], path[true]
		if len(a) != len(b) || a == "" {
			t.Errorf("%s by %s and by %s", dst, a, b)
		}
		if a != b {
			differ++
		}
	}
	if differ != 4 { // the four chips in the column opposite the entry node's column
		t.Errorf("%d chips of the mesh are reached by two routes, want 4: %v", differ, paths)
	}
}
