package scenario

import (
	"math"
	"strings"
	"time"
)

// mark is an action for which the run measures the recovery times. One time ends when every pair of
// chips delivers packets again, the other when all links are up again.
type mark struct {
	at    time.Duration // time of the action
	step  string        // name of the action's step
	fault bool          // the action is a fault, not the end of a fault

	base     []uint64      // packets that each pair had delivered at the first sample after the action; nil before this sample
	packets  time.Duration // time until every pair delivered again; while waits is true, the time since the action
	waits    bool          // a pair has not delivered again
	links    time.Duration // time until all links were up again; while bad is true, the time since the action
	bad      bool          // a link is not up
	linkOver bool          // a later fault began while all links were up; the run no longer measures links for this mark
}

// mark begins to measure the recovery times of an action. The action must be a fault, or must be
// the action of a step with a name. mark ignores actions without links and chips. mark also ignores
// actions that undo another action.
func (r *Run) mark(a *Action) {
	if !a.Verb.harms() && (a.Step.Name == "" || a.Back) || len(a.Links)+len(a.Chips) == 0 {
		return
	}
	if a.Verb.harms() {
		for _, m := range r.marks {
			m.linkOver = m.linkOver || !m.bad
		}
	}
	r.marks = append(r.marks, &mark{at: r.now, step: a.Step.Name, fault: a.Verb.harms(), waits: r.state == sending || r.state == holding})
}

// follow updates the recovery times of all marks. If links fail again after their recovery, the
// recovery time of the links grows again, unless a later fault has begun.
func (r *Run) follow() {
	for _, m := range r.marks {
		switch {
		case m.linkOver:
		case r.sample.LinksUp < r.cables:
			m.bad, m.links = true, r.now-m.at
		case m.bad:
			m.bad, m.links = false, r.now-m.at
		}
		if !m.waits || r.tally == nil || r.state == over {
			continue
		}
		m.packets = r.now - m.at
		if m.base == nil {
			m.base = append([]uint64{}, r.tally.now...)
		} else {
			m.waits = !r.deliverSince(m.base)
		}
	}
}

// deliverSince reports whether every pair has delivered more packets than base says. deliverSince
// ignores pairs with an excused chip; see [tally].
func (r *Run) deliverSince(base []uint64) bool {
	for i, p := range r.tally.pairs {
		if r.tally.now[i] <= base[i] && !r.tally.excused[p.Src] && !r.tally.excused[p.Dst] {
			return false
		}
	}
	return true
}

// measure returns the present value v of the metric in an expression. The result "all" is the value
// of the word "all" for this metric. The result "known" is false if the metric has no value yet.
func (r *Run) measure(e *Expr) (v, all float64, known bool) {
	c := &r.totals
	switch e.Metric {
	case "sent":
		return float64(c.sent), 0, true
	case "delivered":
		return float64(c.delivered), float64(c.sent), !e.All || r.state == over
	case "completed":
		return float64(c.completed), 0, true
	case "failed":
		return float64(c.failed), 0, true
	case "lost":
		return float64(c.lost), 0, true
	case "unexplained":
		return float64(c.unexplained), 0, true
	case "duplicated":
		return float64(c.duplicated), 0, true
	case "corrupted":
		return float64(c.corrupted), 0, true
	case "reordered":
		return float64(c.reordered), 0, true
	case "misdirected":
		return float64(c.misdirected), 0, true
	case "overflowed":
		return float64(c.overflowed), 0, true
	case "latency_p50":
		return float64(r.latency.Quantile(0.5)), 0, r.latency.N > 0
	case "latency_p99":
		return float64(r.latency.Quantile(0.99)), 0, r.latency.N > 0
	case "links_up":
		return float64(r.sample.LinksUp), float64(r.cables), r.sampled
	case "members":
		return float64(r.sample.Members), float64(len(r.t.Chips)), r.sampled
	case "dropped":
		return float64(r.dropped[e.Arg]), 0, true
	case "events":
		return float64(r.events[e.Arg]), 0, true
	}
	return r.recovery(e)
}

// recovery returns the longest recovery time of all faults. If the expression names a step,
// recovery returns the longest recovery time of the step's actions. While a pair or link has not
// recovered, the recovery time is the time since the action. The recovery time is infinite if a
// pair has not recovered at the end of the traffic, or a link at the end of the run.
func (r *Run) recovery(e *Expr) (longest, _ float64, known bool) {
	r.recovering = false
	for _, m := range r.marks {
		if e.Step == "" && !m.fault || e.Step != "" && e.Step != m.step {
			continue
		}
		d, still := m.links, m.bad
		if e.Metric == "recovery_packets" {
			if d, still = m.packets, m.waits; m.base == nil {
				continue
			}
		}
		longest, known = max(longest, float64(d)), true
		if still && r.state == over && (e.Metric == "recovery_packets" || r.ending) {
			longest = math.Inf(1)
		}
		r.recovering = r.recovering || still
	}
	return longest, 0, known
}

// judge judges all assertions that are open. If "end" is true, the run has ended, and judge decides
// every open assertion.
func (r *Run) judge(end bool) {
	r.ending = end
	for i := range r.verdicts {
		v, a := &r.verdicts[i], &r.s.Assertions[i]
		if v.Status != Open {
			continue
		}
		r.judgeOne(a, v, end)
		if about := r.latest[a.Expr.Arg]; v.Status == Failed && a.Expr.Metric == "events" && about != "" {
			v.Why = strings.TrimPrefix(v.Why+"; ", "; ") + "the latest event: " + about
		}
	}
}

func (r *Run) judgeOne(a *Assertion, v *Verdict, end bool) {
	from, till := r.moment(a.After), time.Duration(MaxTime)*2
	if a.Until.Text != "" {
		till = r.moment(a.Until)
	}
	if a.Within > 0 {
		till = from + a.Within
	}
	x, all, known := r.measure(&a.Expr)
	holds := known && a.Expr.holds(x, all)
	if a.When == Eventually && strings.HasPrefix(a.Expr.Metric, "recovery") && r.recovering {
		holds = false // the recovery time may still grow
	}
	within := r.now >= from && r.now <= till
	if within && known {
		v.Measured, v.At = a.Expr.show(x, all), seconds(r.now)
	}
	switch a.When {
	case Always:
		switch {
		case within && known && !holds:
			v.Status = Failed
		case (end || r.now > till) && v.Measured == "":
			v.Status, v.Why = Failed, "the metric had no value"
		case end || r.now > till:
			v.Status = Passed
		}
	case Eventually:
		switch {
		case within && holds:
			v.Status = Passed
		case r.now > till || end:
			v.Status, v.At = Failed, seconds(r.now)
			if v.Why = "the condition did not hold in time"; !known {
				v.Why = "the metric had no value"
			}
		}
	case Finally:
		switch {
		case end && holds:
			v.Status = Passed
		case end && !known:
			v.Status, v.Why = Failed, "the metric had no value"
		case end:
			v.Status = Failed
		}
	}
}

// cut returns the text of s before the first blank, and the text after this blank.
func cut(s string) (first, rest string, found bool) { return strings.Cut(s, " ") }
