package sim

import (
	"container/heap"
	"time"

	"ttfabric/wire/mono"
)

// event is something that happens at an instant; n keeps the order of those of one instant.
type event struct {
	at mono.Time
	n  int
	do func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || (h[i].at == h[j].at && h[i].n < h[j].n)
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push appends, for container/heap.
func (h *eventHeap) Push(x any) { *h = append(*h, x.(event)) }

// Pop takes the last, for container/heap.
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}

type events struct {
	heap eventHeap
	n    int
}

func (s *Sim) at(t mono.Time, do func()) {
	s.queue.n++
	heap.Push(&s.queue.heap, event{max(t, s.now), s.queue.n, do})
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
			heap.Pop(&s.queue.heap).(event).do()
			continue
		}
		if next == stop {
			return done()
		}
	}
	return false
}
