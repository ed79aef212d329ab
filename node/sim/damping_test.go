package sim

import (
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// twoCables is a fabric of two chips with one cable on each plane. Data flows from chip a to chip b
// on the plane of one cable.
func twoCables(t *testing.T, seed uint64) (s *Sim, a, b *machine, c *cable, f *stream) {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, "n300"), Seed: seed, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.MinWindow, lag: 20 * time.Microsecond}
	s.begin()
	s.pass(time.Second)
	a, b, c = s.machines[0], s.machines[1], s.cables[seed%2]
	f = &stream{left: 1 << 30, req: flow.Request{Dst: b.node, Plane: c.Plane, Payload: floodData[:],
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
	a.chip.SetClient(f)
	b.chip.SetClient(&stream{})
	s.run(a)
	return s, a, b, c, f
}

func (s *Sim) pass(d time.Duration) { s.runUntil(s.now.Add(d), func() bool { return false }) }

// TestHeldCable lets one of two cables fail repeatedly under load. After ttlink.FlapLimit failures,
// damping must hold the cable. A held cable must carry nothing, and the data must use the other
// cable. After the hold, the data must use its own cable again. The next failure must cause a hold
// of twice the duration. No packet may be lost, doubled or reordered.
func TestHeldCable(t *testing.T) {
	for seed := range uint64(2) {
		s, a, b, c, f := twoCables(t, seed)
		failed := func() {
			t.Helper()
			for _, w := range c.way {
				w.Cut(true)
			}
			s.pass(ttlink.ProfileLAN.DeadTraffic + 30*time.Millisecond)
			for _, w := range c.way {
				w.Cut(false)
			}
			if pathOf(a, c.Plane) == ttlink.Own {
				t.Fatalf("seed %d: the link has not noticed the cut", seed)
			}
		}
		home := func() bool { return pathOf(a, c.Plane) == ttlink.Own && pathOf(b, c.Plane) == ttlink.Own }
		for n := range ttlink.FlapLimit - 1 {
			failed()
			if !s.when(2*time.Second, home) {
				t.Fatalf("seed %d: the link does not use its own cable after %d failures", seed, n+1)
			}
			s.pass(100 * time.Millisecond)
		}
		for hold := ttlink.HoldFirst; hold <= 2*ttlink.HoldFirst; hold *= 2 {
			begin := s.now
			failed()
			if heldUntil(a, c.Plane) == 0 && heldUntil(b, c.Plane) == 0 {
				t.Fatalf("seed %d: damping does not hold the cable", seed)
			}
			f.left = 200 // little data suffices to see that the flow continues
			before := b.chip.Status().Counters.Performed
			s.run(a)
			s.pass(hold - 2*time.Second)
			if got := b.chip.Status().Counters.Performed; got < before+200 {
				t.Errorf("seed %d: %d packets arrived during the hold", seed, got-before)
			}
			if home() {
				t.Errorf("seed %d: the link uses its own cable again %v after the failure, want a hold of %v", seed, s.now.Sub(begin), hold)
			}
			if !s.when(4*time.Second, home) {
				t.Fatalf("seed %d: the link does not use its own cable after the hold", seed)
			}
			f.left = 1 << 30
			s.run(a)
		}
		f.left = 0
		s.allDone(t, b, f)
	}
}

// TestHeldAlone lets the only cable between two chips fail repeatedly under load. Damping must hold
// the cable. The tables must not avoid the cable, and no packet may be lost, doubled or reordered.
func TestHeldAlone(t *testing.T) {
	for _, p := range []ttlink.Profile{ttlink.ProfileLAN, ttlink.ProfileCrowded, ttlink.ProfilePaced} {
		top := topology(t, "n300")
		top.Cables = slices.DeleteFunc(top.Cables, func(c topo.Cable) bool { return c.Plane != 0 })
		s, err := newSim(Config{Topology: top, Seed: 1, bare: true})
		if err != nil {
			t.Fatal(err)
		}
		s.around = surroundings{profile: p, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.MinWindow, lag: 20 * time.Microsecond}
		s.begin()
		s.pass(3 * time.Second)
		a, b := s.machines[0], s.machines[1]
		f := &stream{left: 1 << 30, req: flow.Request{Dst: b.node, Payload: floodData[:],
			Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
		a.chip.SetClient(f)
		b.chip.SetClient(&stream{})
		s.run(a)
		s.pass(100 * time.Millisecond)
		up := func() bool { return statusOf(a, 0).State == ttlink.StateUp && statusOf(b, 0).State == ttlink.StateUp }
		tables, held := s.report.Tables, 0
		for n := range 2 * ttlink.FlapLimit {
			s.cutEdge(a.node, b.node, true)
			if !s.when(10*time.Second, func() bool { return !up() }) {
				t.Fatalf("%s: the link has not noticed cut %d", p.Name, n)
			}
			s.cutEdge(a.node, b.node, false)
			s.pass(5 * time.Millisecond)
			if heldUntil(a, 0) != 0 || heldUntil(b, 0) != 0 {
				held++
			}
			if !s.when(10*time.Second, up) {
				t.Fatalf("%s: the link is not up after cut %d", p.Name, n)
			}
			s.pass(100 * time.Millisecond)
		}
		if held < ttlink.FlapLimit || s.report.Tables != tables {
			t.Errorf("%s: held %d times, %d new tables", p.Name, held, s.report.Tables-tables)
		}
		f.left = 0
		s.allDone(t, b, f)
	}
}

// allDone waits until the fabric is at rest, and checks that every request was performed once and
// in order.
func (s *Sim) allDone(t *testing.T, to *machine, f *stream) {
	t.Helper()
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		t.Fatalf("seed %d: %s", s.cfg.Seed, s.unrest())
	}
	if s.failure != nil {
		t.Fatal(s.failure)
	}
	if n := f.ends[flow.FateLost] + f.ends[flow.FateUnknown] + f.ends[flow.FateRefused]; n != 0 || f.ends[flow.FateDone] == 0 {
		t.Errorf("seed %d: %d performed, %d not", s.cfg.Seed, f.ends[flow.FateDone], n)
	}
	if d := to.chip.Status().Counters; d.Duplicates != 0 || d.Gaps != 0 {
		t.Errorf("seed %d: %d duplicates, %d gaps", s.cfg.Seed, d.Duplicates, d.Gaps)
	}
}

func heldUntil(m *machine, plane wire.Plane) mono.Time { return statusOf(m, plane).HeldUntil }

// statusOf returns the status of the first link of m on a plane, or zero if m has no such link.
func statusOf(m *machine, plane wire.Plane) ttlink.Status {
	for _, p := range m.chip.Status().Ports {
		if p.Plane == plane {
			return p.Link
		}
	}
	return ttlink.Status{}
}
