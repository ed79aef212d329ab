package admin

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"ttfabric/node/chip"
	"ttfabric/wire"
)

func (s *Server) ends(w http.ResponseWriter, r *http.Request) {
	m, err := s.n.Moment(r.Context())
	if err != nil {
		problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(w, m)
}

// Moment is how the chip's requests have ended up to now. It makes the client
// a session.Counter, so that a session on it can take checkpoints.
func (c *Client) Moment(ctx context.Context) (m chip.Moment, err error) {
	return m, c.call(ctx, "GET", "/v1/ends", nil, &m)
}

// FabricCheckpoint is a moment of several chips, as [CheckpointAll] returns
// it. It can be kept as JSON.
type FabricCheckpoint struct {
	Chips []chip.Moment `json:"chips"`
}

// FlowLosses is what got lost from one chip to another.
type FlowLosses struct {
	Src     wire.FabricNodeID `json:"src"`
	Dst     wire.FabricNodeID `json:"dst"`
	Lost    uint64            `json:"lost"`    // requests that are known not to have been performed
	Unknown uint64            `json:"unknown"` // that were performed or not
	Open    int               `json:"open"`    // that have not ended yet
}

// FabricLosses is what got lost among several chips since a checkpoint.
type FabricLosses struct {
	Restarted []wire.FabricNodeID `json:"restarted"` // their memory is gone, and how their former lives' requests ended
	Silent    []wire.FabricNodeID `json:"no_answer"` // of the chips of the checkpoint
	Flows     []FlowLosses        `json:"flows"`     // those of which there is something to tell
	Now       FabricCheckpoint    `json:"now"`       // the moment of this answer, of the chips that answered
}

// Any reports whether anything got lost, may have, or is still open.
func (l *FabricLosses) Any() bool { return len(l.Restarted)+len(l.Silent)+len(l.Flows) > 0 }

// CheckpointAll notes of each chip which life it is in, and how its requests
// have ended so far. The error names a chip that doesn't answer: leave it out,
// or start it first.
func CheckpointAll(ctx context.Context, cs []*Client) (FabricCheckpoint, error) {
	ms, errs := moments(ctx, cs)
	for i, err := range errs {
		if err != nil {
			return FabricCheckpoint{}, fmt.Errorf("no checkpoint without chip %s: %w", cs[i].Self(), err)
		}
	}
	return FabricCheckpoint{ms}, nil
}

// LostSinceAll says what got lost among the chips of a checkpoint. Chips of it
// that are not among cs, or don't answer, are silent; others among cs are ignored.
func LostSinceAll(ctx context.Context, cs []*Client, before FabricCheckpoint) FabricLosses {
	l := FabricLosses{Restarted: []wire.FabricNodeID{}, Silent: []wire.FabricNodeID{}, Flows: []FlowLosses{}, Now: FabricCheckpoint{[]chip.Moment{}}}
	ms, errs := moments(ctx, cs)
	now := map[wire.FabricNodeID]*chip.Moment{}
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
			f := FlowLosses{b.Chip, e.Dst, e.Fates[chip.FateLost], e.Fates[chip.FateUnknown], e.Open}
			if f.Lost+f.Unknown > 0 || f.Open > 0 {
				l.Flows = append(l.Flows, f)
			}
		}
	}
	return l
}

// moments asks all chips at once.
func moments(ctx context.Context, cs []*Client) ([]chip.Moment, []error) {
	ms, errs := make([]chip.Moment, len(cs)), make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { ms[i], errs[i] = c.Moment(ctx) })
	}
	wg.Wait()
	return ms, errs
}
