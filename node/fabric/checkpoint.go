// Package fabric is a handle on a whole fabric, however its chips run.
package fabric

import (
	"context"
	"fmt"
	"sync"

	"ttfabric/node/admin/api"
	"ttfabric/node/flow"
	"ttfabric/wire"
)

// Checkpoint is a moment of several chips, as [TakeCheckpoint] returns
// it. It can be kept as JSON.
type Checkpoint struct {
	Chips []flow.Moment `json:"chips"`
}

// FlowLosses is what got lost from one chip to another.
type FlowLosses struct {
	Src     wire.FabricNodeID `json:"src"`
	Dst     wire.FabricNodeID `json:"dst"`
	Lost    uint64            `json:"lost"`    // requests that are known not to have been performed
	Unknown uint64            `json:"unknown"` // that were performed or not
	Open    int               `json:"open"`    // that have not ended yet
}

// LossesSince is what got lost among several chips since a checkpoint.
type LossesSince struct {
	Restarted []wire.FabricNodeID `json:"restarted"` // their memory is gone, and how their former lives' requests ended
	Silent    []wire.FabricNodeID `json:"no_answer"` // of the chips of the checkpoint
	Flows     []FlowLosses        `json:"flows"`     // those of which there is something to tell
	Now       Checkpoint          `json:"now"`       // the moment of this answer, of the chips that answered
}

// Any reports whether anything got lost, may have, or is still open.
func (l *LossesSince) Any() bool { return len(l.Restarted)+len(l.Silent)+len(l.Flows) > 0 }

// TakeCheckpoint notes of each chip which life it is in, and how its requests
// have ended so far. The error names a chip that doesn't answer: leave it out,
// or start it first.
func TakeCheckpoint(ctx context.Context, cs []*api.Client) (Checkpoint, error) {
	ms, errs := moments(ctx, cs)
	for i, err := range errs {
		if err != nil {
			return Checkpoint{}, fmt.Errorf("no checkpoint without chip %s: %w", cs[i].Self(), err)
		}
	}
	return Checkpoint{ms}, nil
}

// LostSince says what got lost among the chips of a checkpoint. Chips of it
// that are not among cs, or don't answer, are silent; others among cs are ignored.
func LostSince(ctx context.Context, cs []*api.Client, before Checkpoint) LossesSince {
	l := LossesSince{Restarted: []wire.FabricNodeID{}, Silent: []wire.FabricNodeID{}, Flows: []FlowLosses{}, Now: Checkpoint{[]flow.Moment{}}}
	ms, errs := moments(ctx, cs)
	now := map[wire.FabricNodeID]*flow.Moment{}
	for i := range ms {
		if errs[i] == nil {
			now[ms[i].Chip] = &ms[i]
			l.Now.Chips = append(l.Now.Chips, ms[i])
		}
	}
	for i := range before.Chips {
		b := &before.Chips[i]
		m := now[b.Chip]
		switch {
		case m == nil:
			l.Silent = append(l.Silent, b.Chip)
			continue
		case m.Incarnation != b.Incarnation:
			l.Restarted = append(l.Restarted, b.Chip)
		}
		for _, e := range m.Since(b) {
			f := FlowLosses{b.Chip, e.Dst, e.Fates[flow.FateLost], e.Fates[flow.FateUnknown], e.Open}
			if f.Lost+f.Unknown > 0 || f.Open > 0 {
				l.Flows = append(l.Flows, f)
			}
		}
	}
	return l
}

// moments asks all chips at once.
func moments(ctx context.Context, cs []*api.Client) ([]flow.Moment, []error) {
	ms, errs := make([]flow.Moment, len(cs)), make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { ms[i], errs[i] = c.Moment(ctx) })
	}
	wg.Wait()
	return ms, errs
}
