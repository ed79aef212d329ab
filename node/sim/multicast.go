package sim

import (
	"slices"

	"ttfabric/node/flow"
	"ttfabric/router/route"
	"ttfabric/wire"
)

// A multicast is one op of a flow to a group. The group is the chips within ranges of a source on a
// plane. The simulator checks each member like the destination of a unicast, except for the flow's
// memory. Multicasts write to separate cells, since nothing orders multicasts among other flows.

// everyone stands for the destination of a group's flow.
const everyone = -1

// groupID identifies a group in the model.
type groupID struct {
	src    int
	plane  wire.Plane
	ranges wire.Ranges
}

// member is a chip that must perform a multicast, with what the simulator knows about the multicast
// at that chip.
type member struct {
	machine   int
	way       []route.Branch // route from the source to the member
	fate      flow.Fate      // fate of the multicast at the member; set once the op has ended
	performed int
}

// flow returns the flow of an op at one of the op's destinations.
func (o *op) flow(dst int) flowID {
	if o.group == 0 {
		dst = o.dst
	}
	return flowID{o.src, dst, o.plane, o.req.Other, o.group}
}

// at returns how often a machine performed the op, and the op's fate there. If the machine is not a
// destination of the op, performed is nil.
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

// members returns the machines that ranges reach. If a multicast to the ranges is not possible,
// members returns nil.
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

// anyRanges draws random ranges to which a machine can multicast. If there are no such ranges,
// anyRanges reports false.
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

// drawMulticast returns a job's next multicast, drawn at random.
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

// judgeMulticast compares how a multicast ended at each member with what really happened at the
// member.
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
				s.fail("exactly once", "multicast %d is said to be done by %s and was performed %d times; want %s", o.id, node, m.performed, o.want)
			}
			continue
		case flow.FateRefused:
			if outcome != o.want && outcome != wire.OutcomeOverflow && !s.unknownFlow(outcome, m.machine) {
				s.fail("exactly once", "multicast %d was refused by %s as %q; want %q", o.id, node, outcome, o.want)
			}
		}
		if m.fate != flow.FateUnknown && m.performed != 0 {
			s.fail("exactly once", "multicast %d is said to be %s at %s and was performed", o.id, m.fate, node)
		}
		if m.fate != flow.FateRefused && !s.badTree(o, m) {
			s.fail("cause", "multicast %d from %s by %s on plane %d ended as %s at %s and nothing was wrong on its route since %v",
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

// badTree reports whether anything was wrong since the source sent a multicast to a member. badTree
// looks at the multicast's route to the member and at the routes of the answers.
func (s *Sim) badTree(o *op, m *member) bool {
	for _, b := range m.way {
		if s.badCable(o, b.From, b.To) {
			return true
		}
	}
	return s.badWay(o, wire.ClassControl, s.machines[m.machine].node, s.machines[o.src].node)
}

// provenRanges returns the ranges of all other chips of a machine's mesh.
func (s *Sim) provenRanges(m *machine) (r wire.Ranges) {
	mesh, _ := s.cfg.Topology.Mesh(m.node.Mesh)
	row, col := int(m.node.Chip)/mesh.Cols, int(m.node.Chip)%mesh.Cols
	r.Hops = [wire.NumDirections]uint8{uint8(mesh.Cols - 1 - col), uint8(col), uint8(row), uint8(mesh.Rows - 1 - row)}
	return r
}
