package sim

import (
	"fmt"
	"time"

	"ttfabric/wire/mono"
)

// event is an entry of the heap: something planned for the time "at". The number n orders events
// that are planned for the same time.
type event struct {
	at   mono.Time
	n    int
	what int // index in events.whats
}

// The type "what" is the content of an event: a function to call, arriving datagrams, or a chip
// that runs a step. Exactly one of the fields "do", "flight" and "m" is set.
type what struct {
	do     func()
	flight *flight
	m      *machine
	wake   int // value of m.wakeID when the step was planned
}

// count returns the number of events that w counts as. Each arriving datagram counts as one event.
func (w *what) count() int {
	if w.flight != nil {
		return len(w.flight.ends)
	}
	return 1
}

// The method "before" reports whether e comes before f. Events with the same time come in the order
// of planning.
func (e *event) before(f *event) bool { return e.at < f.at || (e.at == f.at && e.n < f.n) }

// events is the queue of planned events, a binary heap. The first entry of heap is the next event.
type events struct {
	heap  []event
	n     int
	whats []what
	free  []int // indices of whats that are free

	last   *flight // the flight that was planned last; the flight may still get datagrams while n equals lastN
	lastN  int
	landed []*flight // flights that have arrived; new flights use their memory
}

// add plans an event for the time t.
func (q *events) add(t mono.Time, w what) {
	q.n++
	i := len(q.whats)
	if n := len(q.free); n > 0 {
		q.free, i = q.free[:n-1], q.free[n-1]
		q.whats[i] = w
	} else {
		q.whats = append(q.whats, w)
	}
	q.push(event{t, q.n, i})
}

// take removes the next event, and returns its content.
func (q *events) take() what {
	i := q.pop().what
	w := q.whats[i]
	q.whats[i] = what{}
	q.free = append(q.free, i)
	return w
}

func (q *events) push(e event) {
	q.heap = append(q.heap, e)
	h := q.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *events) pop() event {
	h := q.heap
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	q.heap = h
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			return first
		}
		if r := least + 1; r < last && h[r].before(&h[least]) {
			least = r
		}
		if !h[least].before(&h[i]) {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func (s *Sim) at(t mono.Time, do func()) { s.queue.add(max(t, s.now), what{do: do}) }

// happens carries out an event. A planned step has no effect if the chip has planned another step
// since, or is dead.
func (s *Sim) happens(w what) {
	switch {
	case w.do != nil:
		w.do()
	case w.flight != nil:
		s.arrive(w.flight)
	case w.m.wakeID == w.wake && w.m.chip != nil:
		w.m.wake = mono.Never
		s.run(w.m)
	}
}

func (s *Sim) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }

// restEvery is the virtual time between two calls of the argument "done" in runUntil.
const restEvery = 50 * time.Millisecond

// runUntil carries out events until done returns true, until the virtual time reaches stop, or
// until a rule is violated. runUntil calls done every restEvery, and at the time "stop". runUntil
// reports whether done has returned true.
func (s *Sim) runUntil(stop mono.Time, done func() bool) bool {
	ask := s.now
	for s.failure == nil {
		if !s.now.Before(ask) {
			if done() {
				return true
			}
			ask = s.now.Add(restEvery)
		}
		next := mono.Min(stop, ask)
		if len(s.queue.heap) > 0 {
			next = mono.Min(next, s.queue.heap[0].at)
		}
		s.now = next
		if len(s.queue.heap) > 0 && s.queue.heap[0].at <= next {
			w := s.queue.take()
			if s.report.Events += w.count(); s.report.Events > MaxEvents {
				s.fail("progress", "the run has not ended after %d events", MaxEvents)
			}
			s.happens(w)
			continue
		}
		if next == stop {
			return done()
		}
	}
	return false
}

func (s *Sim) tracef(format string, args ...any) {
	if s.cfg.Trace != nil {
		fmt.Fprintf(s.cfg.Trace, "%-14v %s\n", s.now, fmt.Sprintf(format, args...))
	}
}
