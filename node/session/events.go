package session

import (
	"context"
	"errors"
	"time"

	"ttfabric/wire"
)

// EventKind tells what an [Event] is about.
type EventKind string

// The kinds. What a program does not care for it passes over: there may be more.
const (
	LinkUp         EventKind = "link up"         // Port carries again, maybe by another cable
	LinkDown       EventKind = "link down"       // Port carries nothing; Reason
	SessionEnded   EventKind = "session ended"   // of Port with its peer, which started anew, or was given up; Count packets are of unknown fate
	PacketsDropped EventKind = "packets dropped" // Count packets given up at Port; Reason
	TablesChanged  EventKind = "tables changed"  // packets go other ways; Unreachable has none
)

// Event is something that the session's chip has seen of the fabric.
type Event struct {
	Time        time.Time
	Kind        EventKind
	Port        wire.PortID         // of the session's chip
	Peer        wire.PortID         // at the other end of its cable
	Reason      string              // in words
	Count       int                 // packets
	Unreachable []wire.FabricNodeID // chips of its mesh without a way; of another mesh its first chip, for all
}

// Watcher is a [Fabric] that tells what happens.
type Watcher interface {
	// Watch calls f for each event from now on, one after another, until ctx
	// ends or the chip goes away. f should be quick: one that lags by more than a few hundred events misses some.
	Watch(ctx context.Context, f func(Event)) error
}

// ErrNoEvents is returned where the session's fabric tells no events.
var ErrNoEvents = errors.New("this fabric tells no events")

// Watch calls f for each event of the session's chip from now on, until ctx
// ends, whose error it returns, or the chip goes away. It blocks.
func (s *Session) Watch(ctx context.Context, f func(Event)) error {
	w, ok := s.f.(Watcher)
	if !ok {
		return ErrNoEvents
	}
	return w.Watch(ctx, f)
}
