package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/kernel"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// Times of jobs.
const (
	jobStart = 10 * time.Second // limit for a chip's answer to the start of its part
	jobStop  = 5 * time.Second  // limit for the stop of a job
	jobRest  = 5 * time.Second  // after a chip has reported that the job ended early: longest wait for the other chips' reports
)

// NewJobID returns a random number for a job.
func NewJobID() kernel.JobID { return kernel.JobID(rand.Uint64N(1<<53-1) + 1) } // JSON numbers are exact up to 2^53

// JobsOf lists the jobs of each chip.
func JobsOf(ctx context.Context, cs []*api.Client) []Answer[api.JobsView] {
	return Each(ctx, cs, jobStart, func(ctx context.Context, c *api.Client) (api.JobsView, error) { return c.Jobs(ctx) })
}

// RunJob starts the parts of a job on their chips, and waits until all have ended. RunJob starts the
// first chip's part before the others: of two jobs that want the same memory of the same chips, the
// first chip takes one, and the other job starts nowhere. If a chip cannot start its part, or if ctx
// ends, RunJob stops the job on all chips. If the job ends early, the
// error is a [*session.JobError], which names the chip that ended the job first. After the first report of
// an early end, RunJob waits at most 5 s for the other chips' reports: a chip whose process is paused
// gives none.
func (f *Fabric) RunJob(ctx context.Context, parts map[wire.FabricNodeID]kernel.Job) error {
	var cs []*api.Client
	var id kernel.JobID
	for _, n := range f.Topology.Nodes() {
		j, ok := parts[n]
		if !ok {
			continue
		}
		c, err := f.Client(n)
		if err != nil {
			return err
		}
		cs, id = append(cs, c), j.ID
	}
	start := func(_ context.Context, c *api.Client) (struct{}, error) {
		return struct{}{}, c.StartJob(parts[c.Self()])
	}
	started := Each(ctx, cs[:min(1, len(cs))], jobStart, start)
	if len(started) > 0 && started[0].Err == nil {
		started = append(started, Each(ctx, cs[1:], jobStart, start)...)
	}
	var failed error
	some := false
	for _, a := range started {
		failed, some = errors.Join(failed, a.Err), some || a.Err == nil
	}
	if failed != nil {
		if some { // otherwise another job may have this number
			StopJob(cs, id, "a chip could not start its part")
		}
		return failed
	}
	ends := waitJob(ctx, cs, id, jobRest)
	if ctx.Err() != nil {
		StopJob(cs, id, "the command that started the job was interrupted")
		return ctx.Err()
	}
	for _, a := range ends {
		switch {
		case a.Err != nil:
			failed = errors.Join(failed, fmt.Errorf("chip %s: %w", a.Chip, a.Err))
		case a.Value.Why != kernel.EndDone:
			return &session.JobError{Job: id, End: a.Value}
		}
	}
	return failed
}

// waitJob waits until a job has ended on all chips. After the first report of an early end, waitJob waits at
// most for the time "rest".
func waitJob(ctx context.Context, cs []*api.Client, id kernel.JobID, rest time.Duration) []Answer[kernel.End] {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return Each(ctx, cs, 0, func(ctx context.Context, c *api.Client) (kernel.End, error) {
		e, err := c.WaitJob(ctx, id)
		if err == nil && e.Why != kernel.EndDone {
			time.AfterFunc(rest, cancel)
		}
		return e, err
	})
}

// StopJob stops a job on all chips, and returns the number of chips on which the job ran. The
// argument "text" gives the reason.
func StopJob(cs []*api.Client, id kernel.JobID, text string) (n int) {
	ran := Each(context.Background(), cs, jobStop, func(ctx context.Context, c *api.Client) (bool, error) {
		v, err := c.Jobs(ctx)
		return slices.ContainsFunc(v.Jobs, func(r kernel.Running) bool { return r.Job == id }), err
	})
	for i, a := range ran {
		if !a.Value {
			continue
		}
		if n++; n == 1 { // this chip reports the end to the others, so that all of them name the same chip
			_ = cs[i].EndJob(id, text)
		}
	}
	Each(context.Background(), cs, jobStop, func(_ context.Context, c *api.Client) (struct{}, error) {
		return struct{}{}, c.EndJob(id, text) // a chip on which the job has ended answers with an error
	})
	return n
}
