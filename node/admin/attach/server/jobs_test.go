package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"ttfabric/node/admin/attach"
	"ttfabric/node/kernel"
	"ttfabric/node/session"
)

var jobTile = kernel.Tile{X: 1, Y: 1}

// kernels are the kernels of the test's chips.
var kernels = kernel.Table{
	"wait": func(k *kernel.Context) { k.NocSemaphoreWait(0x10000, 1) }, // until somebody stores 1
}

// jobPart returns a job of one kernel on each of the chips.
func (l *live) jobPart(id kernel.JobID) kernel.Job {
	return kernel.Job{ID: id, Chips: l.topology.Nodes(), Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: "wait", Tile: jobTile}},
		Semaphores: []kernel.Semaphore{{Tile: jobTile, Addr: 0x10000}}}}}
}

// run starts the program's part of a job. The channel gets how the part ended.
func (l *live) run(t *testing.T, ctx context.Context, c *attach.Client, id kernel.JobID) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- session.New(c).Run(ctx, l.jobPart(id)) }()
	n := l.nodes[slices.Index(l.topology.Nodes(), c.Self())]
	l.eventually(t, "the start of the job", func() bool {
		return slices.ContainsFunc(n.Jobs(), func(r kernel.Running) bool { return r.Job == id })
	})
	return ended
}

// TestJobsOfPrograms runs jobs of kernels that local programs start. A job ends well, is stopped by the end
// of a program's context, and ends on all chips when one of the programs dies.
func TestJobsOfPrograms(t *testing.T) {
	l := start(t, "n300", "")
	a, b := l.dial(t, 0), l.dial(t, 1)
	a.Own("rank 0")
	b.Own("rank 1")
	store := func(value uint32) {
		for _, c := range []*attach.Client{a, b} {
			check(t, session.New(c).InlineWrite(l.ctx, c.Self(), jobTile.Addr(0x10000), value))
		}
	}
	one, two := l.run(t, l.ctx, a, 1), l.run(t, l.ctx, b, 1)
	if jobs := l.nodes[1].Jobs(); jobs[0].Owner != "rank 1" {
		t.Errorf("the job's owner is %q, want rank 1", jobs[0].Owner)
	}
	var refused *attach.Error
	if err := a.StartJob(l.jobPart(1)); !errors.As(err, &refused) || !strings.Contains(err.Error(), kernel.ErrRuns.Error()) {
		t.Errorf("a second start: %v", err)
	}
	if err := a.EndJob(5, "no such job"); !errors.As(err, &refused) {
		t.Errorf("the stop of a job that does not run: %v", err)
	}
	if _, err := a.WaitJob(l.ctx, 5); !errors.As(err, &refused) {
		t.Errorf("the wait for a job that does not run: %v", err)
	}
	store(1)
	check(t, <-one, <-two)
	store(0)

	ctx, cancel := context.WithCancel(l.ctx)
	one, two = l.run(t, ctx, a, 2), l.run(t, l.ctx, b, 2)
	cancel()
	var job *session.JobError
	if err := <-one; !errors.Is(err, context.Canceled) {
		t.Errorf("the program that was interrupted: %v", err)
	}
	if err := <-two; !errors.As(err, &job) || job.End.Why != kernel.EndStopped || job.End.By != a.Self() {
		t.Errorf("the other program: %v", err)
	}

	one, two = l.run(t, l.ctx, a, 3), l.run(t, l.ctx, b, 3)
	b.Close()
	<-two
	if err := <-one; !errors.As(err, &job) || job.End != (kernel.End{Why: kernel.EndRank, By: b.Self(), Text: "rank 1"}) {
		t.Errorf("after the death of a rank, the other rank got: %v", err)
	}
	end, err := l.nodes[1].WaitJob(l.ctx, 3)
	if err != nil || end.Why != kernel.EndRank || end.Text != "rank 1" {
		t.Errorf("the report of the dead rank's chip: %+v, %v", end, err)
	}
}

// TestJobsEndWithTheChip closes a chip while a local program's job runs. The job must end because of the
// chip, not because of the rank.
func TestJobsEndWithTheChip(t *testing.T) {
	l := start(t, "n300", "")
	a, b := l.dial(t, 0), l.dial(t, 1)
	one, two := l.run(t, l.ctx, a, 1), l.run(t, l.ctx, b, 1)
	l.servers[1].Close()
	l.nodes[1].Close()
	<-two
	var job *session.JobError
	if err := <-one; !errors.As(err, &job) || job.End.Why != kernel.EndChip || job.End.By != b.Self() {
		t.Errorf("after the death of a chip, the other rank got: %v", err)
	}
}
