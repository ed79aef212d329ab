package flow

import (
	"fmt"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// open is a Network that accepts every packet and keeps the last packet. A multicast to n
// hops east has n members: chip 3 and the next chips.
type open struct {
	route Route
	full  bool
	last  wire.Packet
	sent  int

	inside []Result // results of requests of the program inside the chip
}

func (n *open) Route(Key, []wire.Direction) *Route      { r := n.route; return &r }
func (n *open) Late(Key) bool                           { return false }
func (n *open) Crosses(Key, *Route) (silent, dead bool) { return false, true }
func (n *open) Answers(Key) (bool, mono.Time)           { return false, mono.Never }
func (n *open) Reachable(Key) bool                      { return true }
func (n *open) Room(*Route) bool                        { return !n.full }

func (n *open) Tree(t Tree) (members []wire.FabricNodeID, w *Route, ok bool) {
	for i := range t.Ranges.Hops[wire.East] {
		members = append(members, wire.FabricNodeID{Chip: wire.ChipID(3 + i)})
	}
	return members, &n.route, len(members) > 0
}

func (n *open) Launch(_ mono.Time, _ *Route, p wire.Packet) bool {
	n.last = p
	n.sent++
	return true
}

func (n *open) Done(_ Owner, r Result) { n.inside = append(n.inside, r) }

// newSource returns a source, its network, and the time at which the test begins.
func newSource() (*Source, *open, mono.Time) {
	n := &open{route: Route{OK: true}}
	return NewSource(Config{Self: near, Incarnation: 1, Epoch: 32}, n), n, mono.Time(time.Second)
}

func write() *Request {
	return &Request{Dst: far, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
}

// check fails the test if a source's state is inconsistent.
func (s *Source) check(t *testing.T) {
	t.Helper()
	if err := s.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// fates polls all results of a source, and counts them by Fate.
func (s *Source) fates() (n [4]uint64) {
	for r, ok := s.PollResult(); ok; r, ok = s.PollResult() {
		n[r.Fate]++
	}
	return n
}

// TestSourceEpochs hands completions to a source. The test compares the fates of the
// requests, and whether the epoch ends, with the wanted values.
func TestSourceEpochs(t *testing.T) {
	lost := func(first uint32, n uint16) []wire.Exception {
		return []wire.Exception{{First: first, Count: n, Outcome: wire.OutcomeLost}}
	}
	for _, x := range []struct {
		name   string
		known  bool // whether the epoch was known when the requests were sent
		exc    []wire.Exception
		fates  [4]uint64
		ending bool
	}{
		{"a gap in an epoch that was known", true, lost(1, 2), [4]uint64{2, 0, 2, 0}, false},
		{"in one that was not", false, lost(1, 2), [4]uint64{2, 0, 0, 2}, true},
		{"refused as unknown", true, []wire.Exception{{First: 0, Count: 4, Outcome: wire.OutcomeUnknownFlow}}, [4]uint64{0, 4, 0, 0}, true},
		{"restarted, and a gap", true, []wire.Exception{{First: 0, Count: 1, Outcome: wire.OutcomeRestarted}, {First: 2, Count: 1, Outcome: wire.OutcomeLost}}, [4]uint64{2, 0, 0, 2}, true},
		{"refused on arrival", false, []wire.Exception{{First: 3, Count: 1, Outcome: wire.OutcomeMisaligned}}, [4]uint64{3, 1, 0, 0}, false},
		{"too many", false, []wire.Exception{{First: 3, Count: 1, Outcome: wire.OutcomeOverflow}}, [4]uint64{3, 1, 0, 0}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, _, now := newSource()
			f := s.flow(now, Key{Node: far})
			f.epoch.known, f.members[0].answered = x.known, x.known
			ask := func() Admission { return s.HandleRequest(now, write(), Outside) }
			for range 4 {
				if a := ask(); a != Accepted {
					t.Fatalf("admission %d", a)
				}
			}
			for _, o := range f.ops[f.head:] {
				if o.known != x.known {
					t.Fatal("a request was sent in another epoch than it says")
				}
			}
			epoch := f.epoch.number
			s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: epoch, Next: 4, Exceptions: x.exc})
			if got := s.fates(); got != x.fates || f.members[0].fates != x.fates || f.epoch.ending != x.ending || !f.epoch.known {
				t.Errorf("fates %v, epoch %+v", got, f.epoch)
			}
			if a := ask(); a != Accepted || (f.epoch.number != epoch) != x.ending || f.ops[f.head].known == x.ending {
				t.Errorf("admission %d in epoch %d after %d, known: %v", a, f.epoch.number, epoch, f.ops[f.head].known)
			}
			s.check(t)
		})
	}
}

// TestEndingEpoch checks that a source sends no more requests in an ending epoch. When no
// request is open, the next epoch begins.
func TestEndingEpoch(t *testing.T) {
	s, _, now := newSource()
	f := s.flow(now, Key{Node: far})
	for range 3 {
		s.HandleRequest(now, write(), Outside)
	}
	m := wire.Completion{FlowEpoch: f.epoch.number, Next: 2, Exceptions: []wire.Exception{{First: 0, Count: 1, Outcome: wire.OutcomeLost}}}
	s.HandleCompletion(now, Key{Node: far}, &m)
	if a := s.HandleRequest(now, write(), Outside); a != Busy {
		t.Errorf("admission %d while a request is open", a)
	}
	m.Next = 3
	s.HandleCompletion(now, Key{Node: far}, &m)
	before := f.epoch.number
	if a := s.HandleRequest(now, write(), Outside); a != Accepted || f.epoch.number != nextEpoch(before) || f.next != 1 {
		t.Errorf("admission %d, epoch %d after %d, next %d", a, f.epoch.number, before, f.next)
	}
	s.check(t)
}

// TestUnicastIsAGroupOfOne gives equal answers to a unicast flow and to a group of one
// member. Fates, doubts, number of probes and epochs must be equal too.
func TestUnicastIsAGroupOfOne(t *testing.T) {
	type seen struct {
		fates  [4]uint64
		doubts string
		probes int
		epochs string
	}
	run := func(r Request) (x seen) {
		s, n, now := newSource()
		ask := func(k int) {
			for range k {
				if a := s.HandleRequest(now, &r, Outside); a != Accepted {
					t.Fatalf("admission %d", a)
				}
			}
		}
		settle := func() {
			for e, ok := s.PollResult(); ok; e, ok = s.PollResult() {
				x.fates[e.Fate]++
				x.doubts += e.Doubt.String() + ";"
			}
			s.check(t)
		}
		pass := func(d time.Duration) {
			for end := now.Add(d); now.Before(end); now = now.Add(tickEvery) {
				before := n.sent
				s.Tick(now)
				x.probes += n.sent - before
			}
		}
		answer := func(next uint32, exc ...wire.Exception) {
			from := Key{Node: far, Group: n.last.Group}
			if from.Group != 0 {
				from.Node = wire.FabricNodeID{Chip: 3}
			}
			s.HandleCompletion(now, from, &wire.Completion{FlowEpoch: n.last.FlowEpoch, Next: next, Exceptions: exc})
			settle()
		}
		ask(3)
		answer(2, wire.Exception{First: 1, Count: 1, Outcome: wire.OutcomeMisaligned})
		pass(time.Second) // the third request stalls
		answer(n.last.FlowSeq + 1)
		ask(2)
		pass(FlowTimeout + time.Second) // no member answers
		settle()
		x.epochs = fmt.Sprint(n.last.FlowEpoch)
		ask(1)
		x.epochs += fmt.Sprint(" ", n.last.FlowEpoch, " ", n.last.FlowSeq)
		answer(1)
		if s.Open() != 0 {
			t.Errorf("%d requests are open", s.Open())
		}
		return x
	}
	many := *write()
	many.Dst, many.Ranges.Hops[wire.East] = wire.FabricNodeID{}, 1
	one, group := run(*write()), run(many)
	if one != group {
		t.Errorf("a unicast: %+v; a group of one: %+v", one, group)
	}
	if one.fates != [4]uint64{3, 1, 0, 2} || one.probes == 0 {
		t.Errorf("%+v", one)
	}
}

// TestMembersAreSettledApart multicasts to three members. The first member refuses the
// request, the second member performs it, and the copy for the third member is dropped.
func TestMembersAreSettledApart(t *testing.T) {
	s, n, now := newSource()
	r := *write()
	r.Ranges.Hops[wire.East] = 3
	at := func(c wire.ChipID) wire.FabricNodeID { return wire.FabricNodeID{Chip: c} }
	if a := s.HandleRequest(now, &r, Outside); a != Accepted {
		t.Fatalf("admission %d", a)
	}
	g, epoch := n.last.Group, n.last.FlowEpoch
	s.HandleCompletion(now, Key{Node: at(4), Group: g}, &wire.Completion{FlowEpoch: epoch, Next: 1})
	s.HandleDrop(now, &wire.DropReport{Group: g, FlowEpoch: epoch, Reason: wire.DropTTL}, at(4), []wire.FabricNodeID{at(5), at(9)})
	s.check(t)
	if _, ok := s.PollResult(); ok {
		t.Fatal("the request ended before all members had answered")
	}
	s.HandleCompletion(now, Key{Node: at(7), Group: g}, &wire.Completion{FlowEpoch: epoch, Next: 1})
	if n := s.Counters().StaleCompletions; n != 1 {
		t.Errorf("%d stale completions after a chip answered that is no member, want 1", n)
	}
	s.HandleCompletion(now, Key{Node: at(3), Group: g}, &wire.Completion{FlowEpoch: epoch, Next: 1, Exceptions: []wire.Exception{{Count: 1, Outcome: wire.OutcomeMisaligned}}})
	e, ok := s.PollResult()
	if !ok || e.Fate != FateLost || e.Drop != wire.DropTTL || e.At != at(4) || fmt.Sprint(e.Members) != fmt.Sprint([]MemberResult{
		{Node: at(3), Fate: FateRefused, Outcome: wire.OutcomeMisaligned}, {Node: at(5), Fate: FateLost, Drop: wire.DropTTL, At: at(4)}}) {
		t.Errorf("%+v", e)
	}
	s.check(t)
}

// TestCheckFindsDamage damages one field of a source at a time. CheckInvariants must find
// each damage.
func TestCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(s *Source, f *outFlow){
		"a count of open requests": func(s *Source, _ *outFlow) { s.open++ },
		"a member's count":         func(_ *Source, f *outFlow) { f.members[0].open-- },
		"a request's count":        func(_ *Source, f *outFlow) { f.ops[f.head+1].left++ },
		"a request's members":      func(_ *Source, f *outFlow) { (*f.open)[f.head].remove(1) },
		"the members of requests":  func(_ *Source, f *outFlow) { *f.open = (*f.open)[:1] },
		"the base of the window":   func(_ *Source, f *outFlow) { f.base++ },
		"a settled first request":  func(_ *Source, f *outFlow) { f.settle(f.head, 0); f.settle(f.head, 1) },
	} {
		s, _, now := newSource()
		r := *write()
		r.Ranges.Hops[wire.East] = 2
		for range 3 {
			s.HandleRequest(now, &r, Outside)
		}
		s.check(t)
		damage(s, s.groups.list[0])
		if err := s.CheckInvariants(); err == nil {
			t.Errorf("nothing is found wrong after damage to %s", name)
		}
	}
}

// TestUnansweredFlow sends requests to a destination that does not answer. From quietAfter on, the
// flow must keep at most MaxUnanswered open requests, posted or not. With the next answer, the
// source must accept requests again.
func TestUnansweredFlow(t *testing.T) {
	for _, r := range []*Request{write(), posted()} {
		s, n, now := newSource()
		fill := func(most int) (k int) {
			for k < most && s.HandleRequest(now, r, Outside) == Accepted {
				k++
			}
			return k
		}
		const early = MaxUnanswered / 2
		if k := fill(early); k != early {
			t.Fatalf("%d requests accepted at first, want %d", k, early)
		}
		now = now.Add(quietAfter)
		if k := fill(MaxOutstanding); k != MaxUnanswered-early {
			t.Errorf("posted %v: %d requests accepted after quietAfter, want %d", r.Posted, k, MaxUnanswered-early)
		}
		s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: n.last.FlowEpoch, Next: 1})
		if k := fill(MaxOutstanding); k != MaxOutstanding-MaxUnanswered+1 {
			t.Errorf("posted %v: %d requests accepted after an answer, want %d", r.Posted, k, MaxOutstanding-MaxUnanswered+1)
		}
		s.check(t)
	}
}
