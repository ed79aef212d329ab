package scenario

import (
	"cmp"
	"math"
	"strings"
	"time"

	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Limits of a scenario file.
const (
	MaxFile       = 1 << 20               // largest file, in bytes
	MaxSteps      = 1000                  // largest number of steps in a timeline
	MaxAssertions = 1000                  // largest number of assertions in a scenario
	MaxTime       = 24 * time.Hour        // longest time in a file
	MaxActions    = 20_000                // largest number of actions of all steps together; each repetition of a step counts
	MinEvery      = 10 * time.Millisecond // shortest time between two repetitions of a step
	Version       = 1                     // version of the file format
)

// Defaults of keys that a file need not have.
const (
	DefaultSize    = 256              // bytes of a packet's payload
	DefaultLoad    = 200              // load of each source, in packets per second
	tailTime       = time.Second      // length of the traffic after the end of the last action, if the file has no key duration
	DefaultStuck   = "notify"         // default of Fabric.Stuck
	DefaultStuckIn = 10 * time.Second // default of Fabric.StuckAfter
)

// Scenario is the content of a scenario file, as [Parse] returns it.
type Scenario struct {
	Name        string // name of the file, without folder and ending
	File        string // path of the file, for messages
	Description string
	Fabric      Fabric
	Seed        *uint64       // seed of all random choices; nil: the file has no seed
	Duration    time.Duration // length of the timeline and the traffic; 0: the timeline ends a second after the last action is over
	Traffic     *Traffic      // nil: the scenario has no traffic
	Steps       []Step
	Assertions  []Assertion
}

// Thin returns a copy of the scenario with less traffic, for a quick run. The parameter "share" is
// the share of the traffic to keep, from 0 to 1.
func (s *Scenario) Thin(share float64) *Scenario {
	c := *s
	if s.Traffic != nil {
		t := *s.Traffic
		t.Load *= share
		t.Packets = uint64(math.Ceil(float64(t.Packets) * share))
		c.Traffic = &t
	}
	return &c
}

// Fabric names the topology and the options of the fabric for a scenario. If a field is "" or 0,
// the option has the default of `ttfabric up`.
type Fabric struct {
	Topology   string
	Slots      string
	Profile    string
	Order      string
	Ring       string
	Engine     string
	Stuck      string
	StuckAfter time.Duration
	Exits      string
	Dimensions string // value of the key fabric: 1d or 2d
	TTL        int
	StrictTTL  bool
	Frame      int
	LocalFirst bool
}

// Unsafe reports whether the scenario chooses routes that can deadlock.
func (f *Fabric) Unsafe() bool { return f.Order == "none" || f.Ring == "none" }

// Route returns the configuration of the routes. Route returns an error if a field has an unknown value.
func (f *Fabric) Route() (cfg route.Config, err error) {
	cfg.Engine, cfg.Lines = f.Engine, f.Dimensions == "1d"
	if cfg.Order, err = route.ParseOrder(cmp.Or(f.Order, "xy")); err != nil {
		return cfg, err
	}
	if cfg.Ring, err = route.ParseRing(cmp.Or(f.Ring, "dateline")); err != nil {
		return cfg, err
	}
	cfg.Exits, err = route.ParseExits(cmp.Or(f.Exits, route.ShortestExits.String()))
	return cfg, err
}

// Traffic describes the packets that the chips send to each other while the timeline runs.
type Traffic struct {
	Line     int     // line of the key traffic in the file
	Pattern  string  // a name of traffic.Patterns
	Load     float64 // packets per second that each source is to send until the duration is over; 0: Packets applies
	Packets  uint64  // number of packets of all sources, sent as fast as Window allows; 0: Load applies
	Size     int     // length of a packet's payload in bytes
	Window   int     // largest number of packets that each source has under way; 0: the default
	Planes   int     // number of routing planes that packets use; 0: all planes
	Hot      string  // chip of the hotspot pattern; "": the first chip
	HotShare int     // percentage of packets that go to Hot in the hotspot pattern; 0: the default
}

// Verb is a kind of action.
type Verb uint8

// The kinds of actions.
const (
	NetemSet Verb = iota + 1
	NetemReset
	LinkDown // also used for partitions
	LinkUp   // also used to heal partitions
	LinkReroute
	LinkRestore
	ChipKill
	ChipStart
	ChipRestart
	ChipPause
	ChipResume
	GossipSet
	ClockJump
)

var verbs = [...]string{"", "netem set", "netem reset", "link down", "link up", "link reroute", "link restore", "chip kill", "chip start", "chip restart", "chip pause", "chip resume", "gossip", "clock jump"}

// String returns the verb as the command line writes it.
func (v Verb) String() string { return verbs[v] }

// harms reports whether an action of this kind is a fault. An action that ends a fault is not a
// fault.
func (v Verb) harms() bool {
	switch v {
	case NetemReset, LinkUp, LinkRestore, ChipStart, ChipResume:
		return false
	}
	return true
}

// Step is one entry of a scenario's timeline.
type Step struct {
	Line   int           // line of the step in the file
	Name   string        // name to which assertions refer; may be ""
	At     time.Duration // time of the first repetition, since the start of the timeline
	Every  time.Duration // time between two repetitions; 0: the step is due once
	Times  int           // number of repetitions, if Every is not 0; 0: the step is repeated until the time For is over
	For    time.Duration // time during which the step is repeated, counted from At, if Every is not 0
	Jitter time.Duration // largest time by which a repetition is earlier or later

	Verb      Verb
	Target    string        // cables or chips, as written in the file
	Other     string        // second set of chips of a partition; "": all other chips
	Partition bool          // the action concerns the cables between the chips Target and the chips Other
	Last      time.Duration // time after which the run undoes the action; 0: the run does not undo the action
	Netem     fault.Change  // for NetemSet: changes to the impairment
	Dice      *uint64       // for NetemSet: seed that restarts the random numbers
	Direction string        // for NetemSet: direction of the impairment: both, a-to-b or b-to-a
	Gossip    Gossip        // for GossipSet: the impairment
	Jump      time.Duration // for ClockJump: time by which the clocks jump ahead
}

// Gossip is an impairment of a chip's gossip.
type Gossip struct {
	Down  bool          // the chip neither sends nor receives gossip
	Delay time.Duration // delay of each datagram; 0: no delay
	Loss  string        // percentage of lost datagrams, such as "30%"; "": no loss
}

// Action is one repetition of a step, with the links or chips that the run chose.
type Action struct {
	At     time.Duration // time since the start of the timeline
	Step   *Step
	Verb   Verb
	Links  []topo.Link         // links of the action; nil: an action on chips
	Chips  []wire.FabricNodeID // chips of the action; nil: an action on links, or an action that can apply to no chip
	For    time.Duration       // time after which the driver undoes the action; 0: the driver does not undo the action. To undo the kill or pause of a chip, or a reroute, the Run returns another action from Due
	Number int                 // number of the action in the run, from 0
	Back   bool                // the action undoes an earlier action of its step
}

// When is the kind of an assertion, which says when the condition must hold.
type When uint8

// The kinds of assertions.
const (
	Always     When = iota + 1 // the condition must hold at each sample, and at the end
	Eventually                 // the condition must hold at one sample of the assertion's period
	Finally                    // the condition must hold at the end of the run
)

var whens = [...]string{"", "always", "eventually", "finally"}

// String returns the key of the kind in scenario files.
func (w When) String() string { return whens[w] }

// Assertion is one condition, and the time at which the condition must hold.
type Assertion struct {
	Line   int           // line of the assertion in the file
	When   When          // kind of the assertion
	Text   string        // text of the condition in the file
	Expr   Expr          // the condition that Text states, parsed
	Within time.Duration // for Eventually: length of the assertion's period; 0: until the end of the run
	After  Moment        // start of the assertion's period
	Until  Moment        // for Always: end of the assertion's period
}

// String returns a description of the assertion in one line.
func (a *Assertion) String() string {
	s := a.When.String() + " " + a.Text
	if a.Within > 0 {
		s += " within " + a.Within.String()
	}
	if a.After.Text != "" {
		s += " after " + a.After.Text
	}
	if a.Until.Text != "" {
		s += " until " + a.Until.Text
	}
	return s
}

// Moment is a time of the timeline, or the last time that a step is due.
type Moment struct {
	Text string        // text of the moment in the file; "": the file does not have the key
	Time time.Duration // time since the start of the timeline, if Step is ""
	Step string        // name of the step; "": the moment is a time
}

// Summary returns the first sentence of a scenario's description.
func Summary(description string) string {
	if i := strings.Index(description, ". "); i >= 0 {
		return description[:i+1]
	}
	return description
}
