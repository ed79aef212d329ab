package session

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// silent is a Fabric whose requests do not end before the test says so.
type silent struct {
	done []func(int, flow.Result)
}

// Submit notes the function that ends the requests.
func (f *silent) Submit(_ context.Context, rs []flow.Request, done func(int, flow.Result)) (int, error) {
	f.done = append(f.done, done)
	return len(rs), nil
}

// Self returns M0D0.
func (f *silent) Self() wire.FabricNodeID { return wire.FabricNodeID{} }

// Topology returns nil, because the tests do not use a topology.
func (f *silent) Topology() *topo.Topology { return nil }

// TestCallsAreLimited starts MaxCalls calls. A further call waits until one of them has ended, or
// until its context ends.
func TestCallsAreLimited(t *testing.T) {
	f := &silent{}
	s := New(f)
	for range MaxCalls {
		if c, err := s.StartWrite(t.Context(), at(1), 0, nil); err != nil {
			t.Fatal(err)
		} else if ended, _ := c.Poll(); ended {
			t.Fatal("a call has ended without an answer")
		}
	}
	short, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.StartWrite(short, at(1), 0, nil); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "4096 calls are open") {
		t.Errorf("one call too many: %v", err)
	}
	f.done[0](0, flow.Result{Fate: flow.FateDone})
	c, err := s.StartWrite(t.Context(), at(1), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.done[len(f.done)-1](0, flow.Result{Fate: flow.FateLost, Drop: wire.DropTTL})
	var lost *LostError
	if err := c.Wait(t.Context()); !errors.As(err, &lost) {
		t.Errorf("%v", err)
	}
}

// TestStartedCallsAreSentAgain starts a write that the destination refuses at first for lack of
// room, and a multicast that one member refuses in this way. Both end as done.
func TestStartedCallsAreSentAgain(t *testing.T) {
	full := flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeAgain}
	f := &scripted{ends: []flow.Result{full, full, {Fate: flow.FateDone}}}
	c, err := New(f).StartWrite(t.Context(), at(1), 64, []byte("x"))
	if err != nil || c.Wait(t.Context()) != nil || len(f.asked) != 3 {
		t.Errorf("%v, asked %d times", err, len(f.asked))
	}
	member := flow.MemberResult{Node: at(2), Fate: flow.FateRefused, Outcome: wire.OutcomeOverflow}
	f = &scripted{ends: []flow.Result{{Fate: flow.FateRefused, Outcome: wire.OutcomeOverflow, Members: []flow.MemberResult{member}}, {Fate: flow.FateDone}}}
	h := flow.Request{Members: wire.MembersOf(1, 2), Command: wire.Command{Type: wire.NocAtomicInc, Value: 1}}
	c, err = New(f).Start(t.Context(), &h, nil)
	if err != nil || c.Wait(t.Context()) != nil || len(f.asked) != 2 || f.asked[1].Many() || f.asked[1].Dst != at(2) {
		t.Errorf("%v, asked %+v", err, f.asked)
	}
}
