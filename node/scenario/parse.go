package scenario

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"ttfabric/node/traffic"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// The keys of a scenario file, by the place where the keys are allowed.
var (
	topKeys = []string{"scenario", "description", "topology", "slots", "profile", "order", "ring", "engine", "fabric", "exits", "ttl", "strict_ttl", "frame", "stuck", "stuck_after", "local_first", "seed", "duration",
		"traffic", "timeline", "assertions"}
	trafficKeys   = []string{"pattern", "load", "packets", "size", "window", "planes", "hot", "hot_share"}
	actionKeys    = []string{"link", "netem", "chip", "partition", "heal", "gossip", "clock"}
	stepKeys      = append([]string{"at", "name", "every", "times", "for", "jitter"}, actionKeys...)
	linkKeys      = []string{"down", "up", "reroute", "restore", "for"}
	chipVerbs     = []string{"kill", "start", "restart", "pause", "resume"}
	assertionKeys = []string{"always", "eventually", "finally", "within", "after", "until"}
)

// Parse parses data, the content of a scenario file. The parameter "file" is the path of the file.
// Parse takes the scenario's name from the path, and puts the path into errors. The error is an
// [*Error] that names the line. [New] later checks that the topology has the cables and chips that
// the file names.
func Parse(file string, data []byte) (*Scenario, error) {
	r := &reader{path: file}
	base := path.Base(file)
	s := &Scenario{File: file, Name: strings.TrimSuffix(strings.TrimSuffix(base, path.Ext(base)), ".")}
	if len(data) > MaxFile {
		r.fail(0, "the file has %d bytes; want at most %d bytes", len(data), MaxFile)
		return nil, r.err
	}
	root := r.root(data)
	if r.err != nil {
		return nil, r.err
	}
	top := r.fields(root, "the file", topKeys)
	if r.err == nil && top["scenario"] == nil {
		r.fail(root.Line, "the file has no key scenario; add 'scenario: %d', the version of the file format", Version)
	}
	if v := top["scenario"]; r.err == nil && v.Value != fmt.Sprint(Version) {
		r.fail(v.Line, "scenario: %s: this program reads only version %d of the file format", kindOf(v), Version)
	}
	s.Description = strings.TrimSpace(r.text(top["description"], "description"))
	s.Fabric = r.fabric(top)
	if n := top["seed"]; n != nil {
		v := r.count(n, "seed", 0, 1<<64-1)
		s.Seed = &v
	}
	s.Duration = r.time(top["duration"], "duration", time.Millisecond, MaxTime)
	s.Traffic = r.traffic(top["traffic"])
	for _, n := range r.list(top["timeline"], "timeline", MaxSteps) {
		s.Steps = append(s.Steps, r.step(n))
	}
	names := []string{}
	for i := range s.Steps {
		if n := s.Steps[i].Name; n != "" && slices.Contains(names, n) {
			r.fail(s.Steps[i].Line, "two steps have the name %q", n)
		} else if n != "" {
			names = append(names, n)
		}
	}
	for _, n := range r.list(top["assertions"], "assertions", MaxAssertions) {
		s.Assertions = append(s.Assertions, r.assertion(n, names))
	}
	if r.err == nil && len(s.Assertions) == 0 {
		r.fail(root.Line, "the file has no assertion; add assertions, such as '- always: duplicated == 0'")
	}
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

func (r *reader) fabric(top map[string]*yaml.Node) Fabric {
	var slots []string
	for _, p := range router.SlotProfiles {
		slots = append(slots, p.Name)
	}
	var engines []string
	for _, e := range route.Engines {
		engines = append(engines, e.Name)
	}
	return Fabric{
		Topology: r.text(top["topology"], "topology"),
		Slots:    r.oneOf(top["slots"], "slots", slots...),
		Profile:  r.oneOf(top["profile"], "profile", ttlink.ProfileLAN.Name, ttlink.ProfileCrowded.Name),
		Order:    r.oneOf(top["order"], "order", "xy", "yx", "none"),
		Ring:     r.oneOf(top["ring"], "ring", "dateline", "bubble", "none"),
		Engine:   r.oneOf(top["engine"], "engine", engines...),
		Exits:    r.oneOf(top["exits"], "exits", "shortest", "printed"), Dimensions: r.oneOf(top["fabric"], "fabric", "1d", "2d"),
		TTL: int(r.count(top["ttl"], "ttl", 1, 1<<16-1)), StrictTTL: r.yes(top["strict_ttl"], "strict_ttl"),
		Frame: int(r.count(top["frame"], "frame", ttlink.MinPayload, wire.MaxFramePayload)),
		Stuck: r.stuck(top["stuck"]), StuckAfter: r.time(top["stuck_after"], "stuck_after", time.Millisecond, MaxTime), LocalFirst: r.yes(top["local_first"], "local_first"),
	}
}

// stuck reads the key "stuck", which says what a chip does about packets that cannot move.
func (r *reader) stuck(n *yaml.Node) string {
	s := r.text(n, "stuck")
	if _, err := router.ParseTimeout(s); n != nil && err != nil {
		r.fail(n.Line, "stuck %v", err)
	}
	return s
}

func (r *reader) traffic(n *yaml.Node) *Traffic {
	if n == nil {
		return nil
	}
	f := r.fields(n, "traffic", trafficKeys)
	t := &Traffic{Line: n.Line, Pattern: r.text(f["pattern"], "pattern"), Hot: r.text(f["hot"], "hot"),
		Load:    r.number(f["load"], "load", traffic.MinLoad, traffic.MaxLoad),
		Packets: r.count(f["packets"], "packets", 1, traffic.MaxPackets),
		Size:    int(r.count(f["size"], "size", traffic.MinSize, traffic.MaxSize)),
		Window:  int(r.count(f["window"], "window", 1, traffic.MaxWindow)),
		Planes:  int(r.count(f["planes"], "planes", 1, 16)), HotShare: int(r.count(f["hot_share"], "hot_share", 1, 100))}
	if t.Pattern == "" {
		t.Pattern = traffic.Patterns[0].Name
	}
	if _, err := traffic.PatternByName(t.Pattern); err != nil {
		line, names := n.Line, []string{}
		if p := f["pattern"]; p != nil {
			line = p.Line
		}
		for _, p := range traffic.Patterns {
			names = append(append(names, p.Name), p.Aliases...)
		}
		r.fail(line, "pattern %q%s", t.Pattern, orList(nearest(t.Pattern, names), names))
	}
	if t.Load > 0 && t.Packets > 0 {
		r.fail(n.Line, "traffic has both load and packets; give either the load, with which chips send until the duration is over, or the number of packets")
	}
	if t.Load == 0 && t.Packets == 0 {
		t.Load = DefaultLoad
	}
	if t.Size == 0 {
		t.Size = DefaultSize
	}
	return t
}

// step reads one entry of the timeline.
func (r *reader) step(n *yaml.Node) Step {
	f := r.fields(n, "the step", stepKeys)
	s := Step{Line: n.Line, Name: r.text(f["name"], "name"), At: r.time(f["at"], "at", 0, MaxTime), Every: r.time(f["every"], "every", MinEvery, MaxTime),
		Times: int(r.count(f["times"], "times", 1, MaxActions)), For: r.time(f["for"], "for", MinEvery, MaxTime), Jitter: r.time(f["jitter"], "jitter", 0, MaxTime)}
	var what []string
	for _, k := range actionKeys {
		if f[k] != nil {
			what = append(what, k)
		}
	}
	switch {
	case r.err != nil:
		return s
	case len(what) == 0:
		r.fail(n.Line, "the step has no action; want one of %s", strings.Join(actionKeys, ", "))
		return s
	case len(what) > 1:
		r.fail(n.Line, "the step has %s, but a step has only one action; make two steps", strings.Join(what, " and "))
		return s
	case s.Every == 0 && f["at"] == nil:
		r.fail(n.Line, "the step has no time; add 'at: 2s', or 'every: 2s' with 'for' or 'times'")
	case s.Every > 0 && (s.Times == 0) == (s.For == 0):
		r.fail(n.Line, "every %v: want either 'for', the time during which the step is repeated, or 'times', the number of repetitions", s.Every)
	case s.Every == 0 && (s.Times > 0 || s.For > 0):
		r.fail(n.Line, "a step can have 'for' and 'times' only with 'every'; to end a fault, write 'for' within %s", what[0])
	case s.For/max(s.Every, 1) > MaxActions:
		r.fail(n.Line, "every %v for %v: these are more than %d repetitions", s.Every, s.For, MaxActions)
	}
	r.action(&s, what[0], f[what[0]])
	return s
}

// action reads the action of a step.
func (r *reader) action(s *Step, what string, n *yaml.Node) {
	switch what {
	case "link":
		f := r.fields(n, what, linkKeys)
		s.Verb = r.verb(s, n, f, what, map[string]Verb{"down": LinkDown, "up": LinkUp, "reroute": LinkReroute, "restore": LinkRestore})
		s.Last = r.time(f["for"], "for", time.Millisecond, MaxTime)
		if s.Last > 0 && !s.Verb.harms() {
			r.fail(n.Line, "%s cannot have 'for'", s.Verb)
		}
	case "chip":
		f := r.fields(n, what, append([]string{"for"}, chipVerbs...))
		s.Verb = r.verb(s, n, f, what, map[string]Verb{"kill": ChipKill, "start": ChipStart, "restart": ChipRestart, "pause": ChipPause, "resume": ChipResume})
		s.Last = r.time(f["for"], "for", time.Millisecond, MaxTime)
		if s.Last > 0 && s.Verb != ChipKill && s.Verb != ChipPause {
			r.fail(n.Line, "%s cannot have 'for'", s.Verb)
		}
	case "netem":
		r.netem(s, n)
	case "partition":
		f := r.fields(n, what, []string{"chips", "from", "for"})
		s.Verb, s.Partition, s.Target, s.Other = LinkDown, true, r.text(f["chips"], "chips"), r.text(f["from"], "from")
		s.Last = r.time(f["for"], "for", time.Millisecond, MaxTime)
		if s.Target == "" {
			r.fail(n.Line, "partition has no chips; name the chips of one side, such as 'chips: M0D0,M0D4'")
		}
	case "heal":
		s.Verb, s.Target = LinkUp, r.oneOf(n, what, "all")
	case "gossip":
		f := r.fields(n, what, []string{"chips", "delay", "loss", "down", "for"})
		s.Verb, s.Target = GossipSet, r.text(f["chips"], "chips")
		s.Gossip = Gossip{Down: r.yes(f["down"], "down"), Delay: r.time(f["delay"], "delay", 0, fault.MaxDelay), Loss: r.text(f["loss"], "loss")}
		s.Last = r.time(f["for"], "for", time.Millisecond, MaxTime)
		if f["loss"] != nil {
			if _, err := (fault.Change{"loss": s.Gossip.Loss}).Apply(fault.Options{}); err != nil {
				r.fail(f["loss"].Line, "gossip %v", err)
			}
		}
		if s.Target == "" {
			s.Target = "*"
		}
	case "clock":
		f := r.fields(n, what, []string{"chips", "jump"})
		s.Verb, s.Target, s.Jump = ClockJump, r.text(f["chips"], "chips"), r.time(f["jump"], "jump", time.Millisecond, MaxTime)
		if s.Target == "" || s.Jump == 0 {
			r.fail(n.Line, "clock needs chips, and a time by which the clocks of the chips jump, such as 'clock: {chips: M0D3, jump: 5s}'")
		}
	}
}

// verb returns the kind of an action, and sets s.Target. The map f has the keys of the action, and
// known has the kind that each key stands for.
func (r *reader) verb(s *Step, n *yaml.Node, f map[string]*yaml.Node, what string, known map[string]Verb) (v Verb) {
	names := []string{}
	for k := range known {
		names = append(names, k)
		if f[k] != nil {
			if v != 0 {
				r.fail(n.Line, "%s has two actions; make two steps", what)
			}
			v, s.Target = known[k], r.text(f[k], k)
		}
	}
	if slices.Sort(names); v == 0 {
		r.fail(n.Line, "%s has no action; want one of %s", what, strings.Join(names, ", "))
	}
	return v
}

// netem reads an action on impairments. The names of the impairments are those of `ttfabric netem
// set`.
func (r *reader) netem(s *Step, n *yaml.Node) {
	keys := []string{"set", "reset", "direction", "seed", "for"}
	for _, k := range fault.Knobs {
		keys = append(keys, k.Name)
	}
	f := r.fields(n, "netem", keys)
	s.Verb = r.verb(s, n, f, "netem", map[string]Verb{"set": NetemSet, "reset": NetemReset})
	s.Last = r.time(f["for"], "for", time.Millisecond, MaxTime)
	s.Direction = "both"
	if f["direction"] != nil {
		s.Direction = r.oneOf(f["direction"], "direction", "both", "a-to-b", "b-to-a")
	}
	if f["seed"] != nil {
		v := r.count(f["seed"], "seed", 0, 1<<64-1)
		s.Dice = &v
	}
	s.Netem = fault.Change{}
	for _, k := range fault.Knobs {
		if v := f[k.Name]; v != nil {
			c := fault.Change{k.Name: r.text(v, k.Name)}
			if _, err := c.Apply(fault.Options{}); err != nil {
				r.fail(v.Line, "netem %v", err)
			}
			s.Netem[k.Name] = c[k.Name]
		}
	}
	switch {
	case s.Verb == NetemSet && len(s.Netem) == 0 && s.Dice == nil:
		r.fail(n.Line, "netem set has no impairment; add an impairment, such as 'loss: 1%%'")
	case s.Verb == NetemReset && len(f) > 1:
		r.fail(n.Line, "netem reset ends all impairments and cannot have other keys")
	}
}

// assertion reads one assertion. The parameter "steps" has the names of all steps.
func (r *reader) assertion(n *yaml.Node, steps []string) Assertion {
	f := r.fields(n, "the assertion", assertionKeys)
	a := Assertion{Line: n.Line, Within: r.time(f["within"], "within", time.Millisecond, MaxTime), After: r.moment(f["after"], "after", steps), Until: r.moment(f["until"], "until", steps)}
	for _, w := range []When{Always, Eventually, Finally} {
		if v := f[w.String()]; v != nil {
			if a.When != 0 {
				r.fail(n.Line, "the assertion has both %s and %s; make two assertions", a.When, w)
			}
			a.When, a.Text = w, strings.Join(strings.Fields(r.text(v, w.String())), " ")
			var err error
			if a.Expr, err = ParseExpr(a.Text); err != nil {
				r.fail(v.Line, "%s: %v", w, err)
			}
		}
	}
	switch {
	case r.err != nil:
	case a.When == 0:
		r.fail(n.Line, "the assertion has no condition; want always, eventually or finally")
	case a.Within > 0 && a.When != Eventually:
		r.fail(n.Line, "only eventually can have 'within'")
	case a.Until.Text != "" && a.When != Always:
		r.fail(n.Line, "only always can have 'until'; eventually can have 'within'")
	case a.After.Text != "" && a.When == Finally:
		r.fail(n.Line, "finally cannot have 'after', because the condition is judged at the end")
	case a.Expr.Step != "" && !slices.Contains(steps, a.Expr.Step):
		r.fail(n.Line, "%s: no step has the name %q%s", a.Text, a.Expr.Step, nearStep(a.Expr.Step, steps))
	}
	return a
}

// moment reads a time or the name of a step.
func (r *reader) moment(n *yaml.Node, what string, steps []string) Moment {
	m := Moment{Text: r.text(n, what)}
	if n == nil || r.err != nil {
		return m
	}
	if slices.Contains(steps, m.Text) {
		m.Step = m.Text
		return m
	}
	d, err := time.ParseDuration(m.Text)
	if err != nil || d < 0 || d > MaxTime {
		r.fail(n.Line, "%s %q: want a time such as 2s, or the name of a step%s", what, m.Text, nearStep(m.Text, steps))
	}
	m.Time = d
	return m
}

func nearStep(word string, steps []string) string {
	if len(steps) == 0 {
		return "; no step has a name"
	}
	return orList(nearest(word, steps), steps)
}
