package node

import (
	"math"
	"sync"
	"time"

	"ttfabric/membership"
	"ttfabric/node/chip"
	"ttfabric/wire"
)

// Limits of the event hub.
const (
	eventBacklog = 256  // number of events that may wait for a slow subscriber, besides the history
	eventHistory = 1024 // largest number of earlier events that a new subscriber gets first
)

// Event reports something that happened at this node. Exactly one of the fields Chip, Member,
// Fault, Archive, Record, Port and Starved is set.
type Event struct {
	Time    time.Time
	Chip    *chip.Event
	Member  *membership.Event
	Fault   *FaultEvent
	Archive *ArchiveEvent
	Record  *RecordEvent
	Port    *PortEvent
	Starved *StarvedEvent
	Lost    uint64           // events that this subscriber missed directly before this event, because the subscriber read too slowly
	Seq     uint64           // sequence number of the event; each incarnation of the node numbers its events 1, 2, 3 and so on
	Life    wire.Incarnation // the node's incarnation
}

// ArchiveEvent reports that the archive of the node's events has stopped, or that the archive
// writes again.
type ArchiveEvent struct {
	Err  error         // why the archive stopped; nil: the archive writes again
	Path string        // the archive's file or folder
	Lost uint64        // number of events that the archive missed; set when the archive writes again
	For  time.Duration // how long the archive did not write; set when the archive writes again
}

// hub distributes a node's events to subscribers. A hub never waits for a subscriber.
type hub struct {
	mu      sync.Mutex
	history []Event
	subs    map[*sub]struct{}
	closed  bool
	life    wire.Incarnation
	ends    jobEnds
	latest  time.Time // time of the latest event; the times of events never decrease
	seq     uint64
}

type sub struct {
	ch   chan Event
	lost uint64
}

func newHub(life wire.Incarnation) *hub { return &hub{subs: map[*sub]struct{}{}, life: life} }

func (h *hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if e.Time.Before(h.latest) { // the chip noticed the event in an earlier step, and another event was published meanwhile
		e.Time = h.latest
	}
	if e.Chip != nil && e.Chip.Kernel != nil {
		h.ends.add(e.Chip.Kernel)
	}
	h.seq++
	h.latest = e.Time
	e.Seq, e.Life = h.seq, h.life
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

// subscribe delivers the events of the history whose number is higher than after, and all later
// events. The result "latest" is the number of the latest event at the subscription.
func (h *hub) subscribe(after uint64) (events <-chan Event, latest uint64, end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &sub{ch: make(chan Event, eventHistory+eventBacklog)}
	for i, e := range h.history {
		if e.Seq <= after {
			continue
		}
		if i == 0 && after > 0 { // the history no longer has the events between number "after" and e
			e.Lost = e.Seq - after - 1
		}
		s.ch <- e
	}
	if h.closed {
		close(s.ch)
		return s.ch, h.seq, func() {}
	}
	h.subs[s] = struct{}{}
	return s.ch, h.seq, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, ok := h.subs[s]; ok {
			delete(h.subs, s)
			close(s.ch)
		}
	}
}

// rewind forgets the events of the history after a time. Later events may have earlier times than the forgotten ones.
func (h *hub) rewind(to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.history) > 0 && h.history[len(h.history)-1].Time.After(to) {
		h.history = h.history[:len(h.history)-1]
	}
	h.latest = to
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.ends.close()
	for s := range h.subs {
		delete(h.subs, s)
		close(s.ch)
	}
}

// Events subscribes to the node's events, and first delivers up to 1024 earlier events. The
// returned function ends the subscription. If a reader is too slow, the reader loses events. The
// field Lost of the reader's next event counts the lost events. The Go channel is closed when the
// node is closed.
func (n *Node) Events() (<-chan Event, func()) {
	events, _, end := n.events.subscribe(0)
	return events, end
}

// NewEvents is like Events, but delivers no earlier events.
func (n *Node) NewEvents() (<-chan Event, func()) {
	events, _, end := n.events.subscribe(math.MaxUint64)
	return events, end
}

// EventsAfter is like Events, but delivers only events after event number seq of the incarnation
// life. If the node no longer has the next event, the field Lost of the first delivered event counts
// the missing events. If life is not the node's incarnation, EventsAfter delivers the same events as
// Events. The result "latest" is the number of the latest event at the subscription.
func (n *Node) EventsAfter(life wire.Incarnation, seq uint64) (events <-chan Event, latest uint64, end func()) {
	if life != n.events.life {
		seq = 0
	}
	return n.events.subscribe(seq)
}

// TellArchive publishes an event about the archive of the node's events.
func (n *Node) TellArchive(e ArchiveEvent) {
	n.events.publish(Event{Time: n.wall(), Archive: &e})
}
