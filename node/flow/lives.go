package flow

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The life of a chip is the time from the start of the chip's process to its end. Gossip tells a chip
// the lives of the other chips, see [Source.HandleLives]. All packets of an epoch of a unicast flow
// name one life of the destination, or none. A chip of another life performs no request of the epoch.
// If the packets name a life, the answer "this request did not come" is therefore final, also for
// the first requests of the epoch:
//
//   - Only the named life gives this answer. Another life answers that it is another life.
//   - The named life has passed the request's number, and does not perform the request later.
//   - No other life performs the request, however late the request comes.
//
// A chip learns the life of a neighbour from the neighbour's hellos, too, see [Source.HandlePeer].
//
// The source may be wrong about the life: the destination may have restarted, and gossip may not
// have told it yet. The destination then refuses the first requests of the epoch. These refusals are
// true, but nobody wants them. The source is sure of a life if gossip has told it, or the life has
// answered, since the latest new tables. New tables may mean that the destination has restarted.
// If the source is not sure, or knows no life, the flow first sends a probe. Requests wait until
// the probe has its answer. A request then goes in an epoch that is known, or in a new epoch.
//
// The packets of groups name no life, because each member has its own. A group also first sends a
// probe in each epoch. A member that does not answer the probe does not hold up the others.
//
// If gossip has told a source nothing, the packets name no life, and no request waits for a probe.

// Life says which life a chip has now.
type Life struct {
	Node wire.FabricNodeID
	Life wire.Life // 0: nobody knows, or the chip is dead
}

// peer is what a source knows about one life of another chip. Another life gets another peer.
type peer struct {
	life  wire.Life // not 0
	last  wire.Life // life that the source knew before; 0: none
	wrong bool      // the chip has refused a request for this life, so that the chip has another life
	sure  mono.Time // when gossip or a link told of the life, or the life last answered a request that named it
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
		} else if p == nil || p.life != l.Life && (p.wrong || p.last != l.Life) { // late gossip may still name the last life
			s.reborn(now, l)
		}
	}
}

// HandlePeer takes the life that a neighbour has proved to the link. If gossip has told the source
// nothing, HandlePeer does nothing.
func (s *Source) HandlePeer(now mono.Time, l Life) {
	if p := s.peers[l.Node]; s.peers != nil && l.Life != 0 && (p == nil || p.life != l.Life) {
		s.reborn(now, l)
	}
}

// reborn notes a new life of a chip, and ends the epochs of all flows to the chip. Later requests then go
// to the new life.
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

// bind chooses the life that the packets of an epoch name, before the first packet of the epoch. If a
// program's own probe is the first packet, and the source is not sure of the life, the packets name no
// life: any life may answer the probe.
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

// opened reports whether the flow may send requests although its epoch is not known. For a group, a
// member has then not answered the probe. After ProbeAfter, an empty flow asks again.
func (f *outFlow) opened(now mono.Time) bool {
	e := &f.epoch
	if e.open && f.multicast() && f.empty() && now.Sub(f.probed) >= ProbeAfter {
		e.open, e.asked = false, false
	}
	return e.open
}

// ask handles request r of an epoch in which requests wait for the answer to a probe. If no packet of
// the flow is open, ask sends the probe. If a router has just dropped the probe, ask ends r in the same
// way, and the next request asks again. ask returns false if the flow may send r now.
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

// unsent ends a request that the flow has not sent, because a router dropped the probe before it. The
// request ends as the probe did.
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
