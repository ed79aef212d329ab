package sim

import (
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire/mono"
)

// TestFlowsBeginAnew restarts a chip while it has flows from all other chips. The new incarnation
// must refuse the first requests of flows that only the earlier incarnation knew. The new
// incarnation must accept the next requests at once. If gossip tells the sources of the restart first,
// the new incarnation refuses no request.
func TestFlowsBeginAnew(t *testing.T) {
	for seed := range uint64(8) {
		s, err := newSim(Config{Topology: topology(t, []string{"t3000", "mesh:3x3"}[seed%2]), Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond}
		s.around.gossip.on = seed >= 4
		s.begin()
		s.runUntil(mono.Time(time.Second), s.atRest)
		s.heal()
		s.provePairs()
		if s.failure != nil || s.report.Anew != 0 {
			t.Fatalf("seed %d: before the restart: %v, and %d requests were refused", seed, s.failure, s.report.Anew)
		}
		s.runUntil(s.now.Add(2*flow.FlowIdle), func() bool { return false }) // the flows of these requests end
		m := s.anyMachine()
		for _, from := range s.machines {
			o := s.newOp(from.index, m.index, 0)
			s.write(o, 200, false)
			from.backlog = append(from.backlog, o)
			s.run(from)
		}
		ended := func() bool { // all requests have ended; acknowledgements of the links may still be missing
			return !slices.ContainsFunc(s.machines, func(m *machine) bool { return len(m.backlog)+len(m.life.open) > 0 })
		}
		up := func() bool { return !slices.ContainsFunc(s.cables, func(c *cable) bool { return !c.bothUp() }) }
		if !s.when(SettleTime, ended) {
			t.Fatalf("seed %d: %s", seed, s.unrest())
		}
		at := s.now
		s.stop(m, false)
		s.start(m)
		if !s.when(SettleTime, up) {
			t.Fatalf("seed %d: %s", seed, s.unrest())
		}
		took := s.now.Sub(at)
		s.provePairs()
		s.finalChecks()
		if s.failure != nil {
			t.Fatal(s.failure)
		}
		// Each other chip sends one write and one read.
		n := 2 * (len(s.machines) - 1)
		if s.around.gossip.on {
			n = 0
		}
		if s.report.Anew != n {
			t.Errorf("seed %d: all links of %s were up after %v, and %d requests were refused, want %d", seed, m.node, took, s.report.Anew, n)
		}
	}
}
