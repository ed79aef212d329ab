package session

import (
	"context"
	"errors"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// On a fabric that is no Counter, Checkpoint and LostSince return ErrNoCounter.
func TestNoCheckpointWithoutCounts(t *testing.T) {
	s := New(&scripted{})
	if _, err := s.Checkpoint(context.Background()); !errors.Is(err, ErrNoCounter) {
		t.Error(err)
	}
	if _, err := s.LostSince(context.Background(), Checkpoint{}); !errors.Is(err, ErrNoCounter) {
		t.Error(err)
	}
}

// The method "without" leaves LostSince's own read out of the counts, however the read ends.
func TestTheQuestionIsNoLoss(t *testing.T) {
	n := wire.FabricNodeID{Chip: 1}
	for _, x := range []struct {
		err  error
		had  PeerLosses
		want PeerLosses
	}{
		{&LostError{Dst: n}, PeerLosses{Lost: 3, Unknown: 1}, PeerLosses{Lost: 2, Unknown: 1}},
		{&OutcomeUnknownError{Dst: n}, PeerLosses{Unknown: 1, Open: 1}, PeerLosses{Open: 1}},
		{errors.Join(&OutcomeUnknownError{Dst: n}, context.Canceled), PeerLosses{Open: 2}, PeerLosses{Open: 1}},
		{&RefusedError{Dst: n}, PeerLosses{Lost: 1}, PeerLosses{Lost: 1}},
		{nil, PeerLosses{Lost: 1}, PeerLosses{Lost: 1}},
	} {
		if x.had.without(x.err); x.had != x.want {
			t.Errorf("%v: %+v, want %+v", x.err, x.had, x.want)
		}
	}
}

// Since subtracts the earlier counts, separately for each destination. Since subtracts
// nothing if the earlier moment is of another incarnation.
func TestSince(t *testing.T) {
	a, b := wire.FabricNodeID{Chip: 1}, wire.FabricNodeID{Chip: 2}
	before := flow.Moment{Incarnation: 1, Ends: []flow.Ends{{Dst: b, Fates: [4]uint64{5, 0, 1, 0}, Open: 7}}}
	now := flow.Moment{Incarnation: 1, Ends: []flow.Ends{{Dst: a, Fates: [4]uint64{1, 0, 0, 2}}, {Dst: b, Fates: [4]uint64{9, 0, 4, 0}, Open: 3}}}
	got := now.Since(&before)
	if got[0] != now.Ends[0] || got[1] != (flow.Ends{Dst: b, Fates: [4]uint64{4, 0, 3, 0}, Open: 3}) || now.Ends[1].Fates[0] != 9 {
		t.Errorf("%+v; the moment is %+v", got, now)
	}
	before.Incarnation = 2
	if got := now.Since(&before); got[1] != now.Ends[1] {
		t.Errorf("of another life: %+v", got)
	}
}
