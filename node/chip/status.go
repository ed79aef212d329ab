package chip

import (
	"slices"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Counters of a chip, since its start.
type Counters struct {
	Requests         uint64    // sent by this chip, probes included
	Results          [4]uint64 // their ends, by Fate
	Performed        uint64    // commands of others performed here
	Duplicates       uint64    // requests that had come before, and were not performed again
	Gaps             uint64    // requests that did not come although later ones did
	Overflows        uint64    // requests that were refused because too many exceptions were open
	StaleRequests    uint64    // requests of an older epoch of their flow
	StaleCompletions uint64
	StaleReplies     uint64
	Probes           uint64                      // sent by stalled flows
	FlowResets       uint64                      // flows given up, after flow.FlowTimeout or without a route
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
	Avoided bool // taken out of service by an operator, see [Inputs]
	Frames  ttlink.Counters
	Router  router.PortStatus
}

// Status is the chip's state, for people.
type Status struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation
	Epoch       uint32 // of the tables in force
	Ports       []PortStatus
	PortsUp     int
	Out         []wire.PortID       // ports of cables that the tables in force do without, the two ends of each in a row
	Unreachable []wire.FabricNodeID // chips of this mesh without a route from here; of another mesh its first chip, for all
	Open        int                 // requests whose fate is open
	InFlight    int                 // packets in the router's channels
	Resident    int64               // bytes of tile memory held
	Buffers     int                 // bytes of packet buffers held
	Counters    Counters
}

// Status returns the chip's state.
func (c *machine) Status() Status {
	s := Status{Node: c.cfg.Node, Incarnation: c.cfg.Incarnation, Epoch: c.tables.epoch, Open: c.source.Open(), Ports: slices.Grow([]PortStatus(nil), len(c.ports.list)),
		InFlight: c.router.InFlight(), Resident: c.memory.Resident(), Buffers: c.pool.Resident(), Counters: c.count(), Out: c.outOf(c.tables.plan), Unreachable: c.tables.unreachable}
	for i := range c.ports.list {
		p := &c.ports.list[i]
		s.Ports = append(s.Ports, PortStatus{Local: p.Local, Peer: p.Peer, Dir: p.Dir, Plane: p.Plane, Out: c.tables.plan.Out(p.Local), Avoided: c.control.Avoided(i),
			Link: p.link.Status(), Frames: p.link.Counters(), Router: c.router.Status(i)})
		if p.up {
			s.PortsUp++
		}
	}
	return s
}

// count adds what source, sink and events have counted to the chip's own counters.
func (c *machine) count() Counters {
	n, out, in := c.counters, c.source.Counters(), c.sink.Counters()
	n.Requests, n.Results, n.Probes, n.FlowResets = out.Requests, out.Results, out.Probes, out.FlowResets
	n.StaleCompletions, n.StaleReplies = out.StaleCompletions, out.StaleReplies
	n.Duplicates, n.Gaps, n.Overflows, n.StaleRequests = in.Duplicates, in.Gaps, in.Overflows, in.StaleRequests
	n.EventsDropped = c.events.dropped
	return n
}

// LinksUp is the map of ports that are up, a bit per channel.
func (c *machine) LinksUp() uint16 {
	var m uint16
	for i := range c.ports.list {
		if c.ports.list[i].up {
			m |= 1 << c.ports.list[i].Local.Channel
		}
	}
	return m
}

// Open is the number of requests whose fate is open.
func (c *machine) Open() int { return c.source.Open() }

// Ends lists how the chip's requests have ended, by destination, for each chip that a request was sent to.
func (c *machine) Ends() []flow.Ends { return c.source.Ends() }

// Moment returns how the chip's requests have ended up to now.
func (c *machine) Moment() flow.Moment { return c.source.Moment() }

// Quiet reports whether nothing is under way on this chip.
func (c *machine) Quiet() bool {
	return c.source.Open() == 0 && c.router.InFlight() == 0 && c.sink.Owed() == 0 && c.outbox.empty()
}
