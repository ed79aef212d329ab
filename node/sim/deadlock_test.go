package sim

import (
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/noc"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// stream is a client that writes to one chip as fast as it may, by hops of its own if it has any.
type stream struct {
	req  chip.Request
	left int
	ends [4]int // by chip.Fate
}

// Next makes a request.
func (f *stream) Next(mono.Time) (chip.Request, bool) {
	if f.left == 0 {
		return chip.Request{}, false
	}
	f.left--
	return f.req, true
}

// Undo keeps the request for the next time.
func (f *stream) Undo() { f.left++ }

// Done counts.
func (f *stream) Done(_ mono.Time, r chip.Result) { f.ends[r.Fate]++ }

// Performed needs nothing done.
func (f *stream) Performed(mono.Time, wire.FabricNodeID, wire.Plane, *wire.Command, *noc.Memory) {}

// streams brings a machine up, lets each chip send packets to another, and
// runs for a while of virtual time. It returns how many were performed, how
// many ended otherwise, and how often a head could not move for the timeout.
func streams(t *testing.T, machine string, to []int, via [][]wire.Direction, change func(a *surroundings)) (done, other, timeouts int) {
	t.Helper()
	const each = 2000
	s, err := newSim(Config{Topology: topology(t, machine), Seed: 1, bare: true})
	if err != nil {
		t.Fatal(err)
	}
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
	var fs []*stream
	for i, m := range s.machines {
		f := &stream{left: each, req: chip.Request{Dst: s.machines[to[i]].node, Payload: floodData[:],
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
		done += f.ends[chip.FateDone]
		other += f.ends[chip.FateLost] + f.ends[chip.FateUnknown] + f.ends[chip.FateRefused]
		timeouts += int(s.machines[i].chip.Status().Counters.Timeouts)
	}
	return done, other, timeouts
}

// Spec §6.1, "Cyclic Dependency Deadlock": D1 → D4, D2 → D3, D3 → D2 and D4 →
// D1 of a square, each round its corner the same way, "the outgoing router's
// buffer is exhausted with locally generated traffic". With the dimension order
// off it stands still, and the timeout tells so; with dimension-ordered routes,
// of either order, the same traffic runs.
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
	t.Logf("round the square, local traffic first: stands still after %d of %d packets, %d timeouts told", done, all, timeouts)
	for _, o := range []route.Order{route.XY, route.YX} {
		if done, other, timeouts := streams(t, "mesh:2x2", to, nil, by(o)); done != all || other != 0 || timeouts != 0 {
			t.Errorf("by order %s: %d of %d performed, %d not, %d timeouts", o, done, all, other, timeouts)
		}
	}
	// Dropping what stands still lets the rest go on, and every packet's fate is known.
	done, other, _ = streams(t, "mesh:2x2", to, nil, func(a *surroundings) {
		by(route.NoOrder)(a)
		a.timeout = router.Timeout{After: 20 * time.Millisecond, Drop: true, Drain: true}
	})
	t.Logf("with drop and drain: %d performed, %d not", done, other)
	if done+other != all || other == 0 {
		t.Errorf("with drop and drain: %d performed, %d not, of %d", done, other, all)
	}
}

// A ring with routes of three hops stands still without a dateline and without
// bubbles, and runs with either.
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
