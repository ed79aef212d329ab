package node

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/kernel"
	"ttfabric/wire/mono"
)

// StartJob starts this chip's part of a job of kernels, see [kernel.Machine.Start].
func (n *Node) StartJob(j kernel.Job) error {
	var err error
	if closed := n.order(func(now mono.Time) { err = n.chip.StartJob(now, j) }); closed != nil {
		return closed
	}
	return err
}

// EndJob stops a job on all its chips. The text says why. EndJob returns an error if the job does not
// run on this chip.
func (n *Node) EndJob(id kernel.JobID, text string) error {
	return n.endJob(id, kernel.EndStopped, text)
}

// EndOfRank ends a job on all its chips, because the rank that started this chip's part has ended. The
// text names the rank. EndOfRank returns an error if the job does not run on this chip.
func (n *Node) EndOfRank(id kernel.JobID, rank string) error {
	return n.endJob(id, kernel.EndRank, rank)
}

func (n *Node) endJob(id kernel.JobID, why kernel.Why, text string) error {
	ran := false
	if closed := n.order(func(now mono.Time) {
		ran = n.chip.EndJob(now, id, kernel.End{Why: why, By: n.cfg.Node, Text: text})
	}); closed != nil {
		return closed
	}
	if !ran {
		return fmt.Errorf("job %d does not run on chip %s", id, n.cfg.Node)
	}
	return nil
}

// Kernels lists the names of the kernels that the chip can run.
func (n *Node) Kernels() []string {
	return append([]string{}, slices.Sorted(maps.Keys(n.cfg.Kernels))...)
}

// Jobs lists the jobs that run on the chip.
func (n *Node) Jobs() []kernel.Running {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chip.Jobs()
}

// HostQueues lists the base firmware's queues and counters of the chip's ethernet tiles, by channel. Chips
// of the architecture Blackhole have none.
func (n *Node) HostQueues() []firmware.Tile {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.chip.HostQueues()
}

// WaitJob waits until a job has ended on this chip, and returns how the job ended. A chip remembers
// the ends of its last 256 jobs. For a job that never ran here, WaitJob returns an error.
func (n *Node) WaitJob(ctx context.Context, id kernel.JobID) (kernel.End, error) {
	n.mu.Lock()
	runs := slices.ContainsFunc(n.chip.Jobs(), func(r kernel.Running) bool { return r.Job == id })
	end, wait := n.events.ends.of(id)
	n.mu.Unlock()
	switch {
	case wait == nil:
		return end, nil
	case !runs:
		n.events.ends.forget(id, wait)
		return end, fmt.Errorf("job %d does not run on chip %s, and is not among the last %d jobs that ended", id, n.cfg.Node, maxEnds)
	}
	select {
	case <-ctx.Done():
		n.events.ends.forget(id, wait)
		return end, ctx.Err()
	case end, ok := <-wait:
		if !ok {
			return end, ErrClosed
		}
		return end, nil
	}
}

// logKernel writes broken rules and failures of kernels into the chip's log.
func (n *Node) logKernel(e *kernel.Event) {
	switch {
	case e.Kind == kernel.JobEnded && e.End.Stack != "":
		n.log.Error("a kernel panicked", "chip", n.cfg.Node, "job", uint64(e.Job), "kernel", e.End.Kernel, "panic", e.End.Text, "stack", e.End.Stack)
	case e.Kind == kernel.Violated || e.Kind == kernel.StopIgnored:
		n.log.Warn(e.String(), "chip", n.cfg.Node)
	}
}

// maxEnds is the number of jobs whose end a node remembers.
const maxEnds = 256

// jobEnds holds the ends of a node's last jobs, and the channels of callers that wait for the end
// of a job.
type jobEnds struct {
	mu     sync.Mutex
	last   []jobEnd // oldest first, at most maxEnds
	wait   map[kernel.JobID][]chan kernel.End
	closed bool
}

type jobEnd struct {
	id  kernel.JobID
	end kernel.End
}

// of returns the end of a job that has ended, or a channel that gets the end.
func (x *jobEnds) of(id kernel.JobID) (kernel.End, chan kernel.End) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range slices.Backward(x.last) {
		if e.id == id {
			return e.end, nil
		}
	}
	c := make(chan kernel.End, 1)
	if x.closed {
		close(c)
		return kernel.End{}, c
	}
	if x.wait == nil {
		x.wait = map[kernel.JobID][]chan kernel.End{}
	}
	x.wait[id] = append(x.wait[id], c)
	return kernel.End{}, c
}

// forget ends a wait.
func (x *jobEnds) forget(id kernel.JobID, c chan kernel.End) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wait[id] = slices.DeleteFunc(x.wait[id], func(d chan kernel.End) bool { return d == c })
	if len(x.wait[id]) == 0 {
		delete(x.wait, id)
	}
}

// add records the end of a job. When a job starts, add removes the end of an earlier job with the
// same number.
func (x *jobEnds) add(e *kernel.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = slices.DeleteFunc(x.last, func(l jobEnd) bool { return l.id == e.Job })
	if e.Kind != kernel.JobEnded {
		return
	}
	if len(x.last) == maxEnds {
		x.last = slices.Delete(x.last, 0, 1)
	}
	x.last = append(x.last, jobEnd{e.Job, e.End})
	for _, c := range x.wait[e.Job] {
		c <- e.End
	}
	delete(x.wait, e.Job)
}

func (x *jobEnds) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	for _, cs := range x.wait {
		for _, c := range cs {
			close(c)
		}
	}
	clear(x.wait)
}

// A kernel hangs if it takes hangTime of processor time in one turn. The chip cannot interrupt Go
// code that loops and never calls its Context.
const (
	hangTime  = time.Second
	hangEvery = 100 * time.Millisecond // interval at which the watchdog looks
)

// watchdog finds a kernel that never yields. The watchdog has a timer only while kernels have turns.
type watchdog struct {
	runs  atomic.Pointer[fmt.Stringer] // kernel that runs now; nil: none
	turns atomic.Uint64
	looks atomic.Bool   // watch has its timer, and sees the next turn by itself
	wake  chan struct{} // wakes watch up when a turn begins; capacity 1
}

// running notes which kernel runs. The chip calls running before each turn of a kernel, and after
// the turn with nil.
func (w *watchdog) running(k fmt.Stringer) {
	if k == nil {
		w.runs.Store(nil)
		return
	}
	w.turns.Add(1)
	w.runs.Store(&k)
	if !w.looks.Load() {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// watch calls "hung" once with a kernel that has taken hangTime of processor time in one turn, and
// with the stacks of all goroutines. watch measures the processor time of the whole process. So a
// kernel whose process waits for a processor does not hang.
func (w *watchdog) watch(ctx context.Context, hung func(kernel string, stacks []byte)) {
	var turn uint64
	var since time.Duration
	t := time.NewTicker(hangEvery)
	t.Stop()
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
			if !w.looks.Swap(true) {
				t.Reset(hangEvery)
			}
			continue
		case <-t.C:
		}
		k, now, used := w.runs.Load(), w.turns.Load(), processorTime()
		switch {
		case k == nil && now == turn: // no turn since the last look
			if w.looks.Store(false); w.turns.Load() == now { // a later turn wakes watch up
				t.Stop()
			} else {
				w.looks.Store(true)
			}
		case k == nil || now != turn:
			turn, since = now, used
		case used-since >= hangTime:
			b := make([]byte, 1<<20)
			hung((*k).String(), b[:runtime.Stack(b, true)])
			return
		}
	}
}
