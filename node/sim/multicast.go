package sim

import (
	"math"
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
	src  int
	tree flow.Tree
}

// member is a destination of a multicast, and the state of the multicast at this destination.
type member struct {
	machine   int
	way       []route.Branch // route from the tree's root to the member
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

// The method "at" returns the op's state at one of its destinations: the count of performances, and
// the fate. If the machine is not a destination of the op, performed is nil.
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

// members returns the destinations of a multicast with tree t, which "src" would send. If the routing
// tables allow no such multicast, members returns nil.
func (s *Sim) members(src *machine, t flow.Tree) (ms []member) {
	tree, err := s.routes.Multicast(t.Plane, src.node, t.Ranges)
	if t.Members.Any() {
		tree, err = s.routes.Sparse(t.Plane, src.node, t.Mesh, t.Members)
	}
	if err != nil {
		return nil
	}
	add := func(n wire.FabricNodeID, way []route.Branch) {
		ms = append(ms, member{machine: slices.IndexFunc(s.machines, func(k *machine) bool { return k.node == n }), way: way})
	}
	ways := map[wire.FabricNodeID][]route.Branch{}
	for _, b := range tree {
		way := append(slices.Clone(ways[b.From]), b)
		ways[b.To] = way
		if b.Member && !t.Members.Any() {
			add(b.To, way)
		}
	}
	for c := range t.Members.All() { // the tree's root in another mesh may be a member, too
		n := wire.FabricNodeID{Mesh: t.Mesh, Chip: c}
		add(n, ways[n])
	}
	return ms
}

// anyTree draws a random tree to which a machine can multicast: ranges, or chips of any mesh. If 100
// draws give no such tree, ok is false.
func (s *Sim) anyTree(m *machine, pl wire.Plane) (t flow.Tree, ok bool) {
	if s.rng.IntN(2) == 0 {
		return s.anyRanges(m, pl)
	}
	meshes := s.cfg.Topology.Meshes
	for range 100 {
		mesh := meshes[s.rng.IntN(len(meshes))]
		t = flow.Tree{Plane: pl, Mesh: mesh.ID}
		for range 1 + s.rng.IntN(mesh.Rows*mesh.Cols) {
			t.Members.Add(wire.ChipID(s.rng.IntN(mesh.Rows * mesh.Cols)))
		}
		if s.members(m, t) != nil {
			return t, true
		}
	}
	return t, false
}

// anyRanges draws a tree of random ranges to which a machine can multicast. If 100 draws give no such
// ranges, ok is false.
func (s *Sim) anyRanges(m *machine, pl wire.Plane) (t flow.Tree, ok bool) {
	mesh, _ := s.cfg.Topology.Mesh(m.node.Mesh)
	for range 100 {
		t = flow.Tree{Plane: pl}
		r := &t.Ranges
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
		if s.members(m, t) != nil {
			return t, true
		}
	}
	return t, false
}

// posted notes in the model that a chip has sent a posted request. Nobody learns the fate of each
// posted request, so the model takes the fate as unknown.
func (s *Sim) posted(m *machine, o *op) {
	o.fate = flow.FateUnknown
	for i := range o.members {
		o.members[i].fate = flow.FateUnknown
	}
	f := o.flow(everyone)
	m.life.posted[f] = append(m.life.posted[f], o)
	if !o.req.Posted {
		s.fail("one end", "op %d ended as posted, but was not posted", o.id)
	}
}

// flush is an ended flush, with what its result says about the posted requests of its flow.
type flush struct {
	probe  *op
	missed uint64 // posted requests that the result reports as missed
	judged bool
}

// endedFlush notes the end of a flush, and judges all flushes of the flow whose earlier flushes
// have ended too. The result of an earlier flush may come later. A program inside the chip gets its
// results at once, and other results wait for PollResult.
func (s *Sim) endedFlush(m *machine, o *op, r *flow.Result) {
	f, l := o.flow(everyone), m.life
	l.flushes[f] = append(l.flushes[f], &flush{probe: o, missed: r.Missed})
	first := math.MaxInt // index of the first flush whose result has not come
	for _, q := range l.open {
		if q.req.Flush && q.flow(everyone) == f {
			first = min(first, q.index)
		}
	}
	for _, x := range l.flushes[f] {
		if !x.judged && x.probe.index < first {
			x.judged = true
			s.judgeFlush(l.flushes[f], l.posted[f], x)
		}
	}
}

// judgeFlush checks the number of missed requests in the result of a flush. If the flush ended as
// done, the number is at least the number of posted requests since the previous flush that a
// destination did not perform. All flushes up to flush x together report at most as many requests
// as the source posted before flush x.
func (s *Sim) judgeFlush(all []*flush, posted []*op, x *flush) {
	var told, not, most uint64
	last := -1 // index of the flush before x
	for _, y := range all {
		if y.probe.index <= x.probe.index {
			told += y.missed
		}
		if y.probe.index < x.probe.index {
			last = max(last, y.probe.index)
		}
	}
	for _, q := range posted {
		if q.index > x.probe.index {
			continue
		}
		most++
		if q.index > last && (q.group == 0 && q.performed == 0 || slices.ContainsFunc(q.members, func(d member) bool { return d.performed == 0 })) {
			not++
		}
	}
	if done := x.probe.fate == flow.FateDone; done && x.missed < not || told > most || !done && x.missed > 0 {
		s.fail("posted", "flush %d: %d posted requests were reported as missed, %d with those of earlier flushes; %d of %d before the flush were not performed since the flush before it",
			x.probe.id, x.missed, told, not, most)
	}
}

// newMulticast returns a multicast without a command.
func (s *Sim) newMulticast(src *machine, t flow.Tree) *op {
	o := s.newOp(src.index, src.index, t.Plane)
	o.dst, o.req.Ranges, o.req.Members, o.members = everyone, t.Ranges, t.Members, s.members(src, t)
	if t.Members.Any() {
		o.req.Dst.Mesh = t.Mesh
	}
	k := groupID{src.index, t}
	if s.model.groups[k] == 0 {
		s.model.groups[k] = len(s.model.groups) + 1
	}
	o.group = s.model.groups[k]
	return o
}

// drawMulticast draws a job's next multicast at random.
func (s *Sim) drawMulticast(j *job) *op {
	o := s.newMulticast(j.m, j.trees[s.rng.IntN(len(j.trees))])
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
		o.req.Probe, o.req.Flush = true, s.rng.IntN(2) == 0
	}
	o.req.Posted = !o.req.Probe && s.rng.IntN(8) == 0
	return o
}

// judgeMulticast compares the fate of a multicast at each member with what the member really did.
func (s *Sim) judgeMulticast(o *op, r *flow.Result) {
	worst := flow.FateDone
	o.anew = len(r.Members) > 0
	for i := range o.members {
		m := &o.members[i]
		m.fate = flow.FateDone
		outcome, doubt := wire.OutcomeDone, flow.DoubtNone
		for _, f := range r.Members {
			if f.Node == s.machines[m.machine].node {
				m.fate, outcome, doubt = f.Fate, f.Outcome, f.Doubt
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
		if m.fate == flow.FateUnknown && m.performed == 0 && doubt != flow.DoubtRouteDead { // faults do not change the tree
			s.judgeDoubt(o, m.machine, doubt, 0)
		}
		if m.fate != flow.FateRefused && !s.badTree(o, m) {
			s.fail("cause", "multicast %d from %s to %+v ended as %s at %s, but its route has had no fault since %v",
				o.id, s.machines[o.src].node, o.req.Tree(), m.fate, node, o.sent)
		}
	}
	s.report.Many++
	if n := len(r.Members); n > 0 && n < len(o.members) {
		s.report.Partly++
	}
	named := slices.IsSortedFunc(r.Members, func(a, b flow.MemberResult) int { return a.Node.Compare(b.Node) })
	for _, f := range r.Members {
		named = named && f.Fate != flow.FateDone && slices.ContainsFunc(o.members, func(m member) bool { return s.machines[m.machine].node == f.Node })
	}
	if !named || r.Fate != worst {
		s.fail("one end", "multicast %d ended as %s, with the members %+v", o.id, r.Fate, r.Members)
	}
}

// badTree reports whether the multicast's route to a member, or the route of the answer, is
// suspect. A route is suspect if one of its cables has had a fault since shortly before the
// multicast was sent. For a multicast to another mesh, a fault anywhere may have changed the route.
func (s *Sim) badTree(o *op, m *member) bool {
	if s.machines[m.machine].node.Mesh != s.machines[o.src].node.Mesh && s.anyBad(o) {
		return true
	}
	for _, b := range m.way {
		if s.badCable(o, b.From, b.To) {
			return true
		}
	}
	return s.badWay(o, wire.ClassControl, s.machines[m.machine].node, s.machines[o.src].node)
}

// provenTrees returns the trees of the multicasts that a machine sends after all faults. One
// multicast goes by ranges to all other chips of the machine's mesh. For each mesh, another
// multicast goes to every second chip.
func (s *Sim) provenTrees(m *machine) (ts []flow.Tree) {
	own := flow.Tree{Ranges: s.provenRanges(m)}
	for p := range s.cfg.Topology.Planes() {
		own.Plane = wire.Plane(p)
		all := []flow.Tree{own}
		for _, mesh := range s.cfg.Topology.Meshes {
			t := flow.Tree{Plane: own.Plane, Mesh: mesh.ID}
			for c := range mesh.Rows * mesh.Cols {
				if n := (wire.FabricNodeID{Mesh: mesh.ID, Chip: wire.ChipID(c)}); c%2 == 0 && n != m.node {
					t.Members.Add(n.Chip)
				}
			}
			all = append(all, t)
		}
		for _, t := range all {
			if s.members(m, t) != nil {
				ts = append(ts, t)
			}
		}
	}
	return ts
}

// provenRanges returns the ranges from a machine to all other chips of its mesh.
func (s *Sim) provenRanges(m *machine) (r wire.Ranges) {
	mesh, _ := s.cfg.Topology.Mesh(m.node.Mesh)
	row, col := int(m.node.Chip)/mesh.Cols, int(m.node.Chip)%mesh.Cols
	r.Hops = [wire.NumDirections]uint8{uint8(mesh.Cols - 1 - col), uint8(col), uint8(row), uint8(mesh.Rows - 1 - row)}
	return r
}
