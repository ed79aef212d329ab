package chip

import (
	"fmt"
	"slices"

	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxEvents is the number of events that wait to be polled; further ones are counted and dropped.
const MaxEvents = 1024

// Event is something that people want to hear of: a change of a link, or packets given up.
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

type eventLog struct {
	list    []Event
	dropped uint64
}

func (l *eventLog) add(e Event) {
	if len(l.list) >= MaxEvents {
		l.dropped++
		return
	}
	l.list = append(l.list, e)
}

// drop notes a dropped packet; drops of the same kind in a row are one event.
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
func (c *Chip) PollEvent() (Event, bool) {
	e, ok := c.pollEvent()
	if c.tap != nil {
		c.tap.Event(e, ok)
	}
	return e, ok
}

func (c *Chip) pollEvent() (Event, bool) {
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

// Counters of a chip, since its start.
type Counters struct {
	Requests         uint64    // sent by this chip, probes included
	Results          [4]uint64 // their ends, by Fate
	Performed        uint64    // commands of others performed here
	Duplicates       uint64    // requests that had come before; not performed again
	Gaps             uint64    // requests that did not come although later ones did
	Overflows        uint64    // requests set aside because too many exceptions were open
	StaleRequests    uint64    // of an older life of their flow
	StaleCompletions uint64
	StaleReplies     uint64
	Probes           uint64                      // sent by stalled flows
	FlowResets       uint64                      // flows given up after FlowTimeout
	ReportsLost      uint64                      // drop reports beyond MaxReports
	Dropped          [wire.NumDropReasons]uint64 // packets given up here, by reason
	Timeouts         uint64                      // heads of channels that could not move for the timeout
	EventsDropped    uint64
}

// PortStatus is one port's state, for people.
type PortStatus struct {
	Local   wire.PortID
	Peer    wire.PortID
	Dir     wire.Direction
	Plane   wire.Plane
	Link    ttlink.Status
	Out     bool // out of service by the tables in force
	Avoided bool // taken out of service by an operator, see [Chip.Avoid]
	Frames  ttlink.Counters
	Router  router.PortStatus
}

// Status is the chip's state, for people.
type Status struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation
	Epoch       uint32
	Ports       []PortStatus
	PortsUp     int
	Out         []wire.PortID       // ports of cables that the tables in force do without, the two ends of each in a row
	Unreachable []wire.FabricNodeID // chips of this mesh without a way from here; of another mesh its first chip, for all
	Open        int                 // requests whose fate is open
	InFlight    int                 // packets in the router's channels
	Resident    int64               // bytes of tile memory held
	Buffers     int                 // bytes of packet buffers held
	Counters    Counters
}

// Status returns the chip's state.
func (c *Chip) Status() Status {
	s := Status{Node: c.cfg.Node, Incarnation: c.cfg.Incarnation, Epoch: c.epoch, Open: c.open,
		Ports: slices.Grow([]PortStatus(nil), len(c.ports)), InFlight: c.router.InFlight(), Resident: c.memory.Resident(), Buffers: c.pool.Resident(), Counters: c.counters, Out: c.outOf(c.plan), Unreachable: c.tables.unreachable}
	s.Counters.EventsDropped = c.events.dropped
	for i := range c.ports {
		p := &c.ports[i]
		s.Ports = append(s.Ports, PortStatus{Local: p.Local, Peer: p.Peer, Dir: p.Dir, Plane: p.Plane, Out: c.plan.Out(p.Local), Avoided: c.control.Avoided(i),
			Link: p.link.Status(), Frames: p.link.Counters(), Router: c.router.Status(i)})
		if p.up {
			s.PortsUp++
		}
	}
	return s
}

// LinksUp is the map of ports that are up, a bit per channel.
func (c *Chip) LinksUp() uint16 {
	var m uint16
	for i := range c.ports {
		if c.ports[i].up {
			m |= 1 << c.ports[i].Local.Channel
		}
	}
	return m
}

// Quiet reports whether nothing is under way on this chip.
func (c *Chip) Quiet() bool {
	return c.open == 0 && c.router.InFlight() == 0 && len(c.replies) == 0 && len(c.owed) == 0 && len(c.reports) == 0
}

// CheckInvariants returns what is wrong with the chip's own state; nil when all is well. For tests and the simulator.
func (c *Chip) CheckInvariants() error {
	for i := range c.ports {
		if err := c.ports[i].link.CheckInvariants(); err != nil {
			return err
		}
	}
	if err := c.router.CheckInvariants(); err != nil {
		return fmt.Errorf("chip %s: %w", c.cfg.Node, err)
	}
	return c.checkSlots()
}
