package flow

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// HandleCompletion settles the requests that a destination says are settled.
// from is the flow and the chip that answers.
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
	f.answer(now, i, k)
	m := &f.members[i]
	if int32(f.base-m.next) > 0 {
		m.next = f.base
	}
	for _, e := range k.Exceptions {
		for seq := later(e.First, m.next); int32(seq-e.First) < int32(e.Count) && int32(k.Next-seq) > 0; seq++ {
			s.settle(now, f, i, seq, exceptionResult(e.Outcome))
		}
	}
	for ; int32(k.Next-m.next) > 0; m.next++ {
		if !s.awaitsData(f, i, m.next) {
			s.settle(now, f, i, m.next, Result{Fate: FateDone})
		}
	}
	f.advance()
	m.progress = now
}

// answers finds the flow of an answer, and the index of the member that answers; nil and -1 for none.
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

// answer takes note of a member's completion of this epoch.
func (f *outFlow) answer(now mono.Time, i int, k *wire.Completion) {
	f.heard = now
	f.epoch.heard(k)
	if !f.multicast() {
		f.stall.probes = 0
	}
	if m := &f.members[i]; !m.answered {
		m.answered = true
		f.epoch.known = !slices.ContainsFunc(f.members, func(m member) bool { return !m.answered })
	}
}

// awaitsData settles a read in its flow's window if the destination has
// performed the read and the data is still on its way. The read then holds up
// no request behind it; the data ends the read.
func (s *Source) awaitsData(f *outFlow, i int, seq uint32) bool {
	o := f.at(seq)
	if o == nil || o.id == 0 || !o.open.has(i) {
		return false
	}
	if _, waits := s.reads[o.id]; !waits {
		return false
	}
	f.close(i, o)
	return true
}

// close takes a member out of those that have not settled a request.
func (f *outFlow) close(i int, o *op) {
	o.open.remove(i)
	o.left--
	f.members[i].open--
}

func exceptionResult(o wire.Outcome) Result {
	switch o {
	case wire.OutcomeLost:
		return Result{Fate: FateLost}
	case wire.OutcomeRestarted:
		return Result{Fate: FateUnknown, Doubt: DoubtRestarted}
	}
	return Result{Fate: FateRefused, Outcome: o}
}

// settle ends a request at one member, once. The request ends when all members have settled it.
func (s *Source) settle(now mono.Time, f *outFlow, i int, seq uint32, r Result) {
	o := f.at(seq)
	if o == nil || !o.open.has(i) {
		return
	}
	r = f.epoch.judge(o, r)
	f.close(i, o)
	if !o.probe {
		f.members[i].fates[r.Fate]++
	}
	if f.multicast() && r.Fate != FateDone && !o.probe {
		f.fail(i, seq, &r)
	}
	if !o.settled() {
		return
	}
	s.open--
	if o.id != 0 {
		delete(s.reads, o.id)
	}
	if o.probe {
		return
	}
	if f.multicast() {
		r = groupResult(f.failed[seq])
		delete(f.failed, seq)
	}
	s.finish(now, f.key.Node, o, r)
}

// HandleReply takes the data of a read. from is the flow and the chip that replies; data is copied.
func (s *Source) HandleReply(now mono.Time, from Key, id uint64, data []byte) {
	ref, ok := s.reads[id]
	if !ok || ref.flow.key != from {
		s.counters.StaleReplies++
		return
	}
	delete(s.reads, id)
	r, f := Result{Fate: FateDone, Data: append([]byte(nil), data...)}, ref.flow
	for seq := f.base; seq != f.next; seq++ {
		if o := f.at(seq); o.id == id && !o.settled() {
			s.settle(now, f, 0, seq, r)
			f.advance()
			f.members[0].progress, f.heard = now, now
			return
		}
	}
	s.open--
	f.members[0].fates[FateDone]++
	s.finish(now, f.key.Node, &ref.op, r)
}

// HandleDrop settles a request that a router of the chip at dropped. Of a
// multicast, behind are the members that the dropped copy would have reached. A
// dropped probe tells that the route is dead: every request before the probe is
// settled already, or will never be.
func (s *Source) HandleDrop(now mono.Time, r *wire.DropReport, at wire.FabricNodeID, behind []wire.FabricNodeID) {
	f, _ := s.answers(Key{Node: r.Dst, Group: r.Group, Plane: r.Plane, Other: r.Other && r.Group == 0})
	if f == nil || f.epoch.number != r.FlowEpoch {
		return
	}
	if !f.multicast() {
		s.drop(now, f, 0, r, at)
		f.heard = now
	} else if f.at(r.FlowSeq) != nil {
		for _, n := range behind {
			if i := f.member(n); i >= 0 {
				s.drop(now, f, i, r, at)
			}
		}
	}
	f.advance()
}

// drop settles a dropped request at one member.
func (s *Source) drop(now mono.Time, f *outFlow, i int, r *wire.DropReport, at wire.FabricNodeID) {
	if o := f.at(r.FlowSeq); o != nil && o.probe && o.open.has(i) {
		for seq := f.base; int32(r.FlowSeq-seq) > 0; seq++ {
			s.settle(now, f, i, seq, Result{Fate: FateUnknown, Doubt: DoubtRouteDead})
		}
	}
	s.settle(now, f, i, r.FlowSeq, Result{Fate: FateLost, Drop: r.Reason, At: at})
	f.members[i].progress = now
}

// giveUp ends all open requests of a flow at one member. A flow without another member then begins another epoch.
func (s *Source) giveUp(now mono.Time, f *outFlow, i int, why Doubt) {
	for seq := f.base; seq != f.next; seq++ {
		s.settle(now, f, i, seq, Result{Fate: FateUnknown, Doubt: why})
	}
	f.members[i].next = f.next
	if len(f.members) == 1 {
		f.epoch.ending = true
	}
	s.counters.FlowResets++
}

// Finish ends a request that no flow carried.
func (s *Source) Finish(now mono.Time, r *Request, inside bool, end Result) {
	s.finish(now, r.Dst, &op{token: r.Token, sent: now, inside: inside}, end)
}

// finish puts a result where whoever asked finds it.
func (s *Source) finish(now mono.Time, dst wire.FabricNodeID, o *op, r Result) {
	r.Token, r.Dst, r.Sent, r.Done = o.token, dst, o.sent, now
	s.counters.Results[r.Fate]++
	if o.inside {
		s.inside.add(r)
	} else {
		s.outside.add(r)
	}
}

// PollResult yields the ends of requests from outside the chip, oldest first.
func (s *Source) PollResult() (Result, bool) { return s.outside.take() }

// PollInside yields the ends of requests of the program inside the chip, oldest first.
func (s *Source) PollInside() (Result, bool) { return s.inside.take() }

// results are results that wait to be polled.
type results struct {
	list []Result
	head int
}

func (q *results) len() int     { return len(q.list) - q.head }
func (q *results) add(r Result) { q.list = append(q.list, r) }

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

// later is the later of two sequence numbers.
func later(a, b uint32) uint32 {
	if int32(b-a) > 0 {
		return b
	}
	return a
}
