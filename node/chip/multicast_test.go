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

func named(t *testing.T, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func hops(e, w, n, s uint8) wire.Ranges { return wire.Ranges{Hops: [4]uint8{e, w, n, s}} }

// counter is the address of the number that the tests increment. The function "word" reads
// this number.
var counter = wire.NewNocAddr(1, 1, 64)

func word(t *testing.T, c *Chip) int {
	t.Helper()
	var b [4]byte
	if o := c.Memory().Read(counter, b[:]); o != wire.OutcomeDone {
		t.Fatal(o)
	}
	return int(b[0]) | int(b[1])<<8
}

func inc(r wire.Ranges) flow.Request {
	return flow.Request{Ranges: r, Command: wire.Command{Type: wire.NocAtomicInc, Addr: counter, Value: 1}}
}

// settled checks that every chip of a fabric is quiet and that the chip's invariants
// hold.
func (w *fabric) settled() {
	w.t.Helper()
	for _, c := range w.chips {
		if err := c.CheckInvariants(); err != nil {
			w.t.Error(err)
		}
		if !c.Quiet() {
			w.t.Errorf("%s is not at rest", c.Node())
		}
	}
}

// TestMulticastReachesEachMemberOnce multicasts an increment from every chip, to all
// ranges of up to 3 hops in each direction. Each member must perform each increment once.
func TestMulticastReachesEachMemberOnce(t *testing.T) {
	for _, name := range []string{"line:4", "ring:4", "mesh:2x3", "torus:3x3"} {
		m := named(t, name)
		w := newFabric(t, m)
		want, sent := map[wire.FabricNodeID]int{}, make([]int, len(w.chips))
		for i, c := range w.chips {
			for n := range 4 * 4 * 4 * 4 {
				r := hops(uint8(n&3), uint8(n>>2&3), uint8(n>>4&3), uint8(n>>6))
				tree, err := c.tables.plan.Multicast(0, c.Node(), r)
				if got := c.HandleRequest(w.now, inc(r)); r.Any() && (got == flow.Accepted) != (err == nil) {
					t.Fatalf("%s %s: %d, %v", name, r, got, err)
				} else if !r.Any() {
					w.results(i, 1) // without ranges, the request is a unicast to M0D0
					want[wire.FabricNodeID{}]++
					continue
				} else if err != nil {
					continue
				}
				sent[i]++
				for _, b := range tree {
					want[b.To]++
				}
				for _, r := range w.results(i, 1) {
					if r.Fate != flow.FateDone || r.Members != nil {
						t.Fatalf("%s: %+v", name, r)
					}
				}
			}
		}
		w.run(50 * time.Millisecond)
		for _, c := range w.chips {
			if got := word(t, c); got != want[c.Node()] {
				t.Errorf("%s %s: %d, want %d", name, c.Node(), got, want[c.Node()])
			}
		}
		w.settled()
	}
}

// TestMulticastCommands multicasts each command except reads. All members must perform
// the command. The chip must refuse a read and bad ranges.
func TestMulticastCommands(t *testing.T) {
	m := named(t, "mesh:2x2")
	w := newFabric(t, m)
	at := wire.NewNocAddr(2, 1, 0)
	all := hops(1, 0, 0, 1)
	data := []byte("0123456789")
	for _, r := range []flow.Request{
		{Command: wire.Command{Type: wire.NocUnicastWrite, Addr: at}, Payload: data},
		{Command: wire.Command{Type: wire.NocInlineWrite, Addr: at.Add(12), Value: 0x44434241}},
		{Command: wire.Command{Type: wire.NocAtomicInc, Addr: at.Add(12), Value: 1, Flush: true}},
		{Command: wire.Command{Type: wire.NocFusedInc, Addr: at.Add(16), Sem: at.Add(12), Value: 1}, Payload: data[:4]},
		{Command: wire.Command{Type: wire.NocScatterWrite, Chunks: 2, Scatter: [4]wire.NocAddr{at.Add(20), at.Add(24)}, Sizes: [4]uint16{1, 2}}, Payload: data[:3]},
		{Probe: true},
	} {
		r.Ranges = all
		if got := w.chips[0].HandleRequest(w.now, r); got != flow.Accepted {
			t.Fatalf("%s: %d", r.Command.Type, got)
		}
	}
	if rs := w.results(0, 6); len(rs) != 6 || rs[5].Fate != flow.FateDone || rs[4].Fate != flow.FateDone {
		t.Fatalf("%+v", rs)
	}
	for i, c := range w.chips {
		b := make([]byte, 27)
		c.Memory().Read(at, b)
		want := []byte("0123456789\x00\x00CBCD0123" + "0\x00\x00\x0012\x00")
		if i == 0 {
			want = make([]byte, 27)
		}
		if !bytes.Equal(b, want) {
			t.Errorf("%s holds %q, want %q", c.Node(), b, want)
		}
	}
	for name, r := range map[string]flow.Request{
		"a read cannot be multicast":     {Ranges: all, Command: wire.Command{Type: wire.NocRead, Addr: at, Size: 4}},
		"cannot take hops":               {Ranges: all, Via: []wire.Direction{wire.East}},
		"at most 1 hops east and west":   {Ranges: hops(2, 0, 0, 0)},
		"the ranges leave mesh 0":        {Ranges: hops(0, 1, 0, 0)},
		"the ranges skip all hops E":     {Ranges: wire.Ranges{Hops: [4]uint8{1}, Skip: [4]uint8{1}}},
		"there is no cable from M0D0 to": {Ranges: all, Plane: 9},
	} {
		got, err := w.chips[0].HandleRequest(w.now, r), w.chips[0].CheckMulticast(&r)
		if got != flow.BadRanges || err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	long := inc(all)
	long.Payload = make([]byte, wire.MaxPayload+1)
	if got := w.chips[0].HandleRequest(w.now, long); got != flow.TooLarge {
		t.Errorf("a long payload: %d", got)
	}
	w.settled()
}

// TestMulticastRefusedAndLost sends a multicast that all members refuse. The test then
// cuts cables, and sends another multicast. The result of the second multicast names
// exactly the members behind the cut. All other members have performed the multicast.
func TestMulticastRefusedAndLost(t *testing.T) {
	m := named(t, "mesh:3x3")
	w := newFabric(t, m)
	r := inc(hops(2, 0, 0, 2))
	r.Command.Addr = r.Command.Addr.Add(2)
	w.chips[0].HandleRequest(w.now, r)
	if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateRefused || len(rs[0].Members) != 8 || rs[0].Members[7].Outcome != wire.OutcomeMisaligned {
		t.Fatalf("%+v", rs)
	}
	// The test cuts the cables between M0D1 and M0D2, which the trunk uses. M0D2, M0D5 and
	// M0D8 are behind the cut.
	w.cut(w.chips[1], wire.East, true)
	w.run(3 * time.Second)
	w.chips[0].HandleRequest(w.now, inc(hops(2, 0, 0, 2)))
	rs := w.results(0, 1)
	if len(rs) != 1 || rs[0].Fate != flow.FateLost || fmt.Sprint(nodes(rs[0])) != "[M0D2 M0D5 M0D8]" || rs[0].At != w.chips[1].Node() || rs[0].Drop != wire.DropNextHopDead {
		t.Fatalf("%+v", rs)
	}
	for i, c := range w.chips {
		if got, want := word(t, c), map[bool]int{true: 1}[i%3 != 2 && i > 0]; got != want {
			t.Errorf("%s has %d, want %d", c.Node(), got, want)
		}
	}
	w.cut(w.chips[1], wire.East, false)
	w.run(3 * time.Second)
	w.chips[0].HandleRequest(w.now, inc(hops(2, 0, 0, 2)))
	if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
		t.Fatalf("after the repair: %+v", rs)
	}
	w.settled()
}

func nodes(r flow.Result) (ns []wire.FabricNodeID) {
	for _, m := range r.Members {
		ns = append(ns, m.Node)
	}
	return ns
}

// TestMulticastToARestartedMember restarts a member. Only for the restarted member, the result is
// unknown or lost.
func TestMulticastToARestartedMember(t *testing.T) {
	m := named(t, "line:3")
	w := newFabric(t, m)
	all := hops(2, 0, 0, 0)
	send := func(n int) {
		for range n {
			if got := w.chips[0].HandleRequest(w.now, inc(all)); got != flow.Accepted {
				t.Fatal(got)
			}
			w.chips[0].Pump(w.now)
		}
	}
	send(3)
	w.results(0, 3)
	w.cut(w.chips[1], wire.East, true) // no frame reaches M0D2 from here on
	send(3)
	w.restart(2, 77)
	w.cut(w.chips[1], wire.East, false)
	w.run(2 * time.Second)
	send(1)
	rs := w.results(0, 4)
	if len(rs) != 4 || rs[3].Fate != flow.FateDone {
		t.Fatalf("%+v", rs)
	}
	for _, r := range rs[:3] {
		if (r.Fate != flow.FateUnknown && r.Fate != flow.FateLost) || fmt.Sprint(nodes(r)) != "[M0D2]" {
			t.Errorf("%+v", r)
		}
	}
	if a, b := word(t, w.chips[1]), word(t, w.chips[2]); a != 7 || b != 1 {
		t.Errorf("counted %d and %d, want 7 and 1", a, b)
	}
	w.settled()
}

// TestSilentMemberIsGivenUpAlone silences one member. The source must give up only the silent
// member, and the group must go on.
func TestSilentMemberIsGivenUpAlone(t *testing.T) {
	m := named(t, "line:3")
	w := newFabric(t, m)
	all := hops(2, 0, 0, 0)
	w.chips[0].HandleRequest(w.now, inc(all))
	w.results(0, 1)
	w.chips[2].route(flow.Key{Node: w.chips[0].Node()}, wire.ClassControl).OK = false // M0D2 has no route for its completions
	for k := range 20 {
		if got := w.chips[0].HandleRequest(w.now, inc(all)); got != flow.Accepted {
			t.Fatal(got)
		}
		w.run(flow.FlowTimeout / 10)
		if k < 9 && w.chips[0].Open() == 0 {
			t.Fatal("settled although a member has not answered")
		}
	}
	rs := w.results(0, 9)
	if len(rs) < 9 {
		t.Fatalf("%d results", len(rs))
	}
	for _, r := range rs {
		if r.Fate != flow.FateUnknown || r.Doubt != flow.DoubtTimeout || fmt.Sprint(nodes(r)) != "[M0D2]" {
			t.Errorf("%+v", r)
		}
	}
	if got := word(t, w.chips[1]); got != 21 {
		t.Errorf("the other member performed %d of 21", got)
	}
}

// TestGroupsMakeRoom uses more ranges than a chip has groups. A new group takes the
// number of an idle group. No member may take the new group's flow for the old group's
// flow.
func TestGroupsMakeRoom(t *testing.T) {
	m := named(t, "mesh:1x32")
	w := newFabric(t, m)
	highest := uint16(0)
	w.watch = func(_ wire.PortID, v wire.PacketView) { highest = max(highest, v.Group()) }
	want := make([]int, len(w.chips))
	for round := range 2 {
		for e := 1; e < 24; e++ { // 276 ranges in all
			for skip := range e {
				r := wire.Ranges{Hops: [4]uint8{uint8(e)}, Skip: [4]uint8{uint8(skip)}}
				if got := w.chips[0].HandleRequest(w.now, inc(r)); got != flow.Accepted {
					t.Fatalf("round %d %s: %d", round, r, got)
				}
				if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
					t.Fatalf("%s: %+v", r, rs)
				}
				for k := skip + 1; k <= e; k++ {
					want[k]++
				}
			}
		}
		for x := range 100 {
			r := wire.Ranges{Hops: [4]uint8{31}, Skip: [4]uint8{uint8(x % 30)}}
			w.chips[0].HandleRequest(w.now, inc(r))
			if rs := w.results(0, 1); len(rs) != 1 || rs[0].Fate != flow.FateDone {
				t.Fatalf("%s: %+v", r, rs)
			}
			for k := x%30 + 1; k <= 31; k++ {
				want[k]++
			}
		}
	}
	for i, c := range w.chips {
		if got := word(t, c); got != want[i] {
			t.Errorf("%s: %d, want %d", c.Node(), got, want[i])
		}
	}
	if highest != flow.MaxGroups {
		t.Errorf("the highest number of a group was %d, want %d", highest, flow.MaxGroups)
	}
	w.settled()
}
