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

// TestFallback cuts one of the two cables between two chips again and again,
// at changing moments, while data flows over both planes: every packet is
// performed, once and in order, the link's frames go on over the other cable
// within the time to notice and a round trip, and go home when it is mended.
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
			// What had left the cable when it was cut still arrives.
			s.runUntil(s.now.Add(10*time.Millisecond), func() bool { return false })
			before = b.chip.Status().Counters.Performed
			if !s.when(time.Second, func() bool { return b.chip.Status().Counters.Performed > before }) {
				t.Fatalf("seed %d, cut %d: nothing goes on over the other cable", seed, cut)
			}
			if took := s.now.Sub(at); took > ttlink.ProfileLAN.DeadTraffic+20*time.Millisecond {
				t.Errorf("seed %d, cut %d: %v until data went on", seed, cut, took)
			}
			if p := pathOf(a, cable.Plane); p == ttlink.Own {
				t.Errorf("seed %d, cut %d: up by its own cable, which is cut", seed, cut)
			}
			if l := linkOf(a, cable.Plane); l.OwnCarries || l.OwnSince < at || l.OwnSince > at.Add(ttlink.ProfileLAN.DeadTraffic+10*time.Millisecond) {
				t.Errorf("seed %d, cut %d at %v: the own cable carries: %v, since %v", seed, cut, at, l.OwnCarries, l.OwnSince)
			}
			for _, w := range cable.way {
				w.Cut(false)
			}
			if !s.when(3*time.Second, func() bool { return pathOf(a, cable.Plane) == ttlink.Own && pathOf(b, cable.Plane) == ttlink.Own }) {
				t.Fatalf("seed %d, cut %d: the frames don't go home", seed, cut)
			}
			if l := linkOf(a, cable.Plane); !l.OwnCarries || l.OwnSince <= at {
				t.Errorf("seed %d, cut %d: at home, and the own cable carries: %v, since %v", seed, cut, l.OwnCarries, l.OwnSince)
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

// when lets time pass in steps of a tenth of a millisecond until done holds, at most d.
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
