package chip

import (
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxEvents is the number of events that wait to be polled; the chip counts and drops further ones.
const MaxEvents = 1024

// Event is something that people want to hear of: a change of a link, new
// tables, a command to a port, a stuck channel, or dropped packets.
type Event struct {
	At     mono.Time
	Local  wire.PortID
	Peer   wire.PortID
	Link   ttlink.Event    // with a Kind, for link events
	Drop   wire.DropReason // for drops: why
	Tables *Tables         // for new tables: which
	Stuck  *router.Stuck   // for timeouts: the channel whose head could not move
	Port   *PortEvent      // for commands: what a port has done
	Count  uint64          // for drops: how many in a row, from Src to Dst
	Src    wire.FabricNodeID
	Dst    wire.FabricNodeID
}

// eventLog holds the events that wait to be polled.
type eventLog struct {
	list    []Event
	dropped uint64 // events for which there was no room
}

func (l *eventLog) add(e Event) {
	if len(l.list) >= MaxEvents {
		l.dropped++
		return
	}
	l.list = append(l.list, e)
}

// drop notes a dropped packet. Drops of the same kind in a row are one event.
func (l *eventLog) drop(now mono.Time, d router.Drop, v wire.PacketView) {
	e := Event{At: now, Drop: d.Reason, Count: 1, Src: v.Src(), Dst: v.Dst()}
	e.Local.Channel = d.Channel
	if n := len(l.list); n > 0 {
		if last := &l.list[n-1]; last.Stuck == nil && last.Tables == nil && last.Drop == e.Drop && last.Local.Channel == d.Channel && last.Src == e.Src && last.Dst == e.Dst {
			last.Count++
			return
		}
	}
	l.add(e)
}

// stuck notes a channel whose head could not move.
func (l *eventLog) stuck(now mono.Time, p *port, s router.Stuck) {
	l.add(Event{At: now, Local: p.Local, Peer: p.Peer, Stuck: &s, Src: s.Src, Dst: s.Dst})
}

// PollEvent yields events, oldest first, and posts them to the mailboxes.
func (c *machine) PollEvent() (Event, bool) {
	if len(c.events.list) == 0 {
		return Event{}, false
	}
	e := c.events.list[0]
	if e.Drop != 0 || e.Stuck != nil || e.Tables != nil {
		e.Local.Node = c.cfg.Node
	}
	c.events.list = c.events.list[1:]
	c.post(&e)
	return e, true
}
