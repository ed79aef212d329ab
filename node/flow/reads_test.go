package flow

import (
	"testing"

	"ttfabric/wire"
)

// TestLateDataHoldsUpNoWrite performs a read whose data does not come. Behind the read, the
// destination refuses every second of 200 writes, and then performs twice MaxOutstanding writes.
// The source must accept all writes, and the destination must refuse no other write.
func TestLateDataHoldsUpNoWrite(t *testing.T) {
	s, n, now := newSource()
	d := newDestination()
	send := func(r *Request, o wire.Outcome) {
		t.Helper()
		if a := s.HandleRequest(now, r, Outside); a != Accepted {
			t.Fatalf("admission %d", a)
		}
		p := n.last
		p.Src = near
		d.take(&p, o)
		d.Answer(func(Key) *Route { return &Route{OK: true} }, func(_ Key, _ *Route, m wire.Completion) bool {
			s.HandleCompletion(now, Key{Node: far}, &m)
			return true
		})
	}
	send(&Request{Dst: far, Command: wire.Command{Type: wire.NocRead, Size: 4}}, wire.OutcomeDone)
	id := n.last.ID
	for range 100 {
		send(write(), wire.OutcomeBadAddress)
		send(write(), wire.OutcomeDone)
	}
	for range 2 * MaxOutstanding {
		send(write(), wire.OutcomeDone)
	}
	if got := s.fates(); got != [4]uint64{100 + 2*MaxOutstanding, 100} || s.Open() != 1 || s.Ends()[0].Open != 1 {
		t.Errorf("fates %v, %d open, %+v", got, s.Open(), s.Ends())
	}
	s.check(t)
	s.HandleReply(now, Key{Node: far}, id, []byte("data"))
	if r, ok := s.PollResult(); !ok || r.Fate != FateDone || string(r.Data) != "data" || s.Open() != 0 {
		t.Errorf("%+v, %d open", r, s.Open())
	}
	s.check(t)
}

// TestLateReadsAreLimited performs reads whose data does not come. The source must accept
// MaxOutstanding reads. When the data of all reads except the first has come, the source must
// accept the same number of reads again.
func TestLateReadsAreLimited(t *testing.T) {
	s, n, now := newSource()
	var ids []uint64
	fill := func() (k int) {
		for s.HandleRequest(now, &Request{Dst: far, Command: wire.Command{Type: wire.NocRead, Size: 4}}, Outside) == Accepted {
			ids = append(ids, n.last.ID)
			s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: n.last.FlowEpoch, First: n.last.FlowBase, Next: n.last.FlowSeq + 1})
			k++
		}
		s.check(t)
		return k
	}
	if k := fill(); k != MaxOutstanding {
		t.Errorf("the source accepted %d reads", k)
	}
	for range 3 {
		for _, id := range ids[1:] {
			s.HandleReply(now, Key{Node: far}, id, nil)
		}
		ids = ids[:1]
		s.check(t)
		if k, f := fill(), s.last; k != MaxOutstanding-1 || len(f.reads.ops) > MaxOutstanding+64 {
			t.Errorf("the source accepted %d reads again, and keeps %d", k, len(f.reads.ops))
		}
	}
}

// TestOpenReportsEndNoRead reports that the reply to a read may be lost. The read waits for its data.
func TestOpenReportsEndNoRead(t *testing.T) {
	s, n, now := newSource()
	s.HandleRequest(now, &Request{Dst: far, Command: wire.Command{Type: wire.NocRead, Size: 4}}, Outside)
	s.HandleDrop(now, &wire.DropReport{Dst: far, Reason: wire.DropNextHopDead, Type: wire.PacketReply, ID: n.last.ID, Open: true}, far, nil)
	if r, ok := s.PollResult(); ok {
		t.Errorf("the read ended: %+v", r)
	}
	s.check(t)
}

// TestDeadLinksAreForgotten reports that the first request may have been in a dead link. The
// destination performed this request. A request that the source sent after the report then ends for
// a reason of its own, although the window was never empty.
func TestDeadLinksAreForgotten(t *testing.T) {
	s, n, now := newSource()
	s.HandleRequest(now, write(), Outside)
	epoch := n.last.FlowEpoch
	s.HandleDrop(now, &wire.DropReport{Dst: far, FlowEpoch: epoch, Reason: wire.DropNextHopDead, Type: wire.PacketRequest, Open: true}, far, nil)
	s.HandleRequest(now, write(), Outside)
	s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: epoch, Next: 1})
	s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: epoch, First: 1, Next: 2, Exceptions: []wire.Exception{{First: 1, Count: 1, Outcome: wire.OutcomeRestarted}}})
	s.PollResult()
	if r, ok := s.PollResult(); !ok || r.Fate != FateUnknown || r.Doubt != DoubtRestarted || s.last.dead {
		t.Errorf("%+v", r)
	}
}
