package flow

import (
	"slices"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits and times of flows; our own choices.
const (
	MaxOutstanding = 4096                   // requests of one flow whose fate is open
	MaxResults     = 1 << 16                // results that wait to be polled; a chip with more takes no new request
	ProbeAfter     = 250 * time.Millisecond // a flow without progress for so long sends a probe; the time doubles with each probe, up to 16 times
	FlowTimeout    = 10 * time.Second       // a flow without progress for so long gives up: outcome unknown

	tickEvery   = 50 * time.Millisecond  // how often a source looks at its open flows
	lastWords   = 100 * time.Millisecond // how long a flow whose destination became unreachable waits for drop reports
	probesExtra = 16                     // probes that a flow may have open beyond MaxOutstanding
)

// Config describes the flows of a chip.
type Config struct {
	Self        wire.FabricNodeID
	Incarnation wire.Incarnation // of the chip; the first request's ID is one more
	Epoch       uint32           // of each flow at first; 0: derived from Incarnation
}

// SourceCounters count what a source has done since its start.
type SourceCounters struct {
	Requests         uint64    // sent, probes included
	Results          [4]uint64 // ends of requests, by Fate
	StaleCompletions uint64    // of another epoch, or of no flow
	StaleReplies     uint64    // for which no read waits
	Probes           uint64    // sent by stalled flows
	FlowResets       uint64    // members of flows that were given up
}

// Source is the machine at the sending end of all flows of a chip. It is not
// safe for concurrent use.
//
// Call [Source.Admits] and [Source.HandleRequest] for each request, and
// HandleCompletion, HandleReply, HandleDrop and HandleTables for what comes
// back. Call Tick when Deadline has come. PollResult yields the ends of requests
// from outside the chip; [Network] is told the others at once.
//
// Invariant: open is the number of requests in all windows that are not
// settled, and of reads that wait only for their data.
type Source struct {
	cfg Config
	net Network

	flows  map[Key]*outFlow // unicast
	list   []*outFlow       // the same in the order of their creation, so that runs repeat
	last   *outFlow         // the flow of the last unicast request, as the next one is mostly of the same; nil before the first
	groups groups

	reads    map[uint64]read // by the ID of the request
	lastID   uint64          // of the last request that was sent
	open     int
	tickAt   mono.Time // when open flows are looked at next
	results  results   // of requests that came from outside the chip
	counters SourceCounters
}

// read is a read whose data is on its way.
type read struct {
	flow *outFlow
	op   op
}

// NewSource returns a source without flows that sends through net.
func NewSource(cfg Config, net Network) *Source {
	// IDs begin at the incarnation, so that the reply to a read of a former incarnation matches no read of this one.
	return &Source{cfg: cfg, net: net, flows: map[Key]*outFlow{}, reads: map[uint64]read{}, lastID: uint64(cfg.Incarnation)}
}

// outFlow is the source's end of a flow. A unicast flow has one member, its
// destination; a multicast flow has the chips of its group. Members answer
// apart from each other. A request is settled when all members have settled it.
//
// Invariants: members are sorted by chip; a member's open is the number of
// requests in the window that wait for that member.
type outFlow struct {
	key    Key
	epoch  epoch
	probes int32 // since the last progress
	window       // of open requests

	route   *Route           // nil until it is needed
	via     []wire.Direction // the hops to take instead of the table's, while not empty; changes only when nothing is open
	move    move
	heard   mono.Time // when a member last answered; of a unicast flow, also the last reply or drop report
	members []member
	only    [1]member // holds the member of a unicast flow

	probed mono.Time                 // when the last probe went out
	ranges wire.Ranges               // of a multicast
	failed map[uint32][]MemberResult // of multicasts in the window: where they have not ended as done
	used   uint64                    // of a multicast: the greater, the later
}

// member is a destination of a flow as the source sees it.
type member struct {
	open     int       // requests that the member has not settled
	progress mono.Time // when the source last heard of the member, or the member had nothing open
	next     uint32    // the member has answered every request before this one
	answered bool      // in this epoch
	node     wire.FabricNodeID
	fates    [4]uint64 // of the requests that the member has settled, by Fate; probes are not counted
}

// move says that the tables have another route for a flow, which the flow takes once nothing is open.
type move struct {
	waits bool
	since mono.Time
}

func (f *outFlow) multicast() bool { return f.key.Group != 0 }

// member returns the index of a chip among the members; -1 for no member.
func (f *outFlow) member(n wire.FabricNodeID) int {
	if !f.multicast() {
		return 0
	}
	i, ok := slices.BinarySearchFunc(f.members, n, func(m member, n wire.FabricNodeID) int { return compareNodes(m.node, n) })
	if !ok {
		return -1
	}
	return i
}

// renew begins another epoch of a flow in which nothing is open.
func (f *outFlow) renew() {
	f.epoch = epoch{number: f.epoch.after()}
	f.next, f.base = 0, 0
	for i := range f.members {
		f.members[i].next, f.members[i].answered = 0, false
	}
}

// idle reports whether nothing is open, and the epoch is over or was left alone for FlowIdle.
func (f *outFlow) idle(now mono.Time) bool {
	return f.empty() && (f.epoch.over() || f.epoch.known && now.Sub(f.heard) > FlowIdle)
}

// Admits looks at a request by itself: Accepted, TooLarge, BadRanges, or Busy
// while too many results wait to be polled.
func (s *Source) Admits(r *Request) Admission {
	many, reads := r.Ranges.Any(), r.Command.Type == wire.NocRead
	switch {
	case len(r.Payload) > wire.MaxPayload, !many && reads && r.Command.Size > wire.MaxPayload:
		return TooLarge
	case s.results.len() >= MaxResults:
		return Busy
	case many && (reads && !r.Probe || len(r.Via) > 0 || r.Other):
		return BadRanges
	}
	return Accepted
}

// HandleRequest sends a request that Admits has accepted; inside tells that the
// program inside the chip asks for it. The answer is Accepted, Busy,
// Unreachable, NoSuchPlane or BadRanges. Only an accepted request has a result.
func (s *Source) HandleRequest(now mono.Time, r *Request, inside bool) Admission {
	f, a := s.find(now, r)
	if a != Accepted {
		return a
	}
	if !slices.Equal(f.via, r.Via) {
		if !f.empty() {
			return Busy // the packets of a flow keep their order only on one route
		}
		f.via, f.route = slices.Clone(r.Via), nil
	}
	f.settleMove()
	if f.idle(now) {
		f.renew()
	}
	w := s.route(f)
	if !w.OK {
		if !s.net.Reachable(f.key) {
			return NoSuchPlane
		}
		f.members[0].fates[FateLost]++
		return Unreachable
	}
	if f.move.waits || f.epoch.over() {
		return Busy // as above
	}
	if f.len() >= MaxOutstanding || !s.net.Room(w) || !s.send(f, w, r, &op{token: r.Token, sent: now, inside: inside}) {
		return Busy
	}
	return Accepted
}

// find returns the flow of a request, which may be new.
func (s *Source) find(now mono.Time, r *Request) (*outFlow, Admission) {
	if r.Ranges.Any() {
		return s.group(r)
	}
	return s.flow(now, Key{Node: r.Dst, Plane: r.Plane, Other: r.Other}), Accepted
}

func (s *Source) flow(now mono.Time, k Key) *outFlow {
	if f := s.last; f != nil && f.key == k {
		return f
	}
	f := s.flows[k]
	if f == nil {
		f = &outFlow{key: k, epoch: epoch{number: firstEpoch(&s.cfg)}, heard: now}
		f.only[0] = member{node: k.Node, progress: now}
		f.members = f.only[:]
		s.flows[k] = f
		s.list = append(s.list, f)
	}
	s.last = f
	return f
}

// route returns the route that a flow's packets take.
func (s *Source) route(f *outFlow) *Route {
	if f.route == nil {
		f.route = s.net.Route(f.key, f.via)
	}
	return f.route
}

// send sends the flow's next packet.
func (s *Source) send(f *outFlow, w *Route, r *Request, o *op) bool {
	p := wire.Packet{Type: wire.PacketRequest, Plane: r.Plane, Trace: r.Trace && !f.multicast(), Other: f.key.Other, Src: s.cfg.Self, Dst: f.key.Node,
		Known: f.epoch.known, FlowEpoch: f.epoch.number, FlowSeq: f.next, FlowBase: f.base, ID: s.lastID + 1,
		Group: f.key.Group, Ranges: f.ranges, Command: r.Command, Payload: r.Payload}
	if r.Probe {
		p.Type, p.Command, p.Payload = wire.PacketProbe, wire.Command{Type: wire.NocNone}, nil
	}
	if p.Command.Type != wire.NocRead {
		p.Command.Size = uint16(len(p.Payload))
	}
	if !s.net.Launch(o.sent, w, p) {
		return false
	}
	s.lastID++
	if p.Command.Type == wire.NocRead {
		o.id = p.ID
		s.reads[p.ID] = read{f, *o}
	}
	s.sent(f, o)
	return true
}

// sent takes note of a request that is under way.
func (s *Source) sent(f *outFlow, o *op) {
	if f.empty() && !f.multicast() {
		f.probes = 0
	}
	for i := range f.members {
		m := &f.members[i]
		if m.open == 0 {
			m.progress = o.sent
		}
		m.open++
	}
	o.known = f.epoch.known
	f.add(o, len(f.members))
	if f.multicast() {
		s.groups.uses++
		f.used = s.groups.uses
	}
	s.counters.Requests++
	if s.open++; s.open == 1 {
		s.tickAt = o.sent.Add(tickEvery)
	}
}

// Open is the number of requests whose fate is open.
func (s *Source) Open() int { return s.open }

// Counters returns what the source has counted.
func (s *Source) Counters() SourceCounters { return s.counters }
