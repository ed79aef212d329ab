// Package live runs scenarios on a fabric of real chips, in real time. Package live is one
// of the two drivers of [scenario.Run]. The other driver is the simulator, package sim.
//
//	rep, err := live.Run(ctx, live.Config{Scenario: s, Topology: t, Seed: 7})
//
// [Run] uses a running fabric, or makes a new fabric for the run and removes the new fabric
// afterwards. The package prints nothing.
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

// noClockJump is the reason why the live driver skips actions that make clocks jump.
const noClockJump = "skipped (simulator only): an ordinary process cannot change the clock of another process"

// Driver describes the live driver, and names the actions that the live driver cannot carry
// out.
var Driver = scenario.Driver{Name: "live", Verbs: map[scenario.Verb]string{scenario.ClockJump: noClockJump}}

// DefaultTimeout is the timeout if [Config.Timeout] is 0.
const DefaultTimeout = time.Minute

// Config describes a run of a scenario.
type Config struct {
	Scenario *scenario.Scenario // the scenario to run
	Seed     uint64             // seed of all random choices of the run

	// Fabric is the running fabric for the run. After the run, [Run] ends all faults that
	// the scenario caused. If Fabric is nil, [Run] makes a new fabric with the options of
	// the scenario.
	Fabric *fabric.Fabric

	// Topology, Name and Timeout apply only to a new fabric.
	Topology *topo.Topology // topology of the new fabric
	Name     string         // name of the new fabric; "": "scenario-" and the number of this process
	Timeout  time.Duration  // longest time that the new fabric may take until all links are up; 0: [DefaultTimeout]

	// Starting is called while a new fabric starts, with the number of links that are up
	// and the number of all links. Starting may be nil.
	Starting func(links, of int)
	// Playing is called during the timeline. The parameter "done" is the number of actions
	// done, and of is the number of all actions. The parameter "at" is the time since the
	// start of the timeline, and length is the timeline's length. Playing may be nil.
	Playing func(done, of int, at, length time.Duration)
}

// Run runs a scenario to its end and judges the scenario's assertions. Run returns an error
// if the scenario could not begin, if ctx ended the run, or if Run could not clean up after
// the run. If the run itself fails, the report has the error.
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
	inner, cancel := context.WithCancel(ctx) // cancel ends the streams of events
	defer cancel()
	g.play(inner, c.Playing)
	if ctx.Err() != nil {
		return rep, ctx.Err()
	}
	return run.Report(g.now()), nil
}

// start makes a fabric with the options of the scenario, and waits until all links are up.
// If the links do not come up, start removes the fabric.
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

// Spec returns the spec of a new fabric for a scenario. The spec has the options that the
// scenario names, and otherwise the defaults.
func Spec(w *scenario.Fabric) spec.Spec {
	s := spec.Default()
	s.Profile, s.TTL, s.LocalFirst, s.AllowDeadlock = w.Profile, w.TTL, w.LocalFirst, w.Unsafe()
	s.Slots = cmp.Or(w.Slots, s.Slots)
	s.Order = cmp.Or(w.Order, s.Order)
	s.Ring = cmp.Or(w.Ring, s.Ring)
	s.Engine = cmp.Or(w.Engine, s.Engine)
	s.Fabric, s.Exits = cmp.Or(w.Dimensions, s.Fabric), cmp.Or(w.Exits, s.Exits)
	s.StrictTTL, s.Frame = w.StrictTTL, w.Frame
	s.Stuck = cmp.Or(w.Stuck, scenario.DefaultStuck)
	s.StuckAfter = spec.Milliseconds(cmp.Or(w.StuckAfter, scenario.DefaultStuckIn))
	return s
}

// fits returns an error if the scenario names an option, and the running fabric has
// another value of this option. If the scenario sets local_first or strict_ttl to false, fits ignores
// this option.
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
		{"fabric", "fabric", w.Dimensions != ""},
		{"exits", "exits", w.Exits != ""},
		{"ttl", "ttl", w.TTL != 0},
		{"strict_ttl", "strict-ttl", w.StrictTTL},
		{"frame", "frame", w.Frame != 0},
		{"stuck_after", "stuck-after", w.StuckAfter != 0},
	} {
		o := spec.OptionByName(x.option)
		if wants, has := o.Text(&want), o.Text(have); x.named && wants != has {
			return spec.Usagef("scenario %s wants %s %s, but the running fabric has %s; leave out --running, or start the fabric again with --%s %s", s.File, x.key, wants, has, x.option, wants)
		}
	}
	return nil
}
