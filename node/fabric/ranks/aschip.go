package ranks

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/rank/launched"
	"ttfabric/wire"
)

// attemptAsChip runs all ranks once. Each rank is its chip.
func (j *Job) attemptAsChip(ctx context.Context, name string, number int, door Door) (Attempt, error) {
	begin := time.Now()
	a := Attempt{Number: number}
	c := &chips{job: j, ps: make([]*process, len(j.Fabric.Topology.Chips)), exits: make(fabric.Exits, len(j.Fabric.Topology.Chips))}
	defer c.close()
	err := c.start(ctx, name, number, door)
	if err != nil {
		a.fail(1, err.Error())
		terminate(c.started())
	} else {
		err = c.begin(name, number, door)
	}
	c.watch(ctx, &a)
	flush(c.started())
	a.Seconds = time.Since(begin).Seconds()
	return a, err
}

// chips are the ranks of one attempt. Each rank is its own chip.
type chips struct {
	job     *Job
	mu      sync.Mutex // guards the output, so that lines of several ranks do not mix
	ps      []*process // processes of the ranks, by rank; nil: not started
	exits   fabric.Exits
	running int // number of processes whose end is not known yet
}

// start starts all processes, and waits until all links are up.
func (c *chips) start(ctx context.Context, name string, number int, door Door) error {
	j := c.job
	known := make([]folder.Chip, len(c.ps)) // the sockets and addresses become known when the chips run
	for i, n := range j.Fabric.Topology.Nodes() {
		known[i].Chip = n
	}
	j.Fabric.Start = func(n wire.FabricNodeID, cmd *exec.Cmd) (err error) {
		i := j.Fabric.Topology.Index(n)
		p := j.process(&c.mu, i, cmd)
		cmd.Path, cmd.Args = j.Program, append([]string{j.Program}, j.Args...)
		cmd.Env = append(os.Environ(), j.variables(i, name, number, known, door)...)
		if p.line, err = launched.Start(cmd); err == nil {
			c.ps[i] = p
			c.running++
		}
		return err
	}
	err := j.Bring(ctx, c.exits)
	j.Fabric.Start = nil
	var ended *fabric.EndedError
	if errors.As(err, &ended) { // c.exits does not report the end of this process
		c.gone(ended.Exit)
	}
	return err
}

// begin lets the users' programs begin. All chips must run already.
func (c *chips) begin(name string, number int, door Door) error {
	running, err := c.job.chips()
	for i, p := range c.ps {
		if err == nil {
			_ = p.line.Begin(c.job.variables(i, name, number, running, door)) // if the process has just ended, c.exits reports the end
		}
	}
	return err
}

// gone notes the end of a process, and returns its rank.
func (c *chips) gone(e folder.Exit) (rank int) {
	c.running--
	rank = c.job.Fabric.Topology.Index(e.Chip)
	close(c.ps[rank].gone)
	return rank
}

// started returns the processes that have been started.
func (c *chips) started() []*process {
	return slices.DeleteFunc(slices.Clone(c.ps), func(p *process) bool { return p == nil })
}

// close closes the lines to all processes.
func (c *chips) close() {
	for _, p := range c.started() {
		p.line.Close()
	}
}

// watch waits until all processes have ended. When all programs have returned, a program fails, or
// ctx ends, watch ends the processes. With Keep, a program that fails ends only its own process.
func (c *chips) watch(ctx context.Context, a *Attempt) {
	returned := make(chan int, len(c.ps))
	for i, p := range c.ps {
		if p != nil {
			go func() {
				if p.line.Returned() {
					returned <- i
				}
			}()
		}
	}
	done, ending, left := ctx.Done(), a.Why != "", len(c.ps)
	over := make([]bool, len(c.ps)) // ranks whose programs have returned or ended
	stop := func() {
		ending = true
		terminate(c.started())
	}
	end := func(rank int) {
		if over[rank] {
			return
		}
		over[rank] = true
		if left--; left == 0 && !ending {
			stop()
		}
	}
	for c.running > 0 {
		select {
		case rank := <-returned:
			a.good = append(a.good, rank)
			end(rank)
		case e := <-c.exits:
			rank := c.gone(e)
			code, how := e.How()
			if ending {
				continue
			}
			if code == 0 { // a chip must run until all ranks have ended
				code, how = 1, how+" before the programs of all ranks had returned: a program that is a chip returns, and does not call os.Exit"
			}
			if c.job.failed(a, rank, code, how); c.job.Keep {
				end(rank)
			} else {
				stop()
			}
		case <-done:
			done = nil
			a.fail(int(128+syscall.SIGINT), "interrupted")
			stop()
		}
	}
	a.keep(c.job.Keep)
}
