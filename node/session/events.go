package session

import (
	"context"
	"errors"
	"time"

	"ttfabric/wire"
)

// EventKind tells what an [Event] is about.
type EventKind string

// The kinds. Later versions may add kinds: a program ignores a kind that it does not know.
const (
	LinkUp         EventKind = "link up"         // Port carries frames again, perhaps over another cable
	LinkDown       EventKind = "link down"       // Port carries no frames, for Reason
	SessionEnded   EventKind = "session ended"   // the link's session at Port ended: the peer restarted, or was given up; the fate of Count packets is unknown
	PacketsDropped EventKind = "packets dropped" // the chip dropped Count packets at Port, for Reason
	TablesChanged  EventKind = "tables changed"  // the chip installed other routes; the chips in Unreachable have none
)

// Event is something that the session's chip has seen of the fabric.
type Event struct {
	Time        time.Time
	Kind        EventKind
	Port        wire.PortID         // of the session's chip
	Peer        wire.PortID         // at the other end of its cable
	Reason      string              // in words
	Count       int                 // packets
	Unreachable []wire.FabricNodeID // chips of the mesh without a route; the first chip of another mesh stands for that mesh
}

// Watcher is a [Fabric] that tells what happens.
type Watcher interface {
	// Watch calls f for each event from now on, one after another, until ctx ends or
	// the chip goes away. An f that lags by more than a few hundred events misses some.
	Watch(ctx context.Context, f func(Event)) error
}

// ErrNoEvents is the error of [Session.Watch] on a fabric that is no [Watcher].
var ErrNoEvents = errors.New("this fabric reports no events")

// Watch calls f for each event of the session's chip from now on. Watch blocks
// until the chip goes away, or ctx ends; then Watch returns the error of ctx.
func (s *Session) Watch(ctx context.Context, f func(Event)) error {
	w, ok := s.f.(Watcher)
	if !ok {
		return ErrNoEvents
	}
	return w.Watch(ctx, f)
}
