package flow

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// HandleCompletion settles the requests that a destination's completion covers. The
// parameter "from" names the flow and the chip that answers. If the completion is of a
// later epoch, HandleCompletion gives up the member, and the flow's epoch ends.
// HandleCompletion counts a stale completion, and ignores it.
func (s *Source) HandleCompletion(now mono.Time, from Key, k *wire.Completion) {
	f, i := s.answers(from)
	if f != nil && olderEpoch(f.epoch.number, k.FlowEpoch) {
		f.epoch.exceeded(k.FlowEpoch)
		if i >= 0 {
			s.giveUp(now, f, i, DoubtOlder)
		}
		f.advance()
		return
	}
	if f == nil || i < 0 || k.FlowEpoch != f.epoch.number || int32(k.Next-f.next) > 0 {
		s.counters.StaleCompletions++
		return
	}
	m := &f.members[i]
	if int32(f.base-m.next) > 0 {
		m.next = f.base
	}
	if int32(k.First-m.next) > 0 { // an earlier completion is missing; a probe asks for it again
		s.counters.StaleCompletions++
		return
	}
	f.answer(now, i, k)
	for _, e := range k.Exceptions {
		s.restarted(now, f, &e)
		for seq := later(e.First, f.base); int32(seq-e.First) < int32(e.Count) && int32(k.Next-seq) > 0; seq++ {
			s.settle(now, f, i, seq, exceptionEnd(e.Outcome), nil)
		}
	}
	for ; int32(k.Next-m.next) > 0; m.next++ {
		s.performed(now, f, i, m.next)
	}
	f.advance()
	m.progress = now
}

// answers returns the flow of an answer, and the index of the member that answers. The
// flow is nil if it does not exist. The index is -1 if the chip is not a member.
func (s *Source) answers(from Key) (*outFlow, int) {
	var f *outFlow
	if from.Group == 0 {
		f = s.flows[from]
	} else if g := s.groups.numbered(from.Group); g != nil && g.key.Plane == from.Plane {
		f = g
	}
	if f == nil {
		return nil, -1
	}
	return f, f.member(from.Node)
}

// answer notes that member i has sent a completion of the flow's present epoch.
func (f *outFlow) answer(now mono.Time, i int, k *wire.Completion) {
	f.heard = now
	m := &f.members[i]
	anew := f.epoch.heard(k)
	m.anew = m.anew || anew
	switch p := f.epoch.peer; {
	case p == nil:
	case anew:
		p.wrong = true
	default:
		p.sure = now
	}
	if !f.multicast() {
		f.probes = 0
	}
	if !m.answered {
		m.answered = true
		f.epoch.known = !slices.ContainsFunc(f.members, func(m member) bool { return !m.answered })
	}
}

// performed settles a request that a member has performed. A read stays open until its
// data comes; performed only moves the read from the window to the late reads.
func (s *Source) performed(now mono.Time, f *outFlow, i int, seq uint32) {
	k := f.at(seq)
	if k < 0 || !f.waits(k, i) {
		return
	}
	if o := &f.ops[k]; o.read {
		o.performed = now
		f.reads.add(o)
		f.settle(k, i)
		return
	}
	s.settleAt(now, f, i, k, end{}, nil)
}

// end says how a request ended, in the fields of [Result] with the same names.
type end struct {
	fate    Fate
	outcome wire.Outcome
	drop    wire.DropReason
	doubt   Doubt
	at      wire.FabricNodeID
}

func unknown(why Doubt) end { return end{fate: FateUnknown, doubt: why} }

// exceptionEnd returns the end that an exception of a completion reports.
func exceptionEnd(o wire.Outcome) end {
	switch o {
	case wire.OutcomeLost:
		return end{fate: FateLost}
	case wire.OutcomeRestarted:
		return unknown(DoubtRestarted)
	case wire.OutcomeHostGone:
		return unknown(DoubtHost)
	}
	return end{fate: FateRefused, outcome: o}
}

// settle ends a request at one member, at most once. The request ends when all members
// have settled the request. The parameter "data" is the data that a read returned.
func (s *Source) settle(now mono.Time, f *outFlow, i int, seq uint32, e end, data []byte) {
	if k := f.at(seq); k >= 0 && f.waits(k, i) {
		s.settleAt(now, f, i, k, e, data)
	}
}

// settleAt settles the request at place k of the window, which waits for member i.
func (s *Source) settleAt(now mono.Time, f *outFlow, i, k int, e end, data []byte) {
	f.settle(k, i)
	s.settled(now, f, i, &f.ops[k], e, data)
}

// settled counts that member i has settled request o, and ends the request after its last member.
func (s *Source) settled(now mono.Time, f *outFlow, i int, o *op, e end, data []byte) {
	m := &f.members[i]
	f.epoch.judge(o, m, &e)
	if f.risky(o.seq) && !o.known && (e.doubt == DoubtRestarted || e.doubt == DoubtLate) {
		e.doubt = DoubtRouteDead
	}
	m.open--
	if !o.probe {
		m.fates[e.fate]++
		if f.multicast() && e.fate != FateDone {
			f.fail(m.node, o.seq, &e)
		}
	}
	if !o.settled() {
		return
	}
	s.open--
	if !o.probe {
		s.end(now, f, o, e, data, f.takeFailed(o.seq))
	}
}

// end gives a settled request of flow f its result. A posted request has had its result already: end
// only counts how it ended.
func (s *Source) end(now mono.Time, f *outFlow, o *op, e end, data []byte, failed []MemberResult) {
	r := o.result(now, f.key.Node, e, data, failed)
	switch {
	case o.posted:
		s.counters.Results[r.Fate]++
		if r.Fate != FateDone {
			f.missed.note(o.seq)
		}
		return
	case o.flush:
		r.Missed = f.missed.ended(o.seq, r.Fate == FateDone)
	}
	s.result(o.by, &r)
}

// HandleReply takes the data of a read. The parameter "from" names the flow and the
// chip that replies. HandleReply copies the data. If no read waits for the data,
// HandleReply only counts the reply.
func (s *Source) HandleReply(now mono.Time, from Key, id uint64, data []byte) {
	if !s.endRead(now, from, id, end{}, data) {
		s.counters.StaleReplies++
	}
}

// HandleDrop handles the report that the router of chip "at" dropped a packet. If the packet is a
// request, HandleDrop settles the request as lost. For a multicast, the parameter "behind" lists
// the members that the dropped copy would have reached. If the dropped packet is a probe, and the
// next probe would be dropped too, HandleDrop also settles all open requests before the probe as
// unknown. Reads that the destination has performed stay open. If the dropped packet is the reply
// to a read, HandleDrop settles the read as unknown, for DoubtData. If the report is Open,
// HandleDrop settles nothing. Probes then follow at short intervals again, by a route round the
// dead link. No probe follows at once, because the request may have crossed the link, and a probe
// could overtake the request.
func (s *Source) HandleDrop(now mono.Time, r *wire.DropReport, at wire.FabricNodeID, behind []wire.FabricNodeID) {
	from := Key{Node: r.Dst, Group: r.Group, Plane: r.Plane, Other: r.Other && r.Group == 0}
	if r.Type == wire.PacketReply {
		if !r.Open { // after an open report, the data of the read may still come
			s.endRead(now, from, r.ID, end{fate: FateUnknown, doubt: DoubtData, drop: r.Reason, at: at}, nil)
		}
		return
	}
	f, _ := s.answers(from)
	if f == nil || f.epoch.number != r.FlowEpoch {
		return
	}
	if r.Open {
		if f.at(r.FlowSeq) >= 0 {
			f.dead, f.deadEnd, f.probes = true, f.next, 0
		}
		return
	}
	if !f.multicast() {
		s.drop(now, f, 0, r, at)
		f.heard = now
	} else if f.at(r.FlowSeq) >= 0 {
		for _, n := range behind {
			if i := f.member(n); i >= 0 {
				s.drop(now, f, i, r, at)
			}
		}
	}
	f.advance()
}

// drop settles a dropped request as lost at member i. If the request is a probe, and the next probe
// would be dropped too, drop also settles the open requests before the probe as unknown. Reads that
// the destination has performed stay open, because their data does not travel by the probe's route.
func (s *Source) drop(now mono.Time, f *outFlow, i int, r *wire.DropReport, at wire.FabricNodeID) {
	k := f.at(r.FlowSeq)
	probe := k >= 0 && f.ops[k].probe && f.waits(k, i)
	again := probe && f.detours() && passing(r.Reason)
	for j := f.head; probe && !again && j < k; j++ {
		if f.waits(j, i) {
			s.settleAt(now, f, i, j, end{fate: FateUnknown, doubt: DoubtRouteDead, drop: r.Reason, at: at}, nil)
		}
	}
	s.settle(now, f, i, r.FlowSeq, end{fate: FateLost, drop: r.Reason, at: at}, nil)
	if !again { // otherwise a flow whose probes are dropped would not end after FlowTimeout
		f.members[i].progress = now
	}
}

// detours reports whether new tables lead the packets of a flow round a fault.
func (f *outFlow) detours() bool { return !f.multicast() && len(f.via) == 0 }

// passing reports whether a later packet of the flow may arrive although a router dropped a packet for
// this reason.
func passing(why wire.DropReason) bool {
	switch why {
	case wire.DropNextHopDead, wire.DropTables, wire.DropTimeout, wire.DropDrained, wire.DropFlushed:
		return true
	}
	return false
}

// giveUp settles all open requests of a flow at member i as unknown.
// If the flow has no other member, the epoch ends.
func (s *Source) giveUp(now mono.Time, f *outFlow, i int, why Doubt) {
	s.settleReads(now, f, why, func(*op) bool { return true })
	for seq := f.base; seq != f.next; seq++ {
		s.settle(now, f, i, seq, unknown(why), nil)
	}
	f.members[i].next = f.next
	if len(f.members) == 1 {
		f.epoch.ending = true
	}
	s.counters.FlowResets++
}

// Finish ends a request that belongs to no flow, with the result "end". If Sent of "end" is 0, Finish
// sets Sent to the time "now".
func (s *Source) Finish(now mono.Time, r *Request, by Owner, end Result) {
	end.Token, end.Dst, end.Done = r.Token, r.Dst, now
	if end.Sent == 0 {
		end.Sent = now
	}
	s.result(by, &end)
}

// result returns the result of a request to dst that ended with e. For a multicast, the result has the
// gravest end of the members in "failed".
func (o *op) result(now mono.Time, dst wire.FabricNodeID, e end, data []byte, failed []MemberResult) Result {
	if failed != nil {
		e = gravest(failed)
	}
	return Result{Token: o.token, Dst: dst, Fate: e.fate, Outcome: e.outcome, Drop: e.drop, At: e.at, Doubt: e.doubt,
		Data: data, Members: failed, Sent: o.sent, Done: now}
}

// result hands a result to the owner of the request.
func (s *Source) result(by Owner, r *Result) {
	if int(r.Fate) < knownFates {
		s.counters.Results[r.Fate]++
	}
	if by != Outside {
		s.net.Done(by, *r)
	} else {
		s.results.list = append(s.results.list, *r)
	}
}

// PollResult returns the oldest waiting result of a request that came from outside the
// chip.
func (s *Source) PollResult() (Result, bool) { return s.results.take() }

// results is a queue of results that wait for PollResult.
type results struct {
	list []Result
	head int
}

func (q *results) len() int { return len(q.list) - q.head }

func (q *results) take() (Result, bool) {
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
		return Result{}, false
	}
	r := q.list[q.head]
	q.list[q.head] = Result{}
	q.head++
	return r, true
}

// The function "later" returns the later of two sequence numbers.
func later(a, b uint32) uint32 {
	if int32(b-a) > 0 {
		return b
	}
	return a
}
