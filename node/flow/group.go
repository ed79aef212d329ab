package flow

import (
	"cmp"
	"slices"

	"ttfabric/wire"
)

// Limits of multicasts.
const (
	MaxGroups  = 256                  // largest number of groups of a chip, over all planes; at this number, a new group replaces the least recently used idle group
	MaxMissed  = 4096                 // largest number of replaced groups whose missed posted requests a chip remembers; at this number, a new group replaces only groups without missed requests
	MaxMembers = wire.MaxChipsPerMesh // largest number of members of a group: all chips of another mesh
)

// groups holds the multicast flows of a source. Invariant: list[i] is the group with
// number i+1, and byKey holds every flow of list.
type groups struct {
	byKey map[Tree]*outFlow
	list  []*outFlow
	uses  uint64                          // number of multicasts sent so far
	past  map[wire.FabricNodeID][4]uint64 // fates at the members of replaced groups

	missed map[Tree]uint64 // for replaced groups: number of missed posted requests that no flush has reported yet; at most MaxMissed trees
}

// numbered returns the group with number n, or nil if no group has this number.
func (gs *groups) numbered(n uint16) *outFlow {
	if n == 0 || int(n) > len(gs.list) {
		return nil
	}
	return gs.list[n-1]
}

// group returns the flow of a multicast. If the flow does not exist yet, group creates
// the flow.
func (s *Source) group(r *Request) (*outFlow, Admission) {
	k := r.Tree()
	if f := s.groups.byKey[k]; f != nil {
		return f, Accepted
	}
	nodes, w, ok := s.net.Tree(k)
	if !ok {
		return nil, BadRanges
	}
	f := &outFlow{key: Key{Node: s.cfg.Self, Plane: k.Plane}, dst: s.cfg.Self, tree: k, route: w}
	if k.Members.Any() {
		f.dst = nodes[0]
	}
	for _, n := range nodes {
		f.members = append(f.members, member{node: n})
	}
	slices.SortFunc(f.members, func(a, b member) int { return compareNodes(a.node, b.node) })
	if !s.groups.add(k, f, firstEpoch(&s.cfg)) {
		return nil, Busy
	}
	f.missed.later = s.groups.missed[k]
	delete(s.groups.missed, k)
	return f, Accepted
}

// add gives a group a number and gives the group's flow an epoch. The first group with a
// number begins with the chip's first epoch. A later group with the same number begins
// with the next epoch. If no number is free and no group can be replaced, add returns
// false.
func (gs *groups) add(k Tree, f *outFlow, first uint32) bool {
	if gs.byKey == nil {
		gs.byKey = map[Tree]*outFlow{}
	}
	if len(gs.list) < MaxGroups {
		gs.list = append(gs.list, f)
		f.key.Group, f.epoch.number = uint16(len(gs.list)), first
	} else {
		var old *outFlow
		for _, o := range gs.list {
			if o.empty() && (o.missed.later == 0 || len(gs.missed) < MaxMissed) && (old == nil || o.used < old.used) {
				old = o
			}
		}
		if old == nil {
			return false
		}
		delete(gs.byKey, old.tree)
		gs.bury(old)
		gs.list[old.key.Group-1] = f
		f.key.Group, f.epoch.number = old.key.Group, old.epoch.after()
	}
	gs.byKey[k] = f
	return true
}

// bury adds the counts of a group to "past" and "missed", before another group takes the group's
// number.
func (gs *groups) bury(f *outFlow) {
	if gs.past == nil {
		gs.past, gs.missed = map[wire.FabricNodeID][4]uint64{}, map[Tree]uint64{}
	}
	if f.missed.later > 0 {
		gs.missed[f.tree] = f.missed.later
	}
	for _, m := range f.members {
		e := Ends{Fates: gs.past[m.node]}
		e.add(m.fates)
		gs.past[m.node] = e.Fates
	}
}

// fail records that a multicast did not end as FateDone at a member.
func (f *outFlow) fail(n wire.FabricNodeID, seq uint32, e *end) {
	if f.failed == nil {
		f.failed = map[uint32][]MemberResult{}
	}
	f.failed[seq] = append(f.failed[seq], MemberResult{n, e.fate, e.outcome, e.drop, e.at, e.doubt})
}

// takeFailed removes and returns the members at which an ended multicast did not end as
// FateDone, in the order of the chips.
func (f *outFlow) takeFailed(seq uint32) []MemberResult {
	if len(f.failed) == 0 {
		return nil
	}
	failed := f.failed[seq]
	delete(f.failed, seq)
	slices.SortFunc(failed, func(a, b MemberResult) int { return compareNodes(a.Node, b.Node) })
	return failed
}

// gravest returns the gravest end among the members at which a multicast did not end as
// FateDone. From lightest to gravest, the fates are refused, lost and unknown.
func gravest(failed []MemberResult) end {
	worst := failed[0]
	for _, m := range failed {
		if m.Fate > worst.Fate {
			worst = m
		}
	}
	return end{worst.Fate, worst.Outcome, worst.Drop, worst.Doubt, worst.At}
}

// compareNodes orders chips by mesh and chip.
func compareNodes(a, b wire.FabricNodeID) int {
	return cmp.Or(cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(a.Chip, b.Chip))
}
