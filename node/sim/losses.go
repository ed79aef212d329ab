package sim

import (
	"ttfabric/node/losses"
	"ttfabric/wire"
)

// account puts together what the chips that live have counted.
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

// checkLosses finds that no packet is unexplained, and that what is inferred of
// the lives that are over is what they had counted themselves when they ended.
func (s *Sim) checkLosses() losses.Report {
	r := s.account()
	if n := r.Unexplained(); n != 0 {
		s.fail("conservation", "%d packets are unexplained: %+v; %+v", n, r.Total, unexplained(&r))
	}
	for _, g := range r.Gone {
		truth := s.lifeOf(g.Chip, g.Incarnation)
		if truth == nil {
			continue // a link that began anew although both ends live
		}
		received, sent := s.told(truth)
		for k := range wire.NumClasses {
			if received[k] < g.Received[k] || received[k] > g.ReceivedMax[k] || sent[k] < g.Sent[k] {
				s.fail("conservation", "%s of life %#x is inferred to have received %d to %d and sent at least %d packets of class %d; it had received %d and sent %d",
					g.Chip, uint64(g.Incarnation), g.Received[k], g.ReceivedMax[k], g.Sent[k], k, received[k], sent[k])
			}
		}
	}
	return r
}

// unexplained are the chips and links of a report that don't balance.
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

// lifeOf is what a life that is over had counted at its end.
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

// told is what a life had received and sent in the sessions that its neighbours, as they live now, know of.
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
				known[q.Link.Now.ID] = true
				for _, t := range q.Link.Ended {
					known[t.ID] = true
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
