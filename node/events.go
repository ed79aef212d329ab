package node

import (
	"sync"
	"time"

	"ttfabric/membership"
	"ttfabric/node/chip"
)

// Limits of the event hub.
const (
	eventBacklog = 256  // events that a subscriber may lag behind
	eventHistory = 1024 // events that a new subscriber is shown first
)

// Event is something that happened at this node: one of Chip, Member, Fault and Record is set.
type Event struct {
	Time   time.Time
	Chip   *chip.Event
	Member *membership.Event
	Fault  *FaultEvent
	Record *RecordEvent
	Lost   uint64 // events that this subscriber has missed before this one
}

// hub spreads events to subscribers; it never blocks.
type hub struct {
	mu      sync.Mutex
	history []Event
	subs    map[*sub]struct{}
	closed  bool
}

type sub struct {
	ch   chan Event
	lost uint64
}

func newHub() *hub { return &hub{subs: map[*sub]struct{}{}} }

func (h *hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if len(h.history) == eventHistory {
		h.history = append(h.history[:0], h.history[eventHistory/4:]...)
	}
	h.history = append(h.history, e)
	for s := range h.subs {
		e.Lost = s.lost
		select {
		case s.ch <- e:
			s.lost = 0
		default:
			s.lost++
		}
	}
}

func (h *hub) subscribe() (<-chan Event, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &sub{ch: make(chan Event, eventHistory+eventBacklog)}
	for _, e := range h.history {
		s.ch <- e
	}
	if h.closed {
		close(s.ch)
		return s.ch, func() {}
	}
	h.subs[s] = struct{}{}
	return s.ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, ok := h.subs[s]; ok {
			delete(h.subs, s)
			close(s.ch)
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		delete(h.subs, s)
		close(s.ch)
	}
}
