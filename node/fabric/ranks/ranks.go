// Package ranks starts a program once for each chip of a fabric, and watches the processes: that is
// what 'ttfabric run' does. Package rank says which variables a rank gets.
package ranks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/rank"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Times and limits of a job.
const (
	KillAfter   = 5 * time.Second        // time between SIGTERM and SIGKILL for a rank that shall end
	MaxRestarts = 1000                   // largest number of restarts of a job
	lookAfter   = 250 * time.Millisecond // time between two checks that all chips run
	drainAfter  = time.Second            // longest time after the end of a rank for its children to close the rank's output
)

// Job is a program that runs once for each chip of a fabric.
type Job struct {
	Fabric  *fabric.Fabric
	Program string   // path of the executable
	Args    []string // its arguments
	Dir     string   // working folder of the ranks; "": that of this process

	Restarts int                         // number of restarts after the loss of a rank or a chip
	Out, Err io.Writer                   // get the ranks' output, with the rank's number before each line
	Tell     func(string)                // gets messages for people; must not be nil
	Revive   func(context.Context) error // starts the missing chips before a restart; must not be nil
}

// Door is how the ranks reach their chips.
type Door string

// The doors.
const (
	Socket Door = "socket" // the chips' Unix sockets
	HTTP   Door = "http"   // the chips' APIs
)

// Words returns the door in words, for messages.
func (d Door) Words() string {
	if d == HTTP {
		return "HTTP"
	}
	return "Unix sockets"
}

// Report says how a job went.
type Report struct {
	Fabric   string    `json:"fabric"`    // name of the fabric
	Program  string    `json:"program"`   // path of the executable
	Ranks    int       `json:"ranks"`     // number of ranks
	Door     Door      `json:"door"`      // how the ranks reached their chips: socket or http
	ExitCode int       `json:"exit_code"` // 0, or the exit code of the first rank that failed in the last attempt; 128 plus the signal's number if a signal ended the rank
	Attempts []Attempt `json:"attempts"`  // the attempts, in order
}

// Attempt is one run of all ranks.
type Attempt struct {
	Number  int                 `json:"number"`          // number of the attempt, from 0
	Seconds float64             `json:"seconds"`         // time from the start of the first rank to the end of the last
	Lost    []int               `json:"lost,omitempty"`  // ranks that failed by themselves, in the order of their ends
	Chips   []wire.FabricNodeID `json:"chips,omitempty"` // chips that were lost
	Why     string              `json:"why,omitempty"`   // why the attempt failed; absent if all ranks ended with exit code 0

	code int
}

// NewReport returns the report of a job before its first attempt. The second result says why the
// ranks use HTTP, and begins with ", because"; "": they use the sockets. If a chip does not run,
// NewReport returns an error.
func (j *Job) NewReport() (*Report, string, error) {
	chips, err := j.chips()
	if err != nil {
		return nil, "", err
	}
	r := &Report{Fabric: j.Fabric.Name(), Program: j.Program, Ranks: len(chips), Door: Socket, Attempts: []Attempt{}}
	why := ""
	for _, c := range chips {
		if why = noSocket(&c); why != "" {
			r.Door, why = HTTP, ", because "+why
			break
		}
	}
	return r, why, nil
}

// noSocket returns why a rank cannot use the socket of a chip; "": it can.
func noSocket(c *folder.Chip) string {
	if c.Socket == "" {
		return fmt.Sprintf("chip %s has no Unix socket that this machine can reach", c.Chip)
	}
	if len(c.Socket) > attach.MaxPath {
		return fmt.Sprintf("the path of the socket of chip %s is too long", c.Chip)
	}
	if _, err := os.Stat(c.Socket); err != nil {
		return fmt.Sprintf("the socket of chip %s is missing: %v", c.Chip, err)
	}
	return ""
}

// chips returns the running chips in the order of the ranks. If one does not run, chips returns an
// error.
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
	if len(out) > attach.MaxRanks {
		return nil, spec.Usagef("a job of %d ranks: want at most %d", len(out), attach.MaxRanks)
	}
	return out, nil
}

// Run runs the job to its end, and fills in the report. If ctx ends, Run ends all ranks and returns
// the error of ctx. A rank that fails is no error of Run.
func (j *Job) Run(ctx context.Context, rep *Report) error {
	name := strings.ToLower(rand.Text()[:8])
	for number := 0; ; number++ {
		chips, err := j.chips()
		if err != nil {
			return err
		}
		a, err := j.attempt(ctx, name, number, chips, rep.Door)
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
		j.Tell(fmt.Sprintf("Restarting all ranks, as attempt %d of at most %d.", number+1, j.Restarts))
		if err := j.Revive(ctx); err != nil {
			return fmt.Errorf("the job cannot start again: %w", err)
		}
	}
}

// process is one rank.
type process struct {
	cmd  *exec.Cmd
	out  []*lines
	gone chan struct{} // closed when the process has ended
}

// end is the end of a rank.
type end struct {
	rank int
	err  error
}

// attempt runs all ranks once.
func (j *Job) attempt(ctx context.Context, name string, number int, chips []folder.Chip, door Door) (Attempt, error) {
	begin := time.Now()
	a := Attempt{Number: number}
	var mu sync.Mutex // one line after the other, for both outputs
	ps := make([]*process, len(chips))
	for i := range chips {
		ps[i] = j.process(i, name, number, chips, door, &mu)
	}
	ends := make(chan end, len(ps))
	stop := make(chan struct{})
	started := make(chan error, 1)
	go start(ps, started, stop) // the ranks end with the thread of this goroutine
	defer close(stop)
	err := <-started
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
	for _, p := range ps {
		for _, l := range p.out {
			l.flush()
		}
	}
	a.Seconds = time.Since(begin).Seconds()
	return a, err
}

// watch waits until all ranks have ended. When one fails, a chip is lost or ctx ends, watch ends the
// others.
func (j *Job) watch(ctx context.Context, a *Attempt, ps []*process, chips []folder.Chip, ends <-chan end, running int) {
	tick := time.NewTicker(lookAfter)
	defer tick.Stop()
	done, ending := ctx.Done(), false
	stop := func() {
		if !ending {
			ending = true
			signal(ps, syscall.SIGTERM)
			time.AfterFunc(KillAfter, func() { signal(ps, syscall.SIGKILL) })
		}
	}
	if a.Why != "" {
		stop()
	}
	for running > 0 {
		select {
		case e := <-ends:
			running--
			if code, text := codeOf(e.err); code != 0 && !ending {
				a.Lost = append(a.Lost, e.rank)
				a.fail(code, fmt.Sprintf("rank %d (chip %s) ended %s", e.rank, chips[e.rank].Chip, text))
				j.Tell(fmt.Sprintf("Rank %d (chip %s) ended %s; ending the other ranks.", e.rank, chips[e.rank].Chip, text))
				stop()
			}
		case <-tick.C:
			if ending {
				continue
			}
			if a.Chips = j.lost(chips); len(a.Chips) > 0 {
				a.fail(1, fmt.Sprintf("chip %s was lost", a.Chips[0]))
				j.Tell(fmt.Sprintf("Chip %s of rank %d was lost; ending all ranks.", a.Chips[0], j.Fabric.Topology.Index(a.Chips[0])))
				stop()
			}
		case <-done:
			done = nil
			a.fail(int(128+syscall.SIGINT), "interrupted")
			stop()
		}
	}
}

// fail notes why an attempt failed, unless it has failed already.
func (a *Attempt) fail(code int, why string) {
	if a.Why == "" {
		a.Why, a.code = why, code
	}
}

// lost returns the chips that do not run any more, or that were started anew.
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

// codeOf returns the exit code of a rank, and how it ended in words.
func codeOf(err error) (code int, text string) {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // a child of the rank held the rank's output open
		return 0, "with exit code 0"
	case !errors.As(err, &exit):
		return 1, "with an error: " + err.Error()
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal()), "by the signal " + s.Signal().String()
	}
	return exit.ExitCode(), fmt.Sprintf("with exit code %d", exit.ExitCode())
}

// process returns the process of a rank, not started.
func (j *Job) process(i int, name string, number int, chips []folder.Chip, door Door, mu *sync.Mutex) *process {
	prefix := fmt.Sprintf("[%d] ", i)
	p := &process{cmd: exec.Command(j.Program, j.Args...), gone: make(chan struct{}),
		out: []*lines{{to: j.Out, prefix: prefix, mu: mu}, {to: j.Err, prefix: prefix, mu: mu}}}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = j.Dir, p.out[0], p.out[1], drainAfter
	p.cmd.SysProcAttr = attributes()
	p.cmd.Env = append(os.Environ(), j.variables(i, name, number, chips, door)...)
	return p
}

// variables returns the environment variables of a rank.
func (j *Job) variables(i int, name string, number int, chips []folder.Chip, door Door) []string {
	var list []string
	for _, c := range chips {
		list = append(list, c.Chip.String())
	}
	c, root := chips[i], chips[0]
	socket, rootSocket := c.Socket, root.Socket
	if door != Socket {
		socket, rootSocket = "", ""
	}
	return []string{
		rank.EnvRank + "=" + fmt.Sprint(i), rank.EnvLocalRank + "=" + fmt.Sprint(i), rank.EnvWorld + "=" + fmt.Sprint(len(chips)),
		rank.EnvName + "=" + j.Fabric.Name(), rank.EnvDir + "=" + string(j.Fabric.Dir), rank.EnvChip + "=" + c.Chip.String(),
		rank.EnvChips + "=" + strings.Join(list, ","), rank.EnvCoordinates + "=" + coordinates(j.Fabric.Topology, c.Chip),
		rank.EnvSocket + "=" + socket, rank.EnvAPI + "=" + c.API, rank.EnvTokenFile + "=" + j.Fabric.Dir.TokenPath(),
		rank.EnvRootSocket + "=" + rootSocket, rank.EnvRootAPI + "=" + root.API, rank.EnvJob + "=" + name, rank.EnvAttempt + "=" + fmt.Sprint(number),
	}
}

// coordinates returns row and column of a chip in its mesh.
func coordinates(t *topo.Topology, n wire.FabricNodeID) string {
	m, _ := t.Mesh(n.Mesh)
	cols := max(m.Cols, 1)
	return fmt.Sprintf("%d,%d", int(n.Chip)/cols, int(n.Chip)%cols)
}
