package live

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/process/processtest"
	"ttfabric/node/scenario"
	"ttfabric/node/sim"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestMain lets the test binary run chips, so that the tests can start fabrics whose chips
// are processes of the test binary.
func TestMain(m *testing.M) {
	fabric.ServesChips()
	processtest.Main(m)
}

// parsed parses a scenario, and returns the scenario and its topology.
func parsed(t *testing.T, text string) (*scenario.Scenario, *topo.Topology) {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.Named(s.Fabric.Topology)
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// ownFolder gives the test a new folder of all fabrics. The returned function lists the run
// folders that are left.
func ownFolder(t *testing.T) func() []string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return func() []string {
		left, _ := filepath.Glob(filepath.Join(dir, "ttfabric", "*"))
		return left
	}
}

// held fails the test if an action or assertion in the report has not passed.
func held(t *testing.T, r *scenario.Report) {
	t.Helper()
	if !r.Passed || r.Error != "" || len(r.Timeline) == 0 {
		t.Errorf("passed %v, error %q, timeline %+v", r.Passed, r.Error, r.Timeline)
	}
	for _, v := range r.Assertions {
		if v.Status != scenario.Passed {
			t.Errorf("%+v", v)
		}
	}
	for _, e := range r.Timeline {
		if e.Status != scenario.Passed {
			t.Errorf("%+v", e)
		}
	}
}

const cut = `
scenario: 1
topology: n300
profile: crowded
traffic: {pattern: all-to-all, load: 100, size: 64}
timeline:
- name: cut
  at: 200ms
  link: {down: 'random', for: 300ms}
duration: 800ms
assertions:
- finally: delivered == all
- finally: events(fault cut) == 2
- always: members == all
`

// TestOwnFabric runs a scenario on a new fabric. The random choices must be those of the
// simulator for the same seed. Run must remove the fabric.
func TestOwnFabric(t *testing.T) {
	left := ownFolder(t)
	s, m := parsed(t, cut)
	links, played := 0, time.Duration(0)
	rep, err := Run(t.Context(), Config{Scenario: s, Topology: m, Seed: 5,
		Starting: func(n, of int) { links = max(links, n); _ = of },
		Playing:  func(_, _ int, at, _ time.Duration) { played = max(played, at) }})
	if err != nil {
		t.Fatal(err)
	}
	held(t, &rep)
	if rep.Driver != "live" || rep.Seed != 5 {
		t.Errorf("%+v", rep)
	}
	simulated, err := sim.Play(sim.PlayConfig{Scenario: s, Topology: m, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := rep.Timeline[0].What, simulated.Timeline[0].What; a != b {
		t.Errorf("the live driver chose %s and the simulator %s for one seed", a, b)
	}
	if links != m.Routed() || played < 700*time.Millisecond {
		t.Errorf("Starting got %d links, and Playing got %v", links, played)
	}
	if l := left(); len(l) != 0 {
		t.Errorf("Run left %v", l)
	}
}

// everything has each kind of action that the live driver can carry out. At the end, faults
// of each kind are still in force.
const everything = `
scenario: 1
topology: mesh:2x2
profile: crowded
timeline:
- at: 0ms
  link: {down: M0D0-M0D1}
- at: 0ms
  netem: {set: M0D0-M0D2, delay: 2ms}
- at: 50ms
  netem: {set: M0D1-M0D3, delay: 1ms}
- at: 100ms
  netem: {reset: M0D1-M0D3}
- at: 100ms
  gossip: {chips: M0D3, down: true}
- at: 200ms
  chip: {pause: M0D2}
- at: 300ms
  chip: {resume: M0D2}
- at: 400ms
  chip: {restart: M0D0}
- at: 1500ms
  link: {down: M0D2-M0D3}
- at: 1500ms
  netem: {set: M0D1-M0D3, loss: 1%}
- at: 2s
  chip: {kill: M0D1}
- at: 2100ms
  chip: {pause: M0D3}
- at: 2200ms
  chip: {kill: M0D2}
- at: 2300ms
  chip: {start: M0D2}
duration: 2500ms
assertions:
- finally: events(fault killed) >= 1
`

// TestPutBack runs a scenario on a running fabric. At the end of the scenario, chips are
// killed and paused, and cables and gossip are cut and impaired. Run must end all these
// faults.
func TestPutBack(t *testing.T) {
	ownFolder(t)
	s, m := parsed(t, everything)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := fabric.Create(ctx, fabric.Wanted{Name: "lab", Topology: m, Spec: Spec(&s.Fabric)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := f.Up(ctx, nil, nil); err != nil {
		t.Fatal(err)
	}
	pids := pidsOf(f)
	rep, err := Run(ctx, Config{Scenario: s, Fabric: f, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	held(t, &rep)
	now := pidsOf(f)
	if len(now) != len(m.Chips) {
		t.Fatalf("chips %v run; before, %v", now, pids)
	}
	for n, pid := range now {
		if kept := pid == pids[n]; kept != (n.Chip == 3) {
			t.Errorf("chip %s has process %d, and had %d", n, pid, pids[n])
		}
	}
	if _, err := f.WaitUp(ctx, nil); err != nil {
		t.Error(err)
	}
	chips, err := f.Chips()
	if err != nil {
		t.Fatal(err)
	}
	if v, absent, err := chips.Impairments(ctx, fabric.PortsOf(m, m.Nodes()), true); err != nil || len(absent) > 0 || len(v) > 0 {
		t.Errorf("%+v are impaired, %v do not run, %v", v, absent, err)
	}
	views, _, err := chips.Gossip(ctx, m.Nodes())
	if err != nil || slices.ContainsFunc(views, func(v api.GossipView) bool { return v.Alone || len(v.Apart) > 0 || v.Options != "" }) {
		t.Errorf("gossip: %+v, %v", views, err)
	}
}

func pidsOf(f *fabric.Fabric) map[wire.FabricNodeID]int {
	pids := map[wire.FabricNodeID]int{}
	for _, c := range f.Running() {
		pids[c.Chip] = c.PID
	}
	return pids
}

// TestChipThatEnds kills a chip without an action of the scenario. The run must fail, and
// the report must name the chip.
func TestChipThatEnds(t *testing.T) {
	left := ownFolder(t)
	s, m := parsed(t, strings.Replace(cut, "duration: 800ms", "duration: 20s", 1))
	killed := false
	rep, err := Run(t.Context(), Config{Scenario: s, Topology: m, Seed: 5, Name: "victim", Playing: func(int, int, time.Duration, time.Duration) {
		if killed {
			return
		}
		killed = true
		f, err := fabric.Open(t.Context(), "victim")
		if err == nil {
			err = f.KillChip(t.Context(), m.Chips[1].Node)
		}
		if err != nil {
			t.Error(err)
		}
	}})
	if err != nil || rep.Passed || !strings.Contains(rep.Error, "chip M0D1 has ended") || rep.Seconds > 10 {
		t.Errorf("%v: %+v", err, rep)
	}
	if l := left(); len(l) != 0 {
		t.Errorf("Run left %v", l)
	}
}

// TestInterrupted cancels the context of a run. Run must return the context's error, and
// must remove the new fabric.
func TestInterrupted(t *testing.T) {
	left := ownFolder(t)
	s, m := parsed(t, cut)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Run(ctx, Config{Scenario: s, Topology: m, Seed: 5, Playing: func(int, int, time.Duration, time.Duration) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if l := left(); len(l) != 0 {
		t.Errorf("Run left %v", l)
	}
}

// TestFits compares the options of a running fabric with the options that scenarios name.
func TestFits(t *testing.T) {
	have := spec.Default()
	have.Profile = "crowded"
	for keys, want := range map[string]string{
		"":                        "",
		"slots: spec":             "",
		"stuck_after: 10s":        "",
		"profile: crowded":        "",
		"slots: fast":             "test.yaml wants slots fast, but the running fabric has spec",
		"ttl: 9":                  "wants ttl 9, but the running fabric has 0",
		"stuck_after: 20s":        "wants stuck_after 20s, but the running fabric has 10s",
		"exits: shortest":         "",
		"fabric: 2d":              "",
		"strict_ttl: false":       "",
		"exits: printed":          "wants exits printed, but the running fabric has shortest",
		"strict_ttl: true":        "start the fabric again with --strict-ttl true",
		"fabric: 1d":              "with --fabric 1d",
		"frame: 1500":             "wants frame 1500, but the running fabric has 0",
		"local_first: true":       "wants local_first true, but the running fabric has false",
		"profile: lan":            "wants profile lan, but the running fabric has crowded",
		"order: yx":               "with --order yx",
		"ring: bubble":            "with --ring bubble",
		"engine: updown":          "with --engine updown",
		"stuck: drop":             "with --stuck drop",
		"order: xy\nprofile: lan": "wants profile lan",
	} {
		s, err := scenario.Parse("test.yaml", []byte("scenario: 1\ntopology: n300\n"+keys+"\nduration: 1s\nassertions: [always: members == all]\n"))
		if err != nil {
			t.Fatalf("%s: %v", keys, err)
		}
		err = fits(s, &have)
		if usage := (*spec.Error)(nil); want == "" && err != nil || want != "" && (!errors.As(err, &usage) || usage.Kind != spec.Usage || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v; want %q", keys, err, want)
		}
	}
}

// TestSpec checks that a scenario without options has the default of every option.
func TestSpec(t *testing.T) {
	have, usual := Spec(&scenario.Fabric{}), spec.Default()
	for i := range spec.Options {
		o := &spec.Options[i]
		if a, b := o.Text(&have), o.Text(&usual); a != b {
			t.Errorf("--%s is %q, and %q by default", o.Name, a, b)
		}
	}
	if s := Spec(&scenario.Fabric{Order: "none"}); !s.AllowDeadlock || s.Order != "none" {
		t.Errorf("%+v", s)
	}
}
