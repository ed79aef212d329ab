package flow

import (
	"slices"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits and times of flows, our own choices.
const (
	MaxOutstanding = 4096                   // largest number of requests of one flow whose fate is open
	MaxResults     = 1 << 16                // a chip with this number of waiting results accepts no new request
	ProbeAfter     = 250 * time.Millisecond // time without progress after which a flow sends a probe; the time to the next probe doubles with each probe, up to 16 × ProbeAfter
	FlowTimeout    = 2 * time.Minute        // time without progress after which a flow ends its open requests as FateUnknown; requests to an unreachable destination end sooner, see stranded

	// A flow whose destination has not answered for quietAfter keeps at most MaxUnanswered open
	// requests. The destination is perhaps late. The requests under way to a late chip wait in the
	// routers before the chip, where room is scarce. Further requests wait at their source.
	// quietAfter is shorter than any time after which a link takes its silent peer for late.
	MaxUnanswered = 256
	quietAfter    = 50 * time.Millisecond

	// Patience is how long a flow waits after new tables for the requests on its old route, if all
	// cables on the old route work. A probe by the new route would overtake the requests. A flow
	// also waits this long for data of reads, because a reply by a new route would overtake the
	// data.
	Patience = time.Second

	tickEvery   = 50 * time.Millisecond  // interval at which a source checks its open flows
	lastWords   = 100 * time.Millisecond // time for which a flow waits for drop reports after its destination became unreachable
	probesExtra = 16                     // number of open probes that a flow may have beyond MaxOutstanding
	postedRun   = MaxUnanswered / 2      // the last of this many posted requests in a row asks for a completion, so that a flow of posted requests does not look unanswered
)

// Config describes the flows of a chip.
type Config struct {
	Self        wire.FabricNodeID
	Incarnation wire.Incarnation // incarnation of the chip; the ID of the first request is Incarnation + 1
	Epoch       uint32           // first epoch of each flow; 0: derived from Incarnation
}

// SourceCounters are the counters of a source since its start.
type SourceCounters struct {
	Requests         uint64    // requests sent, probes included
	Results          [4]uint64 // ended requests, by Fate
	StaleCompletions uint64    // completions of an older epoch, of no flow, from no member, for requests that were never sent, or after a missing completion
	StaleReplies     uint64    // replies for which no read waits
	Probes           uint64    // probes that flows sent on their own: behind requests without an answer, for reads without data, and to ask for the destination's life
	FlowResets       uint64    // number of times that a flow gave up a member
}

// Source is the machine at the sending end of all flows of a chip. A Source is not
// safe for concurrent use.
//
// Call [Source.Admits] and [Source.HandleRequest] for each request. Call
// HandleCompletion, HandleReply and HandleDrop for the answers that arrive, and
// HandleTables after new tables. Call Tick when the time of Deadline has come.
// PollResult returns the results of requests from outside the chip. The source gives
// all other results to [Network] at once.
//
// Invariant: open is the number of unsettled requests in all windows.
type Source struct {
	cfg Config
	net Network

	peers  map[wire.FabricNodeID]*peer // what the source knows about the lives of other chips; nil: no call of HandleLives yet
	flows  map[Key]*outFlow            // unicast flows
	list   []*outFlow                  // unicast flows in the order of their creation, because a map has no reproducible order
	last   *outFlow                    // flow of the last unicast request; the next request mostly belongs to this flow too; nil before the first request
	groups groups

	lastID   uint64 // ID of the last request that the source sent
	open     int
	tickAt   mono.Time // time at which the source next checks its open flows
	tables   mono.Time // time of the latest change of the tables; 0: none yet
	results  results   // results of requests that came from outside the chip
	counters SourceCounters
}

// NewSource returns a source without flows that sends through net.
func NewSource(cfg Config, net Network) *Source {
	// IDs count up from the incarnation, which is random. Therefore a reply to a read of a
	// former incarnation matches no read of this incarnation.
	return &Source{cfg: cfg, net: net, flows: map[Key]*outFlow{}, lastID: uint64(cfg.Incarnation)}
}

// outFlow is the source's end of a flow. A unicast flow has one member, its destination.
// The members of a multicast flow are the chips of its group. Members answer
// independently. A request is settled when all members have settled the request.
//
// Invariants: members are sorted by chip. The field "open" of a member is the number of
// requests in the window and of late reads that the member has not settled.
type outFlow struct {
	key    Key
	dst    wire.FabricNodeID // destination in the headers of the flow's packets
	epoch  epoch
	probes int32 // number of probes since the last progress
	window       // open requests, without late reads
	reads  lateReads

	route   *Route           // route of the flow; nil until needed
	via     []wire.Direction // if not empty: hops to take instead of the routing table's; changes only while no request is open
	move    move
	dead    bool      // a request before deadEnd may have been in a link that died
	deadEnd uint32    // number of the next request at the time of the last report of a dead link
	heard   mono.Time // time at which a member last answered; in a unicast flow also the time of the last reply or drop report
	members []member
	only    [1]member // memory for the member of a unicast flow

	probed mono.Time                 // time of the last probe
	tree   Tree                      // tree of a multicast flow
	failed map[uint32][]MemberResult // for multicasts in the window: the members where the multicast did not end as FateDone
	used   uint64                    // for a multicast flow: value of groups.uses after the last multicast

	missed misses // what the flow knows about its posted requests
}

// member is what the source knows about one destination of a flow.
type member struct {
	open     int       // number of requests that the member has not settled
	progress mono.Time // time at which the source last heard from the member, or sent a request while no other request was open at the member
	next     uint32    // the member has answered every request before this one
	answered bool      // the member has answered in this epoch
	anew     bool      // the member has begun this epoch in a later life, or may do so; this life cannot know which requests an earlier life performed
	node     wire.FabricNodeID
	fates    [4]uint64 // requests that the member has settled, by Fate, without probes
}

// empty reports whether no request of the flow is open.
func (f *outFlow) empty() bool { return f.window.empty() && f.reads.open == 0 }

// count returns how many requests the flow keeps for MaxOutstanding.
func (f *outFlow) count() int { return f.len() + f.reads.open }

// advance moves base past settled requests, and forgets settled reads. Once base has passed all
// requests that may have been in a dead link, advance forgets the link.
func (f *outFlow) advance() {
	f.window.advance()
	f.reads.compact()
	if f.dead && int32(f.base-f.deadEnd) >= 0 {
		f.dead = false
	}
}

// quiet reports whether a member has not answered for quietAfter, although a request is open there.
func (f *outFlow) quiet(now mono.Time) bool {
	return slices.ContainsFunc(f.members, func(m member) bool { return m.open > 0 && now.Sub(m.progress) >= quietAfter })
}

// risky reports whether request seq may have been in a link that died.
func (f *outFlow) risky(seq uint32) bool { return f.dead && int32(f.deadEnd-seq) > 0 }

// move records that the present tables have a new route for a flow. The flow takes the
// new route once none of its requests is open.
type move struct {
	waits bool
	since mono.Time
}

func (f *outFlow) multicast() bool { return f.key.Group != 0 }

// member returns the index of a chip among the members, or -1 if the chip is no member.
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

// renew begins another epoch of a flow that has no open request.
func (f *outFlow) renew() {
	f.epoch = epoch{number: f.epoch.after()}
	f.next, f.base = 0, 0
	for i := range f.members {
		f.members[i].next, f.members[i].answered, f.members[i].anew = 0, false, false
	}
}

// idle reports whether the flow may begin its next epoch now: no request is open, and one
// of two conditions holds. The present epoch is over, or the present epoch is known and
// no answer came for FlowIdle.
func (f *outFlow) idle(now mono.Time) bool {
	return f.empty() && (f.epoch.over() || f.epoch.known && now.Sub(f.heard) > FlowIdle)
}

// Admits checks a request without regard to flows and routes. Admits returns Accepted,
// TooLarge, BadRanges or BadPosted. While MaxResults results or more wait for PollResult,
// Admits returns Busy instead of Accepted, BadRanges or BadPosted.
func (s *Source) Admits(r *Request) Admission {
	many, reads := r.Many(), r.Command.Type == wire.NocRead
	switch {
	case len(r.Payload) > wire.MaxPayload, !many && reads && r.Command.Size > wire.MaxPayload:
		return TooLarge
	case s.results.len() >= MaxResults:
		return Busy
	case many && (reads && !r.Probe || len(r.Via) > 0 || r.Other || r.Ranges.Any() && r.Members.Any()):
		return BadRanges
	case r.Posted && (reads || r.Probe):
		return BadPosted
	}
	return Accepted
}

// HandleRequest sends a request that Admits has accepted. The parameter "by"
// says who made the request. HandleRequest returns
// Accepted, Busy, Unreachable, NoSuchPlane or BadRanges. Only an accepted request has a
// result.
func (s *Source) HandleRequest(now mono.Time, r *Request, by Owner) Admission {
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
	if f.next == 0 && !f.epoch.known {
		s.bind(f, r.Probe)
	}
	w := s.route(f)
	if !w.OK {
		if s.late(f) {
			return Busy // the destination is silent, and perhaps only late
		}
		if !f.multicast() && !s.net.Reachable(f.key) {
			return NoSuchPlane
		}
		for i := range f.members {
			f.members[i].fates[FateLost]++
		}
		return Unreachable
	}
	if f.move.waits || f.epoch.over() {
		return Busy // the flow waits until none of its requests is open
	}
	if !f.epoch.known && !r.Probe && s.peers != nil && !f.opened(now) {
		if a, ended := s.ask(now, f, w, r, by); ended {
			return a
		}
	}
	if f.count() >= MaxOutstanding || f.count() >= MaxUnanswered && f.quiet(now) || !s.net.Room(w) || !s.send(f, w, r, &op{token: r.Token, sent: now, by: by, flush: r.Probe && r.Flush, posted: r.Posted}) {
		return Busy
	}
	if r.Posted {
		s.result(by, &Result{Token: r.Token, Dst: f.key.Node, Fate: FatePosted, Sent: now, Done: now})
	}
	return Accepted
}

// find returns the flow of a request. If the flow does not exist yet, find creates the
// flow.
func (s *Source) find(now mono.Time, r *Request) (*outFlow, Admission) {
	if r.Many() {
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
		f = &outFlow{key: k, dst: k.Node, epoch: epoch{number: firstEpoch(&s.cfg)}, heard: now}
		f.only[0] = member{node: k.Node, progress: now}
		f.members = f.only[:]
		s.flows[k] = f
		s.list = append(s.list, f)
	}
	s.last = f
	return f
}

// route returns the route of a flow's packets.
func (s *Source) route(f *outFlow) *Route {
	if f.route == nil {
		f.route = s.present(f)
	}
	return f.route
}

// present returns the route that the tables in force give a flow.
func (s *Source) present(f *outFlow) *Route {
	if !f.multicast() {
		return s.net.Route(f.key, f.via)
	}
	_, w, _ := s.net.Tree(f.tree)
	return w
}

// The method "late" reports whether a flow without a route waits for a silent destination.
func (s *Source) late(f *outFlow) bool {
	return slices.ContainsFunc(f.members, func(m member) bool {
		return s.net.Late(Key{Node: m.node, Group: f.key.Group, Plane: f.key.Plane, Other: f.key.Other})
	})
}

// send sends request r as the flow's next packet. send returns false if the chip has no
// room.
func (s *Source) send(f *outFlow, w *Route, r *Request, o *op) bool {
	p := wire.Packet{Type: wire.PacketRequest, Plane: r.Plane, Trace: r.Trace && !f.multicast(), Other: f.key.Other, Src: s.cfg.Self, Dst: f.dst,
		Lives: wire.Lives{Known: f.epoch.known, Life: f.epoch.life()}, FlowEpoch: f.epoch.number, FlowSeq: f.next, FlowBase: f.base, ID: s.lastID + 1,
		Group: f.key.Group, Ranges: f.tree.Ranges, Members: f.tree.Members, Command: r.Command, Payload: r.Payload,
		Posted: o.posted && f.missed.run+1 < postedRun}
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
	if f.missed.run++; !p.Posted {
		f.missed.run = 0
	}
	o.id = p.ID
	if p.Command.Type == wire.NocRead {
		o.read, o.addr, o.size = true, p.Command.Addr, p.Command.Size
	}
	s.sent(f, o)
	return true
}

// sent notes that request o of flow f is under way.
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
	if o.flush {
		f.missed.sent(o.seq)
	}
	if f.multicast() {
		s.groups.uses++
		f.used = s.groups.uses
	}
	s.counters.Requests++
	if s.open++; s.open == 1 {
		s.tickAt = o.sent.Add(tickEvery)
	}
}

// Open returns the number of requests whose fate is open.
func (s *Source) Open() int { return s.open }

// Counters returns the counters of the source.
func (s *Source) Counters() SourceCounters { return s.counters }
