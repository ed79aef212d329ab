package sim

import (
	"slices"

	"ttfabric/node/flow"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// A multicast is one op with several destinations, the members of a group. The simulator checks the
// op at each member as it checks a unicast at its destination. Multicasts write to cells of their
// own, because the order of requests holds only within a flow.

// everyone stands for the destination in the flowID of a multicast group.
const everyone = -1

// groupID identifies a multicast group in the model.
type groupID struct {
	src    int
	plane  wire.Plane
	ranges wire.Ranges
}

// member is a destination of a multicast, and the state of the multicast at this destination.
type member struct {
	machine   int
	way       []route.Branch // route from the source to the member
	fate      flow.Fate      // fate of the multicast at this member; set once the op has ended
	performed int
}

// flow returns the flow of an op. For a multicast, the argument dst is the destination in the
// result. For a unicast, dst has no effect.
func (o *op) flow(dst int) flowID {
	if o.group == 0 {
		dst = o.dst
	}
	return flowID{o.src, dst, o.plane, o.req.Other, o.group}
}

// at returns the op's state at one of its destinations: the count of performances, and the fate. If
// the machine is not a destination of the op, performed is nil.
func (o *op) at(machine int) (performed *int, fate flow.Fate) {
	if o.group == 0 && o.dst == machine {
		return &o.performed, o.fate
	}
	for i := range o.members {
		if m := &o.members[i]; m.machine == machine {
			return &m.performed, m.fate
		}
	}
	return nil, 0
}

// members returns the destinations of a multicast to the ranges r, which "src" would send. If the
// routing tables allow no such multicast, members returns nil.
func (s *Sim) members(src *machine, pl wire.Plane, r wire.Ranges) (ms []member) {
	tree, err := s.routes.Multicast(pl, src.node, r)
	if err != nil {
		return nil
	}
	ways := map[wire.FabricNodeID][]route.Branch{}
	for _, b := range tree {
		way := append(slices.Clone(ways[b.From]), b)
		ways[b.To] = way
		if b.Member {
			ms = append(ms, member{machine: slices.IndexFunc(s.machines, func(k *machine) bool { return k.node == b.To }), way: way})
		}
	}
	return ms
}

// anyRanges draws random ranges to which a machine can multicast. If 100 draws give no such ranges,
// ok is false.
func (s *Sim) anyRanges(m *machine, pl wire.Plane) (r wire.Ranges, ok bool) {
	mesh, _ := s.cfg.Topology.Mesh(m.node.Mesh)
	for range 100 {
		r = wire.Ranges{}
		for d := range wire.Direction(wire.NumDirections) {
			n := mesh.Cols
			if d >= wire.North {
				n = mesh.Rows
			}
			r.Hops[d] = uint8(s.rng.IntN(n))
			if r.Hops[d] > 1 && s.rng.IntN(4) == 0 {
				r.Skip[d] = uint8(s.rng.IntN(int(r.Hops[d])))
			}
			if s.rng.IntN(3) == 0 {
				r.Hops[d], r.Skip[d] = 0, 0
			}
		}
		if s.members(m, pl, r) != nil {
			return r, true
		}
	}
	return r, false
}

// newMulticast returns a multicast without a command.
func (s *Sim) newMulticast(src *machine, pl wire.Plane, r wire.Ranges) *op {
	o := s.newOp(src.index, src.index, pl)
	o.dst, o.req.Ranges, o.members = everyone, r, s.members(src, pl, r)
	k := groupID{src.index, pl, r}
	if s.model.groups[k] == 0 {
		s.model.groups[k] = len(s.model.groups) + 1
	}
	o.group = s.model.groups[k]
	return o
}

// drawMulticast draws a job's next multicast at random.
func (s *Sim) drawMulticast(j *job) *op {
	o := s.newMulticast(j.m, j.plane, j.ranges[s.rng.IntN(len(j.ranges))])
	if s.rng.IntN(20) < j.bad {
		s.wrong(o)
		return o
	}
	switch k := s.rng.IntN(12); {
	case k < 4:
		s.write(o, s.size(j), s.rng.IntN(4) == 0)
	case k < 6:
		o.word(wire.NocInlineWrite, s.rng.IntN(words))
	case k < 8:
		o.word(wire.NocAtomicInc, s.rng.IntN(words))
	case k < 10:
		s.fused(o, s.size(j))
	case k < 11:
		s.scatter(o, s.size(j))
	default:
		o.req.Probe = true
	}
	return o
}

// judgeMulticast compares the fate of a multicast at each member with what the member really did.
func (s *Sim) judgeMulticast(o *op, r *flow.Result) {
	worst := flow.FateDone
	o.anew = len(r.Members) > 0
	for i := range o.members {
		m := &o.members[i]
		m.fate = flow.FateDone
		outcome := wire.OutcomeDone
		for _, f := range r.Members {
			if f.Node == s.machines[m.machine].node {
				m.fate, outcome = f.Fate, f.Outcome
				o.anew = o.anew && s.unknownFlow(outcome, m.machine)
			}
		}
		worst = max(worst, m.fate)
		node := s.machines[m.machine].node
		switch m.fate {
		case flow.FateDone:
			if o.want != wire.OutcomeDone || !o.req.Probe && m.performed != 1 {
				s.fail("exactly once", "multicast %d ended as done at %s, but was performed %d times; want %s", o.id, node, m.performed, o.want)
			}
			continue
		case flow.FateRefused:
			if outcome != o.want && outcome != wire.OutcomeOverflow && !s.unknownFlow(outcome, m.machine) {
				s.fail("exactly once", "multicast %d was refused by %s as %q; want %q", o.id, node, outcome, o.want)
			}
		}
		if m.fate != flow.FateUnknown && m.performed != 0 {
			s.fail("exactly once", "multicast %d ended as %s at %s, but was performed", o.id, m.fate, node)
		}
		if m.fate != flow.FateRefused && !s.badTree(o, m) {
			s.fail("cause", "multicast %d from %s by %s on plane %d ended as %s at %s, but its route has had no fault since %v",
				o.id, s.machines[o.src].node, o.req.Ranges, o.plane, m.fate, node, o.sent)
		}
	}
	s.report.Many++
	if n := len(r.Members); n > 0 && n < len(o.members) {
		s.report.Partly++
	}
	named := slices.IsSortedFunc(r.Members, func(a, b flow.MemberResult) int { return int(a.Node.Chip) - int(b.Node.Chip) })
	for _, f := range r.Members {
		named = named && f.Fate != flow.FateDone && slices.ContainsFunc(o.members, func(m member) bool { return s.machines[m.machine].node == f.Node })
	}
	if !named || r.Fate != worst {
		s.fail("one end", "multicast %d ended as %s, with the members %+v", o.id, r.Fate, r.Members)
	}
}

// badTree reports whether a cable on the multicast's route to a member, or on the route of the
// answer, has had a fault since shortly before the multicast was sent.
func (s *Sim) badTree(o *op, m *member) bool {
	for _, b := range m.way {
		if s.badCable(o, b.From, b.To) {
			return true
		}
	}
	return s.badWay(o, wire.ClassControl, s.machines[m.machine].node, s.machines[o.src].node)
}

// provenRanges returns the ranges from a machine to all other chips of its mesh.
func (s *Sim) provenRanges(m *machine) (r wire.Ranges) {
	mesh, _ := s.cfg.Topology.Mesh(m.node.Mesh)
	row, col := int(m.node.Chip)/mesh.Cols, int(m.node.Chip)%mesh.Cols
	r.Hops = [wire.NumDirections]uint8{uint8(mesh.Cols - 1 - col), uint8(col), uint8(row), uint8(mesh.Rows - 1 - row)}
	return r
}
