package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/scenario"
	"ttfabric/ttlink/fault"
)

// write puts a file into the test's folder and returns its path.
func (c *cli) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// wrong is a scenario with an assertion that always fails, and an assertion about gossip.
const wrong = `
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
- finally: sent < 5
- always: members == all
`

// junitFile holds the parts of a JUnit file that common tools read.
type junitFile struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Suites   []struct {
		Name       string `xml:"name,attr"`
		Tests      int    `xml:"tests,attr"`
		Failures   int    `xml:"failures,attr"`
		Skipped    int    `xml:"skipped,attr"`
		Properties []struct {
			Name  string `xml:"name,attr"`
			Value string `xml:"value,attr"`
		} `xml:"properties>property"`
		Cases []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestAFailingScenario(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := c.write("wrong.yaml", wrong)
	junit, report := filepath.Join(c.dir, "out.xml"), filepath.Join(c.dir, "out.json")
	out, errs, code := c.run("scenario", "run", file, "--sim", "--seed", "5", "--junit", junit, "--report", report)
	if code != exitAssert || !strings.Contains(errs, "seed 5") || !strings.Contains(out, "✗ │ finally sent < 5") || !strings.Contains(out, "– │ always members == all") {
		t.Errorf("exit code %d, want %d:\n%s%s", code, exitAssert, out, errs)
	}
	b, err := os.ReadFile(junit)
	if err != nil {
		t.Fatal(err)
	}
	var x junitFile
	if err := xml.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	if x.Tests != 3 || x.Failures != 1 || len(x.Suites) != 1 {
		t.Fatalf("%s", b)
	}
	s := x.Suites[0]
	if s.Name != "scenario.wrong" || s.Tests != 3 || s.Failures != 1 || s.Skipped != 1 || len(s.Cases) != 3 || s.Properties[0].Name != "seed" || s.Properties[0].Value != "5" {
		t.Errorf("%+v", s)
	}
	for i, name := range []string{"finally delivered == all", "finally sent < 5", "always members == all"} {
		if k := s.Cases[i]; k.Name != name || (k.Failure != nil) != (i == 1) || (k.Skipped != nil) != (i == 2) {
			t.Errorf("case %d: %+v", i, k)
		}
	}
	if m := s.Cases[1].Failure.Message; !strings.Contains(m, "measured 1") {
		t.Errorf("the failure says %q", m)
	}
	if b, err := os.ReadFile(report); err != nil || !strings.Contains(string(b), `"trace"`) {
		t.Errorf("%v: %s", err, b)
	}
	// Two runs with one seed must give equal reports.
	one, _, _ := c.run("scenario", "run", file, "--sim", "--seed", "5", "-o", "json")
	two, _, _ := c.run("scenario", "run", file, "--sim", "--seed", "5", "-o", "json")
	if one != two || !strings.Contains(one, `"passed": false`) {
		t.Errorf("%s\n%s", one, two)
	}
}

// TestALiveScenario runs the file of the simulator's test on real chips. The run must make
// the simulator's random choices, and must also judge the assertion about members.
func TestALiveScenario(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := c.write("right.yaml", strings.Replace(wrong, "sent < 5", "events(fault cut) == 2", 1))
	reports := read[[]scenario.Report](c, "scenario", "run", file, "--seed", "5")
	if len(reports) != 1 || !reports[0].Passed || reports[0].Driver != "live" || reports[0].Seed != 5 || len(reports[0].Timeline) != 1 {
		t.Fatalf("%+v", reports)
	}
	simulated := read[[]scenario.Report](c, "scenario", "run", file, "--seed", "5", "--sim")
	if a, b := reports[0].Timeline[0].What, simulated[0].Timeline[0].What; a != b {
		t.Errorf("one seed, two choices: %s and %s", a, b)
	}
	for _, v := range reports[0].Assertions {
		if v.Status != scenario.Passed {
			t.Errorf("%+v", v)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, "ttfabric", "*")); len(left) != 0 {
		t.Errorf("it leaves %v", left)
	}
}

func TestScenarioCommands(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	if list := read[[]listedScenario](c, "scenario", "list"); len(list) != len(scenario.Names()) || list[0].Description == "" || list[0].Assertions == 0 {
		t.Errorf("%+v", list)
	}
	my := c.write("my.yaml", c.must("scenario", "show", "partition"))
	if out := c.must("scenario", "validate", my, "flapping"); strings.Count(out, ": ok, ") != 2 {
		t.Error(out)
	}
	for _, x := range []struct{ args, want string }{
		{"run nothing-like-it", "scenario list"},
		{"run partitoin", `did you mean "partition"`},
		{"run ./none.yaml", "no such file"},
		{"run", "no scenario is named"},
		{"run --all partition", "--all"},
		{"run partition --sim --running", "exclude each other"},
		{"show nothing", "scenario list"},
		{"validate " + c.write("bad.yaml", "scenario: 1\nasertions: []\n"), `bad.yaml:2: the file has no key "asertions"; did you mean "assertions"?`},
		{"run partition --sim --topology mesh:1x2", "partition.yaml:"},
	} {
		if _, errs, code := c.run(append([]string{"scenario"}, strings.Fields(x.args)...)...); code != exitUsage || !strings.Contains(errs, x.want) {
			t.Errorf("scenario %s: exit code %d: %s", x.args, code, errs)
		}
	}
	c.fails(exitTopology, "scenario", "run", "partition", "--topology", "mesh:0x0", "--sim")
	if out := c.must("__complete", "scenario", "run", "part"); !strings.Contains(out, "partition\t") {
		t.Error(out)
	}
}

// TestFaultKindsAreEvents checks that a scenario can count the events of each kind of
// fault.
func TestFaultKindsAreEvents(t *testing.T) {
	for k := fault.KindSet; k <= fault.KindRestarted; k++ {
		if _, err := scenario.ParseExpr("events(fault " + k.String() + ") == 0"); err != nil {
			t.Error(err)
		}
	}
}
