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

// burst is the largest number of requests that a scene of TestFatesOverLives sends at its end.
const burst = 8

// TestFatesOverLives loses requests at every position of a flow's epoch. A link dies, a chip on the
// route restarts, or the destination restarts, while a source sends a few requests. Before the
// fault, the flow may be new or idle, and the destination may have restarted. The rules of the
// simulator compare each fate with what the destination did. By the rule "certain", a request that
// did not come to its destination ends as unknown only if the destination has restarted since.
// Without gossip, the same scenes leave open the fates of many requests that did not come to their
// destination.
func TestFatesOverLives(t *testing.T) {
	var with, without scenes
	for seed := range uint64(many(150, 3000)) {
		with.play(t, seed, true)
		if seed%3 == 0 {
			without.play(t, seed, false)
		}
	}
	t.Logf("with gossip: %+v; without: %+v", with, without)
	if with.open != 0 || without.open == 0 {
		t.Errorf("with gossip, %d fates are open without need; without gossip %d", with.open, without.open)
	}
	for i, n := range with.lost {
		if n == 0 {
			t.Errorf("no request at position %d was lost", i)
		}
	}
}

// scenes counts the requests of the bursts of many scenes.
type scenes struct {
	fates   [flow.FatePosted]int
	lost    [burst]int // lost requests, by their position in the burst
	open    int        // requests of unknown fate that did not come to their destination, which never restarted
	refused int        // requests that a restarted destination refused
}

// play plays the scene of a seed, and counts how the requests of its burst ended.
func (c *scenes) play(t *testing.T, seed uint64, gossips bool) {
	t.Helper()
	s, err := newSim(Config{Topology: topology(t, "mesh:2x3"), Seed: seed, Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	s.around = surroundings{profile: ttlink.ProfileLAN, slots: router.SlotSpec, maxPayload: 1408, window: ttlink.DefaultWindow, lag: 20 * time.Microsecond,
		dark: seed%3 == 0, untold: seed%5 == 0, gossip: gossip{on: gossips, late: []time.Duration{0, 20 * time.Millisecond, time.Second}[seed%3]}}
	s.begin()
	s.runUntil(mono.Time(time.Second), s.atRest)
	src, via, dst := s.machines[0], s.machines[1], s.machines[2]
	for range s.rng.IntN(3) {
		for range s.rng.IntN(3) {
			s.sendOne(src, dst)
		}
		s.pass(s.span(3 * flow.FlowIdle))
		if s.rng.IntN(2) == 0 {
			s.stop(dst, false)
			s.pass(s.span(time.Second))
			s.start(dst)
			s.pass(s.span(time.Second))
		}
	}
	last := s.faultSoon(via, dst)
	var ops []*op
	for range 1 + s.rng.IntN(burst) {
		ops = append(ops, s.sendOne(src, dst))
		s.pass(time.Duration(s.rng.IntN(200)) * time.Microsecond)
	}
	ended := func() bool { return len(src.backlog)+len(src.life.open) == 0 && s.now > last }
	if !s.when(SettleTime, ended) {
		t.Fatalf("seed %d: %v, %s", seed, s.failure, s.unrest())
	}
	s.heal()
	if !s.runUntil(s.now.Add(SettleTime), s.atRest) {
		t.Fatalf("seed %d: %v, %s", seed, s.failure, s.unrest())
	}
	s.provePairs()
	s.finalChecks()
	if s.failure != nil {
		t.Fatal(s.failure)
	}
	lives := s.model.lives[dst.index]
	for i, o := range ops {
		c.fates[o.fate]++
		switch {
		case o.fate == flow.FateLost:
			c.lost[i]++
		case o.fate == flow.FateRefused:
			c.refused++
		case o.fate == flow.FateUnknown && o.performed == 0 && len(lives) == 1:
			c.open++
		}
	}
}

// sendOne hands a write to a chip.
func (s *Sim) sendOne(src, dst *machine) *op {
	o := s.newOp(src.index, dst.index, 0)
	s.write(o, 200, false)
	src.backlog = append(src.backlog, o)
	s.run(src)
	return o
}

// faultSoon plans one or two faults within the time of a burst. The network cuts all cables between
// the chip "via" and one of its neighbours for good, or one of two chips restarts. faultSoon
// returns a time after the last event of these faults.
func (s *Sim) faultSoon(via, dst *machine) (last mono.Time) {
	for range 1 + s.rng.IntN(2) {
		at, pause := s.now.Add(time.Duration(s.rng.IntN(1000))*time.Microsecond), time.Duration(0)
		if s.rng.IntN(2) == 0 {
			pause = s.span(time.Second)
		}
		m := []*machine{via, dst}[s.rng.IntN(2)]
		switch kind := s.rng.IntN(5); kind {
		case 0, 1:
			s.at(at, func() { s.cutBetween(via, s.machines[2*kind]) })
		default:
			s.at(at, func() { s.stop(m, false) })
			s.at(at.Add(pause), func() { s.start(m) })
		}
		last = max(last, at.Add(pause+1))
	}
	return last
}

// cutBetween cuts all cables between two chips.
func (s *Sim) cutBetween(a, b *machine) {
	for _, c := range s.cables {
		if slices.Contains(c.chips[:], a) && slices.Contains(c.chips[:], b) {
			s.cutWays(c, 1, 0, 1)
		}
	}
}
