package flow

import (
	"testing"

	"ttfabric/wire"
)

// flushes is a source with a flow of a known epoch, for tests that mix posted requests and flushes.
type flushes struct {
	*testing.T
	*Source
	n *open
}

func newFlushes(t *testing.T) *flushes {
	s, n, now := newSource()
	f := s.flow(now, Key{Node: far})
	f.epoch.known, f.members[0].answered = true, true
	return &flushes{t, s, n}
}

// send sends one request for each letter: p a posted write, f a flush, ? a probe that is no flush.
func (x *flushes) send(kinds string) {
	for _, k := range kinds {
		r := posted()
		if k != 'p' {
			r = &Request{Dst: far, Probe: true, Flush: k == 'f'}
		}
		if a := x.HandleRequest(1, r, Outside); a != Accepted {
			x.Fatalf("admission %d", a)
		}
		if k == 'p' {
			x.PollResult()
		}
	}
}

func (x *flushes) answer(first, next uint32, exc ...wire.Exception) {
	x.HandleCompletion(1, Key{Node: far}, &wire.Completion{FlowEpoch: x.n.last.FlowEpoch, First: first, Next: next, Exceptions: exc})
	x.check(x.T)
}

func (x *flushes) drop(seq uint32) {
	x.HandleDrop(1, &wire.DropReport{Dst: far, FlowEpoch: x.n.last.FlowEpoch, FlowSeq: seq, Reason: wire.DropTTL, Type: wire.PacketRequest}, far, nil)
	x.check(x.T)
}

// want checks the numbers of missed requests in the results that have come.
func (x *flushes) want(missed ...uint64) {
	x.Helper()
	for i, n := range missed {
		if r, ok := x.PollResult(); !ok || r.Missed != n {
			x.Errorf("probe %d: %s, %d missed, want %d", i, r.Fate, r.Missed, n)
		}
	}
	if r, ok := x.PollResult(); ok {
		x.Errorf("one result too many: %+v", r)
	}
}

// TestEachFlushTellsOfItsOwn lets one completion cover posted requests and flushes. The destination
// refused the request between the flushes. So only the result of the second flush must count this
// request.
func TestEachFlushTellsOfItsOwn(t *testing.T) {
	x := newFlushes(t)
	x.send("pfpf")
	x.answer(0, 4, wire.Exception{First: 2, Count: 1, Outcome: wire.OutcomeMisaligned})
	x.want(0, 1)
}

// TestEarlyDropReports sends a flush and then a posted request. The report of the request's drop
// comes before the completion of the flush.
func TestEarlyDropReports(t *testing.T) {
	x := newFlushes(t)
	x.send("fp")
	x.drop(1)
	x.send("f")
	x.answer(0, 1)
	x.answer(1, 3)
	x.want(0, 1)
}

// TestOnlyFlushesTakeTheCount sends a probe that is no flush after a missed posted request.
func TestOnlyFlushesTakeTheCount(t *testing.T) {
	x := newFlushes(t)
	x.send("p?f")
	x.answer(0, 3, wire.Exception{First: 0, Count: 1, Outcome: wire.OutcomeMisaligned})
	x.want(0, 1)
}

// TestLostFlushesPassTheCountOn loses a flush behind a missed posted request. The result of a later
// flush must count the request, whether the source sends this flush before or after the loss.
func TestLostFlushesPassTheCountOn(t *testing.T) {
	for _, later := range []bool{false, true} {
		x := newFlushes(t)
		x.send("ppf")
		if !later {
			x.send("f")
		}
		x.drop(1)
		x.drop(2)
		if later {
			x.send("f")
		}
		x.answer(0, 4)
		x.want(0, 1)
	}
}

// TestReplacedGroupsKeepTheirMisses lets a posted multicast fail, and replaces its group by other
// groups. The result of a flush to the same members must still count the multicast.
func TestReplacedGroupsKeepTheirMisses(t *testing.T) {
	s, n, now := newSource()
	to := func(plane wire.Plane, hops uint8) *Request {
		r := posted()
		r.Plane, r.Ranges.Hops[wire.East] = plane, hops
		return r
	}
	answer := func(exc ...wire.Exception) {
		s.HandleCompletion(now, Key{Node: wire.FabricNodeID{Chip: 3}, Group: n.last.Group, Plane: n.last.Plane},
			&wire.Completion{FlowEpoch: n.last.FlowEpoch, First: n.last.FlowSeq, Next: n.last.FlowSeq + 1, Exceptions: exc})
	}
	s.HandleRequest(now, to(0, 1), Outside)
	answer(wire.Exception{Count: 1, Outcome: wire.OutcomeMisaligned})
	for i := range MaxGroups {
		if a := s.HandleRequest(now, to(wire.Plane(1+i%255), uint8(1+i/255)), Outside); a != Accepted {
			t.Fatalf("group %d: admission %d", i, a)
		}
		if i == 0 {
			answer()
		}
	}
	if _, ok := s.groups.byKey[to(0, 1).Tree()]; ok {
		t.Fatal("no other group has replaced the group")
	}
	for range MaxGroups + 1 {
		s.PollResult()
	}
	r := to(0, 1)
	r.Posted, r.Probe, r.Flush = false, true, true
	if a := s.HandleRequest(now, r, Outside); a != Accepted {
		t.Fatalf("admission %d", a)
	}
	answer()
	if res, ok := s.PollResult(); !ok || res.Fate != FateDone || res.Missed != 1 || len(s.groups.missed) != 0 {
		t.Errorf("the flush: %+v; %d trees with missed requests are left", res, len(s.groups.missed))
	}
	s.check(t)
}

// TestGroupsWithMissesAreLimited fills the list of replaced groups with missed requests. A new
// group then replaces no further group with missed requests.
func TestGroupsWithMissesAreLimited(t *testing.T) {
	gs := &groups{}
	key := func(i int) Tree { return Tree{Plane: wire.Plane(i % 256), Mesh: wire.MeshID(i / 256)} }
	for i := range MaxGroups + MaxMissed + 1 {
		f := &outFlow{tree: key(i)}
		f.missed.later = 1
		if ok := gs.add(key(i), f, 1); ok != (i < MaxGroups+MaxMissed) {
			t.Fatalf("group %d: %v", i, ok)
		}
		f.used = uint64(i)
	}
	gs.list[7].missed.later = 0
	if !gs.add(key(0), &outFlow{tree: key(0)}, 1) {
		t.Error("a group without missed requests was not replaced")
	}
}
