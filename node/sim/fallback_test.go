package sim

import (
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestFallback cuts one of the two cables between two chips repeatedly, at random times, while data
// flows. Soon after the cut, the link's frames must use the other cable. After the repair, the
// frames must use the link's own cable again. Every request must be performed once and in order.
func TestFallback(t *testing.T) {
	for seed := range uint64(many(10, 25)) {
		s, err := newSim(Config{Topology: topology(t, "n300"), Seed: seed, bare: true})
		if err != nil {
			t.Fatal(err)
		}
		s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond}
		s.begin()
		s.runUntil(mono.Time(time.Second), func() bool { return false })
		a, b := s.machines[0], s.machines[1]
		cable := s.cables[seed%2]
		f := &stream{left: 1 << 30, req: flow.Request{Dst: b.node, Plane: cable.Plane, Payload: floodData[:],
			Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
		a.chip.SetClient(f)
		b.chip.SetClient(&stream{})
		s.run(a)
		for cut := range ttlink.FlapLimit - 1 {
			s.runUntil(s.now.Add(time.Duration(s.rng.Int64N(int64(5*time.Millisecond)))), func() bool { return false })
			before := b.chip.Status().Counters.Performed
			for _, w := range cable.way {
				w.Cut(true)
			}
			at := s.now
			// Datagrams that were on the cable before the cut still arrive.
			s.runUntil(s.now.Add(10*time.Millisecond), func() bool { return false })
			before = b.chip.Status().Counters.Performed
			if !s.when(time.Second, func() bool { return b.chip.Status().Counters.Performed > before }) {
				t.Fatalf("seed %d, cut %d: no data arrives by the other cable", seed, cut)
			}
			if took := s.now.Sub(at); took > ttlink.ProfileLAN.DeadTraffic+20*time.Millisecond {
				t.Errorf("seed %d, cut %d: data arrived again only after %v", seed, cut, took)
			}
			if p := pathOf(a, cable.Plane); p == ttlink.Own {
				t.Errorf("seed %d, cut %d: the link uses its own cable, although the cable is cut", seed, cut)
			}
			if l := linkOf(a, cable.Plane); l.OwnCarries || l.OwnSince < at || l.OwnSince > at.Add(ttlink.ProfileLAN.DeadTraffic+10*time.Millisecond) {
				t.Errorf("seed %d, cut %d at %v: the own cable carries frames: %v, since %v", seed, cut, at, l.OwnCarries, l.OwnSince)
			}
			for _, w := range cable.way {
				w.Cut(false)
			}
			if !s.when(3*time.Second, func() bool { return pathOf(a, cable.Plane) == ttlink.Own && pathOf(b, cable.Plane) == ttlink.Own }) {
				t.Fatalf("seed %d, cut %d: the frames do not use the own cable after the repair", seed, cut)
			}
			if l := linkOf(a, cable.Plane); !l.OwnCarries || l.OwnSince <= at {
				t.Errorf("seed %d, cut %d: after the repair, the own cable carries frames: %v, since %v", seed, cut, l.OwnCarries, l.OwnSince)
			}
		}
		f.left = 0
		if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
			t.Fatalf("seed %d: %s", seed, s.unrest())
		}
		if s.failure != nil {
			t.Fatal(s.failure)
		}
		if n := f.ends[flow.FateLost] + f.ends[flow.FateUnknown] + f.ends[flow.FateRefused]; n != 0 || f.ends[flow.FateDone] == 0 {
			t.Errorf("seed %d: %d performed, %d not", seed, f.ends[flow.FateDone], n)
		}
		if d := b.chip.Status().Counters; d.Duplicates != 0 || d.Gaps != 0 {
			t.Errorf("seed %d: %d duplicates, %d gaps", seed, d.Duplicates, d.Gaps)
		}
	}
}

// The method "when" simulates steps of a tenth of a millisecond until done returns true, for at
// most d.
func (s *Sim) when(d time.Duration, done func() bool) bool {
	for end := s.now.Add(d); s.now.Before(end) && s.failure == nil; {
		if done() {
			return true
		}
		s.runUntil(s.now.Add(100*time.Microsecond), func() bool { return false })
	}
	return done()
}

func pathOf(m *machine, plane wire.Plane) ttlink.Path { return linkOf(m, plane).Path }

func linkOf(m *machine, plane wire.Plane) ttlink.Status {
	for _, p := range m.chip.Status().Ports {
		if p.Plane == plane {
			return p.Link
		}
	}
	return ttlink.Status{}
}

// streamBeside returns a simulation of two chips with two cables, and a stream of writes over the first
// cable. The chips read their sockets late, and the channels have few slots. The window of the
// stream is therefore always full, but holds few packets.
func streamBeside(t *testing.T, machine string, seed uint64) (s *Sim, f *stream, c *cable) {
	s, err := newSim(Config{Topology: topology(t, machine), Seed: seed, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 500 * time.Microsecond}
	s.begin()
	s.runUntil(mono.Time(time.Second), func() bool { return false })
	c = s.cables[seed%2]
	f = &stream{left: 1 << 30, req: flow.Request{Dst: s.machines[1].node, Plane: c.Plane, Payload: floodData[:],
		Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}}
	s.machines[0].chip.SetClient(f)
	s.machines[1].chip.SetClient(&stream{})
	s.run(s.machines[0])
	return s, f, c
}

// settled ends the stream. Every request must have been performed once and in order, and no chip may
// have changed its tables.
func settled(t *testing.T, s *Sim, f *stream, tables int) {
	t.Helper()
	f.left = 0
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		t.Fatalf("seed %d: %s", s.cfg.Seed, s.unrest())
	}
	if s.failure != nil {
		t.Fatal(s.failure)
	}
	if n := f.ends[flow.FateLost] + f.ends[flow.FateUnknown] + f.ends[flow.FateRefused]; n != 0 || f.ends[flow.FateDone] == 0 {
		t.Errorf("seed %d: %d performed, %d not", s.cfg.Seed, f.ends[flow.FateDone], n)
	}
	if d := s.machines[1].chip.Status().Counters; d.Duplicates != 0 || d.Gaps != 0 {
		t.Errorf("seed %d: %d duplicates, %d gaps", s.cfg.Seed, d.Duplicates, d.Gaps)
	}
	if s.report.Tables != tables {
		t.Errorf("seed %d: %d changes of tables, want none", s.cfg.Seed, s.report.Tables-tables)
	}
}

// TestOutOfServiceBesideAnother takes one of two cables between two chips out of service while data
// flows, at one end or at both ends. The frames must move to the other cable, and return when the
// cable is back in service. No chip may change its tables. Spec §7.4.1 says: "As long as at least
// one link remains functional in the same direction, this rerouting is completely transparent to
// running workloads".
func TestOutOfServiceBesideAnother(t *testing.T) {
	for seed := range uint64(6) {
		s, f, cable := streamBeside(t, "n300", seed)
		tables := s.report.Tables
		a, b := s.machines[0], s.machines[1]
		avoid := func(on bool) {
			for side, p := range cable.ports {
				if m := cable.chips[side]; seed%4 == 0 || seed%2 == uint64(side) || !on {
					m.chip.Avoid(s.now, p.Channel, on)
					s.run(m)
				}
			}
		}
		away := func(on bool) func() bool {
			return func() bool {
				return (pathOf(a, cable.Plane) != ttlink.Own) == on && (pathOf(b, cable.Plane) != ttlink.Own) == on &&
					linkOf(a, cable.Plane).State == ttlink.StateUp && linkOf(b, cable.Plane).State == ttlink.StateUp
			}
		}
		for range 3 {
			s.runUntil(s.now.Add(time.Duration(s.rng.Int64N(int64(5*time.Millisecond)))), func() bool { return false })
			avoid(true)
			if !s.when(20*time.Millisecond, away(true)) {
				t.Fatalf("seed %d: the frames do not use the other cable within 20 ms", seed)
			}
			s.runUntil(s.now.Add(500*time.Millisecond), func() bool { return false })
			if !away(true)() {
				t.Fatalf("seed %d: the frames returned to a cable out of service", seed)
			}
			avoid(false)
			if !s.when(2*time.Second, away(false)) {
				t.Fatalf("seed %d: the frames do not return to the cable back in service", seed)
			}
		}
		settled(t, s, f, tables)
	}
}

// TestLastCableOutOfService takes both cables between two chips out of service, one after the other.
// The tables must change only after the second, and no request may be lost.
func TestLastCableOutOfService(t *testing.T) {
	s, f, _ := streamBeside(t, "t3000", 1)
	tables := s.report.Tables
	a, b := s.machines[0], s.machines[1]
	both := slices.DeleteFunc(slices.Clone(s.cables), func(c *cable) bool { return c.chips[0] != a || c.chips[1] != b })
	for i, c := range both {
		for side, m := range c.chips {
			m.chip.Avoid(s.now, c.ports[side].Channel, true)
			s.run(m)
		}
		s.runUntil(s.now.Add(time.Second), func() bool { return false })
		if changed := s.report.Tables != tables; changed != (i == 1) {
			t.Fatalf("after cable %d: %d changes of tables", i, s.report.Tables-tables)
		}
	}
	for _, c := range both {
		for side, m := range c.chips {
			m.chip.Avoid(s.now, c.ports[side].Channel, false)
			s.run(m)
		}
	}
	s.runUntil(s.now.Add(time.Second), func() bool { return false })
	settled(t, s, f, s.report.Tables)
}

// TestUnreliableBesideAnother lets one of two cables lose 40 % of its datagrams while data flows.
// The frames must move to the other cable, return after the loss, and no chip may change its tables.
func TestUnreliableBesideAnother(t *testing.T) {
	for seed := range uint64(2) {
		s, f, cable := streamBeside(t, "n300", seed)
		tables := s.report.Tables
		a := s.machines[0]
		weather := func(loss float64) {
			for side := range cable.way {
				s.set(cable, side, fault.Options{Delay: cleanDelay, Loss: loss})
			}
		}
		weather(0.4)
		if !s.when(10*time.Second, func() bool { return pathOf(a, cable.Plane) != ttlink.Own }) {
			t.Fatalf("seed %d: the frames do not leave a cable with a loss of 40 %%: %+v", seed, linkOf(a, cable.Plane))
		}
		s.runUntil(s.now.Add(3*time.Second), func() bool { return false })
		weather(0)
		if !s.when(time.Minute, func() bool { return pathOf(a, cable.Plane) == ttlink.Own }) {
			t.Fatalf("seed %d: the frames do not return after the loss", seed)
		}
		s.runUntil(s.now.Add(3*time.Second), func() bool { return false })
		if l := linkOf(a, cable.Plane); l.Path != ttlink.Own || l.Unreliable {
			t.Errorf("seed %d: after the loss: %+v", seed, l)
		}
		settled(t, s, f, tables)
	}
}
