package sim

import (
	"fmt"
	"strings"
	"testing"

	"ttfabric/node/scenario"
	"ttfabric/router/route"
	"ttfabric/router/topo"
)

// parsed parses a scenario, and returns the scenario and its topology.
func parsed(t *testing.T, name string, text []byte) (*scenario.Scenario, *topo.Topology) {
	t.Helper()
	s, err := scenario.Parse(name+".yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	return s, topology(t, s.Fabric.Topology)
}

// thin is the share of their usual traffic with which the shipped scenarios run in tests.
const thin = 0.3

// TestShippedScenarios runs all scenarios that come with the program. Each scenario must pass.
func TestShippedScenarios(t *testing.T) {
	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, _ := scenario.Source(name)
			s, m := parsed(t, name, text)
			if name != "timeout" { // this scenario needs all its traffic, because it shows what too much traffic does
				s = s.Thin(thin)
			}
			rep, err := Play(PlayConfig{Scenario: s, Topology: m, Seed: 1})
			if err != nil || rep.Error != "" {
				t.Fatal(err, rep.Error)
			}
			for _, v := range rep.Assertions {
				if v.Status != scenario.Passed && (v.Status != scenario.Skipped || !strings.Contains(v.Why, "no gossip")) {
					t.Errorf("line %d: %s: %s: %s %s at %vs", v.Line, v.Text, v.Status, v.Measured, v.Why, v.At)
				}
			}
			for _, e := range rep.Timeline {
				if e.Status != scenario.Passed && !(e.Status == scenario.Skipped && strings.HasPrefix(e.What, "gossip")) {
					t.Errorf("%s: %s %s", e.What, e.Status, e.Why)
				}
			}
		})
	}
}

// everything is a scenario with each action that the simulator can carry out.
const everything = `
scenario: 1
topology: mesh:2x2
ring: dateline
slots: fast
traffic: {pattern: uniform, load: 300, size: 64}
timeline:
- {every: 100ms, times: 8, jitter: 50ms, link: {down: random, for: 60ms}}
- {at: 100ms, netem: {set: M0D0-M0D1, loss: 5%, delay: 1ms, seed: 3}}
- {at: 200ms, netem: {set: M0D0-M0D1, loss: 20%, direction: b-to-a, for: 300ms}}
- {at: 800ms, netem: {reset: all}}
- {at: 300ms, chip: {pause: M0D2, for: 200ms}}
- {at: 900ms, chip: {kill: random, for: 300ms}}
- {at: 1600ms, chip: {restart: next}}
- {at: 1700ms, clock: {chips: M0D3, jump: 1s}}
- {at: 2s, partition: {chips: M0D0, from: M0D1}}
- {at: 2200ms, heal: all}
- {at: 2300ms, link: {down: plane:0}}
- {at: 2400ms, link: {up: all}}
- {at: 2500ms, gossip: {down: true}}
duration: 4s
assertions:
- finally: links_up == all
- finally: unexplained == 0
- always: duplicated == 0
- always: sent == 0
- always: members == all
`

// TestScenarioIsItsSeed checks that runs with equal seeds are equal in every datagram, and that a
// report contains failures.
func TestScenarioIsItsSeed(t *testing.T) {
	s, m := parsed(t, "everything", []byte(everything))
	traces := map[string]uint64{}
	for _, seed := range []uint64{1, 2, 1} {
		rep, err := Play(PlayConfig{Scenario: s, Topology: m, Seed: seed})
		if err != nil || rep.Error != "" {
			t.Fatal(err, rep.Error)
		}
		if was, ok := traces[rep.Trace]; ok != (len(traces) == 2) || ok && was != seed {
			t.Errorf("seed %d has the trace %s of seed %d", seed, rep.Trace, was)
		}
		traces[rep.Trace] = seed
		var got []scenario.Status
		for _, v := range rep.Assertions {
			got = append(got, v.Status)
		}
		want := []scenario.Status{scenario.Passed, scenario.Passed, scenario.Passed, scenario.Failed, scenario.Skipped}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("seed %d: %+v; want %s", seed, rep.Assertions[i], want[i])
			}
		}
		if rep.Passed || len(rep.Timeline) != 22 {
			t.Errorf("seed %d: passed: %v, %d actions", seed, rep.Passed, len(rep.Timeline))
		}
		if n := rep.Events["fault cut"]; n < 2*(8+2+4) || rep.Events["fault killed"] != 1 || rep.Events["fault paused"] != 1 || rep.Events["fault resumed"] != 1 {
			t.Errorf("seed %d: %v", seed, rep.Events)
		}
	}
}

// TestScenarioErrors checks the errors for scenarios that name chips or links that the topology
// does not have.
func TestScenarioErrors(t *testing.T) {
	s, m := parsed(t, "x", []byte("scenario: 1\ntopology: n300\ntimeline:\n- {at: 1s, chip: {kill: M0D5}}\nassertions:\n- finally: links_up == all\n"))
	if _, err := Play(PlayConfig{Scenario: s, Topology: m}); err == nil || !strings.Contains(err.Error(), "x.yaml:4") {
		t.Error(err)
	}
}

// TestDeadlockScenarios runs the deadlock of Spec §6.1 as a scenario. Without an order of
// dimensions and with local traffic first, the traffic must deadlock, and the report must say so.
// With an order of dimensions, and on a ring with a dateline, the traffic must end.
func TestDeadlockScenarios(t *testing.T) {
	const text = `
scenario: 1
topology: %s
local_first: true
stuck_after: 200ms
%s
traffic: {pattern: %s, load: 1000000, size: 1024, window: 1024, planes: 1}
duration: 20ms
assertions:
- finally: events(packet stuck) > 0
- finally: delivered == all
`
	for _, c := range []struct {
		machine, keys, pattern string
		still                  bool
	}{
		{"mesh:2x2", "order: none", "bit-complement", true}, {"mesh:2x2", "order: xy", "bit-complement", false}, {"mesh:2x2", "order: yx", "bit-complement", false},
		{"ring:7", "ring: none", "tornado", true}, {"ring:7", "ring: dateline", "tornado", false}, {"ring:7", "ring: bubble", "tornado", false},
	} {
		t.Run(c.machine+" "+c.keys, func(t *testing.T) {
			s, m := parsed(t, "deadlock", fmt.Appendf(nil, text, c.machine, c.keys, c.pattern))
			rep, err := Play(PlayConfig{Scenario: s, Topology: m, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range rep.Assertions {
				if (v.Status == scenario.Passed) != (c.still == (k == 0)) {
					t.Errorf("%s: %s, measured %s", v.Text, v.Status, v.Measured)
				}
			}
		})
	}
}

// TestScenarioFabric runs scenarios with options of the fabric. On a line of four chips with a TTL of 3, the packets from
// one end to the other arrive with a TTL of 0. With strict_ttl, they must expire.
func TestScenarioFabric(t *testing.T) {
	const text = `
scenario: 1
topology: %s
%s
traffic: {load: 200}
duration: 200ms
assertions:
- finally: dropped(TTL expired) %s
- finally: delivered == all
`
	for _, c := range []struct {
		machine, keys, expired string
		all                    bool
	}{
		{"line:4", "ttl: 3", "== 0", true}, {"line:4", "ttl: 3\nstrict_ttl: true", "> 0", false}, {"line:4", "strict_ttl: true", "== 0", true},
		{"spec-l1", "exits: printed", "== 0", true}, {"mesh:2x2", "fabric: 1d", "== 0", true}, {"n300", "frame: 100", "== 0", true},
	} {
		s, m := parsed(t, "fabric", fmt.Appendf(nil, text, c.machine, c.keys, c.expired))
		rep, err := Play(PlayConfig{Scenario: s, Topology: m, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := rep.Assertions; got[0].Status != scenario.Passed || (got[1].Status == scenario.Passed) != c.all {
			t.Errorf("%s, %s: %+v", c.machine, c.keys, got)
		}
	}
	var a surroundings
	if err := a.of(scenario.Fabric{Exits: "printed", Dimensions: "1d", StrictTTL: true, Frame: 1500}); err != nil ||
		a.route.Exits != route.PrintedExits || !a.route.Lines || !a.strictTTL || a.maxPayload != 1472 {
		t.Errorf("%v: %+v", err, a)
	}
}
