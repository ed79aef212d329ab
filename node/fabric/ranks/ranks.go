// Package ranks starts a program once for each chip of a fabric, and watches the processes. The
// package does the work of 'ttfabric run'. The processes run beside the chips, or are the chips
// ([Job].AsChip). Package rank says which variables a rank gets.
package ranks

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/rank"
	"ttfabric/node/rank/launched"
	"ttfabric/node/rank/saved"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Times and limits of a job.
const (
	KillAfter   = 5 * time.Second        // time between SIGTERM and SIGKILL for a rank that must end
	MaxRestarts = 1000                   // largest number of restarts of a job
	lookAfter   = 250 * time.Millisecond // time between two looks whether all chips run
	chipGrace   = 250 * time.Millisecond // longest time after the failure of a rank in which the loss of a chip counts as the reason
	graceLook   = 10 * time.Millisecond  // time between two looks for a lost chip after the failure of a rank
	drainAfter  = time.Second            // longest time after the end of a rank for its children to close the rank's output
)

// Job is a program that runs once for each chip of a fabric.
type Job struct {
	Fabric  *fabric.Fabric
	Program string   // path of the executable
	Args    []string // its arguments
	Dir     string   // working folder of the ranks; "": that of this process
	AsChip  bool     // the program is linked with package process, and each rank is its own chip; no chip of the fabric may run before the job

	// Checkpoints is the folder of the job's checkpoints; "": the job has none. Each attempt begins with the memory of
	// the latest checkpoint, if there is one. AsChip must be false.
	Checkpoints string

	Keep     bool         // after the loss of a chip, only the chip's rank ends, and the other ranks go on; Restarts must be 0
	Restarts int          // number of restarts after the loss of a rank or a chip
	Out, Err io.Writer    // get the ranks' output, with the rank's number before each line
	Tell     func(string) // gets messages for people; must not be nil
	// Bring starts the missing chips, and waits until all links are up, as [fabric.Fabric.Up] does. Bring
	// must not be nil.
	Bring func(context.Context, fabric.Exits) error

	from int // number of the checkpoint that the present attempt began from; 0: none
}

// Door names the way by which the ranks reach their chips.
type Door string

// The doors.
const (
	Socket Door = "socket" // the chips' Unix sockets
	HTTP   Door = "http"   // the chips' APIs
	AsChip Door = "chip"   // each rank is its chip
)

// Words returns the door in words, for messages.
func (d Door) Words() string {
	switch d {
	case HTTP:
		return "attached by HTTP"
	case AsChip:
		return "which are its chips"
	}
	return "attached by Unix sockets"
}

// Report says how a job went.
type Report struct {
	Fabric   string    `json:"fabric"`    // name of the fabric
	Program  string    `json:"program"`   // path of the executable
	Ranks    int       `json:"ranks"`     // number of ranks
	Door     Door      `json:"door"`      // how the ranks reached their chips: socket, http, or chip if each rank is its chip
	ExitCode int       `json:"exit_code"` // 0, or the exit code of the first rank that failed in the last attempt; 128 plus the signal's number if a signal ended the rank; 1 if the rank's chip was lost
	Attempts []Attempt `json:"attempts"`  // the attempts, in order
}

// Attempt is one run of all ranks.
type Attempt struct {
	Number  int                 `json:"number"`          // number of the attempt, from 0
	Seconds float64             `json:"seconds"`         // time from the start of the first rank to the end of the last
	Lost    []int               `json:"lost,omitempty"`  // ranks that failed by themselves, in the order of their ends
	Chips   []wire.FabricNodeID `json:"chips,omitempty"` // chips that were lost
	Why     string              `json:"why,omitempty"`   // why the attempt failed; absent if all ranks ended with exit code 0
	Kept    []int               `json:"kept,omitempty"`  // with --keep-ranks, after the loss of a chip: ranks that ended with exit code 0, in the order of their ends

	Checkpoint int                 `json:"checkpoint,omitempty"` // number of the checkpoint that the attempt began from; absent: none
	Since      *fabric.LossesSince `json:"lost_since,omitempty"` // what the chips had lost since this checkpoint, before the attempt; absent if there was no checkpoint, and in the first attempt

	code int
	good []int // ranks that ended with exit code 0
}

// NewReport returns the report of a job before its first attempt. If the ranks use HTTP, the second
// result gives the reason, and begins with ", because". If the ranks use the sockets, the second
// result is "". NewReport returns an error if a chip does not run. With AsChip, NewReport returns
// an error if a chip runs.
func (j *Job) NewReport() (*Report, string, error) {
	r := &Report{Fabric: j.Fabric.Name(), Program: j.Program, Ranks: len(j.Fabric.Topology.Chips), Door: Socket, Attempts: []Attempt{}}
	if r.Ranks > attach.MaxRanks {
		return nil, "", spec.Usagef("a job of %d ranks: want at most %d", r.Ranks, attach.MaxRanks)
	}
	if j.AsChip {
		if cs := j.Fabric.Running(); len(cs) > 0 {
			return nil, "", spec.Usagef("chip %s of fabric %q runs already, and no rank can take its place", cs[0].Chip, j.Fabric.Name())
		}
		r.Door = AsChip
		return r, "", nil
	}
	chips, err := j.chips()
	if err != nil {
		return nil, "", err
	}
	why := ""
	for _, c := range chips {
		if why = noSocket(&c, j.Fabric.Topology); why != "" {
			r.Door, why = HTTP, ", because "+why
			break
		}
	}
	return r, why, nil
}

// dialTime is the longest time for a chip to answer at its socket.
const dialTime = 2 * time.Second

// noSocket returns the reason why a rank cannot use the socket of a chip. If the rank can use the
// socket, the reason is "".
func noSocket(c *folder.Chip, t *topo.Topology) string {
	if c.Socket == "" {
		return fmt.Sprintf("chip %s has no Unix socket that this machine can reach", c.Chip)
	}
	if len(c.Socket) > attach.MaxPath {
		return fmt.Sprintf("the path of the socket of chip %s has %d bytes, and the kernel takes at most %d", c.Chip, len(c.Socket), attach.MaxPath)
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	cl, err := attach.Dial(ctx, c.Socket, t)
	if err != nil {
		return fmt.Sprintf("the socket of chip %s cannot be used: %v", c.Chip, err)
	}
	cl.Close()
	return ""
}

// chips returns the running chips in the order of the ranks. If a chip does not run, chips returns
// an error.
func (j *Job) chips() (out []folder.Chip, err error) {
	running := map[wire.FabricNodeID]folder.Chip{}
	for _, c := range j.Fabric.Running() {
		running[c.Chip] = c
	}
	for _, n := range j.Fabric.Topology.Nodes() {
		c, ok := running[n]
		if !ok {
			return nil, fmt.Errorf("%w; each rank needs its chip: 'ttfabric up -d --name %s' starts the missing chips", &fabric.NotRunningError{Chip: n}, j.Fabric.Name())
		}
		out = append(out, c)
	}
	return out, nil
}

// Run runs the job to its end, and fills in the report. If ctx ends, Run ends all ranks and returns
// the error of ctx. A rank that fails is no error of Run.
func (j *Job) Run(ctx context.Context, rep *Report) error {
	name := strings.ToLower(rand.Text()[:8])
	run := j.attempt
	if j.AsChip {
		run = j.attemptAsChip
	}
	for number := 0; ; number++ {
		from, since, err := j.restore(ctx, number > 0)
		if err != nil {
			return err
		}
		j.from = from
		a, err := run(ctx, name, number, rep.Door)
		a.Checkpoint, a.Since = from, since
		rep.Attempts = append(rep.Attempts, a)
		rep.ExitCode = a.code
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case a.Why == "" || number >= j.Restarts:
			return nil
		}
		j.Tell(fmt.Sprintf("Restarting all ranks: restart %d of at most %d.", number+1, j.Restarts))
		if j.AsChip {
			continue // each attempt starts all chips
		}
		if err := j.Bring(ctx, make(fabric.Exits, rep.Ranks)); err != nil {
			return fmt.Errorf("the job cannot start again: %w", err)
		}
	}
}

// process is one rank.
type process struct {
	cmd  *exec.Cmd
	out  []*lines
	gone chan struct{}      // closed when the process has ended
	line *launched.Launcher // nil: the rank runs beside its chip
}

// end is the end of a rank.
type end struct {
	rank int
	err  error
}

// attempt runs all ranks once, beside their chips.
func (j *Job) attempt(ctx context.Context, name string, number int, door Door) (Attempt, error) {
	begin := time.Now()
	a := Attempt{Number: number}
	chips, err := j.chips()
	if err != nil {
		return a, err
	}
	var mu sync.Mutex // guards both outputs, so that lines of several ranks do not mix
	ps := make([]*process, len(chips))
	for i := range chips {
		ps[i] = j.process(&mu, i, exec.Command(j.Program, j.Args...))
		ps[i].cmd.SysProcAttr = attributes()
		ps[i].cmd.Env = append(os.Environ(), j.variables(i, name, number, chips, door)...)
	}
	ends := make(chan end, len(ps))
	stop := make(chan struct{})
	started := make(chan error, 1)
	go start(ps, started, stop) // when the thread of this goroutine ends, the kernel kills the ranks
	defer close(stop)
	err = <-started
	running := 0
	for i, p := range ps {
		if p.cmd.Process == nil {
			continue
		}
		running++
		go func() {
			err := p.cmd.Wait()
			close(p.gone)
			ends <- end{i, err}
		}()
	}
	if err != nil {
		a.fail(1, err.Error())
	}
	j.watch(ctx, &a, ps, chips, ends, running)
	flush(ps)
	a.Seconds = time.Since(begin).Seconds()
	return a, err
}

// watch waits until all ranks have ended. When a rank fails, a chip is lost or ctx ends, watch ends
// the other ranks. With Keep, the loss of a chip ends only the chip's rank.
func (j *Job) watch(ctx context.Context, a *Attempt, ps []*process, chips []folder.Chip, ends <-chan end, running int) {
	tick := time.NewTicker(lookAfter)
	defer tick.Stop()
	done, ending := ctx.Done(), false
	stop := func() {
		ending = true
		terminate(ps)
	}
	if a.Why != "" {
		stop()
	}
	all := chips
	lost := func(gone []wire.FabricNodeID) {
		if j.lose(a, ps, gone); !j.Keep {
			stop()
		}
		chips = slices.DeleteFunc(slices.Clone(chips), func(c folder.Chip) bool { return slices.Contains(gone, c.Chip) })
	}
	for running > 0 {
		select {
		case e := <-ends:
			running--
			code, text := folder.Ended(e.err)
			if code == 0 {
				a.good = append(a.good, e.rank)
			}
			if code == 0 || ending || slices.Contains(a.Chips, all[e.rank].Chip) {
				continue
			}
			blamed := chips // chips whose loss explains the failure of the rank
			if j.Keep {
				blamed = all[e.rank : e.rank+1]
			}
			if gone := j.lostSoon(ctx, blamed); len(gone) > 0 {
				lost(gone)
				continue
			}
			j.failed(a, e.rank, code, text)
			stop()
		case <-tick.C:
			if ending {
				continue
			}
			if gone := j.lost(chips); len(gone) > 0 {
				lost(gone)
			}
		case <-done:
			done = nil
			a.fail(int(128+syscall.SIGINT), "interrupted")
			stop()
		}
	}
	a.keep(j.Keep)
}

// lose records the loss of chips, and prints messages. With Keep, lose ends the ranks of these chips.
func (j *Job) lose(a *Attempt, ps []*process, gone []wire.FabricNodeID) {
	a.Chips = append(a.Chips, gone...)
	a.fail(1, fmt.Sprintf("chip %s was lost", gone[0]))
	for _, n := range gone {
		rank, then := j.Fabric.Topology.Index(n), "ending all ranks"
		if j.Keep {
			then = "the other ranks go on"
			terminate(ps[rank : rank+1])
		}
		j.Tell(fmt.Sprintf("Chip %s of rank %d was lost; %s.", n, rank, then))
	}
}

// keep reports the ranks that ended with exit code 0, if the attempt lost a rank or a chip and kept the
// other ranks.
func (a *Attempt) keep(kept bool) {
	if kept && a.Why != "" {
		a.Kept = a.good
	}
}

// failed records that a rank failed, and prints a message. The parameter "how" says
// how the rank's process ended.
func (j *Job) failed(a *Attempt, rank, code int, how string) {
	chip := j.Fabric.Topology.Chips[rank].Node
	a.Lost = append(a.Lost, rank)
	a.fail(code, fmt.Sprintf("rank %d (chip %s) ended %s", rank, chip, how))
	then := "ending the other ranks"
	if j.Keep && j.AsChip {
		then = "the other ranks go on"
	}
	j.Tell(fmt.Sprintf("Rank %d (chip %s) ended %s; %s.", rank, chip, how, then))
}

// fail notes why an attempt failed, unless the attempt has failed already.
func (a *Attempt) fail(code int, why string) {
	if a.Why == "" {
		a.Why, a.code = why, code
	}
}

// lost returns the chips that do not run any more, or that have restarted.
func (j *Job) lost(chips []folder.Chip) (out []wire.FabricNodeID) {
	now := map[wire.FabricNodeID]folder.Chip{}
	for _, c := range j.Fabric.Running() {
		now[c.Chip] = c
	}
	for _, c := range chips {
		if n, ok := now[c.Chip]; !ok || n.PID != c.PID || n.Started != c.Started || n.Container != c.Container {
			out = append(out, c.Chip)
		}
	}
	return out
}

// lostSoon returns the chips that are lost at present. If no chip is lost, lostSoon looks again for
// chipGrace. A rank whose chip was killed may end before this process learns of the end of the
// chip's process.
func (j *Job) lostSoon(ctx context.Context, chips []folder.Chip) []wire.FabricNodeID {
	for end := time.Now().Add(chipGrace); ; {
		if out := j.lost(chips); len(out) > 0 || time.Now().After(end) {
			return out
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(graceLook):
		}
	}
}

// process returns a rank whose process is cmd, not started. The ranks share mu.
func (j *Job) process(mu *sync.Mutex, i int, cmd *exec.Cmd) *process {
	prefix := fmt.Sprintf("[%d] ", i)
	p := &process{cmd: cmd, gone: make(chan struct{}), out: []*lines{{to: j.Out, prefix: prefix, mu: mu}, {to: j.Err, prefix: prefix, mu: mu}}}
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = j.Dir, p.out[0], p.out[1], drainAfter
	return p
}

// terminate asks all ranks to end. After KillAfter, terminate kills the ranks that have not ended.
func terminate(ps []*process) {
	signal(ps, syscall.SIGTERM)
	time.AfterFunc(KillAfter, func() { signal(ps, syscall.SIGKILL) })
}

// flush writes the last lines of ranks that have ended.
func flush(ps []*process) {
	for _, p := range ps {
		for _, l := range p.out {
			l.flush()
		}
	}
}

// variables returns the environment variables of a rank.
func (j *Job) variables(i int, name string, number int, chips []folder.Chip, door Door) []string {
	var list []string
	for _, c := range chips {
		list = append(list, c.Chip.String())
	}
	c, root := chips[i], chips[0]
	socket, rootSocket := c.Socket, root.Socket
	if door == HTTP {
		socket, rootSocket = "", ""
	}
	from := ""
	if j.from > 0 {
		from = fmt.Sprint(j.from)
	}
	return []string{
		rank.EnvRank + "=" + fmt.Sprint(i), rank.EnvLocalRank + "=" + fmt.Sprint(i), rank.EnvWorld + "=" + fmt.Sprint(len(chips)),
		rank.EnvName + "=" + j.Fabric.Name(), rank.EnvDir + "=" + string(j.Fabric.Dir), rank.EnvChip + "=" + c.Chip.String(),
		rank.EnvChips + "=" + strings.Join(list, ","), rank.EnvCoordinates + "=" + coordinates(j.Fabric.Topology, c.Chip),
		rank.EnvSocket + "=" + socket, rank.EnvAPI + "=" + c.API, rank.EnvTokenFile + "=" + j.Fabric.Dir.TokenPath(),
		rank.EnvRootSocket + "=" + rootSocket, rank.EnvRootAPI + "=" + root.API, rank.EnvJob + "=" + name, rank.EnvAttempt + "=" + fmt.Sprint(number),
		rank.EnvTopology + "=" + saved.Hash(j.Fabric.Topology), rank.EnvFolder + "=" + j.Checkpoints, rank.EnvCheckpoint + "=" + from,
	}
}

// coordinates returns row and column of a chip in its mesh.
func coordinates(t *topo.Topology, n wire.FabricNodeID) string {
	m, _ := t.Mesh(n.Mesh)
	cols := max(m.Cols, 1)
	return fmt.Sprintf("%d,%d", int(n.Chip)/cols, int(n.Chip)%cols)
}
