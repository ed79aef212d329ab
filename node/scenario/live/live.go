// Package live runs scenarios on a fabric of real chips, in real time. Package live is
// one of the two drivers of scenario.Run. The other driver is the simulator, package sim.
//
//	rep, err := live.Run(ctx, live.Config{Scenario: s, Topology: t, Seed: 7})
//
// The fabric is a new fabric, which [Run] makes and removes, or a fabric that runs already.
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

// noClockJump is the reason for skipping a step that moves a clock.
const noClockJump = "skipped (simulator only): no process can move the clock of another process without privilege"

// Driver describes this package as a driver: it names the steps of a scenario that a
// fabric of real chips cannot carry out.
var Driver = scenario.Driver{Name: "live", Verbs: map[scenario.Verb]string{scenario.ClockJump: noClockJump}}

// DefaultTimeout replaces the value 0 of [Config.Timeout].
const DefaultTimeout = time.Minute

// Config holds a scenario to run, and the fabric on which the scenario runs.
type Config struct {
	Scenario *scenario.Scenario
	Seed     uint64 // seed of all choices of the scenario

	// Fabric is a running fabric. After the run, Run ends all faults that the scenario set.
	// If Fabric is nil, Run makes a new fabric with the options of the scenario, and
	// removes this fabric afterwards.
	Fabric *fabric.Fabric

	// Topology, Name and Timeout are for a new fabric. Timeout is the longest time
	// until all links of the new fabric are up.
	Topology *topo.Topology
	Name     string        // name of the new fabric; "": "scenario-" and the number of this process
	Timeout  time.Duration // longest time until all links are up; 0: [DefaultTimeout]

	// Starting may be nil. While a new fabric starts, Run calls Starting with the number
	// of links that are up and the number of all links.
	Starting func(links, of int)
	// Playing may be nil. While the timeline runs, Run calls Playing with the number of
	// actions that are done, the number of all actions, the time since the timeline
	// began and the timeline's length.
	Playing func(done, of int, at, length time.Duration)
}

// Run runs a scenario to its end and judges the scenario's assertions. Run returns an
// error if the scenario could not begin, if ctx ended the run, or if Run could not end
// the faults afterwards. The report holds errors during the run.
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

// start makes a fabric with the options of the scenario, and waits until all links
// are up. If start fails, start removes the fabric.
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

// Spec returns the spec of the fabric for a scenario: the default spec with the
// options that the scenario names.
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

// fits returns an error if an option of the running fabric differs from an option that
// the scenario names.
func fits(s *scenario.Scenario, have *spec.Spec) error {
	want := Spec(&s.Fabric)
	w := &s.Fabric
	for _, x := range []struct {
		key    string // key of the option in the scenario's file
		option string
		named  bool // whether the file names the key
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
			return spec.Usagef("scenario %s wants %s %s, but the running fabric has %s; leave out --running, or start the fabric with --%s %s", s.File, x.key, wants, has, x.option, wants)
		}
	}
	return nil
}
