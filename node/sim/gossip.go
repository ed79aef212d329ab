package sim

import (
	"math/rand/v2"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// gossip says how the chips of a run learn each other's lives. When a chip starts or ends, each
// other chip learns this after a random time of its own. A chip ignores news that is older than
// what the chip already knows. A chip that starts knows no lives, and learns the lives of the other
// chips in the same way.
type gossip struct {
	on   bool          // whether there is gossip; false: no chip learns of any life
	late time.Duration // longest time until news comes to a chip
	rng  *rand.Rand    // random numbers of the delays; nil until needed
}

// drawGossip draws the run's gossip. The random numbers of gossip are not those of the plan, so that
// gossip changes no plan.
func (s *Sim) drawGossip() {
	s.around.gossip = [...]gossip{{}, {on: true}, {on: true, late: 300 * time.Millisecond}, {on: true, late: 3 * time.Second}}[s.cfg.Seed%4]
}

// view is what a chip's process has learned about the lives of all chips.
type view struct {
	lives []heardLife // by chip
	fresh []flow.Life // news that the simulator has not handed to the chip yet
}

// heardLife is the latest news about a chip that came to a process.
type heardLife struct {
	number int // number of the chip's life
	life   wire.Life
}

// spread sends the news about chip k to all other chips, and the news about all other chips to k.
// If k is starting, spread first calls HandleLives of k without news, so that the source of k knows
// that there is gossip.
func (s *Sim) spread(k *machine) {
	if !s.around.gossip.on {
		return
	}
	if s.around.gossip.rng == nil {
		s.around.gossip.rng = rand.New(rand.NewPCG(s.cfg.Seed, 0x676f73736970))
	}
	if k.chip != nil {
		k.chip.HandleLives(s.clock(k), nil)
	}
	for _, m := range s.machines {
		if m != k {
			s.carryNews(k, m)
			s.carryNews(m, k)
		}
	}
}

// carryNews brings the news about the present life of the chip "of" to the process of the chip
// "to".
func (s *Sim) carryNews(of, to *machine) {
	if to.chip == nil || of.life == nil {
		return
	}
	at, news := to.life, heardLife{number: len(s.model.lives[of.index])}
	if of.chip != nil {
		news.life = of.chip.Incarnation().Life()
	}
	wait := time.Duration(0)
	if late := s.around.gossip.late; late > 0 {
		wait = time.Duration(s.around.gossip.rng.Int64N(int64(late)))
	}
	s.after(wait, func() {
		v := &at.view
		if v.lives == nil {
			v.lives = make([]heardLife, len(s.machines))
		}
		if h := &v.lives[of.index]; to.life == at && to.chip != nil && (news.number > h.number || news.number == h.number && news.life == 0) {
			*h, v.fresh = news, append(v.fresh, flow.Life{Node: of.node, Life: news.life})
			s.wakeAt(to, s.now)
		}
	})
}

// tellLives hands to a chip the news about the lives of other chips.
func (s *Sim) tellLives(m *machine) {
	if v := &m.life.view; len(v.fresh) > 0 {
		m.chip.HandleLives(s.clock(m), v.fresh)
		v.fresh = v.fresh[:0]
	}
}

// If the tree of a multicast has had no fault for the time calm, all members answer the probe that
// begins an epoch.
const calm = 3 * time.Second

// informed reports whether a source knows the lives of the destinations of an op that it accepts
// now. The run must have gossip. If a destination has restarted, the source must have learned the
// present life from gossip. A member of a group may be cut off when the group begins an epoch.
// Therefore the tree of a multicast must also have had no fault for the time calm.
func (s *Sim) informed(m *machine, o *op) bool {
	if !s.around.gossip.on || o.group == 0 {
		return s.around.gossip.on && s.knows(m, o.dst)
	}
	for i := range o.members {
		if !s.knows(m, o.members[i].machine) {
			return false
		}
		for _, b := range o.members[i].way {
			for _, c := range s.cables {
				if c.Plane == o.plane && (c.A.Node == b.From && c.B.Node == b.To || c.A.Node == b.To && c.B.Node == b.From) && c.badSince(max(s.now-mono.Time(calm), 1)) {
					return false
				}
			}
		}
	}
	return true
}

// knows reports whether a source has learned the present life of its destination from gossip. If
// the destination has never restarted, knows returns true: the source can know no wrong life.
func (s *Sim) knows(m *machine, dst int) bool {
	d := s.machines[dst]
	return len(s.model.lives[dst]) == 1 || d.chip != nil && m.life.view.lives != nil && m.life.view.lives[dst].life == d.chip.Incarnation().Life()
}

// judgeDoubt checks an op that ended with an unknown fate, although the chip at place dst did not
// perform it. If the source was informed, and the destination has answered again, the destination
// must have restarted since the source accepted the op. The model does not know which probes
// arrived. The argument "drop" is the reason for which a router dropped a probe, or 0.
func (s *Sim) judgeDoubt(o *op, dst int, why flow.Doubt, drop wire.DropReason) {
	if drop == wire.DropUnreachable {
		return
	}
	lives := s.model.lives[dst]
	last, answered := lives[len(lives)-1], why == flow.DoubtRestarted || why == flow.DoubtRouteDead || why == flow.DoubtLate
	if answered && !o.req.Probe && s.model.informed[o.id] && last.begin < o.sent && last.end > s.now {
		s.fail("certain", "op %d from %s to %s on plane %d has an unknown fate (%s), but the same life of its destination never got it",
			o.id, s.machines[o.src].node, s.machines[dst].node, o.plane, why)
	}
}
