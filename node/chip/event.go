package chip

import (
	"ttfabric/node/firmware"
	"ttfabric/node/kernel"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxEvents is the largest number of events that wait for PollEvent. The chip counts and
// discards further events.
const MaxEvents = 1024

// Event is a notice for an operator. An Event is about a change of a link, new tables, a command to
// a port, a stuck sender or receiver channel, dropped packets, a job of kernels,
// or a request of a host.
type Event struct {
	At       mono.Time
	Local    wire.PortID
	Peer     wire.PortID
	Link     ttlink.Event    // for link events: the event; for all other events, Kind is 0
	Drop     wire.DropReason // for drops: the reason; for all other events: 0
	Tables   *Tables         // for tables put in force or refused: the tables
	Stuck    *router.Stuck   // for stuck sender or receiver channels: the channel that could not move its first packet
	Port     *PortEvent      // for commands: the command that a port has carried out
	Kernel   *kernel.Event   // for jobs and kernels: what happened
	Firmware *firmware.Event // for requests of hosts that the base firmware refused, or that did not reach their chip: the request
	Count    uint64          // for drops: number of consecutive drops with equal reason, channel, Src and Dst
	Src      wire.FabricNodeID
	Dst      wire.FabricNodeID
}

// eventLog holds the events that wait for PollEvent.
type eventLog struct {
	list    []Event
	dropped uint64 // number of events that found no room
}

// add adds an event, if there is room. Events of kernels and of the firmware take at most half of
// the room. The end of a job always finds room, because other chips and programs wait for it.
func (l *eventLog) add(e Event) {
	room := MaxEvents
	if e.Kernel != nil || e.Firmware != nil {
		room = MaxEvents / 2
	}
	if len(l.list) >= room && (e.Kernel == nil || e.Kernel.Kind != kernel.JobEnded) {
		l.dropped++
		return
	}
	l.list = append(l.list, e)
}

// drop adds an event for a dropped packet. Consecutive drops with the same reason,
// channel, source and destination share one event.
func (l *eventLog) drop(now mono.Time, d router.Drop, v wire.PacketView) {
	e := Event{At: now, Drop: d.Reason, Count: 1, Src: v.Src(), Dst: v.Dst()}
	e.Local.Channel = d.Channel
	if n := len(l.list); n > 0 {
		if last := &l.list[n-1]; last.Stuck == nil && last.Tables == nil && last.Kernel == nil && last.Firmware == nil && last.Drop == e.Drop && last.Local.Channel == d.Channel && last.Src == e.Src && last.Dst == e.Dst {
			last.Count++
			return
		}
	}
	l.add(e)
}

// stuck adds an event for a sender or receiver channel that could not move its first
// packet.
func (l *eventLog) stuck(now mono.Time, p *port, s router.Stuck) {
	l.add(Event{At: now, Local: p.Local, Peer: p.Peer, Stuck: &s, Src: s.Src, Dst: s.Dst})
}

// PollEvent returns the oldest event that waits, and posts the event to the mailboxes.
func (c *machine) PollEvent() (Event, bool) {
	if len(c.events.list) == 0 {
		return Event{}, false
	}
	e := c.events.list[0]
	if e.Drop != 0 || e.Stuck != nil || e.Tables != nil || e.Kernel != nil || e.Firmware != nil {
		e.Local.Node = c.cfg.Node
	}
	c.events.list = c.events.list[1:]
	c.post(&e)
	return e, true
}
