package flow

import (
	"testing"
	"time"

	"ttfabric/wire"
)

// TestGroupAsksFirst checks that a group sends a probe before the first multicast of an epoch. A
// member that does not get the probe holds up no other member, and the group asks again later.
func TestGroupAsksFirst(t *testing.T) {
	s, n, now := newSource()
	s.HandleLives(now, nil)
	r := write()
	r.Ranges.Hops[wire.East] = 3
	ask := func(want Admission, probe bool) {
		t.Helper()
		sent := n.sent
		if a := s.HandleRequest(now, r, Outside); a != want {
			t.Fatalf("admission %q, want %q", a, want)
		}
		if probed := n.sent > sent && n.last.Type == wire.PacketProbe; probed != probe || n.last.Life != 0 {
			t.Fatalf("sent a probe: %v, want %v; last packet %+v", probed, probe, n.last)
		}
		s.check(t)
	}
	answer := func(c wire.ChipID) {
		f := s.groups.numbered(1)
		s.HandleCompletion(now, Key{Node: wire.FabricNodeID{Chip: c}, Group: 1}, &wire.Completion{FlowEpoch: f.epoch.number, First: f.base, Next: f.next})
	}
	drop := func() {
		f := s.groups.numbered(1)
		d := wire.DropReport{Dst: near, Group: 1, Type: n.last.Type, FlowEpoch: f.epoch.number, FlowSeq: n.last.FlowSeq, Reason: wire.DropNextHopDead}
		s.HandleDrop(now, &d, wire.FabricNodeID{Chip: 4}, []wire.FabricNodeID{{Chip: 5}})
	}
	ask(Busy, true)
	ask(Busy, false)
	answer(3)
	answer(4)
	ask(Busy, false)
	drop()
	ask(Accepted, false)
	ask(Accepted, false)
	answer(3)
	answer(4)
	drop()
	n.last.FlowSeq--
	drop()
	now = now.Add(ProbeAfter)
	ask(Busy, true)
	answer(3)
	answer(4)
	answer(5)
	ask(Accepted, false)
	if f := s.fates(); f != [4]uint64{0, 0, 2, 0} || !n.last.Known {
		t.Errorf("fates %v, last packet %+v", f, n.last)
	}
}

// TestPostedBehindADroppedProbe posts a request at the beginning of an epoch, and drops the epoch's
// first probe. The test checks the result of the request. A later flush counts the request as
// missed.
func TestPostedBehindADroppedProbe(t *testing.T) {
	s, n, now := newSource()
	s.HandleLives(now, nil)
	r := write()
	r.Posted = true
	if a := s.HandleRequest(now, r, Outside); a != Busy || n.last.Type != wire.PacketProbe {
		t.Fatalf("admission %q, last packet %+v", a, n.last)
	}
	s.HandleDrop(now, &wire.DropReport{Dst: far, Type: wire.PacketProbe, FlowEpoch: n.last.FlowEpoch, FlowSeq: n.last.FlowSeq, Reason: wire.DropTTL}, near, nil)
	if a := s.HandleRequest(now, r, Outside); a != Accepted || n.sent != 1 {
		t.Fatalf("admission %q, %d packets sent", a, n.sent)
	}
	if x, ok := s.PollResult(); !ok || x.Fate != FatePosted || x.Drop != 0 || s.Counters().Results[FateLost] != 1 {
		t.Errorf("result %+v, counters %+v", x, s.Counters())
	}
	s.HandleRequest(now, &Request{Dst: far, Probe: true, Flush: true}, Outside)
	s.HandleCompletion(now.Add(time.Millisecond), Key{Node: far}, &wire.Completion{FlowEpoch: n.last.FlowEpoch, First: n.last.FlowBase, Next: n.last.FlowSeq + 1})
	if x, ok := s.PollResult(); !ok || x.Fate != FateDone || x.Missed != 1 {
		t.Errorf("result of the flush: %+v", x)
	}
	s.check(t)
}
