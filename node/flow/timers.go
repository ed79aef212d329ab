package flow

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Tick sends probes for stalled flows, and for flows with a performed read whose data is
// overdue. Tick gives up members that have made no progress for FlowTimeout, and flows whose
// destination has become unreachable. Tick also gives up reads whose data does not come within
// FlowTimeout. Call Tick when the time of Deadline has come.
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
	r := Request{Dst: f.key.Node, Plane: f.key.Plane, Probe: true}
	if o := f.reads.oldest(); o != nil && o.overdue(now) && s.inOrder(f, o, now.Add(-Patience)) { // the reply to this probe comes behind the data of the read
		r.Probe, r.Command = false, wire.Command{Type: wire.NocRead, Addr: o.addr, Size: o.size}
	} else if !late {
		if f.multicast() {
			f.probes = 0
		}
		return
	}
	wait := ProbeAfter << min(f.probes, 4)
	if now.Sub(f.probed) < wait || f.count() >= MaxOutstanding+probesExtra {
		return
	}
	w := s.route(f)
	if f.move.waits { // a fault changed the route: the probe takes the new route
		if s.patient(now, f) {
			return
		}
		w = s.present(f)
	}
	if !w.OK || !s.net.Room(w) {
		return
	}
	if s.send(f, w, &r, &op{sent: now, probe: true}) {
		f.probed = now
		f.probes++
		s.counters.Probes++
	}
}

// patient reports whether a flow holds back its probe, because requests on its old route may still
// arrive. A probe by the new route would overtake the requests that silent links hold. The source
// would then take these requests for lost, although the requests may still arrive. The flow waits
// until the links come up, or until the control plane gives up the links.
func (s *Source) patient(now mono.Time, f *outFlow) bool {
	silent, dead := s.net.Crosses(f.key, f.route)
	return !dead && (silent || now.Sub(f.move.since) < Patience)
}

// inOrder reports whether the data of read o comes before any reply that the destination sent after
// the time "since", unless the data is lost. Replies keep their order if no cable is silent, so that
// no reply waits for a late chip, and if the tables have not changed after the time "since". A
// cable of the replies' route without faults may have gone out of service after the flow sent o, or
// in the time Patience before. The data may then be lost with that cable. inOrder returns true in
// this case, because the flow must find out whether the data is lost.
func (s *Source) inOrder(f *outFlow, o *op, since mono.Time) bool {
	silent, dead := s.net.Answers(f.key)
	return dead != 0 && !o.sent.After(dead.Add(Patience)) || !silent && (s.tables == 0 || since.After(s.tables))
}

// expire gives up members that have made no progress for FlowTimeout, and performed reads whose
// data has not come for FlowTimeout. expire reports whether one of the other members has made no
// progress for ProbeAfter.
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
	s.expireReads(now, f)
	f.advance()
	return late
}

// stranded gives up a flow to which the tables give no route, and would give none even if the
// silent cables worked. Before that, the flow must have waited for a new route, without progress,
// for lastWords. stranded reports whether it gave up the flow.
func (s *Source) stranded(now mono.Time, f *outFlow) bool {
	quiet := func(m member) bool { return m.open == 0 || now.Sub(m.progress) >= lastWords }
	if !f.move.waits || now.Sub(f.move.since) < lastWords || s.present(f).OK || s.late(f) {
		return false
	}
	for i := range f.members {
		if !quiet(f.members[i]) {
			return false
		}
	}
	for i := range f.members {
		s.giveUp(now, f, i, DoubtUnreachable)
	}
	f.advance()
	return true
}

// HandleTables moves the flows without via to the routes of new tables. If a flow's route
// changes, the flow first waits until none of its requests is open. Therefore the flow's
// packets keep their order. The tree of a multicast within the mesh never changes.
func (s *Source) HandleTables(now mono.Time) {
	s.tables = now
	for _, list := range [][]*outFlow{s.list, s.groups.list} {
		for _, f := range list {
			if f.route == nil || len(f.via) > 0 || f.route.Port < 0 {
				continue
			}
			w := s.present(f)
			if w.Same(f.route) {
				f.route, f.move.waits = w, false
				continue
			}
			f.move = move{waits: true, since: now}
			f.settleMove()
		}
	}
}

// settleMove lets a flow take its new route if no request of the flow is open.
func (f *outFlow) settleMove() {
	if f.move.waits && f.empty() {
		f.move.waits, f.route = false, nil
	}
}
