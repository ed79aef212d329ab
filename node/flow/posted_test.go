package flow

import (
	"testing"
	"time"

	"ttfabric/wire"
)

// posted returns a posted write.
func posted() *Request {
	r := write()
	r.Posted = true
	return r
}

// TestPostedRequestsEndAtOnce posts requests. Each request must end as posted when the source has
// sent the request, and must stay in the flow's window. Of postedRun requests in a row, only the
// last must ask for a completion.
func TestPostedRequestsEndAtOnce(t *testing.T) {
	s, n, now := newSource()
	asked := 0
	for i := range MaxOutstanding {
		if a := s.HandleRequest(now, posted(), Outside); a != Accepted {
			t.Fatalf("request %d: admission %d", i, a)
		}
		if r, ok := s.PollResult(); !ok || r.Fate != FatePosted {
			t.Fatalf("request %d: %+v", i, r)
		}
		if !n.last.Posted {
			asked++
			if (i+1)%postedRun != 0 {
				t.Errorf("request %d asks for a completion", i)
			}
		}
	}
	if asked != MaxOutstanding/postedRun || s.Open() != MaxOutstanding {
		t.Errorf("%d requests asked for a completion, and %d are open", asked, s.Open())
	}
	if a := s.HandleRequest(now, posted(), Outside); a != Busy {
		t.Errorf("a full window: admission %d", a)
	}
	s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: n.last.FlowEpoch, Next: MaxOutstanding})
	if s.Open() != 0 || s.Counters().Results != [4]uint64{MaxOutstanding} {
		t.Errorf("%d open, results %v", s.Open(), s.Counters().Results)
	}
	if _, ok := s.PollResult(); ok {
		t.Error("a posted request has two results")
	}
	s.check(t)
}

// TestPostedRequestsAreAskedAfter waits after a posted request. The source then sends a probe, as
// it does for any request without an answer. Without an answer, the source gives the request up.
func TestPostedRequestsAreAskedAfter(t *testing.T) {
	s, n, now := newSource()
	s.HandleRequest(now, posted(), Outside)
	s.PollResult()
	now = now.Add(ProbeAfter + tickEvery)
	s.Tick(now)
	if n.last.Type != wire.PacketProbe || n.last.Posted || s.Counters().Probes != 1 {
		t.Fatalf("after %v: %+v", ProbeAfter, n.last)
	}
	for range 2 * FlowTimeout / time.Second {
		now = now.Add(time.Second)
		s.Tick(now)
	}
	if s.Open() != 0 || s.Counters().Results[FateUnknown] != 1 {
		t.Errorf("%d open, results %v", s.Open(), s.Counters().Results)
	}
	s.check(t)
}

// TestFlushTellsOfMissedRequests posts four requests and a probe. The destination refuses the second
// request and misses the third. The result of the probe counts 2 missed requests, and the result of
// the next probe counts 0.
func TestFlushTellsOfMissedRequests(t *testing.T) {
	s, n, now := newSource()
	f := s.flow(now, Key{Node: far})
	f.epoch.known, f.members[0].answered = true, true
	probe := &Request{Dst: far, Probe: true, Flush: true}
	for range 4 {
		s.HandleRequest(now, posted(), Outside)
		s.PollResult()
	}
	s.HandleRequest(now, probe, Outside)
	s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: n.last.FlowEpoch, Next: 5,
		Exceptions: []wire.Exception{{First: 1, Count: 1, Outcome: wire.OutcomeMisaligned}, {First: 2, Count: 1, Outcome: wire.OutcomeLost}}})
	if r, ok := s.PollResult(); !ok || r.Fate != FateDone || r.Missed != 2 {
		t.Errorf("the first probe: %+v", r)
	}
	s.HandleRequest(now, probe, Outside)
	s.HandleCompletion(now, Key{Node: far}, &wire.Completion{FlowEpoch: n.last.FlowEpoch, Next: 6})
	if r, ok := s.PollResult(); !ok || r.Fate != FateDone || r.Missed != 0 {
		t.Errorf("the second probe: %+v", r)
	}
	if f.members[0].fates != [4]uint64{4, 1, 1, 0} {
		t.Errorf("fates %v", f.members[0].fates)
	}
	s.check(t)
}

func TestPostedRefusals(t *testing.T) {
	s, _, _ := newSource()
	for name, r := range map[string]*Request{
		"a read":  {Dst: far, Posted: true, Command: wire.Command{Type: wire.NocRead, Size: 4}},
		"a probe": {Dst: far, Posted: true, Probe: true},
	} {
		if a := s.Admits(r); a != BadPosted {
			t.Errorf("%s: admission %d", name, a)
		}
	}
}

// TestSinkAnswersNoPostedRequest hands posted requests to a sink. The sink owes a completion only after
// a request that is not posted. This completion covers the posted requests.
func TestSinkAnswersNoPostedRequest(t *testing.T) {
	s := NewSink(0)
	p := wire.Packet{Type: wire.PacketRequest, Src: far, FlowEpoch: 1, Posted: true}
	for seq := range uint32(5) {
		if p.FlowSeq = seq; seq == 2 {
			continue // lost
		}
		if !s.HandleRequest(&p) || s.Owed() != 0 {
			t.Fatalf("request %d: %d completions are owed", seq, s.Owed())
		}
	}
	if s.HandleRequest(&p) {
		t.Error("a posted request was performed twice")
	}
	p.FlowSeq, p.Posted = 5, false
	s.HandleRequest(&p)
	s.Answer(func(Key) *Route { return &Route{OK: true} }, func(_ Key, _ *Route, m wire.Completion) bool {
		if m.Next != 6 || len(m.Exceptions) != 1 || m.Exceptions[0] != (wire.Exception{First: 2, Count: 1, Outcome: wire.OutcomeLost}) {
			t.Errorf("%+v", m)
		}
		return true
	})
}
