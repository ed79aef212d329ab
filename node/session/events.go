package session

import (
	"context"
	"errors"
	"time"

	"ttfabric/wire"
)

// EventKind names what an [Event] reports.
type EventKind string

// The kinds. Later versions may add kinds. A program should ignore kinds that the
// program does not know.
const (
	LinkUp         EventKind = "link up"         // the link at Port came up, over its own cable or over the cable of another port
	LinkDown       EventKind = "link down"       // the link at Port is down; Reason says why
	SessionEnded   EventKind = "session ended"   // the session of the link at Port ended, for example because the peer restarted; the fate of Count packets is unknown
	PacketsDropped EventKind = "packets dropped" // the chip dropped Count packets at Port; Reason says why
	TablesChanged  EventKind = "tables changed"  // the chip put new routing tables in force; requests to the chips in Silent wait, and the chips in Unreachable have no route
)

// Event is one change in the fabric that the chip of a [Session] has seen.
type Event struct {
	Time        time.Time
	Kind        EventKind
	Port        wire.PortID         // port of the Session's chip; for TablesChanged, the channel has no meaning
	Peer        wire.PortID         // port at the other end of Port's cable
	Reason      string              // reason in words, for LinkDown and PacketsDropped
	Count       int                 // number of packets, for SessionEnded and PacketsDropped
	Silent      []wire.FabricNodeID // silent chips of the mesh, which are perhaps only late; of another silent mesh, only its first chip
	Unreachable []wire.FabricNodeID // chips of the mesh without a route; of another mesh without a route, only its first chip
}

// Watcher is a [Fabric] that reports events.
type Watcher interface {
	// Watch calls f for each event from now on, one after another, until ctx ends or the
	// chip's process ends. If f lags by more than a few hundred events, f misses some
	// events.
	Watch(ctx context.Context, f func(Event)) error
}

// ErrNoEvents is the error of [Session.Watch] on a fabric that is no [Watcher].
var ErrNoEvents = errors.New("this fabric reports no events")

// Watch calls f for each event of this Session's chip from now on. Watch blocks until the
// chip's process ends or ctx ends. If ctx ends, Watch returns the error of ctx.
func (s *Session) Watch(ctx context.Context, f func(Event)) error {
	w, ok := s.f.(Watcher)
	if !ok {
		return ErrNoEvents
	}
	return w.Watch(ctx, f)
}
