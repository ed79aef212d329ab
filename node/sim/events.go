package sim

import (
	"time"

	"ttfabric/wire/mono"
)

// event is something that happens at an instant; n keeps the order of those of one instant.
type event struct {
	at mono.Time
	n  int
	do func()
}

// before orders events by time, and then by when they were planned.
func (e *event) before(f *event) bool { return e.at < f.at || (e.at == f.at && e.n < f.n) }

// events is a binary heap; the next event is the first.
type events struct {
	heap []event
	n    int
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

func (s *Sim) at(t mono.Time, do func()) {
	s.queue.n++
	s.queue.push(event{max(t, s.now), s.queue.n, do})
}

func (s *Sim) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }

// restEvery is how often it is looked whether the fabric is at rest.
const restEvery = 50 * time.Millisecond

// runUntil lets time pass until done holds, which is asked now and then, or
// the instant has come. It reports whether done held.
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
			if s.report.Events++; s.report.Events > MaxEvents {
				s.fail("progress", "no end after %d events", MaxEvents)
			}
			s.queue.pop().do()
			continue
		}
		if next == stop {
			return done()
		}
	}
	return false
}
