package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ttfabric/node/traffic"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Lines that divide the files of testdata/runs.
const (
	scriptMark = "======== script\n"
	traceMark  = "======== trace\n"
)

// TestRuns runs the scenarios in the files of testdata/runs. The topology has two chips, and traffic
// goes from the first chip to the second. Each file also has a script and the expected actions,
// orders and verdicts. A line of the script is one of these:
//
//	look 100ms sent=5 done=4 failed=0 came=4 twice=0 links=2 members=2
//	                    a sample at this time; values that the line leaves out do not change
//	event 1s link down  a chip reports an event
//	broken 1s           the driver fails to carry out the action that is due
func TestRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/runs/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no runs", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text, rest, _ := strings.Cut(string(b), scriptMark)
			script, _, _ := strings.Cut(rest, traceMark)
			golden(t, name, text+scriptMark+script+traceMark+playScript(t, filepath.Base(name), text, script), string(b))
		})
	}
}

// scripted is a run whose driver is a script.
type scripted struct {
	t    *testing.T
	r    *Run
	out  strings.Builder
	seen map[string]uint64
	spec traffic.Spec
	told []Verdict
}

func playScript(t *testing.T, name, text, script string) string {
	s, err := Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d := Driver{Name: "script", Verbs: map[Verb]string{ClockJump: "skipped: no clocks here"}, Metrics: map[string]string{"events(member)": "skipped: no members here"}}
	r, err := New(s, machine(t, "n300"), 7, d)
	if err != nil {
		t.Fatal(err)
	}
	p := &scripted{t: t, r: r, seen: map[string]uint64{"links": 2, "members": 2}}
	r.Begin(0)
	for line := range strings.Lines(script) {
		if w := strings.Fields(line); len(w) > 1 {
			p.step(w)
		}
	}
	rep := r.Report(mono.Time(0).Add(r.now))
	p.verdicts()
	fmt.Fprintf(&p.out, "over: %v, passed: %v, error: %q\n", r.Over(mono.Time(r.now)), rep.Passed, rep.Error)
	return p.out.String()
}

// step carries out one line of the script.
func (p *scripted) step(w []string) {
	d, err := time.ParseDuration(w[1])
	if err != nil {
		p.t.Fatal(err)
	}
	now := mono.Time(d)
	var fails error
	switch w[0] {
	case "event":
		p.r.Event(w[2], strings.Join(w[3:], " "), "silence", "M0D0 at "+w[1])
		return
	case "broken":
		fails = fmt.Errorf("the chip is stubborn")
	}
	for a, ok := p.r.Due(now); ok; a, ok = p.r.Due(now) {
		fmt.Fprintf(&p.out, "%7v do %s\n", d, &a)
		p.r.Done(now, a, fails)
	}
	switch o := p.r.Order(now); o.Kind {
	case Begin:
		p.spec = o.Spec
		fmt.Fprintf(&p.out, "%7v begin a round of %d packets\n", d, o.Spec.Packets)
	case Hold:
		fmt.Fprintf(&p.out, "%7v hold\n", d)
	}
	for _, x := range w[2:] {
		k, v, _ := strings.Cut(x, "=")
		if p.seen[k], err = strconv.ParseUint(v, 10, 64); err != nil {
			p.t.Fatal(err)
		}
	}
	a, b := wire.FabricNodeID{}, wire.FabricNodeID{Chip: 1}
	pair := traffic.Pair{Src: a, Dst: b}
	src := traffic.PairReport{Pair: pair, Sent: p.seen["sent"], Completed: p.seen["done"], Failed: p.seen["failed"]}
	dst := traffic.PairReport{Pair: pair, Delivered: p.seen["came"], Duplicated: p.seen["twice"]}
	p.r.Observe(now, Sample{LinksUp: int(p.seen["links"]), Members: int(p.seen["members"]), Reports: []traffic.Report{
		{Run: p.spec.Run, Chip: a, Source: []traffic.PairReport{src}, Finished: p.seen["sent"] == p.spec.Packets},
		{Run: p.spec.Run, Chip: b, Dest: []traffic.PairReport{dst}, Finished: true}}})
	p.verdicts()
}

// verdicts writes the verdicts that have changed to p.out.
func (p *scripted) verdicts() {
	for i, v := range p.r.verdicts {
		if p.told == nil || len(p.told) <= i || p.told[i].Status != v.Status {
			fmt.Fprintf(&p.out, "        %s: %s: %s %s\n", v.Status, v.Text, v.Measured, v.Why)
		}
	}
	p.told = append([]Verdict{}, p.r.verdicts...)
}

// TestSeedDecides checks that plans from equal seeds are equal, and that plans from different seeds
// differ.
func TestSeedDecides(t *testing.T) {
	s, err := Parse("x.yaml", []byte(`
scenario: 1
timeline:
- {every: 100ms, times: 30, jitter: 30ms, link: {down: random, for: 10ms}}
- {every: 250ms, times: 10, chip: {kill: 'random 2 of M0D[0-5]', for: 100ms}}
- {every: 300ms, times: 9, chip: {pause: next}}
assertions:
- always: lost == 0
`))
	if err != nil {
		t.Fatal(err)
	}
	text := func(seed uint64) string {
		as, err := s.plan(machine(t, "t3000"), seed)
		if err != nil {
			t.Fatal(err)
		}
		out, dead := "", map[wire.FabricNodeID]bool{}
		at := time.Duration(0)
		for _, a := range as {
			if a.At < at {
				t.Fatalf("%v after %v", a.At, at)
			}
			at = a.At
			for _, n := range a.Chips {
				switch {
				case a.Verb == ChipKill && dead[n], a.Verb == ChipStart && !dead[n], a.Verb == ChipPause && dead[n]:
					t.Errorf("at %v: %s, dead: %v", a.At, &a, dead[n])
				}
				dead[n] = a.Verb == ChipKill
			}
			out += fmt.Sprintf("%v %s\n", a.At, &a)
		}
		return out
	}
	if a, b := text(1), text(1); a != b {
		t.Error("equal seeds give different timelines")
	}
	if text(1) == text(2) {
		t.Error("different seeds give equal timelines")
	}
	if !strings.Contains(text(1), "chip kill M0D") || !strings.Contains(text(1), "chip start M0D") {
		t.Errorf("no kills in\n%s", text(1))
	}
}

// TestJUnit compares a JUnit file with testdata/junit.xml.
func TestJUnit(t *testing.T) {
	b, err := JUnit("2026-01-02T03:04:05", Report{Scenario: "x", Topology: "n300", Driver: "sim", Seed: 7, Seconds: 2.5, Trace: "00ff",
		Timeline: []Entry{{At: 1, What: "link down M0D0:8-M0D1:0", Status: Passed}},
		Assertions: []Verdict{{Text: "always lost == 0", When: "always", Line: 9, Status: Passed, At: 2.5, Measured: "0"},
			{Text: "finally latency_p99 < 1ms", When: "finally", Line: 10, Status: Failed, At: 2.5, Measured: "3ms", Why: "it is <slow>"},
			{Text: "always members == all", When: "always", Line: 11, Status: Skipped, Why: "no gossip"}}},
		Report{Scenario: "y", Error: "chip M0D1 is stubborn", Assertions: []Verdict{{Text: "finally sent > 0", Status: Open}}})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := os.ReadFile("testdata/junit.xml")
	golden(t, "testdata/junit.xml", string(b), string(want))
}
