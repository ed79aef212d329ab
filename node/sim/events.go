package sim

import (
	"time"

	"ttfabric/wire/mono"
)

// event is a planned occurrence at an instant. The number n keeps the order of events at the same
// instant.
type event struct {
	at   mono.Time
	n    int
	what int // index in events.whats
}

// what says what an event does: a call, the arrival of datagrams, or a chip's planned step.
type what struct {
	do     func()
	flight *flight
	m      *machine
	wake   int // value of m.wakeID when the step was planned
}

// count returns how many events the entry counts as. Each datagram counts as an event.
func (w *what) count() int {
	if w.flight != nil {
		return len(w.flight.ends)
	}
	return 1
}

// before orders events by time. Events at the same time are in the order in which they were
// planned.
func (e *event) before(f *event) bool { return e.at < f.at || (e.at == f.at && e.n < f.n) }

// events is a binary heap of events. The next event is the first entry.
type events struct {
	heap  []event
	n     int
	whats []what
	free  []int // free indices of whats

	last   *flight // the flight that was planned last; if it was planned as number lastN, it may still grow
	lastN  int
	landed []*flight // landed flights, whose memory new flights use
}

// add plans an event at t.
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

// take removes the next event and returns what the event does.
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

// happens carries out an event.
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

// restEvery is the time between two checks whether the fabric is at rest.
const restEvery = 50 * time.Millisecond

// runUntil lets virtual time pass until done returns true or the instant stop has come. runUntil
// calls done from time to time. runUntil reports whether done returned true.
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
				s.fail("progress", "no end after %d events", MaxEvents)
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
