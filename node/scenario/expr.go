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

// unit is the unit of a metric.
type unit uint8

const (
	pieces unit = iota
	nanos
)

// metric is a value that an assertion can test.
type metric struct {
	name string
	unit unit
	all  bool   // the metric can be compared with the word "all"
	arg  string // what the brackets contain: "", "step", "event" or "reason"
	help string
}

// metrics are all metrics, in the order in which reports list them.
var metrics = []metric{
	{"sent", pieces, false, "", "packets that left their sources"},
	{"delivered", pieces, true, "", "packets that came, whole, each once; 'all' is every packet sent, once the traffic has ended"},
	{"completed", pieces, false, "", "packets that their sources know to be performed"},
	{"failed", pieces, false, "", "packets that their sources know to be lost or refused, or know nothing of"},
	{"lost", pieces, false, "", "packets that have ended at their sources and were not delivered; without those from and to chips that were killed"},
	{"unexplained", pieces, false, "", "of the lost: those that no source was told of, and, at the end, those that never ended"},
	{"duplicated", pieces, false, "", "packets delivered again"},
	{"corrupted", pieces, false, "", "packets with other bytes than they were sent with"},
	{"reordered", pieces, false, "", "packets that came after later ones of their pair and plane"},
	{"misdirected", pieces, false, "", "packets that came to a chip that they were not for"},
	{"overflowed", pieces, false, "", "packets that arrived at a source whose queue was full"},
	{"latency_p50", nanos, false, "", "median time until a packet's completion is back at its source"},
	{"latency_p99", nanos, false, "", "the time that 99 % of the packets take at most"},
	{"links_up", pieces, true, "", "cables whose links are up at both ends, by their own cable or a fallback; 'all' is every declared cable"},
	{"recovery_packets", nanos, false, "step", "longest time from a fault until every pair of chips delivers again"},
	{"recovery_links", nanos, false, "step", "longest time from a fault until all links are up again"},
	{"dropped", pieces, false, "reason", "packets that routers gave up"},
	{"events", pieces, false, "event", "events that the chips told of"},
	{"members", pieces, true, "", "chips that the chip that sees the fewest sees alive (live only)"},
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
	Arg    string // for events: "link down", or "link" for all events of a type; for dropped: a reason
	Step   string // for recovery: a step's name
	Op     string // == != < <= > >=
	Value  float64
	All    bool // the value is the word "all"
	unit   unit
}

var exprForm = regexp.MustCompile(`^([A-Za-z0-9_]+)(?: ?\(([^()]*)\))? ?(==|!=|<=|>=|<|>) ?([^ ]+)$`)

// eventActions are the events that chips report, by type, as `ttfabric events` prints them.
var eventActions = map[string][]string{
	"link": {ttlink.EventUp.String(), ttlink.EventDown.String(), ttlink.EventSessionStarted.String(), ttlink.EventSessionEnded.String(),
		ttlink.EventMiswired.String(), ttlink.EventIncompatible.String(), ttlink.EventPath.String(),
		ttlink.EventNarrow.String(), ttlink.EventWide.String()},
	"packet": {"dropped", "stuck"},
	"member": {membership.Joined.String(), membership.Updated.String(), membership.Restarted.String(), membership.Left.String(), membership.Rejected.String()},
	"fault":  {"set", "reset", "cut", "restored", "killed", "paused", "resumed", "restarted"},
}

// eventReasons returns the reasons of an event that the run also counts by reason.
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

// ParseExpr reads a condition such as "lost == 0", "latency_p99 < 20ms" or "events(link down) >=
// 2".
func ParseExpr(text string) (Expr, error) {
	m := exprForm.FindStringSubmatch(text)
	if m == nil {
		return Expr{}, fmt.Errorf("%q: want METRIC COMPARISON VALUE, such as lost == 0 or latency_p99 < 20ms", text)
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

// argument reads the text inside the metric's brackets.
func (e *Expr) argument(x metric) error {
	switch {
	case x.arg == "" && e.Arg != "":
		return fmt.Errorf("%s takes nothing in brackets", e.Metric)
	case x.arg == "step":
		e.Step, e.Arg = e.Arg, ""
	case x.arg == "reason" && e.Arg != "":
		reasons := eventReasons("packet dropped")
		if !slices.Contains(reasons, e.Arg) {
			return fmt.Errorf("%s(%s): there is no such reason%s", e.Metric, e.Arg, orList(nearest(e.Arg, reasons), reasons))
		}
	case x.arg == "event" && e.Arg == "":
		return fmt.Errorf("events wants a type, such as events(link down) or events(packet)")
	case x.arg == "event":
		kinds := []string{"link", "packet", "member", "fault"}
		kind, action, has := strings.Cut(e.Arg, " ")
		action, reason, why := strings.Cut(action, ": ")
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("events(%s): there is no type %q%s", e.Arg, kind, orList(nearest(kind, kinds), kinds))
		}
		if have := eventActions[kind]; has && !slices.Contains(have, action) {
			return fmt.Errorf("events(%s): %s has no %q%s", e.Arg, kind, action, orList(nearest(action, have), have))
		}
		have := eventReasons(kind + " " + action)
		if why && len(have) == 0 {
			return fmt.Errorf("events(%s): %s %s is not counted by reason", e.Arg, kind, action)
		}
		if why && !slices.Contains(have, reason) {
			return fmt.Errorf("events(%s): %s %s has no reason %q%s", e.Arg, kind, action, reason, orList(nearest(reason, have), have))
		}
	}
	return nil
}

// holds reports whether the comparison with the measured value v is true. The argument all is the
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

// show returns the value v in the form in which people write the metric.
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

// shortTime returns a time rounded to about three digits.
func shortTime(d time.Duration) string {
	for _, r := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= 10*r {
			return d.Round(r / 100).String()
		}
	}
	return d.String()
}
