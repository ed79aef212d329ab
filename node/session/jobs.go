package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ttfabric/node/kernel"
)

// Runner is a [Fabric] whose chip runs kernels.
type Runner interface {
	// StartJob starts the chip's part of a job.
	StartJob(j kernel.Job) error
	// EndJob stops a job on all its chips. The text gives the reason.
	EndJob(id kernel.JobID, text string) error
	// WaitJob waits until a job has ended on the chip, and returns how the job ended.
	WaitJob(ctx context.Context, id kernel.JobID) (kernel.End, error)
}

// ErrNoKernels is the error of [Session.Run] on a fabric that is no [Runner].
var ErrNoKernels = errors.New("this fabric runs no kernels: run the program as the chip, with 'ttfabric run --as-chip' or 'ttfabric up --program'")

// JobError says that a job ended early.
type JobError struct {
	Job kernel.JobID
	End kernel.End
}

// Error says which chip ended the job, and why.
func (e *JobError) Error() string {
	s := fmt.Sprintf("job %d: %s, first at chip %s", e.Job, e.End.Why, e.End.By)
	if e.End.Kernel != "" {
		s += ", kernel " + e.End.Kernel
	}
	if e.End.Text != "" {
		s += ": " + e.End.Text
	}
	return s
}

// stopTime is the longest time that Run waits for the end of a job that it has stopped.
const stopTime = 5 * time.Second

// Run runs this chip's part of a job, and waits for the end of the job. If the job ends early, the
// error is a [*JobError]. If ctx ends first, Run stops the job on all its chips. If this program is
// a rank that dies first, its chip ends the job on all chips of the job. The error of the other
// ranks then names this rank.
func (s *Session) Run(ctx context.Context, j kernel.Job) error {
	r, ok := s.f.(Runner)
	if !ok {
		return ErrNoKernels
	}
	if err := r.StartJob(j); err != nil {
		return err
	}
	// Run continues to wait while Run stops the job. If a rank stops waiting, its chip ends the job
	// and reports that the rank has died.
	wait, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan struct{})
	var end kernel.End
	var err error
	go func() {
		defer close(ended)
		end, err = r.WaitJob(wait, j.ID)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = r.EndJob(j.ID, "the program that started the job has ended") // the job may have ended meanwhile
		select {
		case <-ended:
		case <-time.After(stopTime):
		}
		return ctx.Err()
	}
	if err == nil && end.Why != kernel.EndDone {
		err = &JobError{j.ID, end}
	}
	return err
}
