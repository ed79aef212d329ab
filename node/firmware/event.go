package firmware

import (
	"fmt"

	"ttfabric/wire"
)

// Event is a request that the firmware refused, or that ended with [DestUnreachable].
type Event struct {
	Channel wire.Channel `json:"channel"` // tile whose host asked
	Reason  Reason       `json:"-"`
	Why     string       `json:"why"`
	Request string       `json:"request"` // chip and address
	Flags   Flags        `json:"flags"`
	Last    bool         `json:"last,omitempty"` // the tile reports no further requests, and only counts them
}

// Unreachable reports whether the request ended with [DestUnreachable].
func (e *Event) Unreachable() bool { return e.Reason.unreachable() }

// String returns the event as a sentence.
func (e *Event) String() string {
	verb := "refused"
	if e.Reason.unreachable() {
		verb = "could not end"
	}
	s := fmt.Sprintf("firmware of ethernet tile E%d %s a host's request (flags %#x, %s): %s", e.Channel, verb, uint32(e.Flags), e.Request, e.Why)
	if e.Last {
		s += fmt.Sprintf("; the tile only counts further such requests, because it has reported %d", MaxReports)
	}
	return s
}

// tell reports a request of a tile.
func (t *tile) tell(e *Entry, why Reason) {
	m := t.m
	if t.counters.reports++; t.counters.reports > MaxReports || len(m.events) >= MaxEvents {
		m.dropped++
		return
	}
	m.events = append(m.events, Event{Channel: t.ch, Reason: why, Why: why.String(), Request: e.String(), Flags: e.Flags, Last: t.counters.reports == MaxReports})
}

// HasEvent reports whether an event waits.
func (m *Machine) HasEvent() bool { return len(m.events) > 0 }

// PollEvent returns the oldest event that waits.
func (m *Machine) PollEvent() (Event, bool) {
	if len(m.events) == 0 {
		return Event{}, false
	}
	e := m.events[0]
	m.events = m.events[1:]
	return e, true
}
