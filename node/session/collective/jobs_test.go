package collective_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"ttfabric/node/edm"
	"ttfabric/node/edm/schedule"
	"ttfabric/node/kernel"
	"ttfabric/node/session/collective"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// jobs are the jobs of kernels of the programs of a bubble. The bubble's mutex guards all fields.
type jobs struct {
	checker *edm.Checker
	asked   []askedJob
	ends    []map[kernel.JobID]chan kernel.End // by chip; each channel has room for one end
	rules   []string                           // reports of broken rules of the data movement API
	done    int                                // parts of jobs that ended as done
}

// askedJob is a start or an end of a job that a program asks for.
type askedJob struct {
	chip   int
	start  *kernel.Job // nil: an end
	id     kernel.JobID
	text   string
	answer chan error
}

func newJobs(m *topo.Topology) jobs {
	j := jobs{ends: make([]map[kernel.JobID]chan kernel.End, len(m.Chips))}
	for i := range j.ends {
		j.ends[i] = map[kernel.JobID]chan kernel.End{}
	}
	j.checker = edm.NewChecker(func(p wire.PortID) (wire.PortID, bool) { return kernel.ConnectedEthernetCore(m, p.Node, p.Channel) })
	return j
}

// kernels returns the kernels that the chips need, with EDMs that report to the checker.
func (j *jobs) kernels() kernel.Table {
	t := edm.Observed(j.checker.Observe)
	maps.Copy(t, schedule.Kernels)
	return t
}

// bury ends the waits for jobs of a dead chip.
func (j *jobs) bury(chip int) {
	for id, c := range j.ends[chip] {
		close(c)
		delete(j.ends[chip], id)
	}
	for i := range j.asked {
		if j.asked[i].chip == chip {
			j.asked[i].answer <- errDead
		}
	}
	j.asked = slices.DeleteFunc(j.asked, func(a askedJob) bool { return a.chip == chip })
}

// settled checks that no message of an EDM is under way, and that each EDM has ended whose channels are done. No job may
// have ended early before.
func (b *bubble) settled(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.jobs.checker.Finish() {
		t.Error(x)
	}
	if (b.jobs.done > 0) != (b.means == collective.EDM) {
		t.Errorf("%d parts of jobs ended as done, with the means %s", b.jobs.done, b.means)
	}
}

// kernel takes an event of the kernels of a chip.
func (b *bubble) kernel(chip int, e kernel.Event) {
	switch {
	case e.Kind == kernel.JobEnded:
		if e.End.Why == kernel.EndDone {
			b.jobs.done++
		}
		b.note(uint64(chip), uint64(e.End.Why))
		if c := b.jobs.ends[chip][e.Job]; c != nil {
			c <- e.End
			b.moved = true
		}
	case e.Kind == kernel.Violated || e.Kind == kernel.StopIgnored:
		b.jobs.rules = append(b.jobs.rules, fmt.Sprintf("chip %d: %s", chip, e.String()))
	}
}

// handJobs hands the jobs of the programs to the chips, in the order of the chips.
func (b *bubble) handJobs() {
	all := b.jobs.asked
	b.jobs.asked = nil
	slices.SortStableFunc(all, func(x, y askedJob) int { return cmp.Compare(x.chip, y.chip) })
	for _, a := range all {
		var err error
		switch {
		case !b.d.Alive(a.chip):
			err = errDead
		case a.start != nil:
			b.jobs.ends[a.chip][a.id] = make(chan kernel.End, 1)
			err = b.d.StartJob(a.chip, *a.start)
		case !b.d.EndJob(a.chip, a.id, a.text):
			err = fmt.Errorf("job %d does not run", a.id)
		}
		a.answer <- err
		b.moved = true
	}
}

// ask waits for the answer to a request about a job.
func (p *port) ask(a askedJob) error {
	a.chip, a.answer = p.chip, make(chan error, 1)
	p.b.mu.Lock()
	if !p.b.d.Alive(p.chip) || p.b.failure != nil {
		p.b.mu.Unlock()
		return errDead
	}
	p.b.jobs.asked = append(p.b.jobs.asked, a)
	p.b.ring()
	p.b.mu.Unlock()
	return <-a.answer
}

// StartJob implements [session.Runner].
func (p *port) StartJob(j kernel.Job) error { return p.ask(askedJob{start: &j, id: j.ID}) }

// EndJob implements [session.Runner].
func (p *port) EndJob(id kernel.JobID, text string) error {
	return p.ask(askedJob{id: id, text: text})
}

// WaitJob implements [session.Runner].
func (p *port) WaitJob(ctx context.Context, id kernel.JobID) (kernel.End, error) {
	p.b.mu.Lock()
	c := p.b.jobs.ends[p.chip][id]
	p.b.mu.Unlock()
	if c == nil {
		return kernel.End{}, errDead
	}
	select {
	case e, ok := <-c:
		if !ok {
			return e, errDead
		}
		p.b.mu.Lock()
		delete(p.b.jobs.ends[p.chip], id)
		p.b.mu.Unlock()
		return e, nil
	case <-ctx.Done():
		return kernel.End{}, ctx.Err()
	}
}
