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

// flooded starts a fabric in which every chip writes to another chip without end. The chips read their
// sockets late, so that many packets are on the links.
func flooded(t *testing.T, name string, seed uint64) *Sim {
	s, err := newSim(Config{Topology: topology(t, name), Seed: seed, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 500 * time.Microsecond}
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

// calm ends the streams of all chips, and waits until the fabric is at rest.
func (s *Sim) calm(t *testing.T) {
	t.Helper()
	for _, m := range s.machines {
		if m.chip != nil {
			m.chip.SetClient(&stream{})
		}
	}
	s.runUntil(s.now.Add(SettleTime), func() bool { return false })
}

// TestLossesOfADeadChip kills a chip under load at random times. The chip's own counts at its death
// must lie between the bounds that its neighbours' counts give. The counts of the living chips must
// explain all other packets. With the dead chip's own counts, only packets on its links and in the
// chip may be of unknown fate.
func TestLossesOfADeadChip(t *testing.T) {
	inexact := 0
	for seed := range uint64(40) {
		s := flooded(t, "mesh:3x3", seed)
		s.runUntil(s.now.Add(time.Duration(s.rng.Int64N(int64(20*time.Millisecond)))), func() bool { return false })
		victim := s.machines[s.rng.IntN(len(s.machines))]
		s.stop(victim, false)
		s.calm(t)
		truth := victim.life.account
		r := s.account()
		if n := r.Unexplained(); n != 0 || len(r.Gone) != 1 || len(r.Missing) != 1 || r.Total.InFlight != 0 {
			t.Fatalf("seed %d: %d packets unexplained, ended incarnations %+v, missing chips %v: %+v %v", seed, n, r.Gone, r.Missing, r.Total, unexplained(&r))
		}
		g, own := r.Gone[0], losses.Merge([]losses.Chip{truth}, nil).Chips[0].Packets
		if g.Chip != victim.node || g.Incarnation != truth.Incarnation || g.ToldBy != len(truth.Ports) {
			t.Fatalf("seed %d: %s with incarnation %#x died, but the report says %+v", seed, victim.node, uint64(truth.Incarnation), g)
		}
		if r.Total.Unknown != g.ReceivedMax.Total()-g.Received.Total() {
			t.Errorf("seed %d: %d packets of unknown fate, but the dead chip received %d to %d packets by its neighbours' counts", seed, r.Total.Unknown, g.Received.Total(), g.ReceivedMax.Total())
		}
		for k := range wire.NumClasses {
			if own.Received[k] < g.Received[k] || own.Received[k] > g.ReceivedMax[k] || own.Sent[k] < g.Sent[k] {
				t.Errorf("seed %d: class %d: the dead chip received %d and sent %d packets by its own counts; by its neighbours' counts, it received %d to %d and sent at least %d", seed, k, own.Received[k], own.Sent[k], g.Received[k], g.ReceivedMax[k], g.Sent[k])
			}
		}
		if own.Received != g.Received {
			inexact++
		}

		// Merge the dead chip's own counts too. Only packets that were on the links of the dead
		// chip or inside the chip may then be of unknown fate or in flight.
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
			t.Errorf("seed %d: with the dead chip's own counts: %+v; %d packets were on its links and %d inside the chip", seed, full.Total, lost, truth.InFlight.Total())
		}
		if again := all(); again.Total != r.Total {
			t.Errorf("seed %d: the counts change although the fabric is at rest: %+v, %+v", seed, r.Total, again.Total)
		}
	}
	t.Logf("%d chips died with packets on their links", inexact)
	if inexact == 0 {
		t.Error("no chip died with packets on its links; the test proves nothing")
	}
}

// TestLossesOfAQuietChip kills a chip without packets on its links. The neighbours' counts must
// then give exactly the chip's own counts. The chip restarts twice, and the report must count each
// incarnation separately.
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
				t.Fatalf("seed %d, incarnation %d: %+v, ended incarnations %+v", seed, life, r.Total, r.Gone)
			}
			for _, g := range r.Gone {
				for _, l := range lives {
					own := losses.Merge([]losses.Chip{l}, nil).Chips[0].Packets
					if l.Incarnation == g.Incarnation && (own.Received != g.Received || own.Received != g.ReceivedMax || own.Sent != g.Sent) {
						t.Errorf("seed %d: by its own counts, the dead chip received %v and sent %v; the report says %+v", seed, own.Received, own.Sent, g)
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
