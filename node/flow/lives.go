package flow

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// A life of a chip is one run of the chip's process. A chip learns the lives of the other chips
// from gossip, see [Source.HandleLives]. All packets of an epoch of a unicast flow name the same
// life of the destination, or none of them names a life. If the packets name a life, the
// destination performs requests of the epoch only in this life. The answer "this request did not
// come" is then final, also for the first requests of the epoch, for three reasons:
//
//   - Only the named life gives this answer. In any other life, the destination answers that its
//     life is another.
//   - The named life performs requests only in the order of their numbers. Before the named life
//     gives this answer, the named life has already taken a later number.
//   - In any other life, the destination does not perform the request, however late the request
//     comes.
//
// A chip also learns the life of a neighbour from the neighbour's hellos, see [Source.HandlePeer].
//
// The source may name an outdated life, if the destination has restarted and gossip has not
// reported the restart yet. The destination then refuses the first requests of the epoch. To avoid
// such refusals, a flow sends requests at once only if its source is sure of the life. The source
// is sure if, since the latest new tables, gossip has reported the life, or the destination has
// answered in this life. New tables may mean that the destination has restarted. If the source is
// not sure, or knows no life, the flow first sends a probe, and requests wait for the answer to the
// probe. After the answer, the epoch is known, or the flow begins a new epoch.
//
// The packets of groups name no life, because each member has its own life. A group also begins
// each epoch with a probe. If a member does not answer the probe, the group sends its requests
// nevertheless.
//
// If the source has had no call of HandleLives, the packets name no life, and no request waits for
// a probe.

// Life is the present life of a chip.
type Life struct {
	Node wire.FabricNodeID
	Life wire.Life // 0: nobody knows, or the chip is dead
}

// peer is what a source knows about one life of another chip. Each life of a chip has a peer of its
// own.
type peer struct {
	life  wire.Life // not 0
	last  wire.Life // previous life of the chip that the source knew; 0: none
	wrong bool      // the chip has another life now, because it refused a request that named this life
	sure  mono.Time // when gossip or a link reported the life, or the chip last answered a request that named the life
}

// HandleLives takes news of the present lives of some chips, as gossip knows them. The epochs of the
// flows to a chip with a new life end.
func (s *Source) HandleLives(now mono.Time, news []Life) {
	if s.peers == nil {
		s.peers = map[wire.FabricNodeID]*peer{}
	}
	for _, l := range news {
		p := s.peers[l.Node]
		if l.Life == 0 {
			delete(s.peers, l.Node)
		} else if p == nil || p.life != l.Life && (p.wrong || p.last != l.Life) { // late gossip may still name the previous life
			s.reborn(now, l)
		}
	}
}

// HandlePeer takes the life of a neighbour from the link to the neighbour. Before the first call of
// HandleLives, HandlePeer does nothing.
func (s *Source) HandlePeer(now mono.Time, l Life) {
	if p := s.peers[l.Node]; s.peers != nil && l.Life != 0 && (p == nil || p.life != l.Life) {
		s.reborn(now, l)
	}
}

// reborn notes a new life of a chip, and ends the epochs of all flows to the chip. The next epochs
// name the new life.
func (s *Source) reborn(now mono.Time, l Life) {
	n, p := l.Node, &peer{life: l.Life, sure: now}
	if was := s.peers[n]; was != nil {
		p.last = was.life
	}
	s.peers[n] = p
	for _, list := range [][]*outFlow{s.list, s.groups.list} {
		for _, f := range list {
			if f.next > 0 && (f.multicast() || f.key.Node == n) && f.member(n) >= 0 {
				f.epoch.ending = true
			}
		}
	}
}

// Before the first packet of an epoch, bind chooses the life that the packets of the epoch name. If
// the first packet is a probe of a program, and the source is not sure of the life, the packets
// name no life. The destination then answers the probe in any life.
func (s *Source) bind(f *outFlow, probe bool) {
	if f.multicast() {
		return
	}
	f.epoch.peer, f.epoch.open = nil, false
	if p := s.peers[f.key.Node]; p != nil && !p.wrong {
		if f.epoch.open = !p.sure.Before(s.tables); f.epoch.open || !probe {
			f.epoch.peer = p
		}
	}
}

// opened reports whether the flow may send requests although its epoch is not known. In a group,
// this means that a member has not answered the group's probe. If such a group has no open request,
// and its last probe is ProbeAfter old, opened returns false, and the group sends another probe.
func (f *outFlow) opened(now mono.Time) bool {
	e := &f.epoch
	if e.open && f.multicast() && f.empty() && now.Sub(f.probed) >= ProbeAfter {
		e.open, e.asked = false, false
	}
	return e.open
}

// ask handles request r of an epoch in which requests wait for the answer to a probe. If no packet
// of the flow is open, ask sends the probe. If a router has just dropped the probe, ask ends r in
// the same way as the probe, and the next request causes another probe. ask returns false if the
// flow may send r now.
func (s *Source) ask(now mono.Time, f *outFlow, w *Route, r *Request, by Owner) (Admission, bool) {
	e := &f.epoch
	switch {
	case !f.empty():
		return Busy, true
	case !e.asked || !f.multicast() && now.Sub(f.heard) >= ProbeAfter:
		if s.net.Room(w) && s.send(f, w, &Request{Dst: f.key.Node, Plane: f.key.Plane, Probe: true}, &op{sent: now, probe: true}) {
			e.asked, f.probed = true, now
			s.counters.Probes++
		}
		return Busy, true
	case f.multicast():
		e.open = true // the members that do not answer hold up no other member
		return Accepted, false
	}
	e.asked = false
	s.unsent(now, f, r, by)
	return Accepted, true
}

// unsent ends request r, which the flow has not sent because a router dropped the probe. The
// request ends in the same way as the probe.
func (s *Source) unsent(now mono.Time, f *outFlow, r *Request, by Owner) {
	e := &f.epoch.dropped
	f.members[0].fates[FateLost]++
	res := Result{Token: r.Token, Dst: f.key.Node, Fate: FateLost, Drop: e.drop, At: e.at, Sent: now, Done: now}
	if r.Posted {
		s.counters.Results[FateLost]++
		f.missed.later++
		res.Fate, res.Drop, res.At = FatePosted, 0, wire.FabricNodeID{}
	}
	s.result(by, &res)
}
