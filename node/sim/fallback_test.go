package sim

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestFallback cuts one of the two cables between two chips repeatedly, at random times, while data
// flows. Soon after the cut, the link's frames must use the other cable. After the repair, the
// frames must use the link's own cable again. Every request must be performed once and in order.
func TestFallback(t *testing.T) {
	for seed := range uint64(25) {
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

// when simulates steps of a tenth of a millisecond until done returns true, for at most d.
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
