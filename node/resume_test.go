package node

import (
	"context"
	"runtime"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/session"
	"ttfabric/ttlink"
)

// TestResumedEvents publishes more events than the history holds. The test subscribes from various
// events on. The delivered numbers and the count of missing events must add up.
func TestResumedEvents(t *testing.T) {
	h := newHub(7)
	n := &Node{events: h}
	const last = 3 * eventHistory
	for range last {
		h.publish(Event{})
	}
	for _, after := range []uint64{1, eventHistory, last - eventHistory/2, last - 1} {
		ch, latest, cancel := n.EventsAfter(7, after)
		if latest != last {
			t.Errorf("the latest event is %d, want %d", latest, last)
		}
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
	if ch, _, cancel := n.EventsAfter(8, last-1); len(ch) != len(h.history) {
		t.Errorf("after an event of another incarnation come %d events, want %d", len(ch), len(h.history))
	} else {
		cancel()
	}
}

// TestNewEvents subscribes to new events only. An event that the chip noticed before the subscription,
// and publishes after it, must be delivered, too.
func TestNewEvents(t *testing.T) {
	h := newHub(7)
	n := &Node{events: h}
	noticed := time.Unix(1000, 0)
	h.publish(Event{Time: noticed})
	ch, cancel := n.NewEvents()
	defer cancel()
	h.publish(Event{Time: noticed})
	if e := <-ch; e.Seq != 2 || e.Lost != 0 || len(ch) != 0 {
		t.Errorf("%+v, and %d further events", e, len(ch))
	}
}

// TestWatchSkipsByNumber watches a node while the node publishes an event with an earlier time.
func TestWatchSkipsByNumber(t *testing.T) {
	n := &Node{events: newHub(7)}
	up := Event{Time: time.Unix(1000, 0), Chip: &chip.Event{Link: ttlink.Event{Kind: ttlink.EventUp}}}
	n.events.publish(up)
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	go func() {
		for subscribed := false; !subscribed; runtime.Gosched() {
			n.events.mu.Lock()
			subscribed = len(n.events.subs) > 0
			n.events.mu.Unlock()
		}
		n.events.publish(up)
	}()
	if err := n.Watch(ctx, func(session.Event) {
		seen++
		cancel()
	}); err != context.Canceled || seen != 1 {
		t.Errorf("%d events, %v", seen, err)
	}
}
