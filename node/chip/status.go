package chip

import (
	"slices"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Counters counts what a chip has done since its start.
type Counters struct {
	Requests         uint64    // requests that this chip sent, probes included
	Results          [4]uint64 // ended requests of this chip, indexed by flow.Fate
	Performed        uint64    // commands that came over the fabric and that this chip performed
	Duplicates       uint64    // requests that came again; the chip did not perform them again
	Gaps             uint64    // requests that did not come although later requests of their flow came
	Overflows        uint64    // requests that the chip refused because its list of exceptions was full
	StaleRequests    uint64    // requests of an older epoch of their flow, or of a void epoch
	StaleCompletions uint64
	StaleReplies     uint64
	Probes           uint64                      // probes that flows sent on their own, see flow.SourceCounters
	FlowResets       uint64                      // times that a flow gave up a member: after flow.FlowTimeout, without a route, or because the flow's epoch was too old
	ReportsLost      uint64                      // drop reports that the chip discarded because MaxReports reports waited or no route led to the source, plus lost packets without a report, for example with a broken header
	Dropped          [wire.NumDropReasons]uint64 // packets that this chip dropped, by reason
	Timeouts         uint64                      // times that the first packet of a sender or receiver channel could not move for the timeout
	EventsDropped    uint64
}

// PortStatus is the state of one port, for display.
type PortStatus struct {
	Local   wire.PortID
	Peer    wire.PortID
	Dir     wire.Direction
	Plane   wire.Plane
	Link    ttlink.Status
	Out     bool // the tables in force do not use the port's cable
	Silent  bool // the port hears nothing from its peer, which is perhaps only late; see [wire.LinkState]
	Avoided bool // an operator took the port's cable out of service, see Avoid of [Inputs]

	Fallback wire.Channel // channel whose cable carries the link's frames, or would carry them if the own cable failed now; Local.Channel: no parallel cable works
	Assigned bool         // an operator assigned a fallback path to the link, see Assign of [Inputs]
	Frames   ttlink.Counters
	Writes   WriteStatus
	Raw      bool                      // the port is in compliance mode
	Received ttlink.ComplianceCounters // frames of compliance mode; zero if the port was never in compliance mode
	Payload  []int                     // largest payload of a frame of an L1 write on each transaction command queue of the tile, in bytes
	Router   router.PortStatus
	Rate     Rate // data rates; only from [Chip.StatusAt]
}

// Status is the state of a chip, for display.
type Status struct {
	Node        wire.FabricNodeID
	Incarnation wire.Incarnation
	Epoch       uint32 // epoch of the tables in force
	Ports       []PortStatus
	PortsUp     int
	Out         []wire.PortID       // ports of the cables that the tables in force do not use; the two ports of each cable follow each other
	Silent      []wire.FabricNodeID // silent chips of this mesh, to which requests wait; of another silent mesh, only its first chip
	Unreachable []wire.FabricNodeID // chips of this mesh without a route from this chip; of another mesh without a route, only its first chip
	Open        int                 // number of open requests of this chip
	InFlight    int                 // number of packets in the router: in its sender and receiver channels, and own multicasts that wait
	Resident    int64               // tile memory that the chip holds, in bytes
	Buffers     int                 // packet buffers that the chip holds, in bytes
	Counters    Counters
}

// StatusAt returns the chip's state, with the data rates of the ports at the instant now.
func (c *machine) StatusAt(now mono.Time) Status {
	s := c.Status()
	for i := range s.Ports {
		s.Ports[i].Rate = c.rates.at(now, i, &c.ports.list[i])
	}
	return s
}

// Waiting lists the router's channels that hold packets, with the packets; see
// [router.Router.Channels]. The field Port of a channel is an index into Ports of [Status].
func (c *machine) Waiting(now mono.Time) []router.Channel { return c.router.Channels(now) }

// Status returns the chip's state, without the data rates.
func (c *machine) Status() Status {
	s := Status{Node: c.cfg.Node, Incarnation: c.cfg.Incarnation, Epoch: c.tables.epoch, Open: c.source.Open(), Ports: slices.Grow([]PortStatus(nil), len(c.ports.list)),
		InFlight: c.router.InFlight(), Resident: c.memory.Resident(), Buffers: c.pool.Resident(), Counters: c.count(), Out: c.outOf(c.tables.plan),
		Silent: c.tables.silent, Unreachable: c.tables.unreachable}
	silent := c.control.Self().Silent
	for i := range c.ports.list {
		p := &c.ports.list[i]
		q := PortStatus{Local: p.Local, Peer: p.Peer, Dir: p.Dir, Plane: p.Plane, Out: c.tables.plan.Out(p.Local), Silent: silent>>p.Local.Channel&1 != 0, Avoided: c.control.Avoided(i),
			Fallback: p.Local.Channel, Link: p.link.Status(), Frames: p.link.Counters(), Router: c.router.Status(i), Writes: p.writes, Raw: p.raw.on, Received: p.raw.counters()}
		for n := range c.queues() {
			q.Payload = append(q.Payload, p.link.WritePayload(n))
		}
		if k, ok := c.control.Fallback(i); ok {
			q.Fallback = c.ports.list[k].Local.Channel
		}
		_, q.Assigned = c.control.Assigned(i)
		s.Ports = append(s.Ports, q)
		if p.up {
			s.PortsUp++
		}
	}
	return s
}

// count joins the chip's own counters and the counters of source, sink and event log.
func (c *machine) count() Counters {
	n, out, in := c.counters, c.source.Counters(), c.sink.Counters()
	n.Requests, n.Results, n.Probes, n.FlowResets = out.Requests, out.Results, out.Probes, out.FlowResets
	n.StaleCompletions, n.StaleReplies = out.StaleCompletions, out.StaleReplies
	n.Duplicates, n.Gaps, n.Overflows, n.StaleRequests = in.Duplicates, in.Gaps, in.Overflows, in.StaleRequests
	n.EventsDropped = c.events.dropped
	return n
}

// LinksUp returns a bit map of the ports whose links are up, one bit per channel.
func (c *machine) LinksUp() uint16 {
	var m uint16
	for i := range c.ports.list {
		if c.ports.list[i].up {
			m |= 1 << c.ports.list[i].Local.Channel
		}
	}
	return m
}

// Open returns the number of open requests of this chip.
func (c *machine) Open() int { return c.source.Open() }

// Ends counts the fates of the chip's requests, in one entry for each destination.
func (c *machine) Ends() []flow.Ends { return c.source.Ends() }

// Moment returns the present counts of the fates of the chip's requests, see
// [flow.Moment.Since].
func (c *machine) Moment() flow.Moment { return c.source.Moment() }

// Quiet reports whether the chip has no open request, its router holds no packet, and the
// chip owes no completion, reply or drop report. Then no request waits for host memory either.
func (c *machine) Quiet() bool {
	return c.source.Open() == 0 && c.router.InFlight() == 0 && c.sink.Owed() == 0 && c.outbox.empty() && len(c.waiting.list)+len(c.waiting.own.list) == 0
}

// InFlight reports whether a link of the chip has unacknowledged frames, or has received a packet in
// part.
func (c *machine) InFlight() bool {
	for i := range c.ports.list {
		if p := &c.ports.list[i]; p.partial != router.NoSlot || p.link.Status().Unacked > 0 {
			return true
		}
	}
	return false
}
