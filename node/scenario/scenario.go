package scenario

import (
	"math"
	"time"

	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Limits of a scenario file.
const (
	MaxFile       = 1 << 20        // largest file, in bytes
	MaxSteps      = 1000           // largest number of steps in a timeline
	MaxAssertions = 1000           // largest number of assertions in a scenario
	MaxTime       = 24 * time.Hour // longest time in a file
	MaxActions    = 20_000         // actions of all steps together, counting each repetition of a step
	MinEvery      = 10 * time.Millisecond
	Version       = 1 // version of the file format
)

// Values of keys that a file does not have.
const (
	DefaultSize    = 256              // bytes of a packet's payload
	DefaultLoad    = 200              // load of each source, in packets per second
	tailTime       = time.Second      // length of the traffic after the last action if the file gives no duration
	DefaultStuck   = "notify"         // see Fabric.Stuck
	DefaultStuckIn = 10 * time.Second // see Fabric.StuckAfter
)

// Scenario is what Parse has read from a file.
type Scenario struct {
	Name        string // name of the file without its folder and its ending
	File        string // path of the file, for messages
	Description string
	Fabric      Fabric
	Seed        *uint64       // seed of the choices; nil: the file names none
	Duration    time.Duration // length of the timeline and the traffic; 0: until a second after the last action
	Traffic     *Traffic      // nil: the scenario has no traffic
	Steps       []Step
	Assertions  []Assertion
}

// Thin returns the scenario with a share of its traffic, from 0 to 1. A quick run uses Thin.
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

// Fabric is the machine and its options. A field that is "" or 0 has the same effect as `ttfabric
// up` without the flag of that name.
type Fabric struct {
	Topology   string
	Slots      string
	Profile    string
	Order      string
	Ring       string
	Engine     string
	Stuck      string
	StuckAfter time.Duration
	TTL        int
	LocalFirst bool
}

// Unsafe reports whether the routes can deadlock. A scenario with such routes tests deadlocks.
func (f *Fabric) Unsafe() bool { return f.Order == "none" || f.Ring == "none" }

// Traffic describes the packets that the chips send to each other while the timeline runs.
type Traffic struct {
	Line     int
	Pattern  string
	Load     float64 // packets per second and source until the duration is over; 0: Packets applies
	Packets  uint64  // packets in total, sent as fast as Window allows
	Size     int     // length of a packet in bytes
	Window   int
	Planes   int
	Hot      string
	HotShare int
}

// Verb is what an action does.
type Verb uint8

// The verbs of actions.
const (
	NetemSet Verb = iota + 1
	NetemReset
	LinkDown // also used for partitions
	LinkUp   // also used to heal partitions
	ChipKill
	ChipStart
	ChipRestart
	ChipPause
	ChipResume
	GossipSet
	ClockJump
)

var verbs = [...]string{"", "netem set", "netem reset", "link down", "link up", "chip kill", "chip start", "chip restart", "chip pause", "chip resume", "gossip", "clock jump"}

// String returns the verb as the command line writes it.
func (v Verb) String() string { return verbs[v] }

// harms reports whether a verb is a fault. A verb that ends a fault is not a fault.
func (v Verb) harms() bool {
	switch v {
	case NetemReset, LinkUp, ChipStart, ChipResume:
		return false
	}
	return true
}

// Step is one entry of the timeline.
type Step struct {
	Line   int
	Name   string // name to which assertions refer; may be ""
	At     time.Duration
	Every  time.Duration // 0: the step is due once
	Times  int           // with Every: how often the step is due; 0: until For is over
	For    time.Duration // with Every: for how long the step is repeated, from At on
	Jitter time.Duration // each repetition is earlier or later by up to this time

	Verb      Verb
	Target    string        // cables or chips, as written in the file
	Other     string        // for a partition: the second set of chips
	Partition bool          // Target and Other are chips; the action concerns the cables between them
	Last      time.Duration // time after which the run undoes the action; 0: the action stays in force
	Netem     fault.Change  // for NetemSet: changes to the impairment
	Dice      *uint64       // for NetemSet: seed that restarts the random numbers
	Direction string        // for NetemSet: direction of the impairment: both, a-to-b or b-to-a
	Gossip    Gossip        // for GossipSet: the impairment
	Jump      time.Duration // for ClockJump: time by which the clocks jump ahead
}

// Gossip is the impairment of a chip's membership traffic.
type Gossip struct {
	Down  bool // no gossip passes
	Delay time.Duration
	Loss  string // a percentage such as "30%"; "" for none
}

// Action is an action that is due: a step with its choices made.
type Action struct {
	At     time.Duration // time since the begin of the timeline
	Step   *Step
	Verb   Verb
	Links  []topo.Link
	Chips  []wire.FabricNodeID
	For    time.Duration // time after which the driver undoes the action; 0: the action stays in force. Actions on chips have 0, because the Run itself undoes them
	Number int           // number of the action in the run, from 0
	Back   bool          // the action undoes an earlier action of its step
}

// When says when the run judges an assertion.
type When uint8

// The kinds of assertions.
const (
	Always     When = iota + 1 // the condition holds at each sample, and at the end
	Eventually                 // the condition holds at one sample within the given time
	Finally                    // the condition holds at the end
)

var whens = [...]string{"", "always", "eventually", "finally"}

// String returns the key of the kind in the file.
func (w When) String() string { return whens[w] }

// Assertion is one condition.
type Assertion struct {
	Line   int
	When   When
	Text   string        // text of the condition in the file
	Expr   Expr          // the condition that Text states
	Within time.Duration // for Eventually: time after the field After; 0: until the end
	After  Moment        // when the assertion's period begins
	Until  Moment        // for Always: when the assertion's period ends
}

// String describes the assertion in one line.
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

// Moment is an instant of the timeline: a time, or the last time that a step is due.
type Moment struct {
	Text string // text of the moment in the file; "": the file has no such key
	Time time.Duration
	Step string // the step's name; "": the moment is a time
}
