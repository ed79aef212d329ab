package sim

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/losses"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// flooded is a mesh in which every chip but the first writes to the one behind it, without end.
func flooded(t *testing.T, name string, seed uint64) *Sim {
	s, err := newSim(Config{Topology: topology(t, name), Seed: seed, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond}
	s.begin()
	s.runUntil(mono.Time(time.Second), func() bool { return false })
	for i, m := range s.machines {
		to := s.machines[(i+1+int(seed)%(len(s.machines)-1))%len(s.machines)]
		m.chip.SetClient(&stream{left: 1 << 30, req: flow.Request{Dst: to.node, Plane: wire.Plane(seed % 2), Payload: floodData[:],
			Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}})
		s.run(m)
	}
	return s
}

// calm lets the streams end.
func (s *Sim) calm(t *testing.T) {
	t.Helper()
	for _, m := range s.machines {
		if m.chip != nil {
			m.chip.SetClient(&stream{})
		}
	}
	s.runUntil(s.now.Add(SettleTime), func() bool { return false })
}

// TestLossesOfADeadChip kills a chip under load at changing moments. What its
// neighbours know of it must be what it had itself counted when it died: the
// difference between the two bounds is what was on its way, and the account of
// the rest has no hole. With the dead chip's own last account beside theirs,
// no more is unknown than was on the links.
func TestLossesOfADeadChip(t *testing.T) {
	inexact := 0
	for seed := range uint64(12) {
		s := flooded(t, "mesh:3x3", seed)
		s.runUntil(s.now.Add(time.Duration(s.rng.Int64N(int64(20*time.Millisecond)))), func() bool { return false })
		victim := s.machines[s.rng.IntN(len(s.machines))]
		s.stop(victim, false)
		s.calm(t)
		truth := victim.life.account
		r := s.account()
		if n := r.Unexplained(); n != 0 || len(r.Gone) != 1 || len(r.Missing) != 1 || r.Total.InFlight != 0 {
			t.Fatalf("seed %d: %d unexplained, lives gone %+v, missing %v: %+v %v", seed, n, r.Gone, r.Missing, r.Total, unexplained(&r))
		}
		g, own := r.Gone[0], losses.Merge([]losses.Chip{truth}, nil).Chips[0].Packets
		if g.Chip != victim.node || g.Incarnation != truth.Incarnation || g.ToldBy != len(truth.Ports) {
			t.Fatalf("seed %d: %s of life %#x died; inferred is %+v", seed, victim.node, uint64(truth.Incarnation), g)
		}
		if r.Total.Unknown != g.ReceivedMax.Total()-g.Received.Total() {
			t.Errorf("seed %d: %d of unknown fate; it had received %d to %d", seed, r.Total.Unknown, g.Received.Total(), g.ReceivedMax.Total())
		}
		for k := range wire.NumClasses {
			if own.Received[k] < g.Received[k] || own.Received[k] > g.ReceivedMax[k] || own.Sent[k] < g.Sent[k] {
				t.Errorf("seed %d: class %d: it had received %d and sent %d; inferred are %d to %d, and %d", seed, k, own.Received[k], own.Sent[k], g.Received[k], g.ReceivedMax[k], g.Sent[k])
			}
		}
		if own.Received != g.Received {
			inexact++
		}

		// The dead chip speaks: every packet that was sent to it and that it
		// did not get is still on its way to it, or was given up by a neighbour whose
		// tables lead around it; so is what it sent and nobody got from it.
		all := s.account
		chips := []losses.Chip{truth}
		for _, m := range s.machines {
			if m.chip != nil {
				chips = append(chips, m.chip.Account())
			}
		}
		full := losses.Merge(chips, nil)
		lost := g.ReceivedMax.Total() - own.Received.Total() + own.Sent.Total() - g.Sent.Total()
		if full.Unexplained() != 0 || full.Total.Unknown+full.Total.InFlight != lost+truth.InFlight.Total() {
			t.Errorf("seed %d: with its own account: %+v; %d are on links and %d in it", seed, full.Total, lost, truth.InFlight.Total())
		}
		if again := all(); again.Total != r.Total {
			t.Errorf("seed %d: the account at rest changes: %+v, %+v", seed, r.Total, again.Total)
		}
	}
	if inexact == 0 {
		t.Error("no chip died with packets on their way to it: the test proves nothing")
	}
}

// TestLossesOfAQuietChip kills a chip to which nothing is on its way: what is
// inferred is exactly what it had counted. Then it starts anew, twice, and its former
// lives are kept apart from the present one.
func TestLossesOfAQuietChip(t *testing.T) {
	for seed := range uint64(6) {
		s := flooded(t, "t3000", seed)
		victim := s.machines[s.rng.IntN(len(s.machines))]
		var lives []losses.Chip
		for life := range 3 {
			s.runUntil(s.now.Add(10*time.Millisecond), func() bool { return false })
			s.calm(t)
			r := s.account()
			if r.Unexplained() != 0 || r.Total.InFlight+r.Total.Unknown+r.Total.Lost != 0 || len(r.Gone) != life {
				t.Fatalf("seed %d, life %d: %+v, gone %+v", seed, life, r.Total, r.Gone)
			}
			for _, g := range r.Gone {
				for _, l := range lives {
					own := losses.Merge([]losses.Chip{l}, nil).Chips[0].Packets
					if l.Incarnation == g.Incarnation && (own.Received != g.Received || own.Received != g.ReceivedMax || own.Sent != g.Sent) {
						t.Errorf("seed %d: it had received %v and sent %v; inferred is %+v", seed, own.Received, own.Sent, g)
					}
				}
			}
			s.stop(victim, s.rng.IntN(2) == 0)
			lives = append(lives, victim.life.account)
			s.start(victim)
			s.runUntil(s.now.Add(2*time.Second), func() bool { return false })
			for _, m := range s.machines {
				m.chip.SetClient(&stream{left: 200, req: flow.Request{Dst: victim.node, Payload: floodData[:],
					Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}}})
				s.run(m)
			}
		}
	}
}
