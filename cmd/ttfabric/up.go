package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

type upFlags struct {
	fabricFlags
	detach    bool
	timeout   time.Duration
	gossipKey string
	runtime   string
	compose   composeFlags
}

func newUp() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up [TOPOLOGY]",
		Short: "Bring up a fabric: one process per chip",
		Long: `up starts one process per chip, each ethernet channel on a UDP socket of its
own, waits until every declared link is up, and prints what runs where. It
stays in the foreground until Ctrl-C; with -d it returns. On a fabric that
runs already it starts the chips that are missing.

TOPOLOGY is a built-in (t3000, galaxy, 2xt3000), a generator (mesh:4x8,
ring:6, torus:4x4), or a file: a cluster descriptor of tt-umd or a mesh graph
descriptor of tt-metal; 'ttfabric validate' says what a file holds.

With --runtime docker each chip is a container; the compose file, as 'ttfabric
compose' writes it, is in the run folder. --image, --memory and --mtu go with it.
Keys and certificates are mounted from the run folder; recordings are copied to
their folder by 'record stop' and 'down', secrets of --keylog to theirs by 'up',
'capture' and 'down'.

A file in the form of ttfabric may say what carries the links and how chips know
each other (transport: quic, auth: psk); --transport and --auth go before it.

Routes are proved free of deadlock before any chip starts; 'ttfabric routes'
shows them. A packet whose way on is blocked for --stuck-after is told of as an
event; --stuck says whether it is, and whether it and those behind it are given up.`,
		Example: `  ttfabric up
  ttfabric up mesh:4x8 -d
  ttfabric up torus:4x4 --ring bubble
  ttfabric up --netem 'M0D0-M0D1,delay=1ms,loss=1%'
  ttfabric up --record /tmp/calls
  ttfabric up --gossip-key generate --auth psk
  ttfabric up --transport quic
  ttfabric up galaxy --runtime docker
  ttfabric up --runtime docker --auth psk --gossip-key generate
  ttfabric up cluster_desc.yaml --name lab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		RunE:              func(c *cobra.Command, args []string) error { return runUp(c, args, f) },
	}
	fl := c.Flags()
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when the fabric is up")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "give up when not all links are up by then")
	fl.IntVar(&f.portBase, "port-base", 0, "UDP port of the first chip's channel 0; each chip takes 16 in a row; 0: any free ports")
	f.fabricFlags.add(c)
	fl.StringVar(&f.gossipKey, "gossip-key", "", "encrypt gossip: a file with a key, as 'gossip keygen' writes it, or generate")
	fl.StringVar(&f.runtime, "runtime", runtimeProcess, "what chips are: process, or docker: containers, by compose")
	f.compose.add(c)
	return c
}

func runUp(c *cobra.Command, args []string, f upFlags) error {
	ctx := c.Context()
	name, _ := c.Flags().GetString("name")
	dir, err := dirFor(name)
	if err != nil {
		return err
	}
	if _, err := format(c); err != nil {
		return err
	}
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := makeRoot(runRoot()); err != nil {
		return err
	}
	if err := dir.settled(ctx); err != nil {
		return err
	}
	unlock, err := lockFolder(ctx, runRoot())
	if err != nil {
		return err
	}
	t, fresh, err := prepare(c, dir, name, arg, f)
	unlock()
	if err != nil {
		return err
	}
	s := &supervisor{dir: dir, t: t, out: c.ErrOrStderr(), exits: make(chan exit, len(t.Chips))}
	begin := time.Now()
	views, err := s.start(ctx)
	if err != nil {
		if fresh {
			s.remove()
		}
		if c.Context().Err() != nil {
			return context.Canceled
		}
		return err
	}
	took := time.Since(begin)
	if err := s.host.keylog(ctx); err != nil {
		return err
	}
	if err := printUp(c, t, views, took); err != nil {
		return err
	}
	if f.detach {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "Fabric %q is up. Ctrl-C stops it.\n", name)
	return s.hold(c.Context())
}

// prepare finds the fabric's topology: the running one's, or a new folder's.
func prepare(c *cobra.Command, dir runDir, name, arg string, f upFlags) (t *topo.Topology, fresh bool, err error) {
	if m, running, _, err := dir.mesh(); err == nil {
		if arg != "" {
			want, err := loadTopology(c.Context(), arg)
			if err != nil {
				return nil, false, err
			}
			if want.Hash() == running.Hash() && !want.SameNotes(running) {
				return nil, false, coded(exitUsage, "fabric %q runs %s already, with other labels or impairments of its cables, or another transport or auth; 'ttfabric netem set' changes impairments, or 'ttfabric down --name %s' stops it", name, m.Source, name)
			}
			if want.Hash() != running.Hash() {
				return nil, false, coded(exitUsage, "fabric %q runs %s already; 'ttfabric down --name %s' stops it, or choose another --name", name, m.Source, name)
			}
		}
		return running, false, f.refuse(c, name, &m)
	}
	if t, err = loadTopology(c.Context(), arg); err != nil {
		return nil, false, err
	}
	f.secure.settle(t)
	if f.profile == "" && len(t.Chips) > runtime.NumCPU() && f.secure.transport != overQUIC {
		f.profile = ttlink.ProfileCrowded.Name
	}
	m, err := f.mesh(name, t)
	if err != nil {
		return nil, false, err
	}
	m.ID = fmt.Sprintf("%s-%016x", name, uint64(newIncarnation()))
	if top := f.portBase + len(t.Chips)*channelStride; f.portBase < 0 {
		return nil, false, coded(exitUsage, "--port-base %d: want 1 to 65535, or 0 for any", f.portBase)
	} else if f.portBase > 0 && top > 1<<16 {
		return nil, false, coded(exitUsage, "--port-base %d: %d chips take the ports up to %d; the last is 65535", f.portBase, len(t.Chips), top-1)
	}
	var keys [][]byte
	if f.gossipKey != "" {
		if keys, err = readKeys(c, "--gossip-key", f.gossipKey); err != nil {
			return nil, false, err
		}
		m.Keyed = true
	}
	var composed []byte
	if composed, err = f.contain(c, &m, arg, t); err != nil {
		return nil, false, err
	}
	secrets, err := f.secure.secrets(c, t, &m)
	if err != nil {
		return nil, false, err
	}
	os.RemoveAll(string(dir)) // what a crash left, without a readable mesh.json
	if err = dir.create(t, m, keys, secrets); err == nil && composed != nil {
		err = writeFile(dir.path(composeName), composed)
	}
	return t, true, err
}

// exit is a chip process that ended.
type exit struct {
	chip wire.FabricNodeID
	err  error
}

// supervisor starts and stops the chips of one fabric, on whatever host.
type supervisor struct {
	dir   runDir
	t     *topo.Topology
	out   io.Writer
	exits chan exit
	rec   recordFlags // what chips are recorded that it starts, if anything says other than the fabric's
	host  host        // nil before launch
}

// start starts the chips that are not running and waits for all links.
func (s *supervisor) start(ctx context.Context) ([]api.ChipView, error) {
	unlock, err := lockFolder(ctx, string(s.dir))
	if err != nil {
		return nil, err
	}
	defer unlock()
	running := map[wire.FabricNodeID]bool{}
	for _, c := range s.dir.chips() {
		running[c.Chip] = true
	}
	var missing []wire.FabricNodeID
	for _, c := range s.t.Chips {
		if !running[c.Node] {
			missing = append(missing, c.Node)
		}
	}
	if err := s.launch(ctx, missing); err != nil {
		return nil, err
	}
	return s.waitUp(ctx)
}

// launch starts chips that don't run.
func (s *supervisor) launch(ctx context.Context, ns []wire.FabricNodeID) error {
	if s.host = s.dir.host(); len(ns) == 0 {
		return nil
	}
	return s.host.launch(ctx, ns, s.rec, s.exits)
}

// startTime is how long 'chip start' takes at most, until the chip runs.
const startTime = 20 * time.Second

// waitRunning waits until a chip that was spawned says where it is.
func (s *supervisor) waitRunning(ctx context.Context, n wire.FabricNodeID) error {
	for {
		if s.answers(ctx, n) {
			return nil
		}
		select {
		case e := <-s.exits:
			return s.diedAtStart(e)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return coded(exitNotReady, "chip %s does not run in time: %s", n, s.lastWords(n))
		case <-time.After(pollInterval):
		}
	}
}

// answers reports whether a chip that was started takes requests.
func (s *supervisor) answers(ctx context.Context, n wire.FabricNodeID) bool {
	cl, err := s.dir.client(n)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pollPatience)
	defer cancel()
	_, err = cl.Chip(ctx)
	return err == nil
}

func (s *supervisor) diedAtStart(e exit) error {
	words := s.lastWords(e.chip)
	if words == "" {
		words = fmt.Sprintf("%v, and nothing in its log; is the disk full?", e.err)
	}
	return fmt.Errorf("chip %s died at start: %s", e.chip, words)
}

// lastWords is the last line of a chip's log.
func (s *supervisor) lastWords(n wire.FabricNodeID) string {
	if s.host == nil {
		s.host = s.dir.host()
	}
	return s.host.lastWords(n)
}

// waitUp polls the chips until every link is up.
func (s *supervisor) waitUp(ctx context.Context) ([]api.ChipView, error) {
	views := map[wire.FabricNodeID]api.ChipView{}
	bar, wait := newProgress(s.out, "links up", s.links()), pollInterval
	defer bar.stop()
	for {
		cs, _, _, err := s.dir.clients()
		if err == nil {
			s.poll(ctx, cs, views)
		}
		up, done := 0, 0
		for _, v := range views {
			up += v.LinksUp
			if ready(v, views) {
				done++
			}
		}
		bar.set(up / 2)
		if done == len(s.t.Chips) {
			out := make([]api.ChipView, 0, len(views))
			for _, v := range views {
				out = append(out, v)
			}
			slices.SortFunc(out, func(a, b api.ChipView) int { return chipIndex(s.t.Chips, a.Chip) - chipIndex(s.t.Chips, b.Chip) })
			return out, nil
		}
		select {
		case e := <-s.exits:
			return nil, s.diedAtStart(e)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, coded(exitNotReady, "not ready in time: %s; more time with --timeout", s.whatIsMissing(views))
		case <-time.After(wait):
			wait = min(wait*5/4, slowPoll)
		}
	}
}

// pollInterval is how often chips that are not up are asked, and slowPoll how
// seldom where they take long: they may need the processor more.
const (
	pollInterval = 50 * time.Millisecond
	slowPoll     = 500 * time.Millisecond
)

// pollPatience is how long one chip may take to answer a poll.
const pollPatience = 2 * time.Second

// poll asks the chips that were not up yet.
func (s *supervisor) poll(ctx context.Context, cs []*api.Client, views map[wire.FabricNodeID]api.ChipView) {
	answers := make([]*api.ChipView, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		if v, ok := views[c.Self()]; ok && ready(v, views) {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, pollPatience)
			defer cancel()
			if v, err := c.Chip(ctx); err == nil {
				answers[i] = &v
			}
		})
	}
	wg.Wait()
	for _, v := range answers {
		if v != nil {
			views[v.Chip] = *v
		}
	}
}

func (s *supervisor) links() int {
	n := 0
	for _, c := range s.t.Cables {
		if !c.Unused {
			n++
		}
	}
	return n
}

func (s *supervisor) whatIsMissing(views map[wire.FabricNodeID]api.ChipView) string {
	var out []string
	for _, c := range s.t.Chips {
		v, ok := views[c.Node]
		if !ok {
			out = append(out, fmt.Sprintf("chip %s does not answer", c.Node))
			continue
		}
		if v.Members <= 1 && len(s.t.Chips) > 1 {
			out = append(out, fmt.Sprintf("chip %s hears of no other chip, see 'ttfabric gossip show'", c.Node))
			continue
		}
		for _, l := range v.Links {
			if l.State != "up" {
				out = append(out, fmt.Sprintf("chip %s channel %d to %s is %s", c.Node, l.Channel, l.Peer, l.State))
			}
		}
		if len(v.OutOfService) > 0 && v.LinksUp == len(v.Links) {
			out = append(out, fmt.Sprintf("chip %s goes round %s", c.Node, v.OutOfService[0]))
		}
	}
	if len(out) > 5 {
		out = append(out[:5], fmt.Sprintf("and %d more", len(out)-5))
	}
	return strings.Join(out, ", ")
}

// hold stays until Ctrl-C, telling of chips that die, and removes the fabric then.
func (s *supervisor) hold(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e := <-s.exits:
			if _, err := os.Stat(s.dir.path("mesh.json")); err != nil {
				return nil
			}
			fmt.Fprintf(s.out, "chip %s has ended (%v): %s\n'ttfabric up -d' or 'ttfabric chip start %s' starts it again.\n", e.chip, e.err, s.lastWords(e.chip), e.chip)
		case <-tick.C:
			if _, err := os.Stat(s.dir.path("mesh.json")); os.IsNotExist(err) {
				fmt.Fprintln(s.out, "The fabric has been taken down.")
				return nil
			}
		case <-ctx.Done():
			fmt.Fprintln(s.out, "Stopping.")
			return s.remove()
		}
	}
}

func (s *supervisor) remove() error { return s.dir.host().remove() }

func chipIndex(chips []topo.Chip, n wire.FabricNodeID) int {
	for i, c := range chips {
		if c.Node == n {
			return i
		}
	}
	return -1
}
