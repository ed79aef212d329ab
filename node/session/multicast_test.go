package session

import (
	"context"
	"errors"
	"sync"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// scripted is a Fabric that records requests, and answers them with the results in ends.
type scripted struct {
	mu    sync.Mutex
	asked []flow.Request
	ends  []flow.Result
}

// Submit answers each request with the next result in ends.
func (f *scripted) Submit(_ context.Context, rs []flow.Request, done func(int, flow.Result)) (int, error) {
	for i, r := range rs {
		f.mu.Lock()
		f.asked = append(f.asked, r)
		end := f.ends[0]
		f.ends = f.ends[1:]
		f.mu.Unlock()
		done(i, end)
	}
	return len(rs), nil
}

// Self returns M0D0.
func (f *scripted) Self() wire.FabricNodeID { return wire.FabricNodeID{} }

// Topology returns nil, because the tests do not use a topology.
func (f *scripted) Topology() *topo.Topology { return nil }

func at(c int) wire.FabricNodeID { return wire.FabricNodeID{Chip: wire.ChipID(c)} }

// If one member refuses a multicast for lack of room, the Session repeats the request for
// this member alone. The other members must not perform the request twice.
func TestMulticastAgainWhereThereWasNoRoom(t *testing.T) {
	full := flow.MemberResult{Node: at(2), Fate: flow.FateRefused, Outcome: wire.OutcomeOverflow}
	f := &scripted{ends: []flow.Result{
		{Fate: flow.FateRefused, Outcome: wire.OutcomeOverflow, Members: []flow.MemberResult{full}},
		{Fate: flow.FateDone},
	}}
	if err := New(f).MulticastInc(context.Background(), Line(wire.East, 1, 3), 64, 1, false); err != nil {
		t.Error(err)
	}
	if len(f.asked) != 2 || f.asked[1].Ranges.Any() || f.asked[1].Dst != at(2) || f.asked[1].Command != f.asked[0].Command {
		t.Errorf("asked %+v", f.asked)
	}
}

// A MulticastError holds an error for each member that failed, of the same types as the
// errors of a unicast.
func TestMulticastErrorNamesTheMembers(t *testing.T) {
	f := &scripted{ends: []flow.Result{{Fate: flow.FateUnknown, Members: []flow.MemberResult{
		{Node: at(1), Fate: flow.FateRefused, Outcome: wire.OutcomeMisaligned},
		{Node: at(2), Fate: flow.FateLost, Drop: wire.DropTTL, At: at(1)},
		{Node: at(3), Fate: flow.FateUnknown, Doubt: flow.DoubtRestarted},
	}}}}
	err := New(f).MulticastWrite(context.Background(), Line(wire.East, 1, 3), 64, []byte("x"))
	var many *MulticastError
	var refused *RefusedError
	var lost *LostError
	var unknown *OutcomeUnknownError
	if !errors.As(err, &many) || len(many.Errors) != 3 || !errors.As(err, &refused) || refused.Dst != at(1) ||
		!errors.As(err, &lost) || lost.Dst != at(2) || lost.At != at(1) || !errors.As(err, &unknown) || unknown.Dst != at(3) {
		t.Errorf("%v", err)
	}
	want := "multicast: chip M0D1 refused 0-0:0x40: misaligned; chip M0D2 unreachable: chip M0D1 dropped the request: TTL expired; not performed; chip M0D3: outcome unknown: destination restarted, or missed the first packets"
	if err != nil && err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
