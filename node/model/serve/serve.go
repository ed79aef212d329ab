// Package serve makes a model a fabric that all commands can use. One process simulates all chips in virtual time.
// Each chip has a [node.Node], whose host is the simulator, and serves the API of a live chip (package admin). So
// traffic, netem, link, router, reroute, mem, inspect, trace, capture, scenario, dashboard and the other commands work
// on a model without any change, and print the same tables. Only the words of package control know that the fabric is
// a model: they run it, step it, stop it at a condition, and go back.
//
// The alternative was an interpreter of the same words inside the simulator. It would have to repeat each command's
// tables, and each new command would have to be written twice. The seam between node and simulator is small instead:
// [node.Host] gives the node its time, runs its chip, carries its datagrams and injects its faults.
//
// Virtual time passes as fast as the wall clock, or slower if the simulator cannot keep up; the word "speed" sets
// another speed. While the model stands still, calls that wait for packets wait too.
//
// A deadlock (Spec §6.1) is found, looked at and left like this:
//
//	ttfabric model mesh:2x2 -d --order none --allow-deadlock --local-first
//	ttfabric model break add deadlock
//	ttfabric traffic bit-complement --packets 80000 --window 500 --size 256 --timeout 5s
//	ttfabric model status                 # the full channels that wait for each other in a circle
//	ttfabric inspect --channels           # the packets of all channels, at this instant
//	ttfabric model back 50us              # before the circle closed
//	ttfabric model step 10                # and event by event towards the circle
//
// A run depends on the seed and on the inputs of the commands. The model notes these inputs with their places in the
// sequence of events. So 'back' replays a run exactly, although the commands came at arbitrary moments. After 'back',
// calls that were under way end with an error, and the events after this time are forgotten; the archive keeps them.
//
// A model has no gossip over a network, no sockets for local programs ('run', drivers' libraries), no recordings of
// calls, and no secrets. Commands for these say so. The API of a paused chip still answers.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/chip"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel"
	"ttfabric/node/model"
	"ttfabric/node/model/control"
	"ttfabric/node/process"
	"ttfabric/node/sim"
	"ttfabric/router/topo"
	"ttfabric/wire/mono"
)

// Seed is the seed of every model. Runs differ only by their topology, options and inputs.
const Seed = 1

// sliceEvents is the number of events that the model carries out before it lets calls of the APIs in.
const sliceEvents = 500

// Model is a fabric in virtual time.
type Model struct {
	dir   folder.Dir
	spec  spec.Spec
	topo  *topo.Topology
	token string
	log   *slog.Logger
	epoch time.Time

	mu    sync.Mutex // the lock of the machine and of all nodes
	m     *model.Machine
	seats []*seat
	now   atomic.Int64 // the virtual time, for callers without the lock
	late  []func()     // functions of [node.Host.After] whose time has come

	pace
	wake chan struct{} // gets a value when the model has to look at its clocks again
}

// pace says how virtual time passes. The model's lock guards a pace.
type pace struct {
	running bool
	speed   float64       // virtual seconds for each second of the wall clock; 0: as fast as possible
	from    mono.Time     // virtual time at the instant "since"
	since   time.Time     // wall-clock time
	ended   chan struct{} // closed when the model stops
	hit     *control.Hit  // condition that stopped the model last; nil: none
	failed  error         // error of the simulation
	steps   int           // number of events after which the model stops; 0: no limit
	until   mono.Time     // when the model stops; mono.Never: no limit
}

// Run serves the model of the fabric in a run folder, until ctx ends or the run folder is removed. If the run folder
// has a snapshot, the model goes on from the snapshot. The model's messages go to out.
func Run(ctx context.Context, dir folder.Dir, kernels kernel.Table, out io.Writer) error {
	node.ConfigureProcess()
	log := slog.New(slog.NewTextHandler(out, nil))
	s, err := dir.Spec()
	if err != nil {
		return err
	}
	t, err := dir.Topology()
	if err != nil {
		return err
	}
	if s.Runtime != spec.Model {
		return spec.Usagef("--chip is missing; want a chip, such as --chip M0D3")
	}
	token, err := dir.Token()
	if err != nil {
		return err
	}
	x := &Model{dir: dir, spec: s, topo: t, token: token, log: log, wake: make(chan struct{}, 1)}
	x.ended = make(chan struct{})
	close(x.ended)
	start, err := x.starter(kernels)
	if err != nil {
		return err
	}
	for i := range t.Chips {
		x.seats = append(x.seats, &seat{x: x, i: i, id: t.Chips[i].Node})
	}
	if x.m, err = model.NewMachine(t, start, hosts{x}); err != nil {
		return err
	}
	x.m.OnTime(func(at mono.Time) { x.now.Store(int64(at)) })
	x.now.Store(int64(x.m.Now()))
	x.epoch = time.Now().Add(-time.Duration(x.m.Now()))
	socket := dir.Path(control.Socket)
	os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("cannot open the model's socket: %w", err)
	}
	defer l.Close()
	defer x.close()
	for _, s := range x.seats {
		if err := s.open(ctx, kernels); err != nil {
			return err
		}
	}
	x.start(1, mono.Never, 0)
	go x.serve(l, kernels)
	log.Info("the model runs", "chips", len(t.Chips), "pid", os.Getpid())
	return x.run(ctx)
}

// RunSnapshot loads the snapshot in the file "from", and lets the fabric run, as [model.Run] does. If file is not "",
// RunSnapshot writes a snapshot of the end into this file.
func RunSnapshot(from, file string, o model.Options) (r model.Result, err error) {
	s, err := fabric.ReadSnapshot(from)
	if err != nil {
		return r, err
	}
	r, end, err := model.Run(s, o)
	if err != nil {
		return r, err
	}
	return r, fabric.WriteSnapshot(file, end)
}

// starter returns the function that starts the fabric.
func (x *Model) starter(kernels kernel.Table) (model.Starter, error) {
	b, err := process.Behaviour(&x.spec)
	if err != nil {
		return nil, err
	}
	f, err := fabric.ReadSnapshot(x.dir.Path(control.SnapshotFile))
	cfg := sim.Config{Topology: x.topo, Seed: Seed, Quick: true, Kernels: kernels}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return func(record model.Recorder, h sim.Hosts) (*sim.Hosted, error) {
			c := cfg
			c.Record = record
			return sim.NewHosted(c, b, x.spec.Frame, h)
		}, nil
	case err != nil:
		return nil, err
	}
	return func(record model.Recorder, h sim.Hosts) (*sim.Hosted, error) {
		c := cfg
		c.Record = record
		d, _, err := sim.LoadHosted(f, c, h)
		return d, err
	}, nil
}

// close ends all nodes and their APIs.
func (x *Model) close() {
	for _, s := range x.seats {
		s.close()
	}
}

// start lets virtual time pass. The caller holds the lock, or no other goroutine knows the model yet.
func (x *Model) start(speed float64, until mono.Time, steps int) {
	x.speed, x.until, x.steps, x.hit = speed, until, steps, nil
	x.from, x.since = x.m.Now(), time.Now()
	if !x.running {
		x.running, x.ended = true, make(chan struct{})
	}
	x.poke()
}

// stop stops virtual time. The caller holds the lock.
func (x *Model) stop() {
	if x.running {
		x.running = false
		x.m.Until(nil)
		close(x.ended)
	}
}

// poke makes the model look at its clocks again.
func (x *Model) poke() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Times of the model's loop.
const (
	goneInterval = 5 * time.Second       // time between two checks that the run folder still exists
	maxLag       = 20 * time.Millisecond // if the model is further behind its speed, it does not catch up
)

// run lets virtual time pass, until ctx ends or the run folder is removed.
func (x *Model) run(ctx context.Context) error {
	gone := time.NewTicker(goneInterval)
	defer gone.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		wait := x.slice()
		if wait == 0 {
			if ctx.Err() == nil {
				select {
				case <-gone.C:
					if x.dir.Gone() {
						return nil
					}
				default:
				}
				continue
			}
			return nil
		}
		next.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-gone.C:
			if x.dir.Gone() {
				return nil
			}
		case <-x.wake:
		case <-next.C:
		}
	}
}

// slice carries out some events. It returns the time until the model has more to do; 0: at once.
func (x *Model) slice() (wait time.Duration) {
	x.mu.Lock()
	defer func() {
		late := x.late
		x.late = nil
		x.mu.Unlock()
		for _, f := range late {
			wait = 0
			f()
		}
	}()
	if !x.running {
		return time.Hour
	}
	target := mono.Never
	if x.speed > 0 {
		target = x.from.Add(time.Duration(float64(time.Since(x.since)) * x.speed))
	}
	end, events := mono.Min(target, x.until), sliceEvents
	if x.steps > 0 {
		events = min(events, x.steps)
	}
	first := x.m.Events()
	hit, err := x.m.Go(end, events)
	x.now.Store(int64(x.m.Now()))
	if done := x.m.Events() - first; x.steps > 0 {
		if x.steps -= done; x.steps <= 0 {
			x.stop()
		}
	}
	switch {
	case err != nil:
		x.failed = err
		x.log.Error("the simulation has failed", "error", err)
		x.stop()
	case hit != nil:
		x.hit = hit
		x.stop()
	case x.m.Now() >= x.until:
		x.stop()
	}
	if !x.running {
		return time.Hour
	}
	if x.m.Now() >= target {
		return max(time.Microsecond, time.Duration(float64(x.m.Next().Sub(x.m.Now()))/x.speed))
	}
	if x.speed > 0 && time.Duration(float64(target.Sub(x.m.Now()))/x.speed) > maxLag {
		x.from, x.since = x.m.Now(), time.Now()
	}
	return 0
}

// chips returns the places of the living chips. The caller holds the lock.
func (x *Model) chips() (out []*chip.Chip) {
	for i := range x.seats {
		if c := x.m.Chip(i); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// state returns the state of the model. The caller holds the lock.
func (x *Model) state() control.State {
	s := control.State{Nanos: int64(x.m.Elapsed()), Events: x.m.Events(), Running: x.running, Speed: x.speed, Breakpoints: x.m.Breakpoints()}
	for _, c := range x.chips() {
		st := c.Status()
		s.Alive++
		s.Open += st.Open
		s.InFlight += st.InFlight
	}
	if x.failed != nil {
		s.Failed = x.failed.Error()
	}
	return s
}

// apiOf opens the API of a node.
func (x *Model) apiOf(n *node.Node, l net.Listener) *admin.Server {
	srv := admin.NewServer(n, x.token)
	srv.Describe(spec.View{Mesh: x.spec, Topology: string(x.topo.Encode())})
	go func() {
		if err := srv.Serve(l); err != nil {
			x.log.Warn("an API has ended", "chip", n.Self(), "error", err)
		}
	}()
	return srv
}
