package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// planner makes the actions of a timeline from the timeline's steps. All random choices come from
// the seed. The actions for a given seed are therefore the same on every driver.
type planner struct {
	s    *Scenario
	t    *topo.Topology
	rng  *rand.Rand
	due  []Action // actions of the steps, sorted by time
	back []Action // actions that undo earlier actions, except those that the driver undoes, sorted by time
	// dead and paused are the chips that are killed and paused at the time of the present action.
	dead, paused map[wire.FabricNodeID]bool
	turn         map[*Step]int         // number of targets that each step with "next" has used
	cables       map[*Step][]topo.Link // cables that each step's target names
}

// maxPicks is the largest number of cables or chips of one choice.
const maxPicks = 1024

func (s *Scenario) fail(line int, format string, a ...any) error {
	return &Error{s.File, line, fmt.Sprintf(format, a...)}
}

// plan returns all actions of the timeline, in the order of time.
func (s *Scenario) plan(t *topo.Topology, seed uint64) ([]Action, error) {
	p := &planner{s: s, t: t, rng: rand.New(rand.NewPCG(seed, 0x7363656e)), dead: map[wire.FabricNodeID]bool{}, paused: map[wire.FabricNodeID]bool{}, turn: map[*Step]int{}, cables: map[*Step][]topo.Link{}}
	for i := range s.Steps {
		if err := p.spread(&s.Steps[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(p.due, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
	var out []Action
	for len(p.due)+len(p.back) > 0 {
		from := &p.due
		if len(p.due) == 0 || len(p.back) > 0 && p.back[0].At < p.due[0].At {
			from = &p.back
		}
		a := (*from)[0]
		*from = (*from)[1:]
		if err := p.choose(&a); err != nil {
			return nil, err
		}
		a.Number = len(out)
		out = append(out, a)
	}
	return out, nil
}

// spread adds an action to p.due for each repetition of a step.
func (p *planner) spread(s *Step) error {
	times := 1
	switch {
	case s.Every > 0 && s.Times > 0:
		times = s.Times
	case s.Every > 0:
		times = int((s.For + s.Every - 1) / s.Every)
	}
	if len(p.due)+times > MaxActions {
		return p.s.fail(s.Line, "the timeline has more than %d actions", MaxActions)
	}
	for i := range times {
		at := s.At + time.Duration(i)*s.Every
		if s.Jitter > 0 {
			at += time.Duration(p.rng.Int64N(2*int64(s.Jitter)+1)) - s.Jitter
		}
		if at > MaxTime {
			return p.s.fail(s.Line, "the step is due after %v, but a timeline is at most %v long", at, MaxTime)
		}
		p.due = append(p.due, Action{At: max(at, 0), Step: s, Verb: s.Verb, For: s.Last})
	}
	return nil
}

// choose chooses the targets of the present action, and notes which chips the action kills, starts,
// pauses or resumes. If the run must later undo a kill, a pause or a reroute, choose adds the
// action that does this to p.back.
func (p *planner) choose(a *Action) error {
	var err error
	switch {
	case a.Back:
		a.Chips = slices.DeleteFunc(a.Chips, func(n wire.FabricNodeID) bool { return !p.fits(a.Verb, n) })
	case a.Verb >= ChipKill:
		a.Chips, err = p.chips(a.Step)
	case a.Step.Partition:
		if a.Links = p.cables[a.Step]; a.Links == nil {
			a.Links, err = pick.Between(p.t, a.Step.Target, a.Step.Other)
			p.cables[a.Step] = a.Links
		}
	default:
		a.Links, err = p.links(a.Step)
	}
	if err != nil {
		return p.s.fail(a.Step.Line, "%v", err)
	}
	for _, n := range a.Chips {
		switch a.Verb {
		case ChipKill:
			p.dead[n], p.paused[n] = true, false
		case ChipStart, ChipRestart:
			p.dead[n], p.paused[n] = false, false
		case ChipPause:
			p.paused[n] = true
		case ChipResume:
			p.paused[n] = false
		}
	}
	if back := map[Verb]Verb{ChipKill: ChipStart, ChipPause: ChipResume, LinkReroute: LinkRestore}[a.Verb]; back != 0 && a.For > 0 && len(a.Chips)+len(a.Links) > 0 {
		b := Action{At: a.At + a.For, Step: a.Step, Verb: back, Chips: slices.Clone(a.Chips), Links: a.Links, Back: true}
		i := len(p.back)
		for i > 0 && p.back[i-1].At > b.At {
			i--
		}
		p.back = slices.Insert(p.back, i, b)
	}
	return nil
}

// fits reports whether an action of kind v can apply to chip n at the time of the present action.
func (p *planner) fits(v Verb, n wire.FabricNodeID) bool {
	switch v {
	case ChipStart:
		return p.dead[n]
	case ChipResume:
		return p.paused[n]
	case ChipPause, ClockJump:
		return !p.dead[n] && !p.paused[n]
	case ChipKill, ChipRestart, GossipSet:
		return !p.dead[n]
	}
	return true
}

// chance matches choices such as "random", "random 2 of M0D*", "next" and "next of M0D[0-3]".
var chance = regexp.MustCompile(`^(random|next)(?: (\d+))?(?: of (.+))?$`)

// chips returns the chips for the present action of a step. chips leaves out chips to which the
// action cannot apply.
func (p *planner) chips(s *Step) (out []wire.FabricNodeID, err error) {
	how, n, from, err := p.chance(s.Target, "*")
	if err != nil {
		return nil, err
	}
	set, err := pick.Chips(p.t, from)
	if err != nil {
		return nil, err
	}
	var all []wire.FabricNodeID
	for _, c := range p.t.Chips {
		if set[c.Node] && (how == "next" || p.fits(s.Verb, c.Node)) {
			all = append(all, c.Node)
		}
	}
	return slices.DeleteFunc(draw(p, s, how, n, all), func(n wire.FabricNodeID) bool { return !p.fits(s.Verb, n) }), nil
}

// links returns the cables for the present action of a step.
func (p *planner) links(s *Step) ([]topo.Link, error) {
	how, n, from, err := p.chance(s.Target, "all")
	if err != nil {
		return nil, err
	}
	all := p.cables[s]
	if all == nil {
		if all, err = pick.Links(p.t, words(from)); err != nil {
			return nil, err
		}
		p.cables[s] = all
	}
	return draw(p, s, how, n, all), nil
}

// words splits a list of cables, such as "M0D0-M0D1,plane:1", at the commas.
func words(list string) (out []string) {
	for w := range strings.SplitSeq(list, ",") {
		out = append(out, strings.TrimSpace(w))
	}
	return out
}

// chance parses a target that may be a choice. The result "how" is "random", "next", or "" if the
// target is not a choice. The result n is the number of targets to choose. The result from names
// the links or chips to choose from.
func (p *planner) chance(target, all string) (how string, n int, from string, err error) {
	m := chance.FindStringSubmatch(strings.Join(strings.Fields(target), " "))
	if m == nil {
		return "", 0, target, nil
	}
	n, from = 1, all
	if m[2] != "" {
		if n, err = strconv.Atoi(m[2]); err != nil || n < 1 || n > maxPicks {
			return "", 0, "", fmt.Errorf("%q: want a number from 1 to %d", target, maxPicks)
		}
	}
	if m[3] != "" {
		from = m[3]
	}
	return m[1], n, from, nil
}

// draw chooses n of the given values. If how is "random", draw takes values at random. If how is
// "next", draw returns the next values in turn. If how is "", draw returns all values.
func draw[T any](p *planner, s *Step, how string, n int, all []T) []T {
	switch {
	case how == "" || len(all) == 0:
		return all
	case how == "random":
		all = slices.Clone(all)
		p.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all[:min(n, len(all))]
	}
	var out []T
	for range min(n, len(all)) {
		out = append(out, all[p.turn[s]%len(all)])
		p.turn[s]++
	}
	return out
}

// String returns a description of the action in one line, with the chosen links or chips.
func (a *Action) String() string {
	s := a.Step
	var what []string
	for _, l := range a.Links {
		what = append(what, fmt.Sprintf("%s:%d-%s:%d", l.A.Node, l.A.Channel, l.B.Node, l.B.Channel))
	}
	for _, n := range a.Chips {
		what = append(what, n.String())
	}
	const most = 3
	if len(what) > most {
		what = []string{s.Target, fmt.Sprintf("(%d)", len(what))}
	}
	if len(what) == 0 {
		what = []string{"no link or chip"}
	}
	out := a.Verb.String() + " " + strings.Join(what, " ")
	if s.Verb == LinkUp && s.Target == "all" {
		out = fmt.Sprintf("heal all (%d cables)", len(a.Links))
	}
	if s.Partition {
		out = strings.TrimSpace("partition "+s.Target+" "+s.Other) + fmt.Sprintf(" (%d cables)", len(a.Links))
	}
	switch a.Verb {
	case NetemSet:
		for _, k := range sortedKeys(s.Netem) {
			out += " " + k + "=" + s.Netem[k]
		}
		if s.Direction != "both" {
			out += " " + s.Direction
		}
	case GossipSet:
		out += s.Gossip.String()
	case ClockJump:
		out += " by " + s.Jump.String()
	}
	if a.For > 0 {
		out += " for " + a.For.String()
	}
	return out
}

// String returns a description of the impairment, with a blank before each part.
func (g Gossip) String() (s string) {
	if g.Down {
		s += " down"
	}
	if g.Delay > 0 {
		s += " delay=" + g.Delay.String()
	}
	if g.Loss != "" {
		s += " loss=" + g.Loss
	}
	if s == "" {
		return " without impairment"
	}
	return s
}
