package flow

import (
	"slices"

	"ttfabric/wire"
)

// SinkCounters are the counters of a sink since its start.
type SinkCounters struct {
	Duplicates    uint64 // requests that came again; the chip did not perform them again
	Gaps          uint64 // requests that did not come although later requests of their flow came; without requests of void epochs (see inFlow), and without gaps that the sink finds while its list of exceptions is full
	Overflows     uint64 // requests that the sink refused because its list of exceptions was full
	StaleRequests uint64 // requests of an older epoch of their flow, or of a void epoch (see inFlow)
}

// Sink is the machine at the receiving end of all flows to a chip. A Sink is not
// safe for concurrent use.
//
// Call [Sink.HandleRequest] for each request and probe that arrives. If HandleRequest
// returns true, perform the request. If the chip refuses the request, call
// [Sink.Refuse]. Then call [Sink.Answer] to send the owed completions. Call
// [Sink.HandleTables] when routes have changed.
type Sink struct {
	life     wire.Life // life of this chip; 0: unknown
	flows    map[Key]*inFlow
	last     *inFlow   // flow of the last packet; the next packet mostly belongs to this flow too; nil before the first packet
	owed     []*inFlow // flows to which the sink owes a completion; the flow that has waited longest is first
	counters SinkCounters
}

// maxExceptions is the largest number of exceptions that a sink keeps of one flow. One completion
// reports only [wire.MaxExceptions] of them, so that the sink may need several completions.
const maxExceptions = 64

// NewSink returns a sink without flows. The parameter "life" is the life of the chip.
func NewSink(life wire.Life) *Sink { return &Sink{life: life, flows: map[Key]*inFlow{}} }

// inFlow is the destination's end of a flow.
//
// Invariants: for every request before next, one of three statements is true. The statements are:
// this chip has performed the request; an exception names the request; the request is before the
// source's base, so that the source knows its fate. There are at most maxExceptions exceptions, in
// order. If there are maxExceptions exceptions, the last exception covers all requests that come
// later, too.
type inFlow struct {
	key   Key // key of the flow; Node is the source
	epoch uint32
	base  uint32 // lowest request whose fate the source did not know when it sent its last packet
	next  uint32
	told  uint32 // first request that the next owed completion reports; if told is before base, the completion begins at base
	exc   []wire.Exception
	void  bool   // the chip performs no request of this epoch: the packet that began the epoch here names another life of this chip, or has the flag KNOWN (an earlier incarnation has answered in the epoch)
	owed  bool   // the sink owes a completion, and the flow is in Sink.owed
	home  *Route // route of completions; nil until needed, and after new tables
}

// HandleRequest takes a request or a probe that has arrived. Unless the request is posted, the sink
// then owes a completion to the flow. HandleRequest reports whether the chip must perform the
// request now. A probe is never performed.
func (s *Sink) HandleRequest(p *wire.Packet) (perform bool) {
	f := s.admit(p)
	if f == nil {
		return false
	}
	if !p.Posted {
		s.owe(f)
	}
	switch d := int32(p.FlowSeq - f.next); {
	case d < 0:
		s.counters.Duplicates++
		return false
	case f.void:
		s.counters.StaleRequests++
		f.refuse(uint32(d))
		return false
	case len(f.exc) >= maxExceptions-2:
		s.counters.Overflows++
		f.overflow(uint32(d))
		return false
	case d > 0:
		s.counters.Gaps += uint64(d)
		f.except(f.next, uint32(d), wire.OutcomeLost)
	}
	f.next = p.FlowSeq + 1
	return p.Type != wire.PacketProbe
}

// Wants reports whether HandleRequest would return true for a packet. Wants changes nothing.
func (s *Sink) Wants(p *wire.Packet) bool {
	k := Key{p.Src, p.Group, p.Plane, p.Other}
	try := Sink{life: s.life, flows: map[Key]*inFlow{}}
	if f := s.flows[k]; f != nil {
		c := *f
		c.exc = slices.Clone(f.exc)
		try.flows[k] = &c
	}
	return try.HandleRequest(p)
}

// Refuse tells the sink that the chip did not perform the request for which
// HandleRequest has just returned true.
func (s *Sink) Refuse(p *wire.Packet, why wire.Outcome) { s.last.except(p.FlowSeq, 1, why) }

// Answer calls the function "send" for each completion that the sink owes. The flow that
// has waited longest comes first. If a flow has more exceptions than one completion holds,
// the sink owes the flow several completions. Answer gives "send" the flow's key, the
// route w and the completion m. Answer gets w from the function "home", and keeps w until
// the tables change. If "send" returns true, the completion is sent or discarded. If
// "send" returns false, the sink still owes this completion and the following completions
// of the flow. Answer reports whether "send" returned true at least once.
func (s *Sink) Answer(home func(to Key) *Route, send func(to Key, w *Route, m wire.Completion) bool) (sent bool) {
	kept := s.owed[:0]
	for _, f := range s.owed {
		if f.home == nil {
			f.home = home(f.key)
		}
		for f.owed {
			m := f.report()
			if !send(f.key, f.home, m) {
				break
			}
			sent, f.told, f.owed = true, m.Next, m.Next != f.next
		}
		if f.owed {
			kept = append(kept, f)
		}
	}
	s.owed = kept
	return sent
}

// HandleTables forgets all routes of completions, because the tables have changed.
func (s *Sink) HandleTables() {
	for _, f := range s.flows {
		f.home = nil
	}
}

// Owed returns the number of flows to which the sink owes a completion.
func (s *Sink) Owed() int { return len(s.owed) }

// Counters returns the counters of the sink.
func (s *Sink) Counters() SinkCounters { return s.counters }

// overflow handles a request and the n missing requests before the request, if the flow has at
// least maxExceptions-2 exceptions. A gap and a refusal could then fill the list, with no room for
// an exception that covers all later requests. The chip performs none of these n+1 requests. Until
// the next gap, one exception with OutcomeOverflow covers the requests that arrive. From that gap
// on, an exception with OutcomeLost covers the gap and all later requests, until the source's base
// passes enough exceptions. If only one more exception fits, and the last exception has another
// outcome than OutcomeOverflow, overflow adds the exception with OutcomeLost at once.
func (f *inFlow) overflow(n uint32) {
	o := wire.OutcomeOverflow
	if k := len(f.exc); n > 0 || k > maxExceptions-2 && f.exc[k-1].Outcome != wire.OutcomeOverflow {
		o = wire.OutcomeLost
	}
	f.except(f.next, n+1, o)
	f.next += n + 1
}

// refuse handles a request of a void epoch, and the n missing requests before the
// request.
func (f *inFlow) refuse(n uint32) {
	if len(f.exc) >= maxExceptions-2 { // one exception covers all requests, because two exceptions for each request would soon not fit
		f.except(f.next, n+1, wire.OutcomeRestarted)
	} else {
		if n > 0 {
			f.except(f.next, n, wire.OutcomeRestarted)
		}
		f.except(f.next+n, 1, wire.OutcomeUnknownFlow)
	}
	f.next += n + 1
}

// report returns the next completion that the sink owes to the flow. The first completion begins at
// base, and each later completion begins where the previous completion ended.
func (f *inFlow) report() wire.Completion {
	if int32(f.told-f.base) < 0 {
		f.told = f.base
	}
	m := wire.Completion{FlowEpoch: f.epoch, First: f.told, Next: f.next}
	k := 0
	for k < len(f.exc) && int32(f.exc[k].First+uint32(f.exc[k].Count)-f.told) <= 0 {
		k++
	}
	if m.Exceptions = f.exc[k:]; len(m.Exceptions) > wire.MaxExceptions {
		m.Next = m.Exceptions[wire.MaxExceptions].First
		m.Exceptions = m.Exceptions[:wire.MaxExceptions]
	}
	return m
}

// owe notes that the sink owes completions to a flow, from base on.
func (s *Sink) owe(f *inFlow) {
	if !f.owed {
		f.owed, f.told = true, f.base
		s.owed = append(s.owed, f)
	}
}

// admit returns the flow of a packet. If the flow does not exist yet, admit begins the
// flow. For a packet of an older epoch of the flow, admit returns nil.
func (s *Sink) admit(p *wire.Packet) *inFlow {
	k := Key{p.Src, p.Group, p.Plane, p.Other}
	f := s.last
	if f == nil || f.key != k {
		f = s.flows[k]
	}
	switch {
	case f == nil:
		f = &inFlow{key: k}
		s.flows[k] = f
		f.begin(p, s.life)
	case f.epoch == p.FlowEpoch:
		f.forget(p.FlowBase)
		if int32(p.FlowBase-f.base) > 0 {
			f.base = p.FlowBase
		}
		if int32(p.FlowBase-f.next) > 0 {
			f.next = p.FlowBase // the source knows how all requests before FlowBase ended
		}
	case olderEpoch(p.FlowEpoch, f.epoch):
		s.counters.StaleRequests++
		s.owe(f) // the completion names the newer epoch; a source that is still in an older epoch goes on to the epoch after the newer one
		return nil
	default:
		f.begin(p, s.life)
	}
	s.last = f
	return f
}

// begin starts an epoch of the flow with packet p, at a chip with the given life. Requests before p
// that are still open at the source get OutcomeRestarted, if they are fewer than 2*MaxOutstanding.
// A former incarnation of this chip may have performed these requests. If p names this chip's
// present life, the requests get OutcomeLost, because no other life performs requests of the epoch.
func (f *inFlow) begin(p *wire.Packet, life wire.Life) {
	f.epoch, f.base, f.told, f.next, f.exc = p.FlowEpoch, p.FlowBase, p.FlowBase, p.FlowBase, f.exc[:0]
	f.void = p.Known || p.Life != 0 && p.Life != life
	before := wire.OutcomeRestarted
	if p.Life != 0 && !f.void {
		before = wire.OutcomeLost
	}
	if d := p.FlowSeq - p.FlowBase; d > 0 && d < 2*MaxOutstanding {
		f.except(p.FlowBase, d, before)
		f.next = p.FlowSeq
	} else if d != 0 {
		f.next = p.FlowSeq
	}
}

// except adds an exception: the n requests from number first on ended with outcome o.
func (f *inFlow) except(first, n uint32, o wire.Outcome) {
	if k := len(f.exc); k > 0 {
		if e := &f.exc[k-1]; e.Outcome == o && e.First+uint32(e.Count) == first && uint32(e.Count)+n <= 1<<16-1 {
			e.Count += uint16(n)
			return
		}
	}
	f.exc = append(f.exc, wire.Exception{First: first, Count: uint16(min(n, 1<<16-1)), Outcome: o})
}

// forget removes the exceptions that the source already knows.
func (f *inFlow) forget(base uint32) {
	k := 0
	for k < len(f.exc) && int32(f.exc[k].First+uint32(f.exc[k].Count)-base) <= 0 {
		k++
	}
	if k > 0 {
		f.exc = f.exc[:copy(f.exc, f.exc[k:])]
	}
}
