package node

import "testing"

// TestResumedEvents publishes more events than the history holds, and subscribes after each of some
// events. The delivered numbers and the count of missing events must add up.
func TestResumedEvents(t *testing.T) {
	h := newHub(7)
	n := &Node{events: h}
	const last = 3 * eventHistory
	for range last {
		h.publish(Event{})
	}
	for _, after := range []uint64{1, eventHistory, last - eventHistory/2, last - 1} {
		ch, cancel := n.EventsAfter(7, after)
		next := after + 1
		for len(ch) > 0 {
			e := <-ch
			if next += e.Lost; e.Seq != next {
				t.Fatalf("after event %d comes event %d with %d lost, want event %d", after, e.Seq, e.Lost, next)
			}
			next++
		}
		if cancel(); next != last+1 {
			t.Errorf("after event %d the last event is %d, want %d", after, next-1, last)
		}
	}
	if ch, cancel := n.EventsAfter(8, last-1); len(ch) != len(h.history) {
		t.Errorf("after an event of another incarnation come %d events, want %d", len(ch), len(h.history))
	} else {
		cancel()
	}
}
