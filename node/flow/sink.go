package flow

import "ttfabric/wire"

// SinkCounters count what a sink has done since its start.
type SinkCounters struct {
	Duplicates    uint64 // requests that had come before, and were not performed again
	Gaps          uint64 // requests that did not come although later ones did
	Overflows     uint64 // requests that were refused because too many exceptions were open
	StaleRequests uint64 // of an older epoch of their flow, or of an epoch that was known before this chip started
}

// Sink is the machine at the receiving end of all flows to a chip. It is not
// safe for concurrent use.
//
// Call [Sink.HandleRequest] for each request and probe that arrives. If the sink
// says that the request is to be performed, perform the request and tell a
// refusal by [Sink.Refuse]. Then send the completions that are owed by
// [Sink.Answer]. Call [Sink.HandleTables] when routes have changed.
type Sink struct {
	flows    map[Key]*inFlow
	last     *inFlow   // the flow of the last packet, as the next one is mostly of the same; nil before the first
	owed     []*inFlow // flows that a completion is owed to, the longest owed first
	counters SinkCounters
}

// NewSink returns a sink that has heard of no flow.
func NewSink() *Sink { return &Sink{flows: map[Key]*inFlow{}} }

// inFlow is the destination's end of a flow.
//
// Invariants: this chip has performed every request before next, or an exception
// names the request, or the source knows the request's fate (the request is
// before the source's base). There are at most wire.MaxExceptions exceptions, in
// order. If there are as many, the last one is an overflow.
type inFlow struct {
	key   Key // Node is the source
	epoch uint32
	next  uint32
	exc   []wire.Exception
	void  bool   // this epoch was known before the chip started; the chip performs nothing of it
	owed  bool   // a completion is owed, and the flow stands in Sink.owed
	home  *Route // of completions; nil until it is needed, and after new tables
}

// HandleRequest takes a request or a probe that has arrived, and owes a
// completion for it. It reports whether the chip is to perform the request now.
func (s *Sink) HandleRequest(p *wire.Packet) (perform bool) {
	f := s.admit(p)
	if f == nil {
		return false
	}
	s.owe(f)
	switch d := int32(p.FlowSeq - f.next); {
	case d < 0:
		s.counters.Duplicates++
		return false
	case f.void:
		s.counters.StaleRequests++
		f.refuse(uint32(d))
		return false
	case len(f.exc) >= wire.MaxExceptions-2:
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

// Refuse says that the chip did not perform the request that HandleRequest has just let through.
func (s *Sink) Refuse(p *wire.Packet, why wire.Outcome) { s.last.except(p.FlowSeq, 1, why) }

// Answer calls send for each flow that is owed a completion, the longest owed
// first. The completion goes by route w, which Answer asks home for once until
// there are new tables. send reports whether the completion is on its way; if
// not, the completion stays owed. Answer reports whether any was sent.
func (s *Sink) Answer(home func(to Key) *Route, send func(to Key, w *Route, m wire.Completion) bool) (sent bool) {
	kept := s.owed[:0]
	for _, f := range s.owed {
		if f.home == nil {
			f.home = home(f.key)
		}
		if !send(f.key, f.home, wire.Completion{FlowEpoch: f.epoch, Next: f.next, Exceptions: f.exc}) {
			kept = append(kept, f)
			continue
		}
		f.owed = false
		sent = true
	}
	s.owed = kept
	return sent
}

// HandleTables has completions take the routes of new tables.
func (s *Sink) HandleTables() {
	for _, f := range s.flows {
		f.home = nil
	}
}

// Owed is the number of flows that a completion is owed to.
func (s *Sink) Owed() int { return len(s.owed) }

// Counters returns what the sink has counted.
func (s *Sink) Counters() SinkCounters { return s.counters }

// overflow takes a request, and n before it that did not come, where a gap and a
// refusal may no longer have room. None of these requests is performed. One
// exception names all that comes until the source has taken note of the older
// exceptions; from the first gap on, another exception does. Where only one
// exception has room, that is the latter.
func (f *inFlow) overflow(n uint32) {
	o := wire.OutcomeOverflow
	if k := len(f.exc); n > 0 || k > wire.MaxExceptions-2 && f.exc[k-1].Outcome != wire.OutcomeOverflow {
		o = wire.OutcomeLost
	}
	f.except(f.next, n+1, o)
	f.next += n + 1
}

// refuse takes a request of a void epoch, and n before it that did not come.
func (f *inFlow) refuse(n uint32) {
	if len(f.exc) >= wire.MaxExceptions-2 { // one exception for all, as in overflow
		f.except(f.next, n+1, wire.OutcomeRestarted)
	} else {
		if n > 0 {
			f.except(f.next, n, wire.OutcomeRestarted)
		}
		f.except(f.next+n, 1, wire.OutcomeUnknownFlow)
	}
	f.next += n + 1
}

// owe notes that a completion is owed for a flow.
func (s *Sink) owe(f *inFlow) {
	if !f.owed {
		f.owed = true
		s.owed = append(s.owed, f)
	}
}

// admit finds the flow of a packet, or begins one. It returns nil for a packet of an older epoch of the flow.
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
		f.begin(p)
	case f.epoch == p.FlowEpoch:
		f.forget(p.FlowBase)
		if int32(p.FlowBase-f.next) > 0 {
			f.next = p.FlowBase // the source knows already what became of the requests between
		}
	case olderEpoch(p.FlowEpoch, f.epoch):
		s.counters.StaleRequests++
		s.owe(f) // a source that is alive learns from the completion in which epoch to go on
		return nil
	default:
		f.begin(p)
	}
	s.last = f
	return f
}

// begin starts an epoch of the flow with packet p. Requests before p whose end
// the source does not know went to a former incarnation of this chip, if they arrived.
func (f *inFlow) begin(p *wire.Packet) {
	f.epoch, f.next, f.exc, f.void = p.FlowEpoch, p.FlowBase, f.exc[:0], p.Known
	if d := p.FlowSeq - p.FlowBase; d > 0 && d < 2*MaxOutstanding {
		f.except(p.FlowBase, d, wire.OutcomeRestarted)
		f.next = p.FlowSeq
	} else if d != 0 {
		f.next = p.FlowSeq
	}
}

// except notes that n requests from first on did not end as done.
func (f *inFlow) except(first, n uint32, o wire.Outcome) {
	if k := len(f.exc); k > 0 {
		if e := &f.exc[k-1]; e.Outcome == o && e.First+uint32(e.Count) == first && uint32(e.Count)+n <= 1<<16-1 {
			e.Count += uint16(n)
			return
		}
	}
	f.exc = append(f.exc, wire.Exception{First: first, Count: uint16(min(n, 1<<16-1)), Outcome: o})
}

// forget drops the exceptions that the source knows of.
func (f *inFlow) forget(base uint32) {
	k := 0
	for k < len(f.exc) && int32(f.exc[k].First+uint32(f.exc[k].Count)-base) <= 0 {
		k++
	}
	if k > 0 {
		f.exc = f.exc[:copy(f.exc, f.exc[k:])]
	}
}
