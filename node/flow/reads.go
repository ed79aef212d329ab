package flow

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// lateReads holds the reads of a flow that the destination has performed, but whose data has not come.
// These reads have left the flow's window. Late data therefore does not keep base from advancing.
//
// Invariants: ops are in the order of their IDs, and performed is set in each. The field "open" is
// the number of unsettled reads in ops. After a call of compact, at most half of ops, or 64 of
// them, are settled.
type lateReads struct {
	ops  []op
	open int
}

// add puts a performed read behind the other reads. The destination performs the requests of a flow
// in the order of their IDs.
func (l *lateReads) add(o *op) {
	l.ops = append(l.ops, *o)
	l.open++
}

// find returns the place of the unsettled read with an ID in ops, or -1.
func (l *lateReads) find(id uint64) int {
	k := findID(l.ops, id)
	if k >= 0 && l.ops[k].settled() {
		return -1
	}
	return k
}

// findID returns the place of the request with an ID in ops, or -1. IDs may wrap.
func findID(ops []op, id uint64) int {
	k, end := 0, len(ops)
	for k < end { // binary search; mostly, the request is the first
		m := k + (end-k-1)/2
		if d := int64(id - ops[m].id); d == 0 {
			return m
		} else if d > 0 {
			k = m + 1
		} else {
			end = m
		}
	}
	return -1
}

// oldest returns the unsettled read that the source sent first, or nil.
func (l *lateReads) oldest() *op {
	for k := range l.ops {
		if !l.ops[k].settled() {
			return &l.ops[k]
		}
	}
	return nil
}

// compact removes settled reads.
func (l *lateReads) compact() {
	if l.open == 0 {
		l.ops = l.ops[:0]
	} else if settled := len(l.ops) - l.open; settled > 64 && settled > l.open {
		l.ops = slices.DeleteFunc(l.ops, func(o op) bool { return o.settled() })
	}
}

// settleRead ends the performed read at place k of the flow's late reads.
func (s *Source) settleRead(now mono.Time, f *outFlow, k int, e end, data []byte) {
	o := &f.reads.ops[k]
	o.left = 0
	f.reads.open--
	s.settled(now, f, 0, o, e, data)
}

// settleReads ends as unknown the late reads for which the function "which" returns true.
func (s *Source) settleReads(now mono.Time, f *outFlow, why Doubt, which func(o *op) bool) {
	for k := range f.reads.ops {
		if o := &f.reads.ops[k]; !o.settled() && which(o) {
			s.settleRead(now, f, k, unknown(why), nil)
		}
	}
}

// endRead ends the open read with this ID, and puts a copy of the data into its result. If no such
// read waits, endRead returns false.
func (s *Source) endRead(now mono.Time, from Key, id uint64, e end, data []byte) bool {
	f := s.flows[from]
	if f == nil {
		return false
	}
	data = append([]byte(nil), data...)
	if k := f.reads.find(id); k >= 0 {
		s.overtaken(now, f, &f.reads.ops[k], e)
		s.settleRead(now, f, k, e, data)
	} else if k := f.find(id); k >= 0 && f.ops[k].read && !f.ops[k].settled() { // the data came before the completion
		s.overtaken(now, f, &f.ops[k], e)
		s.settleAt(now, f, 0, k, e, data)
	} else {
		return false
	}
	f.advance()
	f.members[0].progress, f.heard = now, now
	return true
}

// overtaken settles the reads whose data the reply to read o has overtaken. The reply proves a loss
// if o is a probe that the flow sent because data was overdue. Replies of a flow keep their order,
// except after new tables, and while a reply waits for a late chip. Data that was overdue when the
// flow sent the probe is therefore lost, if inOrder returns true for the read.
func (s *Source) overtaken(now mono.Time, f *outFlow, o *op, e end) {
	if o.probe && e.fate == FateDone {
		s.settleReads(now, f, DoubtData, func(r *op) bool { return int64(o.id-r.id) > 0 && r.overdue(o.sent) && s.inOrder(f, r, o.sent) })
	}
}

// restarted settles the late reads whose destination has restarted. An exception with one of the
// outcomes below comes from a new incarnation of the destination. The former incarnation performed
// the reads before the end of this exception, and their data is lost.
func (s *Source) restarted(now mono.Time, f *outFlow, x *wire.Exception) {
	if x.Outcome == wire.OutcomeRestarted || x.Outcome == wire.OutcomeUnknownFlow {
		next := x.First + uint32(x.Count)
		s.settleReads(now, f, DoubtRestarted, func(r *op) bool { return int32(next-r.seq) > 0 })
	}
}

// expireReads settles the performed reads whose data has not come for FlowTimeout, and probes that
// no earlier read needs any more.
func (s *Source) expireReads(now mono.Time, f *outFlow) {
	for k := range f.reads.ops {
		switch o := &f.reads.ops[k]; {
		case o.settled():
		case o.probe:
			s.settleRead(now, f, k, end{}, nil)
		case now.Sub(o.performed) > FlowTimeout:
			s.settleRead(now, f, k, unknown(DoubtTimeout), nil)
		default:
			return
		}
	}
}
