package scenario

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/membership"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// unit is the unit of a metric's values.
type unit uint8

const (
	pieces unit = iota // a number of packets, links, events or chips
	nanos              // a time in nanoseconds
)

// metric is a value of a run that an assertion can test.
type metric struct {
	name string
	unit unit
	all  bool   // an assertion can compare the metric with the word "all"
	arg  string // what the text in brackets after the name must be: "step", "event" or "reason"; "": no brackets
	help string
}

// metrics lists all metrics that an assertion can test.
var metrics = []metric{
	{"sent", pieces, false, "", "packets that the sources sent"},
	{"delivered", pieces, true, "", "packets that destinations received whole, each counted once; the word 'all' means all sent packets, and has a value only at the end of the traffic"},
	{"completed", pieces, false, "", "packets that the destination has confirmed as performed"},
	{"failed", pieces, false, "", "packets that were refused or lost, or whose outcome the source does not know"},
	{"lost", pieces, false, "", "packets that ended at the source and were not delivered, except packets from and to killed chips"},
	{"unexplained", pieces, false, "", "lost packets that the source does not count as failed; at the end, also packets that never ended"},
	{"duplicated", pieces, false, "", "packets that were delivered more than once"},
	{"corrupted", pieces, false, "", "packets that differ from what the source sent"},
	{"reordered", pieces, false, "", "packets delivered after later packets of their pair and plane"},
	{"misdirected", pieces, false, "", "packets that were delivered to another chip than their destination"},
	{"overflowed", pieces, false, "", "packets that arrived at a source while the queue of the source was full"},
	{"latency_p50", nanos, false, "", "median time from a packet's arrival at its source to its completion at its source"},
	{"latency_p99", nanos, false, "", "99th percentile of the time from a packet's arrival at its source to its completion at its source"},
	{"links_up", pieces, true, "", "cables whose links are up at both ends, by the own cable or a fallback path; the word 'all' means all cables of the topology"},
	{"recovery_packets", nanos, false, "step", "longest time from a fault until every pair of chips delivers again"},
	{"recovery_links", nanos, false, "step", "longest time from a fault until all links are up again"},
	{"dropped", pieces, false, "reason", "packets that routers dropped"},
	{"events", pieces, false, "event", "events that the chips reported"},
	{"members", pieces, true, "", "number of chips that a chip sees alive, the smallest number over all chips (live only)"},
}

func metricNames() (names []string) {
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// Expr is a condition: a metric, a comparison and a value.
type Expr struct {
	Metric string
	Arg    string  // text in brackets: for events, a type and perhaps an action, such as "link down"; for dropped, a reason
	Step   string  // name of the step in brackets, for recovery times
	Op     string  // comparison: one of == != < <= > >=
	Value  float64 // value to compare with; times are in nanoseconds
	All    bool    // the value is the word "all"
	unit   unit
}

var exprForm = regexp.MustCompile(`^([A-Za-z0-9_]+)(?: ?\(([^()]*)\))? ?(==|!=|<=|>=|<|>) ?([^ ]+)$`)

// eventActions are the actions of events, by the type of the event. `ttfabric events` prints these
// types and actions.
var eventActions = map[string][]string{
	"link": {ttlink.EventUp.String(), ttlink.EventDown.String(), ttlink.EventSessionStarted.String(), ttlink.EventSessionEnded.String(),
		ttlink.EventMiswired.String(), ttlink.EventIncompatible.String(), ttlink.EventPath.String(),
		ttlink.EventNarrow.String(), ttlink.EventWide.String(), ttlink.EventHeld.String(), ttlink.EventReleased.String(),
		ttlink.EventUnreliable.String(), ttlink.EventReliable.String()},
	"tables": {"installed", "refused"},
	"packet": {"dropped", "stuck"},
	"member": {membership.Joined.String(), membership.Updated.String(), membership.Restarted.String(), membership.Left.String(), membership.Rejected.String()},
	"fault":  {"set", "reset", "cut", "restored", "killed", "paused", "resumed", "restarted"},
}

// eventReasons returns all reasons of an event such as "link down". If the run does not count the
// event by reason, eventReasons returns nil.
func eventReasons(event string) (out []string) {
	switch event {
	case "link down":
		for r := ttlink.DownSilence; r.String() != "unknown"; r++ {
			out = append(out, r.String())
		}
	case "packet dropped":
		for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
			out = append(out, r.String())
		}
	}
	return out
}

// ParseExpr parses a condition such as "lost == 0", "latency_p99 < 20ms" or "events(link down) >=
// 2".
func ParseExpr(text string) (Expr, error) {
	m := exprForm.FindStringSubmatch(text)
	if m == nil {
		return Expr{}, fmt.Errorf("%q: want METRIC OP VALUE, such as lost == 0 or latency_p99 < 20ms", text)
	}
	e := Expr{Metric: m[1], Arg: strings.TrimSpace(m[2]), Op: m[3]}
	i := slices.IndexFunc(metrics, func(x metric) bool { return x.name == e.Metric })
	if i < 0 {
		return e, fmt.Errorf("there is no metric %q%s", e.Metric, orList(nearest(e.Metric, metricNames()), metricNames()))
	}
	x := metrics[i]
	e.unit = x.unit
	if err := e.argument(x); err != nil {
		return e, err
	}
	var err error
	switch {
	case m[4] == "all" && x.all:
		e.All = true
	case x.unit == nanos:
		var d time.Duration
		if d, err = time.ParseDuration(m[4]); err != nil || d < 0 {
			return e, fmt.Errorf("%s: value %q: want a time with its unit, such as 20ms", e.Metric, m[4])
		}
		e.Value = float64(d)
	default:
		if e.Value, err = strconv.ParseFloat(m[4], 64); err != nil || !(e.Value >= 0 && e.Value <= 1<<53) {
			return e, fmt.Errorf("%s: value %q: want a number", e.Metric, m[4])
		}
	}
	return e, nil
}

// argument checks the text in brackets after the metric's name. If the text names a step, argument
// moves the text from e.Arg to e.Step.
func (e *Expr) argument(x metric) error {
	switch {
	case x.arg == "" && e.Arg != "":
		return fmt.Errorf("%s cannot have a text in brackets", e.Metric)
	case x.arg == "step":
		e.Step, e.Arg = e.Arg, ""
	case x.arg == "reason" && e.Arg != "":
		reasons := eventReasons("packet dropped")
		if !slices.Contains(reasons, e.Arg) {
			return fmt.Errorf("%s(%s): there is no such reason%s", e.Metric, e.Arg, orList(nearest(e.Arg, reasons), reasons))
		}
	case x.arg == "event" && e.Arg == "":
		return fmt.Errorf("events needs a type in brackets, such as events(link down) or events(packet)")
	case x.arg == "event":
		kinds := []string{"link", "packet", "tables", "member", "fault"}
		kind, action, has := strings.Cut(e.Arg, " ")
		action, reason, why := strings.Cut(action, ": ")
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("events(%s): there is no type %q%s", e.Arg, kind, orList(nearest(kind, kinds), kinds))
		}
		if have := eventActions[kind]; has && !slices.Contains(have, action) {
			return fmt.Errorf("events(%s): events of the type %s have no action %q%s", e.Arg, kind, action, orList(nearest(action, have), have))
		}
		have := eventReasons(kind + " " + action)
		if why && len(have) == 0 {
			return fmt.Errorf("events(%s): the event %s %s has no reasons", e.Arg, kind, action)
		}
		if why && !slices.Contains(have, reason) {
			return fmt.Errorf("events(%s): the event %s %s has no reason %q%s", e.Arg, kind, action, reason, orList(nearest(reason, have), have))
		}
	}
	return nil
}

// holds reports whether the condition is true for the measured value v. The parameter "all" is the
// value of the word "all".
func (e *Expr) holds(v, all float64) bool {
	want := e.Value
	if e.All {
		want = all
	}
	switch e.Op {
	case "==":
		return v == want
	case "!=":
		return v != want
	case "<":
		return v < want
	case "<=":
		return v <= want
	case ">":
		return v > want
	}
	return v >= want
}

// show returns the value v as a text for people, for example "20ms" or "5 of 8". The parameter
// "all" is the value of the word "all".
func (e *Expr) show(v, all float64) string {
	switch {
	case math.IsInf(v, 1):
		return "not at all"
	case e.unit == nanos:
		return shortTime(time.Duration(v))
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if e.All {
		s += " of " + strconv.FormatFloat(all, 'f', -1, 64)
	}
	return s
}

// shortTime returns the text of a time. shortTime rounds a time from 10 s on to 10 ms, a time from
// 10 ms on to 10 µs, and a time from 10 µs on to 10 ns.
func shortTime(d time.Duration) string {
	for _, r := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*r {
			return d.Round(r / 100).String()
		}
	}
	return d.String()
}
