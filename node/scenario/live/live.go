// Package live runs scenarios on a fabric of real chips, in real time. It is one
// of the two drivers of scenario.Run; the other driver is the simulator, package sim.
//
//	rep, err := live.Run(ctx, live.Config{Scenario: s, Topology: t, Seed: 7})
//
// The fabric is one that [Run] makes and removes, or a fabric that runs already.
// The package prints nothing.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/scenario"
	"ttfabric/router/topo"
)

// noClockJump is why a step that moves a clock is skipped.
const noClockJump = "skipped (simulator only): no process can move the clock of another one without privilege"

// Driver says what a fabric of real chips cannot do of a scenario.
var Driver = scenario.Driver{Name: "live", Verbs: map[scenario.Verb]string{scenario.ClockJump: noClockJump}}

// DefaultTimeout is [Config.Timeout] where none is given.
const DefaultTimeout = time.Minute

// Config is a scenario to be run, and where.
type Config struct {
	Scenario *scenario.Scenario
	Seed     uint64 // of all choices of the scenario

	// Fabric runs already, and Run puts back what the scenario did to the fabric.
	// nil: Run makes a fabric of its own, as the scenario wants the fabric, and removes the fabric afterwards.
	Fabric *fabric.Fabric

	// Of a fabric of Run's own: its topology, its name, and how long the fabric may
	// take until all links are up.
	Topology *topo.Topology
	Name     string        // "": scenario- and the number of this process
	Timeout  time.Duration // 0: [DefaultTimeout]

	// Starting, if not nil, is told how many links are up, of how many, while a fabric of Run's own starts.
	Starting func(links, of int)
	// Playing, if not nil, is told how many actions of the timeline are done, of how
	// many, and how much of the timeline's length has passed.
	Playing func(done, of int, at, length time.Duration)
}

// Run runs a scenario to its end and judges its assertions. The error is that of
// a scenario that could not begin, that of ctx where ctx ended the run, or that of
// putting the fabric back. What goes wrong in the run is in the report.
func Run(ctx context.Context, c Config) (rep scenario.Report, err error) {
	t := c.Topology
	if c.Fabric != nil {
		t = c.Fabric.Topology
		if err := fits(c.Scenario, &c.Fabric.Spec); err != nil {
			return rep, err
		}
	} else {
		links := spec.Security{}
		links.Settle(t)
		if err := links.Check(); err != nil {
			return rep, err
		}
	}
	run, err := scenario.New(c.Scenario, t, c.Seed, Driver)
	if err != nil {
		return rep, spec.AsUsage(err)
	}
	f, own := c.Fabric, c.Fabric == nil
	if own {
		if f, err = c.start(ctx); err != nil {
			return rep, err
		}
		defer func() { err = errors.Join(err, f.Remove()) }()
	}
	g, err := newStage(f, run)
	if err != nil {
		return rep, err
	}
	if !own {
		defer func() { err = errors.Join(err, g.putBack(context.WithoutCancel(ctx))) }()
	}
	inner, cancel := context.WithCancel(ctx) // ends the streams of events
	defer cancel()
	g.play(inner, c.Playing)
	if ctx.Err() != nil {
		return rep, ctx.Err()
	}
	return run.Report(g.now()), nil
}

// start makes a fabric as the scenario wants it, and waits until all links are up.
// Where that fails, nothing is left of the fabric.
func (c *Config) start(ctx context.Context) (*fabric.Fabric, error) {
	up, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, DefaultTimeout))
	defer cancel()
	w := fabric.Wanted{Name: cmp.Or(c.Name, fmt.Sprintf("scenario-%d", os.Getpid())), Topology: c.Topology, Named: c.Scenario.Fabric.Topology, Spec: Spec(&c.Scenario.Fabric)}
	w.Spec.Settle(c.Topology)
	if w.Spec.Auth == spec.PSK {
		var err error
		if w.PSK, err = folder.NewPSK(up, nil, &w.Spec); err != nil {
			return nil, err
		}
	}
	f, err := fabric.Create(up, w)
	if err != nil {
		return nil, err
	}
	if _, err := f.Up(up, c.Starting, nil); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, errors.Join(err, f.Remove())
	}
	return f, nil
}

// Spec is the fabric that a scenario wants: the default, but for what the scenario names.
func Spec(w *scenario.Fabric) spec.Spec {
	s := spec.Default()
	s.Profile, s.TTL, s.LocalFirst, s.AllowDeadlock = w.Profile, w.TTL, w.LocalFirst, w.Unsafe()
	s.Slots = cmp.Or(w.Slots, s.Slots)
	s.Order = cmp.Or(w.Order, s.Order)
	s.Ring = cmp.Or(w.Ring, s.Ring)
	s.Engine = cmp.Or(w.Engine, s.Engine)
	s.Stuck = cmp.Or(w.Stuck, scenario.DefaultStuck)
	s.StuckAfter = spec.Milliseconds(cmp.Or(w.StuckAfter, scenario.DefaultStuckIn))
	return s
}

// fits refuses a running fabric that is not what a scenario wants.
func fits(s *scenario.Scenario, have *spec.Spec) error {
	want := Spec(&s.Fabric)
	w := &s.Fabric
	for _, x := range []struct {
		key    string // of the scenario's file
		option string
		named  bool // the file names the key
	}{
		{"local_first", "local-first", w.LocalFirst},
		{"slots", "slots", w.Slots != ""},
		{"profile", "profile", w.Profile != ""},
		{"order", "order", w.Order != ""},
		{"ring", "ring", w.Ring != ""},
		{"engine", "engine", w.Engine != ""},
		{"stuck", "stuck", w.Stuck != ""},
		{"ttl", "ttl", w.TTL != 0},
		{"stuck_after", "stuck-after", w.StuckAfter != 0},
	} {
		o := spec.OptionByName(x.option)
		if wants, has := o.Text(&want), o.Text(have); x.named && wants != has {
			return spec.Usagef("%s wants %s %s, and the running fabric has %s; leave --running out, or start the fabric with --%s %s", s.File, x.key, wants, has, x.option, wants)
		}
	}
	return nil
}
