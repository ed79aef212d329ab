package node

import (
	"context"

	"ttfabric/node/session"
	"ttfabric/ttlink"
)

// Watch calls f with the events of the chip that sessions report, from now on: links, installed
// tables and dropped packets. If f is too slow, events are lost. Watch returns when ctx ends, or
// with ErrClosed when the node is closed. See [session.Watcher].
func (n *Node) Watch(ctx context.Context, f func(session.Event)) error {
	events, cancel := n.NewEvents()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-events:
			if !ok {
				return ErrClosed
			}
			if v, ok := SessionEvent(&e); ok {
				f(v)
			}
		}
	}
}

// SessionEvent converts an event of the node into an event of a session. For events that sessions
// do not report, SessionEvent returns false.
func SessionEvent(e *Event) (v session.Event, ok bool) {
	c := e.Chip
	if c == nil {
		return v, false
	}
	v = session.Event{Time: e.Time, Port: c.Local, Peer: c.Peer}
	switch {
	case c.Tables != nil:
		v.Kind, v.Silent, v.Unreachable = session.TablesChanged, c.Tables.Silent, c.Tables.Unreachable
		return v, !c.Tables.Refused
	case c.Drop != 0:
		v.Kind, v.Reason, v.Count = session.PacketsDropped, c.Drop.String(), int(c.Count)
		return v, true
	}
	switch c.Link.Kind {
	case ttlink.EventUp:
		v.Kind = session.LinkUp
	case ttlink.EventDown:
		v.Kind, v.Reason = session.LinkDown, c.Link.Reason.String()
	case ttlink.EventSessionEnded:
		for _, k := range c.Link.Unknown {
			v.Count += k
		}
		v.Kind = session.SessionEnded
	default:
		return v, false
	}
	return v, true
}
