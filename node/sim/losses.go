package sim

import (
	"ttfabric/node/flow"
	"ttfabric/node/losses"
	"ttfabric/wire"
)

// account merges the packet counts of all living chips into one report.
func (s *Sim) account() losses.Report {
	var chips []losses.Chip
	var dead []wire.FabricNodeID
	for _, m := range s.machines {
		if m.chip == nil {
			dead = append(dead, m.node)
			continue
		}
		chips = append(chips, m.chip.Account())
	}
	return losses.Merge(chips, dead)
}

// checkLosses checks that the chips' counts explain the fate of every packet. For each ended
// incarnation, package losses infers counts from the neighbours' counts. checkLosses compares these
// inferred counts with the incarnation's own counts at its end.
func (s *Sim) checkLosses() losses.Report {
	r := s.account()
	if n := r.Unexplained(); n != 0 {
		s.fail("conservation", "%d packets are unexplained: %+v; %+v", n, r.Total, unexplained(&r))
	}
	for _, g := range r.Gone {
		truth := s.lifeOf(g.Chip, g.Incarnation)
		if truth == nil {
			continue // the incarnation still lives, and only its session has ended
		}
		received, sent := s.told(truth)
		for k := range wire.NumClasses {
			if received[k] < g.Received[k] || received[k] > g.ReceivedMax[k] || sent[k] < g.Sent[k] {
				s.fail("conservation", "by its neighbours' counts, %s with incarnation %#x received %d to %d packets and sent at least %d packets of class %d; by its own counts, the chip received %d and sent %d",
					g.Chip, uint64(g.Incarnation), g.Received[k], g.ReceivedMax[k], g.Sent[k], k, received[k], sent[k])
			}
		}
	}
	return r
}

// unexplained returns the chips and links of a report whose counts do not explain all packets.
func unexplained(r *losses.Report) (out []any) {
	for _, c := range r.Chips {
		if c.Unexplained != 0 {
			out = append(out, c)
		}
	}
	for _, l := range r.Links {
		if l.Unexplained != 0 {
			out = append(out, l)
		}
	}
	return out
}

// lifeOf returns the packet counts of an ended incarnation at its end, or nil if there is no such
// incarnation.
func (s *Sim) lifeOf(n wire.FabricNodeID, i wire.Incarnation) *losses.Chip {
	for _, m := range s.machines {
		for _, l := range s.model.lives[m.index] {
			if m.node == n && l.account.Incarnation == i {
				return &l.account
			}
		}
	}
	return nil
}

// told returns the numbers of packets that an incarnation received and sent. told counts only
// sessions that the present incarnations of the neighbours still know.
func (s *Sim) told(life *losses.Chip) (received, sent losses.Count) {
	for _, p := range life.Ports {
		e := s.byPort[p.Peer]
		m := e.cable.chips[e.side]
		if m.chip == nil {
			continue
		}
		known := map[wire.SessionID]bool{}
		for _, q := range m.chip.Account().Ports {
			if q.Local == p.Peer {
				for _, t := range append(q.Link.Ended, q.Link.Now) {
					known[t.ID] = t.Peer == life.Incarnation // false: the session was with another incarnation
				}
			}
		}
		for _, t := range append(p.Link.Ended, p.Link.Now) {
			for k := range wire.NumClasses {
				if t.ID != 0 && known[t.ID] {
					received[k] += t.Packets[k].Received
					sent[k] += t.Packets[k].Sent
				}
			}
		}
	}
	return received, sent
}

// checkEnds checks that the counts of ended requests of the chips' present incarnations agree with
// the fates in the model. The counts leave out unicasts from a chip to itself. The model does not
// know how a posted request ended. The chip's counts may therefore exceed the model's, but only by
// the number of posted requests in all.
func (s *Sim) checkEnds() {
	type way struct{ src, dst wire.FabricNodeID }
	type counts struct {
		fates  [4]uint64
		posted uint64
	}
	truth := map[way]counts{}
	note := func(o *op, dst int, f flow.Fate) {
		w := way{s.machines[o.src].node, s.machines[dst].node}
		n := truth[w]
		if o.req.Posted && o.ended { // only the chip knows how a posted request ended
			n.posted++
		} else {
			n.fates[f]++
		}
		truth[w] = n
	}
	for _, o := range s.model.ops {
		switch {
		case o.unreachable && o.life == s.machines[o.src].life && o.group != 0:
			for i := range o.members {
				note(o, o.members[i].machine, flow.FateLost)
			}
		case o.unreachable && o.life == s.machines[o.src].life:
			note(o, o.dst, flow.FateLost)
		case !o.ended || o.life != s.machines[o.src].life:
		case o.group != 0:
			for i := range o.members {
				note(o, o.members[i].machine, o.members[i].fate)
			}
		case o.dst != o.src:
			note(o, o.dst, o.fate)
		}
	}
	if s.hosts != nil {
		s.hosts.packets.fates(func(src, dst int, f flow.Fate) {
			w := way{s.machines[src].node, s.machines[dst].node}
			n := truth[w]
			n.fates[f]++
			truth[w] = n
		})
	}
	for _, m := range s.machines {
		for _, e := range m.chip.Ends() {
			w := way{m.node, e.Dst}
			n := truth[w]
			if s.cfg.sabotage == sabotageCount && e.Fates[flow.FateDone] > 0 {
				e.Fates[flow.FateDone]--
				e.Fates[flow.FateLost]++
			}
			agree := e.Open == 0
			for i, k := range e.Fates {
				agree = agree && k >= n.fates[i]
				n.posted -= k - n.fates[i]
			}
			if !agree || n.posted != 0 {
				s.fail("one end", "%s counts its ended requests to %s as %v, and %d as open; by the model, the requests ended as %v", m.node, e.Dst, e.Fates, e.Open, truth[w])
			}
			delete(truth, w)
		}
	}
	for w, n := range truth {
		s.fail("one end", "%s has no counts of its requests to %s, which ended as %v", w.src, w.dst, n)
	}
}
