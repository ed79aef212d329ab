// Package fabric has a handle, [Fabric], on a whole fabric. The chips may run as processes
// of this machine, as containers, or on other machines.
//
//	f, err := fabric.Open(ctx, "default")   // the fabric that 'ttfabric up' started
//	s, err := f.Session(node)               // for requests from one of its chips
//	err = s.Write(ctx, dst, addr, data)
//
// A [Fabric] starts and stops chips, and waits until links are up. The package also asks all chips
// at once ([Each]), cuts cables, runs traffic, and counts what became of packets ([Losses]). The
// package prints nothing and needs no terminal.
//
// If a fabric of containers has no run folder, [Open] asks the containers for the spec and
// topology, and makes the folder. The functions of package folder that read run folders
// change nothing.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/session"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// AskTime is the longest time that a chip may take to answer one request.
const AskTime = 5 * time.Second

// Fabric is a handle on a fabric, whose chips may or may not run. Several goroutines may
// use a Fabric at once.
type Fabric struct {
	Dir      folder.Dir
	Spec     spec.Spec
	Topology *topo.Topology
	// Start starts the process of a chip, from a command that [Fabric.Up] has prepared. Start may
	// change the command first. nil: the method Start of [exec.Cmd]. Fabrics of containers ignore Start.
	Start func(n wire.FabricNodeID, cmd *exec.Cmd) error

	mu    sync.Mutex // guards token, which changes when containers start for the first time
	token string
}

// bearer returns the token of the chips' APIs.
func (f *Fabric) bearer() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

// Open opens the fabric with the given name. If there is no such fabric, the error says
// how to start a fabric. If the fabric has containers but no valid run folder, and no chip
// in these containers answers, the error is a [container.Unheard].
func Open(ctx context.Context, name string) (*Fabric, error) {
	dir, err := folder.For(name)
	if err != nil {
		return nil, err
	}
	return OpenDir(ctx, dir)
}

// OpenDir opens the fabric of a run folder, as [Open] does.
func OpenDir(_ context.Context, dir folder.Dir) (*Fabric, error) {
	s, err := dir.Spec()
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.Runtime == spec.Docker && (container.Host{Dir: dir, Spec: s}).Gone() {
		s, err = container.Adopt(dir)
	}
	if err != nil {
		return nil, err
	}
	return read(dir, s)
}

// Peek opens the fabric of a run folder. Unlike [Open], Peek asks no container engine and
// changes no file.
func Peek(dir folder.Dir) (*Fabric, error) {
	s, err := dir.Spec()
	if err != nil {
		return nil, err
	}
	return read(dir, s)
}

func read(dir folder.Dir, s spec.Spec) (*Fabric, error) {
	f := &Fabric{Dir: dir, Spec: s}
	var err error
	if f.Topology, err = dir.Topology(); err != nil {
		return nil, err
	}
	if f.token, err = dir.Token(); err != nil {
		return nil, err
	}
	return f, nil
}

// Name returns the fabric's name.
func (f *Fabric) Name() string { return f.Dir.Name() }

// Running returns the running and the paused chips, sorted by mesh and number.
func (f *Fabric) Running() []folder.Chip { return f.host().Chips() }

// Where returns the process or container of a running chip, and the chip's addresses. Where
// returns false if the chip does not run.
func (f *Fabric) Where(n wire.FabricNodeID) (folder.Chip, bool) {
	for _, c := range f.Running() {
		if c.Chip == n {
			return c, true
		}
	}
	return folder.Chip{}, false
}

// Gone reports whether the fabric was taken down, so that its run folder does not exist any more.
func (f *Fabric) Gone() bool { return f.Dir.Gone() }

// NotRunningError says that a chip of the fabric does not run.
type NotRunningError struct{ Chip wire.FabricNodeID }

// Error returns a text with the name of the chip.
func (e *NotRunningError) Error() string { return fmt.Sprintf("chip %s is not running", e.Chip) }

// Client returns a client of a chip's API. If the chip does not run, the error wraps a
// [NotRunningError].
func (f *Fabric) Client(n wire.FabricNodeID) (*api.Client, error) {
	if _, ok := f.Topology.Chip(n); !ok {
		return nil, spec.Usagef("chip %s is not in topology %s", n, f.Topology)
	}
	c, ok := f.Where(n)
	if !ok {
		return nil, fmt.Errorf("%w; 'ttfabric up' starts the missing chips", &NotRunningError{n})
	}
	return f.clientAt(c), nil
}

func (f *Fabric) clientAt(c folder.Chip) *api.Client {
	return api.NewClient(c.API, f.bearer(), c.Chip, f.Topology)
}

// ClientAt returns a client of the API of a chip that [Fabric.Running] returned.
func (f *Fabric) ClientAt(c folder.Chip) *api.Client { return f.clientAt(c) }

// Session returns a session. Chip n, which must run, is the source of all requests of the session.
func (f *Fabric) Session(n wire.FabricNodeID) (*session.Session, error) {
	cl, err := f.Client(n)
	if err != nil {
		return nil, err
	}
	return session.New(cl), nil
}

// Clients returns clients of the APIs of all running chips, in the topology's order. The
// result "missing" lists the chips that do not run. Clients returns an error if no chip runs.
func (f *Fabric) Clients() (cs []*api.Client, missing []wire.FabricNodeID, err error) {
	running := map[wire.FabricNodeID]folder.Chip{}
	for _, c := range f.Running() {
		running[c.Chip] = c
	}
	for _, n := range f.Topology.Nodes() {
		if c, ok := running[n]; ok {
			cs = append(cs, f.clientAt(c))
		} else {
			missing = append(missing, n)
		}
	}
	if len(cs) == 0 {
		return nil, nil, fmt.Errorf("no chip of fabric %q is running; 'ttfabric up' starts the chips, and 'ttfabric down' removes the fabric", f.Name())
	}
	return cs, missing, nil
}

// Answer is the answer of one chip to a request of [Each], or the error of the request.
type Answer[T any] struct {
	Chip  wire.FabricNodeID
	Value T
	Err   error
}

// Each calls the function "ask" for all chips at the same time, and returns the answers in
// the order of cs. The parameter "limit" is the longest time that a call may take; 0 means
// no limit. All calls also end when ctx ends.
func Each[T any](ctx context.Context, cs []*api.Client, limit time.Duration, ask func(context.Context, *api.Client) (T, error)) []Answer[T] {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	out := make([]Answer[T], len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() {
			v, err := ask(ctx, c)
			out[i] = Answer[T]{c.Self(), v, err}
		})
	}
	wg.Wait()
	return out
}

// Tell calls the function "tell" for all chips at the same time, as [Each] does, and joins
// the errors.
func Tell(ctx context.Context, cs []*api.Client, limit time.Duration, tell func(context.Context, *api.Client) error) error {
	var errs []error
	for _, a := range Each(ctx, cs, limit, func(ctx context.Context, c *api.Client) (struct{}, error) { return struct{}{}, tell(ctx, c) }) {
		errs = append(errs, a.Err)
	}
	return errors.Join(errs...)
}

// Values returns the values of the answers without an error, and the chips of all other answers.
func Values[T any](as []Answer[T]) (values []T, silent []wire.FabricNodeID) {
	for _, a := range as {
		if a.Err == nil {
			values = append(values, a.Value)
		} else {
			silent = append(silent, a.Chip)
		}
	}
	return values, silent
}

// Ask asks all chips at once for their state. The result "silent" lists the chips that do not
// answer within [AskTime].
func Ask(ctx context.Context, cs []*api.Client) (views []api.ChipView, silent []wire.FabricNodeID) {
	return Values(Each(ctx, cs, AskTime, func(ctx context.Context, c *api.Client) (api.ChipView, error) { return c.Chip(ctx) }))
}

// Channels asks all chips at once for the channels of their routers that hold packets. The result
// "silent" lists the chips that do not answer within [AskTime].
func Channels(ctx context.Context, cs []*api.Client) (all []api.ChannelView, silent []wire.FabricNodeID) {
	lists, silent := Values(Each(ctx, cs, AskTime, func(ctx context.Context, c *api.Client) ([]api.ChannelView, error) { return c.RouterChannels(ctx) }))
	all = []api.ChannelView{}
	for _, l := range lists {
		all = append(all, l...)
	}
	return all, silent
}

// Held returns the number of packets in channels.
func Held(channels []api.ChannelView) (n int) {
	for i := range channels {
		n += channels[i].Waiting
	}
	return n
}

// Plan returns the routes of the fabric while no cable is out of service.
func (f *Fabric) Plan() (*route.Plan, error) { return f.Spec.Plan(f.Topology) }

// PlanNow returns the present routes of the fabric, which avoid the cables that are out of service.
func (f *Fabric) PlanNow(ctx context.Context) (*route.Plan, error) {
	p, err := f.Plan()
	if err != nil {
		return nil, err
	}
	out, err := f.outOfService(ctx)
	return p.Around(out), err
}

// outOfService returns one end of each cable that at least one chip reports as out of
// service. After a fault, the reports of the chips may differ for a moment.
func (f *Fabric) outOfService(ctx context.Context) ([]wire.PortID, error) {
	cs, _, err := f.Clients()
	if err != nil {
		return nil, err
	}
	views, _ := Ask(ctx, cs)
	var out []wire.PortID
	for _, v := range views {
		links, err := pick.Links(f.Topology, v.OutOfService)
		if err != nil {
			return nil, spec.AsUsage(err)
		}
		for _, l := range links {
			out = append(out, l.A)
		}
	}
	return out, nil
}
