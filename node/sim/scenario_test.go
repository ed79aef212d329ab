package sim

import (
	"testing"
	"time"

	"ttfabric/node/scenario"
	"ttfabric/router/topo"
)

// shipped reads a scenario that comes with the program.
func shipped(t *testing.T, name string) (*scenario.Scenario, *topo.Topology) {
	t.Helper()
	text, ok := scenario.Source(name)
	if !ok {
		t.Fatalf("there is no scenario %q", name)
	}
	s, err := scenario.Parse(name+".yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.Named(s.Fabric.Topology)
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// TestShippedScenarios runs all scenarios that come with the program: they hold.
func TestShippedScenarios(t *testing.T) {
	for _, name := range scenario.Names() {
		t.Run(name, func(t *testing.T) {
			s, m := shipped(t, name)
			begin := time.Now()
			rep, err := Play(PlayConfig{Scenario: s, Topology: m, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %.1f virtual seconds in %v", name, rep.Seconds, time.Since(begin))
			if rep.Error != "" {
				t.Error(rep.Error)
			}
			for _, e := range rep.Timeline {
				t.Logf("  %8.3fs %s %s", e.At, e.What, e.Why)
			}
			for _, v := range rep.Assertions {
				t.Logf("  %-8s %s: %s %s", v.Status, v.Text, v.Measured, v.Why)
				if v.Status == scenario.Failed {
					t.Errorf("line %d: %s: %s %s at %vs", v.Line, v.Text, v.Measured, v.Why, v.At)
				}
			}
			t.Logf("  %v %v", rep.Metrics, rep.Events)
		})
	}
}
