package sim

import (
	"flag"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire/mono"
)

var starvations = flag.Int("sim.starvations", 6, "runs of TestStarvation for each machine")

// starve runs a fabric in which chips stall at random times, for 0.1 to 15 s, as processes do that
// wait for a processor. No cable and no chip fails.
func starve(t *testing.T, machine string, seed uint64) *Sim {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, machine), Seed: seed, Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.runUntil(s.now.Add(2*time.Second), func() bool { return false })
	end := s.now.Add(20 * time.Second)
	free := make([]mono.Time, len(s.machines)) // when each chip's last stall is over, and its links are up
	for range 2 + s.rng.IntN(2*len(s.machines)) {
		m, at := s.anyMachine(), s.now.Add(time.Duration(s.rng.Int64N(int64(20*time.Second))))
		d := 100*time.Millisecond + time.Duration(s.rng.Int64N(int64(15*time.Second)))
		if s.rng.IntN(2) == 0 {
			d = 100*time.Millisecond + d/20
		}
		if at < free[m.index] {
			continue
		}
		free[m.index] = at.Add(d + 3*time.Second)
		s.at(at, func() {
			s.tracef("-- stall of %s for %v", m.node, d)
			m.stalled++
		})
		s.at(at.Add(d), func() {
			if m.stalled--; m.stalled == 0 {
				s.run(m)
			}
		})
	}
	s.drawLoad(end)
	s.runUntil(end.Add(16*time.Second), func() bool { return false })
	s.healed = true
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		s.fail("progress", "%s", s.unrest())
	}
	s.provePairs()
	s.finalChecks()
	if s.failure != nil {
		t.Errorf("%s: %v", machine, s.failure)
	}
	return s
}

// TestStarvation stalls chips at random for up to 15 s. No chip may be taken for dead, and no
// session may end. No request may be refused as unreachable, time out, or end because its
// destination is unreachable. No router may drop a packet, and no request may end as lost, or as
// unknown, on any machine.
func TestStarvation(t *testing.T) {
	for _, machine := range []string{"n300", "line:4", "ring:5", "t3000", "mesh:3x3", "torus:3x3", "2xt3000", "spec-l1"} {
		t.Run(machine, func(t *testing.T) {
			for seed := range uint64(*starvations) {
				r := starve(t, machine, seed).report
				late := r.Doubts[flow.DoubtTimeout] + r.Doubts[flow.DoubtUnreachable] + r.Refused + r.Ended
				if lost := r.Fates[flow.FateLost] + r.Fates[flow.FateUnknown]; late+lost > 0 || r.Dropped > 0 {
					t.Errorf("%s seed %d: %v by fate, refused as unreachable %d, doubts %v, %d packets dropped, %d links went down, %d sessions ended", machine, seed, r.Fates, r.Refused, r.Doubts, r.Dropped, r.Downs, r.Ended)
				}
			}
		})
	}
}
