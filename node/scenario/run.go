package scenario

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// DrainTime is the longest time that packets under way may take to end after the sources have
// stopped. DrainTime is longer than the time after which a chip gives up a flow.
const DrainTime = 15 * time.Second

// Driver describes a driver of runs, and what the driver cannot do.
type Driver struct {
	Name    string            // "live" or "sim"
	Verbs   map[Verb]string   // kinds of actions that the driver cannot carry out, each with the reason
	Metrics map[string]string // metrics that the driver does not have, each with the reason; the key "events(member)" stands for all events of the type member
}

// Sample is what a driver sees of a fabric at one time.
type Sample struct {
	Reports []traffic.Report                        // traffic reports of the chips that answer
	LinksUp int                                     // number of cables whose links are up at both ends
	Members int                                     // number of chips that a chip sees alive, the smallest number over all chips
	Dropped map[wire.FabricNodeID]map[string]uint64 // number of packets that each chip's router has dropped since the chip's start, by reason
}

// OrderKind is a kind of [Order].
type OrderKind uint8

// The kinds of orders.
const (
	NoOrder OrderKind = iota // the driver does nothing
	Begin                    // the driver makes all running chips begin to send, with Order.Spec and Order.Pairs
	Hold                     // the driver makes all running chips stop sending; the chips continue to receive
)

// Order tells a driver what to do with the traffic.
type Order struct {
	Kind  OrderKind
	Spec  traffic.Spec
	Pairs []traffic.Pair
}

// state is a state of the traffic.
type state uint8

const (
	waiting state = iota // the traffic has not begun
	sending
	holding // the chips have stopped sending, and the run waits for the end of all packets under way
	over
)

// Run is one run of a scenario. A Run tells a driver what to do, and gets from the driver samples
// of the fabric and the time. The driver does these steps in a loop:
//
//  1. Carry out each action that [Run.Due] returns, and report the result with [Run.Done].
//  2. Carry out what [Run.Order] says about the traffic.
//  3. At intervals, take a sample of the fabric and call [Run.Observe]. Call [Run.Event] for each
//     event.
//  4. If [Run.Over] returns true, end the loop and call [Run.Report].
type Run struct {
	s      *Scenario
	t      *topo.Topology
	driver Driver
	seed   uint64
	begin  mono.Time
	cables int
	plan   []Action
	next   int
	length time.Duration            // length of the timeline and the traffic
	last   map[string]time.Duration // last time that each step is due, by the step's name

	dead, paused map[wire.FabricNodeID]bool
	tally        *tally
	state        state
	again        bool // a new round is due, because a chip was started or restarted, or a chip that missed the start of this round was resumed
	held         time.Duration
	calm         int // number of consecutive samples in which no packet was under way
	overAt       time.Duration

	now                time.Duration
	sample             Sample
	sampled            bool
	totals             counts
	latency            traffic.Histogram
	dropped            map[string]uint64
	lives              map[wire.FabricNodeID]map[string]uint64 // latest number of dropped packets that each chip reported, by reason
	events             map[string]uint64                       // number of events, by type, by type and action, and by type, action and reason
	latest             map[string]string                       // description of the latest event; the keys are those of the field events
	marks              []*mark
	verdicts           []Verdict
	done               []Entry
	err                error
	recovering, ending bool // recovering: the recovery that the run measured last is not over; ending: the run has ended
}

// New prepares a run of a scenario on a topology. The seed determines all random choices of the
// run. If the topology does not have a link or chip that the scenario names, the error names the
// line.
func New(s *Scenario, t *topo.Topology, seed uint64, d Driver) (*Run, error) {
	r := &Run{s: s, t: t, driver: d, seed: seed, last: map[string]time.Duration{}, dead: map[wire.FabricNodeID]bool{}, paused: map[wire.FabricNodeID]bool{},
		dropped: map[string]uint64{}, lives: map[wire.FabricNodeID]map[string]uint64{}, events: map[string]uint64{}, latest: map[string]string{}}
	var err error
	if r.plan, err = s.plan(t, seed); err != nil {
		return nil, err
	}
	if r.tally, err = newTally(s, t, seed); err != nil {
		return nil, err
	}
	for _, c := range t.Cables {
		if !c.Unused {
			r.cables++
		}
	}
	for i := range r.plan {
		a := &r.plan[i]
		r.length = max(r.length, a.At+a.For)
		if a.Step.Name != "" && !a.Back {
			r.last[a.Step.Name] = a.At
		}
	}
	r.length += tailTime
	if s.Duration > 0 {
		r.length = s.Duration
	}
	if n := len(r.plan); n > 0 && r.plan[n-1].At > r.length {
		a := r.plan[n-1]
		return nil, s.fail(a.Step.Line, "the step is due at %v, after the end of the timeline at %v", a.At, r.length)
	}
	for i := range s.Assertions {
		r.verdicts = append(r.verdicts, r.verdict(&s.Assertions[i]))
	}
	return r, nil
}

// verdict returns the verdict of an assertion at the start of the run: skipped if the driver cannot
// judge the assertion, otherwise open.
func (r *Run) verdict(a *Assertion) Verdict {
	v := Verdict{Line: a.Line, When: a.When.String(), Text: a.String(), Status: Open}
	why := r.driver.Metrics[a.Expr.Metric]
	if why == "" && a.Expr.Metric == "events" {
		kind, _, _ := cut(a.Expr.Arg)
		why = r.driver.Metrics["events("+kind+")"]
	}
	for i := range r.s.Steps { // an assertion that depends on a skipped step is skipped, too
		s := &r.s.Steps[i]
		if why == "" && s.Name != "" && (s.Name == a.Expr.Step || s.Name == a.After.Step || s.Name == a.Until.Step) {
			why = r.driver.Verbs[s.Verb]
		}
	}
	if why != "" {
		v.Status, v.Why = Skipped, why
	}
	return v
}

// Begin starts the timeline. The driver calls Begin when all links are up, and before any traffic.
func (r *Run) Begin(now mono.Time) {
	r.begin = now
	if r.tally == nil {
		r.state = over
	}
}

func (r *Run) at(now mono.Time) time.Duration { return max(now.Sub(r.begin), 0) }

// Seed returns the seed of the random choices.
func (r *Run) Seed() uint64 { return r.seed }

// Next returns the time at which the next action is due. If no action is left, Next returns
// mono.Never.
func (r *Run) Next() mono.Time {
	if r.next == len(r.plan) {
		return mono.Never
	}
	return r.begin.Add(r.plan[r.next].At)
}

// Due returns the next action that is due now. If no action is due, Due returns false. If the
// driver cannot carry out an action, Due records the action as skipped and goes on to the next
// action.
func (r *Run) Due(now mono.Time) (Action, bool) {
	r.now = r.at(now)
	for r.next < len(r.plan) && r.plan[r.next].At <= r.now {
		a := r.plan[r.next]
		r.next++
		if why := r.driver.Verbs[a.Verb]; why != "" {
			r.done = append(r.done, Entry{At: seconds(r.now), What: a.String(), Status: Skipped, Why: why})
			continue
		}
		r.mark(&a)
		for _, n := range a.Chips {
			r.note(a.Verb, n)
		}
		return a, true
	}
	return Action{}, false
}

// note records the state of chip n after an action of kind v.
func (r *Run) note(v Verb, n wire.FabricNodeID) {
	switch v {
	case ChipKill, ChipRestart:
		r.dead[n], r.paused[n] = v == ChipKill, false
		if r.tally != nil && r.tally.excused != nil {
			r.tally.excused[n] = true
		}
	case ChipStart:
		r.dead[n] = false
	case ChipPause, ChipResume:
		r.paused[n] = v == ChipPause
	}
	missed := v == ChipResume && r.tally != nil && r.tally.excused[n] // a round began while the chip was paused
	r.again = r.again || v == ChipStart || v == ChipRestart || missed
}

// Done records that the driver has carried out an action. If err is not nil, the action failed, and
// the run ends.
func (r *Run) Done(now mono.Time, a Action, err error) {
	r.now = r.at(now)
	e := Entry{At: seconds(r.now), What: a.String(), Status: Passed}
	if err != nil {
		e.Status, e.Why = Failed, err.Error()
		r.Fail(err)
	}
	r.done = append(r.done, e)
}

// Fail ends the run. The report will have the error, and the run counts as not passed.
func (r *Run) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Order returns what the driver must do with the traffic now.
func (r *Run) Order(now mono.Time) Order {
	r.now = r.at(now)
	y := r.tally
	switch r.state {
	case waiting:
		return r.round()
	case sending:
		loadOver := y.cfg.Load > 0 && r.now >= r.length
		if !loadOver && !r.again && !(y.cfg.Load == 0 && r.calm > 1 && y.finished()) {
			return Order{}
		}
		r.state, r.held, r.calm = holding, r.now, 0
		return Order{Kind: Hold, Spec: y.spec, Pairs: y.pairs}
	case holding:
		if r.calm < 2 && r.now < r.held+DrainTime {
			return Order{}
		}
		y.end()
		if r.again && (y.cfg.Load == 0 || r.now < r.length) {
			return r.round()
		}
		r.state, r.overAt = over, r.now
		r.totals, r.latency = y.ended, y.latency
	}
	return Order{}
}

// round begins a round of the traffic with all running chips. If no packet is left to send, round
// ends the traffic.
func (r *Run) round() Order {
	y := r.tally
	alive := map[wire.FabricNodeID]bool{}
	for _, c := range r.t.Chips {
		if !r.dead[c.Node] && !r.paused[c.Node] {
			alive[c.Node] = true
		}
	}
	r.again, r.calm = false, 0
	if !y.begin((r.length - r.now).Seconds(), alive) {
		r.state, r.overAt = over, r.now
		return Order{}
	}
	r.state = sending
	return Order{Kind: Begin, Spec: y.spec, Pairs: y.pairs}
}

// Event counts an event of a chip. The parameters "kind", "action" and "reason" are the type,
// action and reason that `ttfabric events` prints; "reason" may be empty. The parameter "about"
// describes the event for reports, in case an assertion on events fails.
func (r *Run) Event(kind, action, reason, about string) {
	keys := []string{kind, kind + " " + action}
	if reason != "" {
		keys = append(keys, kind+" "+action+": "+reason)
		about += ": " + reason
	}
	for _, k := range keys {
		r.events[k]++
		r.latest[k] = about
	}
}

// Observe gets a sample of the fabric, and judges the assertions by the sample.
func (r *Run) Observe(now mono.Time, s Sample) {
	r.now, r.sample, r.sampled = r.at(now), s, true
	if y := r.tally; y != nil && (r.state == sending || r.state == holding) {
		y.observe(s.Reports)
		r.totals, r.latency = y.total(false)
		if y.quiet() && (r.state == holding || y.finished()) {
			r.calm++
		} else {
			r.calm = 0
		}
	}
	for n, reasons := range s.Dropped {
		was := r.lives[n]
		for k, v := range reasons {
			if v >= was[k] {
				v -= was[k]
			} // a smaller number comes from a restarted chip, which counts from 0
			r.dropped[k] += v
			r.dropped[""] += v
		}
		r.lives[n] = reasons
	}
	r.follow()
	r.judge(false)
}

// Over reports whether the run has ended. A run ends when all actions are done, and the timeline
// and the traffic are over. Assertions of the kind eventually with the key "within" must be
// decided, too. A run also ends after [Run.Fail].
func (r *Run) Over(now mono.Time) bool {
	r.now = r.at(now)
	if r.err != nil {
		return true
	}
	if r.next < len(r.plan) || r.state != over || r.now < r.length {
		return false
	}
	for i := range r.s.Assertions {
		if a := &r.s.Assertions[i]; a.When == Eventually && r.verdicts[i].Status == Open && a.Within > 0 && r.now <= r.moment(a.After)+a.Within {
			return false
		}
	}
	return r.sampled
}

// moment returns the time of m since the start of the timeline.
func (r *Run) moment(m Moment) time.Duration {
	if m.Step != "" {
		return r.last[m.Step]
	}
	return m.Time
}

// Progress returns the number of finished actions and the number of all actions. Progress also
// returns the time since the timeline began, and the length of the timeline.
func (r *Run) Progress() (done, actions int, at, length time.Duration) {
	return r.next, len(r.plan), r.now, r.length
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Name returns the scenario's name.
func (r *Run) Name() string { return r.s.Name }
