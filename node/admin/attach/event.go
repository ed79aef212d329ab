package attach

import (
	"time"

	"ttfabric/node/session"
	"ttfabric/wire"
)

// Event is an event of the chip, in JSON. The kinds and their fields are those of [session.Event].
type Event struct {
	Time        time.Time           `json:"time"`
	Kind        session.EventKind   `json:"kind"`
	Port        *wire.PortID        `json:"port,omitempty"`        // port of the chip
	Peer        *wire.PortID        `json:"peer,omitempty"`        // port at the other end of the cable
	Reason      string              `json:"reason,omitempty"`      // reason in words
	Count       int                 `json:"count,omitempty"`       // number of packets
	Silent      []wire.FabricNodeID `json:"silent,omitempty"`      // silent chips, perhaps only late
	Unreachable []wire.FabricNodeID `json:"unreachable,omitempty"` // chips without a route
}

// NewEvent converts an event of a session.
func NewEvent(e *session.Event) *Event {
	v := &Event{Time: e.Time, Kind: e.Kind, Reason: e.Reason, Count: e.Count, Silent: e.Silent, Unreachable: e.Unreachable}
	if e.Kind != session.TablesChanged {
		v.Port, v.Peer = &e.Port, &e.Peer
	}
	return v
}

// Session converts the event to an event of a session.
func (e *Event) Session() session.Event {
	v := session.Event{Time: e.Time, Kind: e.Kind, Reason: e.Reason, Count: e.Count, Silent: e.Silent, Unreachable: e.Unreachable}
	if e.Port != nil {
		v.Port = *e.Port
	}
	if e.Peer != nil {
		v.Peer = *e.Peer
	}
	return v
}
