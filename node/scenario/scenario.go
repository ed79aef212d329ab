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
	MaxTime       = 24 * time.Hour // of anything in it
	MaxActions    = 20_000         // that all steps come to, each time that a repeated one is due counted
	MinEvery      = 10 * time.Millisecond
	Version       = 1 // of the format
)

// Defaults of a file.
const (
	DefaultSize    = 256              // bytes of a packet's payload
	DefaultLoad    = 200              // packets per second and source
	tailTime       = time.Second      // of traffic behind the last action where duration is not given
	DefaultStuck   = "notify"         // see Fabric.Stuck
	DefaultStuckIn = 10 * time.Second // see Fabric.StuckAfter
)

// Scenario is a file as it was read.
type Scenario struct {
	Name        string // of the file, without its folder and ending
	File        string // for messages
	Description string
	Fabric      Fabric
	Seed        *uint64       // of the choices; nil: the file names none
	Duration    time.Duration // of the timeline and the traffic; 0: a second behind the last action
	Traffic     *Traffic      // nil: none
	Steps       []Step
	Assertions  []Assertion
}

// Thin is the scenario with a share of its traffic, from 0 to 1: for a look that is to be quick.
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

// Fabric is the machine, and how it is started. "" and 0 are what `ttfabric up` does without the flag of that name.
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

// Unsafe reports whether the routes are ones that can deadlock, which is then what the scenario is about.
func (f *Fabric) Unsafe() bool { return f.Order == "none" || f.Ring == "none" }

// Traffic is what the chips send each other while the timeline runs.
type Traffic struct {
	Line     int
	Pattern  string
	Load     float64 // packets per second and source until the duration is over; 0: Packets
	Packets  uint64  // in all, as fast as Window allows
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
	LinkDown // partitions as well
	LinkUp   // heals as well
	ChipKill
	ChipStart
	ChipRestart
	ChipPause
	ChipResume
	GossipSet
	ClockJump
)

var verbs = [...]string{"", "netem set", "netem reset", "link down", "link up", "chip kill", "chip start", "chip restart", "chip pause", "chip resume", "gossip", "clock jump"}

// String is the verb as the command line has it.
func (v Verb) String() string { return verbs[v] }

// harms reports whether a verb is a fault, and not the end of one.
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
	Times  int           // with Every: how often; 0: until Until
	For    time.Duration // with Every: how long from At on
	Jitter time.Duration // each time is earlier or later by up to this

	Verb      Verb
	Target    string        // cables or chips, as written
	Other     string        // of a partition: the second set
	Partition bool          // Target and Other are chips, and the cables between them are meant
	Last      time.Duration // after which it is taken back; 0: it stays
	Netem     fault.Change  // of NetemSet
	Dice      *uint64       // of NetemSet: throws the dice anew
	Direction string        // of NetemSet: both, a-to-b, b-to-a
	Gossip    Gossip        // of GossipSet
	Jump      time.Duration // of ClockJump
}

// Gossip is what is done to the membership traffic of a chip.
type Gossip struct {
	Down  bool // none passes
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
	For    time.Duration // after which whoever does it takes it back; 0: it stays. Of chips the engine does it itself
	Number int           // of the action in the run, from 0
	Back   bool          // it takes back what the step has done
}

// When says when an assertion is judged.
type When uint8

// The kinds of assertion.
const (
	Always     When = iota + 1 // at each sample, and at the end
	Eventually                 // at one sample within a time
	Finally                    // at the end
)

var whens = [...]string{"", "always", "eventually", "finally"}

// String is the key of the kind.
func (w When) String() string { return whens[w] }

// Assertion is one condition.
type Assertion struct {
	Line   int
	When   When
	Text   string        // as written
	Expr   Expr          // Text, read
	Within time.Duration // of Eventually: after After; 0: until the end
	After  Moment        // from when on it counts
	Until  Moment        // of Always: till when
}

// String is the assertion in a line.
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
	Text string // as written; "" for none
	Time time.Duration
	Step string // "" for a time
}
