package flow

import (
	"slices"

	"ttfabric/wire/mono"
)

// Tick sends probes for stalled flows. Tick gives up members that have made no progress
// for FlowTimeout, flows whose destination has become unreachable, and reads whose data
// does not come. Call Tick when the time of Deadline has come.
func (s *Source) Tick(now mono.Time) {
	if s.open == 0 || s.tickAt.After(now) {
		return
	}
	s.tickAt = now.Add(tickEvery)
	for _, f := range s.list {
		s.tick(now, f)
	}
	for _, f := range s.groups.list {
		s.tick(now, f)
	}
	s.expireReads(now)
}

// Deadline returns the time at which the next Tick is due. Deadline returns false while
// no request is open.
func (s *Source) Deadline() (mono.Time, bool) { return s.tickAt, s.open > 0 }

// tick handles the timers of one flow.
func (s *Source) tick(now mono.Time, f *outFlow) {
	if f.empty() {
		f.probes = 0
		return
	}
	late := s.expire(now, f)
	if f.empty() || s.stranded(now, f) {
		return
	}
	if !late {
		if f.multicast() {
			f.probes = 0
		}
		return
	}
	wait := ProbeAfter << min(f.probes, 4)
	if f.probes > 0 && now.Sub(f.probed) < wait || f.len() >= MaxOutstanding+probesExtra {
		return
	}
	w := s.route(f)
	if f.move.waits { // a fault changed the route: the probe takes the new route
		w = s.net.Route(f.key, nil)
	}
	if !w.OK || !s.net.Room(w) {
		return
	}
	if s.send(f, w, &Request{Dst: f.key.Node, Plane: f.key.Plane, Probe: true}, &op{sent: now, probe: true}) {
		f.probed = now
		f.probes++
		s.counters.Probes++
	}
}

// expire gives up members that have made no progress for FlowTimeout. expire reports
// whether another member has made no progress for ProbeAfter.
func (s *Source) expire(now mono.Time, f *outFlow) (late bool) {
	for i := range f.members {
		m := &f.members[i]
		quiet := now.Sub(m.progress)
		switch {
		case m.open == 0:
		case quiet > FlowTimeout:
			s.giveUp(now, f, i, DoubtTimeout)
		case quiet >= ProbeAfter:
			late = true
		}
	}
	f.advance()
	return late
}

// stranded gives up a unicast flow whose destination is unreachable, once the flow has
// waited for a new route for lastWords, and has made no progress for lastWords. stranded
// reports whether it gave up the flow.
func (s *Source) stranded(now mono.Time, f *outFlow) bool {
	if !f.move.waits || now.Sub(f.move.since) < lastWords || now.Sub(f.members[0].progress) < lastWords || s.net.Route(f.key, nil).OK {
		return false
	}
	s.giveUp(now, f, 0, DoubtUnreachable)
	f.advance()
	return true
}

// HandleTables moves the unicast flows without via to the routes of new tables. If a
// flow's route changes, the flow first waits until none of its requests is open. Therefore
// the flow's packets keep their order.
func (s *Source) HandleTables(now mono.Time) {
	for _, f := range s.list {
		if f.route == nil || len(f.via) > 0 {
			continue
		}
		w := s.net.Route(f.key, nil)
		if w.Same(f.route) {
			f.route, f.move.waits = w, false
			continue
		}
		f.move = move{waits: true, since: now}
		f.settleMove()
	}
}

// settleMove lets a flow take its new route if no request of the flow is open.
func (f *outFlow) settleMove() {
	if f.move.waits && f.empty() {
		f.move.waits, f.route = false, nil
	}
}

// expireReads gives up reads that the destination performed, but whose data has not come
// within FlowTimeout after the sending of the read.
func (s *Source) expireReads(now mono.Time) {
	var late []uint64
	for id, ref := range s.reads {
		if now.Sub(ref.op.sent) > FlowTimeout {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		ref := s.reads[id]
		if !ref.inWindow() {
			delete(s.reads, id)
			s.open--
			ref.flow.members[0].fates[FateUnknown]++
			s.finish(now, ref.flow.key.Node, &ref.op, unknown(DoubtTimeout), nil, nil)
		}
	}
}

// inWindow reports whether the read is still open in the window of its flow. A read in
// the window ends with the flow's other requests.
func (r *read) inWindow() bool {
	f := r.flow
	for k := f.head; k < len(f.ops); k++ {
		if f.ops[k].id == r.op.id {
			return !f.ops[k].settled()
		}
	}
	return false
}
