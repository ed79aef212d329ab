package sim

import (
	"maps"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// stream is a client that writes to one chip as fast as the chip accepts requests.
type stream struct {
	req  flow.Request
	both bool // whether the requests take both directions round rings, in turn
	left int
	ends [4]int      // number of ended requests, by flow.Fate
	last flow.Result // result of the last request that ended
}

// Next returns the next request.
func (f *stream) Next(mono.Time) (flow.Request, bool) {
	if f.left == 0 {
		return flow.Request{}, false
	}
	f.left--
	f.req.Other = f.both && f.left%2 == 0
	return f.req, true
}

// Undo keeps the request for the next call of Next.
func (f *stream) Undo() { f.left++ }

// Done counts the ended request, and keeps its result.
func (f *stream) Done(_ mono.Time, r flow.Result) { f.ends[r.Fate], f.last = f.ends[r.Fate]+1, r }

// Performed does nothing, because the tests count performed requests elsewhere.
func (f *stream) Performed(mono.Time, wire.FabricNodeID, wire.Plane, bool, *wire.Command, *noc.Memory) {
}

// bare starts a fabric without faults and load, with a link profile of live fabrics.
func bare(t *testing.T, machine string, ttl uint16, change func(a *surroundings)) *Sim {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, machine), Seed: 1, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	s.ttl = ttl
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond,
		timeout: router.Timeout{After: 200 * time.Millisecond}}
	if change != nil {
		change(&s.around)
	}
	if s.routes, err = route.New(s.cfg.Topology, s.around.route); err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.runUntil(mono.Time(time.Second), func() bool { return false })
	return s
}

// streams starts a fabric, makes each chip send packets to another chip, and simulates some virtual
// time. streams returns the numbers of performed packets, of packets that ended otherwise, and of
// timeouts of packets that could not move.
func streams(t *testing.T, machine string, to []int, via [][]wire.Direction, change func(a *surroundings)) (done, other, timeouts int) {
	t.Helper()
	const each = 2000
	s := bare(t, machine, 0, change)
	var fs []*stream
	for i, m := range s.machines {
		f := &stream{left: each, req: flow.Request{Dst: s.machines[to[i]].node, Payload: floodData[:],
			Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
		if via != nil {
			f.req.Via = via[i]
		}
		fs = append(fs, f)
		m.chip.SetClient(f)
		s.run(m)
	}
	s.runUntil(s.now.Add(5*time.Second), s.atRest)
	if s.failure != nil {
		t.Fatal(s.failure)
	}
	for i, f := range fs {
		done += f.ends[flow.FateDone]
		other += f.ends[flow.FateLost] + f.ends[flow.FateUnknown] + f.ends[flow.FateRefused]
		timeouts += int(s.machines[i].chip.Status().Counters.Timeouts)
	}
	return done, other, timeouts
}

// TestSpecificationsDeadlock simulates "Cyclic Dependency Deadlock" of Spec §6.1. On a square,
// packets go D1 → D4, D2 → D3, D3 → D2 and D4 → D1. Chips send their own packets first: "the
// outgoing router's buffer is exhausted with locally generated traffic". Without an order of
// dimensions, the traffic must deadlock, and routers must count timeouts. With either order of
// dimensions, the same traffic must end.
func TestSpecificationsDeadlock(t *testing.T) {
	to := []int{3, 2, 1, 0}
	by := func(o route.Order) func(*surroundings) {
		return func(a *surroundings) { a.localFirst, a.route.Order = true, o }
	}
	const all = 4 * 2000
	done, other, timeouts := streams(t, "mesh:2x2", to, nil, by(route.NoOrder))
	if done == all || other != 0 || timeouts == 0 {
		t.Errorf("round the square, local traffic first: %d of %d performed, %d not, %d timeouts: no deadlock", done, all, other, timeouts)
	}
	t.Logf("round the square, local traffic first: deadlock after %d of %d packets, %d timeouts", done, all, timeouts)
	for _, o := range []route.Order{route.XY, route.YX} {
		if done, other, timeouts := streams(t, "mesh:2x2", to, nil, by(o)); done != all || other != 0 || timeouts != 0 {
			t.Errorf("by order %s: %d of %d performed, %d not, %d timeouts", o, done, all, other, timeouts)
		}
	}
	// If routers drop packets that cannot move, the other packets must continue, and every packet
	// must have a known fate.
	done, other, _ = streams(t, "mesh:2x2", to, nil, func(a *surroundings) {
		by(route.NoOrder)(a)
		a.timeout = router.Timeout{After: 20 * time.Millisecond, Drop: true, Drain: true}
	})
	t.Logf("with drop and drain: %d performed, %d not", done, other)
	if done+other != all || other == 0 {
		t.Errorf("with drop and drain: %d performed, %d not, of %d", done, other, all)
	}
}

// TestRingDeadlock sends packets three hops round a ring. The traffic must deadlock without a
// dateline and bubbles. With a dateline or with bubbles, the traffic must end.
func TestRingDeadlock(t *testing.T) {
	to := []int{3, 0, 1, 2}
	e := wire.East
	via := make([][]wire.Direction, 4)
	for i := range via {
		via[i] = []wire.Direction{e, e, e}
	}
	const all = 4 * 2000
	for _, c := range []struct {
		ring route.Ring
		runs bool
	}{{route.NoRing, false}, {route.Dateline, true}, {route.Bubble, true}} {
		done, other, timeouts := streams(t, "ring:4", to, via, func(a *surroundings) { a.localFirst, a.route.Ring = true, c.ring })
		if runs := done == all && timeouts == 0; runs != c.runs || other != 0 || (!c.runs && (timeouts == 0 || done == all)) {
			t.Errorf("%s: %d of %d performed, %d not, %d timeouts", c.ring, done, all, other, timeouts)
		} else {
			t.Logf("%s: %d of %d performed, %d timeouts", c.ring, done, all, timeouts)
		}
	}
}

// TestBothWaysAtOnce makes all chips of a ring send to the opposite chip in both directions, with
// local traffic first. The routes to the opposite chip are the longest, and fill the ring in both
// directions. With a dateline or with bubbles, the traffic must end, and half of the packets must
// take each direction.
func TestBothWaysAtOnce(t *testing.T) {
	for _, machine := range []string{"ring:4", "ring:6", "torus:4x4"} {
		for _, ring := range []route.Ring{route.Dateline, route.Bubble} {
			s := bare(t, machine, 0, func(a *surroundings) { a.localFirst, a.route.Ring = true, ring })
			const each = 1000
			n := len(s.machines)
			m := s.cfg.Topology.Meshes[0]
			before, streams := (&lab{s: s}).sent(), []*stream{}
			var flows []route.Flow
			for i, x := range s.machines {
				to := (i/m.Cols+m.Rows/2)%m.Rows*m.Cols + (i%m.Cols+m.Cols/2)%m.Cols
				f := &stream{left: each, both: true, req: flow.Request{Dst: s.machines[to].node, Payload: floodData[:],
					Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
				streams, flows = append(streams, f), append(flows, route.Flow{Src: x.node, Dst: s.machines[to].node, Rate: each, Split: true})
				x.chip.SetClient(f)
				s.run(x)
			}
			done := func() (sum int) {
				for _, f := range streams {
					sum += f.ends[flow.FateDone]
				}
				return sum
			}
			s.runUntil(s.now.Add(SettleTime), func() bool { return done() == n*each })
			if timeouts := s.machines[0].chip.Status().Counters.Timeouts; done() != n*each || timeouts != 0 {
				t.Errorf("%s %s: %d of %d performed, %d timeouts", machine, ring, done(), n*each, timeouts)
			}
			want, err := s.routes.Loads(wire.ClassRequest, 0, flows)
			if err != nil {
				t.Fatal(err)
			}
			got := (&lab{s: s}).sent()
			for o, v := range want.Channels {
				if got[o]-before[o] != v {
					t.Errorf("%s %s: %s %s carried %v packets, want %v", machine, ring, o.At, o.Dir, got[o]-before[o], v)
				}
			}
		}
	}
}

// TestSpecificationsTTL simulates the example of Spec §7.2. With a TTL of 10, a packet of D1 passes
// D5 D6 D7 D11 D10 D9 D5 D6 D7. Then "Fabric Router at Device 11 drops the packet with expired
// TTL".
func TestSpecificationsTTL(t *testing.T) {
	e, s, w, n := wire.East, wire.South, wire.West, wire.North
	via := []wire.Direction{s}
	for range 3 {
		via = append(via, e, e, s, w, w, n)
	}
	x := bare(t, "mesh:4x4", 10, nil)
	f := &stream{left: 1, req: flow.Request{Dst: x.machines[4].node, Via: via, Payload: floodData[:64],
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
	x.machines[0].chip.SetClient(f)
	x.run(x.machines[0])
	x.runUntil(x.now.Add(5*time.Second), x.atRest)
	if x.failure != nil {
		t.Fatal(x.failure)
	}
	type hop struct {
		device int
		dir    wire.Direction
	}
	want := map[hop]uint64{{1, s}: 1, {5, e}: 2, {6, e}: 2, {7, s}: 2, {11, w}: 1, {10, w}: 1, {9, n}: 1}
	got, dropped := map[hop]uint64{}, map[hop]uint64{}
	for i, m := range x.machines {
		for _, p := range m.chip.Status().Ports {
			h, k := hop{i + 1, p.Dir}, p.Router.Classes[wire.ClassRequest]
			if k.Sent > 0 {
				got[h] += k.Sent
			}
			if n := k.Dropped[wire.DropTTL]; n > 0 {
				dropped[h] += n
			}
		}
	}
	if !maps.Equal(got, want) || !maps.Equal(dropped, map[hop]uint64{{11, n}: 1}) {
		t.Errorf("packets sent by devices: %v, want %v; dropped packets by the direction that they came from: %v", got, want, dropped)
	}
	if f.ends[flow.FateLost] != 1 {
		t.Errorf("the packet ended as %v, want lost", f.ends)
	}
}
