package scenario

import (
	"math"
	"time"

	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Limits of a file.
const (
	MaxFile       = 1 << 20        // bytes
	MaxSteps      = 1000           // of a timeline
	MaxAssertions = 1000           // of a scenario
	MaxTime       = 24 * time.Hour // longest time in a file
	MaxActions    = 20_000         // actions of all steps together, counting each repetition of a step
	MinEvery      = 10 * time.Millisecond
	Version       = 1 // of the format
)

// Defaults of a file.
const (
	DefaultSize    = 256              // bytes of a packet's payload
	DefaultLoad    = 200              // packets per second and source
	tailTime       = time.Second      // of traffic after the last action, if the file gives no duration
	DefaultStuck   = "notify"         // see Fabric.Stuck
	DefaultStuckIn = 10 * time.Second // see Fabric.StuckAfter
)

// Scenario is a file as it was read.
type Scenario struct {
	Name        string // name of the file, without folder and ending
	File        string // for messages
	Description string
	Fabric      Fabric
	Seed        *uint64       // seed of the choices; nil: the file names none
	Duration    time.Duration // of the timeline and the traffic; 0: until a second after the last action
	Traffic     *Traffic      // nil: none
	Steps       []Step
	Assertions  []Assertion
}

// Thin is the scenario with a share of its traffic, from 0 to 1, for a quick run.
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

// Fabric is the machine and its options. "" and 0 have the effect of `ttfabric up` without the flag
// of that name.
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

// Unsafe reports whether the routes can deadlock. Such a scenario is about deadlocks.
func (f *Fabric) Unsafe() bool { return f.Order == "none" || f.Ring == "none" }

// Traffic is what the chips send to each other while the timeline runs.
type Traffic struct {
	Line     int
	Pattern  string
	Load     float64 // packets per second and source until the duration is over; 0: use Packets
	Packets  uint64  // packets in all, as fast as Window allows
	Size     int     // bytes
	Window   int
	Planes   int
	Hot      string
	HotShare int
}

// Verb is what an action does.
type Verb uint8

// The verbs.
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

// String is the verb as on the command line.
func (v Verb) String() string { return verbs[v] }

// harms reports whether a verb is a fault, not the end of a fault.
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
	Name   string // for assertions; may be ""
	At     time.Duration
	Every  time.Duration // 0: once
	Times  int           // with Every: how often; 0: until For is over
	For    time.Duration // with Every: how long from At on
	Jitter time.Duration // each time is earlier or later by up to this much

	Verb      Verb
	Target    string        // cables or chips, as written in the file
	Other     string        // for a partition: the second set
	Partition bool          // Target and Other are chips; the action concerns the cables between them
	Last      time.Duration // time after which the action is undone; 0: it stays
	Netem     fault.Change  // for NetemSet
	Dice      *uint64       // for NetemSet: restarts the random numbers
	Direction string        // for NetemSet: both, a-to-b, b-to-a
	Gossip    Gossip        // for GossipSet
	Jump      time.Duration // for ClockJump
}

// Gossip is the impairment of a chip's membership traffic.
type Gossip struct {
	Down  bool // no gossip passes
	Delay time.Duration
	Loss  string // a percentage such as "30%"; "" for none
}

// Action is something to do now: a step with its choices made.
type Action struct {
	At     time.Duration // since the begin of the timeline
	Step   *Step
	Verb   Verb
	Links  []topo.Link
	Chips  []wire.FabricNodeID
	For    time.Duration // time after which the driver undoes the action; 0: it stays. For chips, the Run itself undoes it
	Number int           // number of the action in the run, from 0
	Back   bool          // the action undoes what the step did
}

// When says when an assertion is judged.
type When uint8

// The kinds of assertion.
const (
	Always     When = iota + 1 // at each sample, and at the end
	Eventually                 // at one sample within the given time
	Finally                    // at the end
)

var whens = [...]string{"", "always", "eventually", "finally"}

// String is the key of the kind.
func (w When) String() string { return whens[w] }

// Assertion is one condition.
type Assertion struct {
	Line   int
	When   When
	Text   string        // as written in the file
	Expr   Expr          // the parsed Text
	Within time.Duration // for Eventually: time after After; 0: until the end
	After  Moment        // when the assertion's period begins
	Until  Moment        // for Always: when the period ends
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
	Text string // as written in the file; "" for none
	Time time.Duration
	Step string // the step's name; "" for a time
}
