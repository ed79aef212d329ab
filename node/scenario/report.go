package scenario

import (
	"encoding/xml"
	"fmt"
	"math"
	"time"

	"ttfabric/wire/mono"
)

// Status is the result of an assertion or an action.
type Status string

// The results of assertions and actions. Open means that the run has not decided the assertion yet.
const (
	Open    Status = "open"
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Verdict is the result of one assertion.
type Verdict struct {
	Text     string  `json:"assertion"`          // the assertion in one line
	When     string  `json:"when"`               // kind of the assertion: always, eventually or finally
	Line     int     `json:"line"`               // line of the assertion in the scenario file
	Status   Status  `json:"status"`             // passed, failed or skipped; open if the run broke off before it decided the assertion
	At       float64 `json:"at_seconds"`         // time since the start of the timeline, in seconds: when the run last measured the metric, or gave up waiting for the condition
	Measured string  `json:"measured,omitempty"` // value of the metric when the run last measured the metric; "": the metric had no value
	Why      string  `json:"why,omitempty"`      // why the assertion failed or was skipped
}

// Entry is the result of one action.
type Entry struct {
	At     float64 `json:"at_seconds"`    // time since the start of the timeline
	What   string  `json:"what"`          // the action in one line
	Status Status  `json:"status"`        // passed, failed or skipped
	Why    string  `json:"why,omitempty"` // why the action failed or was skipped
}

// Report is the result of a run.
type Report struct {
	Scenario    string             `json:"scenario"`              // name of the scenario
	Description string             `json:"description,omitempty"` // description of the scenario
	Driver      string             `json:"driver"`                // name of the driver: live or sim
	Topology    string             `json:"topology"`              // topology on which the scenario ran
	Seed        uint64             `json:"seed"`                  // seed of the run's random choices
	Seconds     float64            `json:"seconds"`               // length of the run since the start of the timeline; the simulator gives virtual time
	Passed      bool               `json:"passed"`                // whether the run came to its end, and no assertion failed
	Error       string             `json:"error,omitempty"`       // why the run broke off; "": the run came to its end
	Assertions  []Verdict          `json:"assertions"`            // results of the assertions
	Timeline    []Entry            `json:"timeline"`              // results of the actions
	Metrics     map[string]float64 `json:"metrics"`               // value of each metric at the end of the run; times are in seconds
	Events      map[string]uint64  `json:"events"`                // number of events, by type, by type and action, and by type, action and reason
	Trace       string             `json:"trace,omitempty"`       // hash of all events of a simulated run; "": a live run
}

// Report judges the assertions that are still open, and returns the result of the run.
func (r *Run) Report(now mono.Time) Report {
	r.now = r.at(now)
	rep := Report{Scenario: r.s.Name, Description: r.s.Description, Driver: r.driver.Name, Topology: r.t.Name, Seed: r.seed, Seconds: seconds(r.now),
		Passed: r.err == nil, Timeline: r.done, Metrics: map[string]float64{}, Events: r.events}
	if r.err != nil {
		rep.Error = r.err.Error()
	} else {
		r.judge(true)
	}
	rep.Assertions = r.verdicts
	for _, v := range r.verdicts {
		rep.Passed = rep.Passed && (v.Status == Passed || v.Status == Skipped)
	}
	for _, m := range metrics {
		if m.name == "events" || r.driver.Metrics[m.name] != "" {
			continue
		}
		if v, _, known := r.measure(&Expr{Metric: m.name}); known && !math.IsInf(v, 0) { // JSON has no infinity
			if m.unit == nanos {
				v /= float64(time.Second)
			}
			rep.Metrics[m.name] = v
		}
	}
	return rep
}

// Count returns the numbers of passed, failed and skipped assertions. Count leaves out assertions
// that are open.
func (r *Report) Count() (passed, failed, skipped int) {
	for _, v := range r.Assertions {
		switch v.Status {
		case Passed:
			passed++
		case Skipped:
			skipped++
		case Failed:
			failed++
		}
	}
	return passed, failed, skipped
}

func seconds(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }

// The elements of a JUnit file, as Jenkins, GitLab and GitHub read JUnit files.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr,omitempty"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Out        *junitText      `xml:"system-out"`
	}
	junitText struct {
		Text string `xml:",cdata"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Error   *junitMessage `xml:"error"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit returns the content of a JUnit file with a test suite for each run, and a test case for
// each assertion. The parameter "at" is the time at which the first run began, in the form of RFC
// 3339 without a time zone. If at is "", the file contains no time.
func JUnit(at string, reports ...Report) ([]byte, error) {
	all := junitSuites{}
	var sum float64
	for i := range reports {
		s := reports[i].suite(at)
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		all.Suites = append(all.Suites, s)
		sum += reports[i].Seconds
	}
	all.Time = fmt.Sprintf("%.3f", sum)
	b, err := xml.MarshalIndent(all, "", "  ")
	return append([]byte(xml.Header), append(b, '\n')...), err
}

func (r *Report) suite(at string) junitSuite {
	s := junitSuite{Name: "scenario." + r.Scenario, Time: fmt.Sprintf("%.3f", r.Seconds), Timestamp: at,
		Properties: []junitProperty{{"seed", fmt.Sprint(r.Seed)}, {"topology", r.Topology}, {"driver", r.Driver}}}
	if r.Trace != "" {
		s.Properties = append(s.Properties, junitProperty{"trace", r.Trace})
	}
	if len(r.Timeline) > 0 {
		s.Out = &junitText{}
	}
	for _, e := range r.Timeline {
		s.Out.Text += fmt.Sprintf("%8.3fs %s: %s %s\n", e.At, e.What, e.Status, e.Why)
	}
	for _, v := range r.Assertions {
		c := junitCase{Name: v.Text, Class: s.Name, Time: fmt.Sprintf("%.3f", v.At)}
		switch v.Status {
		case Failed:
			s.Failures++
			c.Failure = &junitMessage{Message: v.says(), Type: v.When, Text: fmt.Sprintf("line %d: %s; %s at %.3fs, seed %d", v.Line, v.Text, v.says(), v.At, r.Seed)}
		case Skipped:
			s.Skipped++
			c.Skipped = &junitMessage{Message: v.Why}
		case Open:
			s.Skipped++
			c.Skipped = &junitMessage{Message: "the run ended before it judged this assertion"}
		}
		s.Cases = append(s.Cases, c)
	}
	if r.Error != "" {
		s.Errors++
		s.Cases = append(s.Cases, junitCase{Name: "the timeline is carried out", Class: s.Name, Time: s.Time, Error: &junitMessage{Message: r.Error, Type: "error"}})
	}
	s.Tests = len(s.Cases)
	return s
}

// says returns a text with the measured value and the reason of the verdict.
func (v *Verdict) says() string {
	switch {
	case v.Measured == "":
		return v.Why
	case v.Why == "":
		return "measured " + v.Measured
	}
	return "measured " + v.Measured + ": " + v.Why
}
