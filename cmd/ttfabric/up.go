package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

type upFlags struct {
	detach         bool
	timeout        time.Duration
	portBase       int
	profile, slots string
	routes         routeFlags
	stuck          string
	stuckAfter     time.Duration
	localFirst     bool
	ttl            int
	netem          []string
	archive        archiveFlags
	record         recordFlags
	gossipKey      string
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

Routes are proved free of deadlock before any chip starts; 'ttfabric routes'
shows them. A packet whose way on is blocked for --stuck-after is told of as an
event, or given up too.`,
		Example: `  ttfabric up
  ttfabric up mesh:4x8 -d
  ttfabric up torus:4x4 --ring bubble
  ttfabric up --netem 'M0D0-M0D1,delay=1ms,loss=1%'
  ttfabric up --record /tmp/calls
  ttfabric up --gossip-key generate
  ttfabric up cluster_desc.yaml --name lab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		RunE:              func(c *cobra.Command, args []string) error { return runUp(c, args, f) },
	}
	fl := c.Flags()
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when the fabric is up")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "give up when not all links are up by then")
	fl.IntVar(&f.portBase, "port-base", 0, "UDP port of the first chip's channel 0; each chip takes 16 in a row; 0: any free ports")
	fl.StringVar(&f.profile, "profile", "", "link times: lan, crowded (default: crowded where chips outnumber cores)")
	fl.StringVar(&f.slots, "slots", "spec", "channel sizes: "+slotNames()+"; spec is the specification's, fast is for long windows")
	f.routes.add(c)
	fl.StringVar(&f.stuck, "stuck", "notify", "what happens to packets that cannot move: notify, drop (give up the first), drain (all in its channel)")
	fl.DurationVar(&f.stuckAfter, "stuck-after", 10*time.Second, "when they count as such; 0: never")
	fl.BoolVar(&f.localFirst, "local-first", false, "serve a chip's own packets before those that pass through, instead of in turn")
	fl.IntVar(&f.ttl, "ttl", 0, "hops after which a packet is dropped; 0: those of the longest route")
	fl.StringArrayVar(&f.netem, "netem", nil, "impair cables from the start, as LINK,delay=1ms,loss=1%; keys are the flags of 'netem set'; may be repeated")
	f.archive.add(c)
	fl.StringVar(&f.gossipKey, "gossip-key", "", "encrypt gossip: a file with a key, as 'gossip keygen' writes it, or generate")
	return f.record.on(c)
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
	if err := printUp(c, t, views, time.Since(begin)); err != nil {
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
			want, err := loadTopology(arg)
			if err != nil {
				return nil, false, err
			}
			if want.Hash() == running.Hash() && !want.SameNotes(running) {
				return nil, false, coded(exitUsage, "fabric %q runs %s already, with other labels or impairments of its cables; 'ttfabric netem set' changes impairments, or 'ttfabric down --name %s' stops it", name, m.Source, name)
			}
			if want.Hash() != running.Hash() {
				return nil, false, coded(exitUsage, "fabric %q runs %s already; 'ttfabric down --name %s' stops it, or choose another --name", name, m.Source, name)
			}
		}
		return running, false, f.refuse(name)
	}
	if t, err = loadTopology(arg); err != nil {
		return nil, false, err
	}
	if f.profile == "" {
		f.profile = ttlink.ProfileLAN.Name
		if len(t.Chips) > runtime.NumCPU() {
			f.profile = ttlink.ProfileCrowded.Name
		}
	}
	if _, err := profileByName(f.profile); err != nil {
		return nil, false, err
	}
	if _, err := slotsByName(f.slots); err != nil {
		return nil, false, err
	}
	m := meshFile{Name: name, Source: t.Name, Created: time.Now(), Profile: f.profile, Slots: f.slots, PortBase: f.portBase,
		Order: f.routes.order, Ring: f.routes.ring, Engine: f.routes.engine, Fabric: f.routes.fabric,
		Stuck: f.stuck, StuckMS: f.stuckAfter.Milliseconds(), Local: f.localFirst, TTL: f.ttl, Netem: f.netem, Record: f.record.dir, RecordLimit: f.record.limit,
		ID: fmt.Sprintf("%s-%016x", name, uint64(newIncarnation()))}
	if err := m.configure(&node.Config{}); err != nil {
		return nil, false, err
	}
	if err := f.archive.configure(&m); err != nil {
		return nil, false, err
	}
	for _, text := range f.netem {
		if _, err := parseDeclared(t, text); err != nil {
			return nil, false, err
		}
	}
	if m.Checked, err = f.routes.prove(t); err != nil {
		return nil, false, err
	}
	if top := f.portBase + len(t.Chips)*channelStride; f.portBase < 0 || f.portBase > 0 && top > 1<<16 {
		return nil, false, coded(exitUsage, "--port-base %d: %d chips take the ports up to %d; the last is 65535", f.portBase, len(t.Chips), top-1)
	}
	var keys [][]byte
	if f.gossipKey != "" {
		key, err := readKey(c, "--gossip-key", f.gossipKey)
		if err != nil {
			return nil, false, err
		}
		keys, m.Keyed = append(keys, key), true
	}
	os.RemoveAll(string(dir)) // what a crash left, without a readable mesh.json
	return t, true, dir.create(t, m, keys)
}

// exit is a chip process that ended.
type exit struct {
	chip wire.FabricNodeID
	err  error
}

// supervisor starts and stops the chips of one fabric.
type supervisor struct {
	dir   runDir
	t     *topo.Topology
	out   io.Writer
	exits chan exit
	more  []string // arguments of 'node' beside dir and chip
}

// start starts the chips that are not running and waits for all links.
func (s *supervisor) start(ctx context.Context) ([]admin.ChipView, error) {
	unlock, err := lockFolder(ctx, string(s.dir))
	if err != nil {
		return nil, err
	}
	defer unlock()
	running := map[wire.FabricNodeID]bool{}
	for _, c := range s.dir.chips() {
		running[c.Chip] = true
	}
	for _, c := range s.t.Chips {
		if !running[c.Node] {
			if err := s.spawn(c.Node); err != nil {
				return nil, err
			}
		}
	}
	return s.waitUp(ctx)
}

// spawn starts one chip in a process group of its own, so that Ctrl-C reaches the supervisor alone.
func (s *supervisor) spawn(n wire.FabricNodeID) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	os.Remove(s.dir.chipPath(n, ".json"))
	log, err := os.OpenFile(s.dir.chipPath(n, ".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("chip %s: cannot open its log: %w", n, err)
	}
	defer log.Close()
	cmd := exec.Command(exe, append([]string{"node", "--dir", string(s.dir), "--chip", n.String()}, s.more...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("chip %s: cannot start its process: %w; check the limits with 'ulimit -u' and 'ulimit -n'", n, err)
	}
	go func() { s.exits <- exit{n, cmd.Wait()} }()
	return nil
}

// startTime is how long 'chip start' takes at most, until the chip runs.
const startTime = 20 * time.Second

// waitRunning waits until a chip that was spawned says where it is.
func (s *supervisor) waitRunning(ctx context.Context, n wire.FabricNodeID) error {
	for {
		if _, ok := s.dir.chip(n); ok {
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

func (s *supervisor) diedAtStart(e exit) error {
	words := s.lastWords(e.chip)
	if words == "" {
		words = fmt.Sprintf("%v, and nothing in its log %s; is the disk full?", e.err, s.dir.chipPath(e.chip, ".log"))
	}
	return fmt.Errorf("chip %s died at start: %s", e.chip, words)
}

// lastWords are the last lines of a chip's log.
func (s *supervisor) lastWords(n wire.FabricNodeID) string {
	b, _ := os.ReadFile(s.dir.chipPath(n, ".log"))
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return strings.TrimPrefix(string(lines[len(lines)-1]), "ttfabric: ")
}

// waitUp polls the chips until every link is up.
func (s *supervisor) waitUp(ctx context.Context) ([]admin.ChipView, error) {
	views := map[wire.FabricNodeID]admin.ChipView{}
	bar := newProgress(s.out, "links up", s.links())
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
			out := make([]admin.ChipView, 0, len(views))
			for _, v := range views {
				out = append(out, v)
			}
			sort.Slice(out, func(i, j int) bool { return out[i].Chip.Chip < out[j].Chip.Chip })
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
		case <-time.After(pollInterval):
		}
	}
}

// pollInterval is how often chips that are not up are asked.
const pollInterval = 50 * time.Millisecond

// pollPatience is how long one chip may take to answer a poll.
const pollPatience = 2 * time.Second

// poll asks the chips that were not up yet.
func (s *supervisor) poll(ctx context.Context, cs []*admin.Client, views map[wire.FabricNodeID]admin.ChipView) {
	answers := make([]*admin.ChipView, len(cs))
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

func (s *supervisor) whatIsMissing(views map[wire.FabricNodeID]admin.ChipView) string {
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

func (s *supervisor) remove() error { return removeFabric(s.dir) }

// stopTime is how long chips get to say goodbye before they are killed.
const stopTime = 3 * time.Second

// removeFabric stops all processes of a fabric and deletes its folder. It
// works on what a crash left too: processes are found by their run folder.
func removeFabric(dir runDir) error {
	pids := map[int]uint64{}
	for _, c := range dir.chips() {
		pids[c.PID] = c.Started
	}
	for _, p := range findProcesses(dir) {
		pids[p] = startTicks(p)
	}
	signalAll := func(sig syscall.Signal) int {
		n := 0
		for pid, started := range pids {
			if started != 0 && startTicks(pid) == started {
				syscall.Kill(pid, sig)
				n++
			}
		}
		return n
	}
	signalAll(syscall.SIGTERM)
	signalAll(syscall.SIGCONT)
	for end := time.Now().Add(stopTime); signalAll(0) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	for end := time.Now().Add(stopTime); signalAll(syscall.SIGKILL) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	return os.RemoveAll(string(dir))
}

// findProcesses finds chips by their command line, for those that died before they could write their file, or were started while it was removed.
func findProcesses(dir runDir) []int {
	var out []int
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		args := strings.Split(string(b), "\x00")
		if len(args) > 4 && args[1] == "node" && args[2] == "--dir" && args[3] == string(dir) {
			var pid int
			fmt.Sscanf(name, "/proc/%d/cmdline", &pid)
			out = append(out, pid)
		}
	}
	return out
}

func chipIndex(chips []topo.Chip, n wire.FabricNodeID) int {
	for i, c := range chips {
		if c.Node == n {
			return i
		}
	}
	return -1
}
