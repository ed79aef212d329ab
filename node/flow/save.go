package flow

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ttfabric/node/snapshot"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// This file writes the flows of a chip into a snapshot, and reads flows from a snapshot. A snapshot does
// not say which program made a request, and when the source sent probes. In a restored source, all requests
// therefore belong to [Outside], and the times without progress begin anew.

// Save returns the flows that begin at the chip, and the ID of the last request that the source sent.
func (s *Source) Save(now mono.Time) (flows []snapshot.Flow, lastID uint64) {
	flows = []snapshot.Flow{}
	for _, list := range [][]*outFlow{s.list, s.groups.list} {
		for _, f := range list {
			flows = append(flows, f.save(now))
		}
	}
	return flows, s.lastID
}

func (f *outFlow) save(now mono.Time) snapshot.Flow {
	x := snapshot.Flow{Dst: f.dst, Plane: f.key.Plane, Other: f.key.Other, Group: f.key.Group,
		Epoch: f.epoch.number, Older: f.epoch.older, Known: f.epoch.known, Ending: f.epoch.ending, Open: f.epoch.open, Asked: f.epoch.asked, Life: snapshot.Hex32(f.epoch.life()),
		Base: f.base, Next: f.next, Run: f.missed.run, Missed: f.missed.later, Moves: f.move.waits,
		Flushes: []snapshot.Flush{}, Ends: []snapshot.End{}, Requests: []snapshot.Request{}, Reads: []snapshot.Request{}}
	if f.tree.Ranges.Any() {
		x.Ranges = &f.tree.Ranges
	}
	if f.tree.Members.Any() {
		x.Members = &f.tree.Members
	}
	for _, d := range f.via {
		x.Via += d.String()
	}
	if f.dead {
		x.DeadEnd = &f.deadEnd
	}
	for _, m := range f.members {
		x.Ends = append(x.Ends, snapshot.End{Chip: m.node, Next: m.next, Answered: m.answered, Anew: m.anew, Fates: m.fates})
	}
	for _, l := range f.missed.flushes {
		x.Flushes = append(x.Flushes, snapshot.Flush{Seq: l.seq, Missed: l.missed})
	}
	for k := f.head; k < len(f.ops); k++ {
		r := f.ops[k].save(now)
		r.Seq = f.seq(k)
		for i := range f.members {
			if f.multicast() && f.waits(k, i) {
				r.Waits = append(r.Waits, i)
			}
		}
		for _, m := range f.failed[r.Seq] {
			r.Failed = append(r.Failed, snapshot.Failure{Chip: m.Node, Fate: uint8(m.Fate), Outcome: uint8(m.Outcome), Drop: uint8(m.Drop), At: m.At, Doubt: uint8(m.Doubt)})
		}
		x.Requests = append(x.Requests, r)
	}
	for k := range f.reads.ops {
		if o := &f.reads.ops[k]; !o.settled() {
			x.Reads = append(x.Reads, o.save(now))
		}
	}
	return x
}

func (o *op) save(now mono.Time) snapshot.Request {
	r := snapshot.Request{Seq: o.seq, ID: snapshot.Hex64(o.id), Token: snapshot.Hex64(o.token), Age: int64(max(0, now.Sub(o.sent))), Settled: o.settled(), Known: o.known,
		Probe: o.probe, Flush: o.flush, Posted: o.posted, Read: o.read, Size: o.size, Addr: snapshot.Hex64(o.addr)}
	if o.performed != 0 {
		age := int64(max(0, now.Sub(o.performed)))
		r.Performed = &age
	}
	return r
}

// Restore gives a new source the flows of a snapshot that [snapshot.File.Check] has accepted. Restore
// returns an error if the flows do not fit the fabric: if the fabric lacks the tree of a multicast,
// or if the number of a group is not the number of its place.
func (s *Source) Restore(now mono.Time, flows []snapshot.Flow, lastID uint64) error {
	s.lastID = lastID
	for i := range flows {
		x := &flows[i]
		f, err := s.restored(now, x)
		if err != nil {
			return fmt.Errorf("flows[%d].%w", i, err)
		}
		f.restore(now, x)
		if x.Life != 0 {
			f.epoch.peer = s.peerOf(now, x.Dst, wire.Life(x.Life))
		}
		for k := range f.ops {
			if !f.ops[k].settled() {
				s.open++
			}
		}
		s.open += f.reads.open
	}
	s.tickAt = now.Add(tickEvery)
	return nil
}

// restored returns an empty flow for the flow x of a snapshot.
func (s *Source) restored(now mono.Time, x *snapshot.Flow) (*outFlow, error) {
	if x.Group == 0 {
		f := s.flow(now, Key{Node: x.Dst, Plane: x.Plane, Other: x.Other})
		for _, c := range x.Via {
			for d := range wire.Direction(wire.NumSides) {
				if d.String() == string(c) {
					f.via = append(f.via, d)
				}
			}
		}
		return f, nil
	}
	r := Request{Dst: x.Dst, Plane: x.Plane}
	if x.Ranges != nil {
		r.Ranges = *x.Ranges
	} else {
		r.Members = *x.Members
	}
	f, a := s.group(&r)
	switch {
	case a != Accepted:
		return nil, fmt.Errorf("group: the fabric has no tree for group %d: %s", x.Group, a)
	case f.key.Group != x.Group:
		return nil, fmt.Errorf("group: the group with number %d has the place of number %d", x.Group, f.key.Group)
	case !slices.EqualFunc(f.members, x.Ends, func(m member, e snapshot.End) bool { return m.node == e.Chip }):
		return nil, fmt.Errorf("ends: the members of group %d are others in this fabric", x.Group)
	}
	return f, nil
}

// peerOf returns what the source knows about a life of another chip.
func (s *Source) peerOf(now mono.Time, n wire.FabricNodeID, l wire.Life) *peer {
	if s.peers == nil {
		s.peers = map[wire.FabricNodeID]*peer{}
	}
	if p := s.peers[n]; p != nil && p.life == l {
		return p
	}
	s.peers[n] = &peer{life: l, sure: now}
	return s.peers[n]
}

// restore gives an empty flow the state of the flow x of a snapshot.
func (f *outFlow) restore(now mono.Time, x *snapshot.Flow) {
	f.epoch = epoch{number: x.Epoch, older: x.Older, known: x.Known, ending: x.Ending, open: x.Open, asked: x.Asked}
	f.base, f.next, f.heard, f.route = x.Base, x.Next, now, nil
	f.missed.run, f.missed.later = x.Run, x.Missed
	f.move = move{waits: x.Moves, since: now}
	if x.DeadEnd != nil {
		f.dead, f.deadEnd = true, *x.DeadEnd
	}
	for _, l := range x.Flushes {
		f.missed.flushes = append(f.missed.flushes, flush{l.Seq, l.Missed})
	}
	for i, e := range x.Ends {
		m := &f.members[i]
		m.progress, m.next, m.answered, m.anew, m.fates = now, e.Next, e.Answered, e.Anew, e.Fates
	}
	if len(f.members) > 1 {
		f.window.open = &[]memberSet{}
	}
	for i := range x.Requests {
		f.restoreRequest(now, &x.Requests[i])
	}
	for i := range x.Reads {
		o := restoredOp(now, &x.Reads[i])
		o.left = 1
		f.reads.add(&o)
		f.members[0].open++
	}
}

func (f *outFlow) restoreRequest(now mono.Time, r *snapshot.Request) {
	o := restoredOp(now, r)
	waits := r.Waits
	if !f.multicast() && !r.Settled {
		waits = []int{0}
	}
	var set memberSet
	for _, i := range waits {
		f.members[i].open++
		set[i/64] |= 1 << (i % 64)
	}
	o.left = uint16(len(waits))
	f.ops = append(f.ops, o)
	if f.window.open != nil {
		*f.window.open = append(*f.window.open, set)
	}
	for _, m := range r.Failed {
		if f.failed == nil {
			f.failed = map[uint32][]MemberResult{}
		}
		f.failed[r.Seq] = append(f.failed[r.Seq], MemberResult{Node: m.Chip, Fate: Fate(m.Fate), Outcome: wire.Outcome(m.Outcome), Drop: wire.DropReason(m.Drop), At: m.At, Doubt: Doubt(m.Doubt)})
	}
}

func restoredOp(now mono.Time, r *snapshot.Request) op {
	o := op{token: uint64(r.Token), seq: r.Seq, id: uint64(r.ID), sent: max(1, now.Add(-time.Duration(r.Age))), known: r.Known, probe: r.Probe, flush: r.Flush,
		posted: r.Posted, read: r.Read, size: r.Size, addr: wire.NocAddr(r.Addr)}
	if r.Performed != nil {
		o.performed = max(1, now.Add(-time.Duration(*r.Performed)))
	}
	return o
}

// Save returns the flows that end at the chip. The flows to which the sink owes a completion come
// first, in the order of [Sink.Answer]. The other flows follow by source, group, plane and direction.
func (s *Sink) Save() []snapshot.Arrived {
	all := slices.Clone(s.owed)
	var rest []*inFlow
	for _, f := range s.flows {
		if !f.owed {
			rest = append(rest, f)
		}
	}
	slices.SortFunc(rest, func(a, b *inFlow) int {
		return cmp.Or(compareNodes(a.key.Node, b.key.Node), cmp.Compare(a.key.Group, b.key.Group), cmp.Compare(a.key.Plane, b.key.Plane), compareBools(a.key.Other, b.key.Other))
	})
	out := []snapshot.Arrived{}
	for _, f := range append(all, rest...) {
		a := snapshot.Arrived{Src: f.key.Node, Group: f.key.Group, Plane: f.key.Plane, Other: f.key.Other, Epoch: f.epoch, Base: f.base, Next: f.next, Told: f.told,
			Void: f.void, Owed: f.owed, Exceptions: []snapshot.Exception{}}
		for _, e := range f.exc {
			a.Exceptions = append(a.Exceptions, snapshot.Exception{First: e.First, Count: e.Count, Outcome: uint8(e.Outcome)})
		}
		out = append(out, a)
	}
	return out
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Restore gives a new sink the flows of a snapshot that [snapshot.File.Check] has accepted.
func (s *Sink) Restore(arrived []snapshot.Arrived) {
	for i := range arrived {
		a := &arrived[i]
		f := &inFlow{key: Key{a.Src, a.Group, a.Plane, a.Other}, epoch: a.Epoch, base: a.Base, next: a.Next, told: a.Told, void: a.Void}
		for _, e := range a.Exceptions {
			f.exc = append(f.exc, wire.Exception{First: e.First, Count: e.Count, Outcome: wire.Outcome(e.Outcome)})
		}
		s.flows[f.key] = f
		if a.Owed {
			told := f.told
			s.owe(f)
			f.told = told
		}
	}
}
