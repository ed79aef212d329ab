package fabric

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/flow"
	"ttfabric/wire"
)

// Checkpoint says for several chips how their requests have ended so far. A program can
// store a Checkpoint as JSON and later pass the Checkpoint to [LostSince].
type Checkpoint struct {
	Chips []flow.Moment `json:"chips"` // each chip's ended and open requests
}

// FlowLosses counts the requests from one chip to another that were lost, that may have
// been lost, and that are open.
type FlowLosses struct {
	Src     wire.FabricNodeID `json:"src"`     // source of the requests
	Dst     wire.FabricNodeID `json:"dst"`     // destination of the requests
	Lost    uint64            `json:"lost"`    // requests that were not performed
	Unknown uint64            `json:"unknown"` // requests that may or may not have been performed
	Open    int               `json:"open"`    // requests whose fate the source does not know yet
}

// LossesSince says which requests several chips have lost since a checkpoint.
type LossesSince struct {
	Restarted []wire.FabricNodeID `json:"restarted"` // chips with a new incarnation; these chips have lost their memory, and the fates of their earlier requests are unknown
	Silent    []wire.FabricNodeID `json:"no_answer"` // chips of the checkpoint that do not answer
	Flows     []FlowLosses        `json:"flows"`     // pairs of chips with requests that are lost, unknown or open
	Now       Checkpoint          `json:"now"`       // a new checkpoint of the chips that answered
}

// Any reports whether a chip has restarted or is silent, or a request is lost, unknown or open.
func (l *LossesSince) Any() bool { return len(l.Restarted)+len(l.Silent)+len(l.Flows) > 0 }

// TakeCheckpoint returns a checkpoint of the given chips. If a chip does not answer,
// TakeCheckpoint returns an error that names the chip.
func TakeCheckpoint(ctx context.Context, cs []*api.Client) (Checkpoint, error) {
	ms, errs := moments(ctx, cs)
	for i, err := range errs {
		if err != nil {
			return Checkpoint{}, fmt.Errorf("cannot take a checkpoint of chip %s: %w; leave the chip out, or start the chip first", cs[i].Self(), err)
		}
	}
	return Checkpoint{ms}, nil
}

// LostSince says which requests the chips of a checkpoint have lost since the checkpoint.
// The parameter cs has clients of the chips. A chip of the checkpoint counts as silent if
// cs has no client of the chip, or if the chip does not answer. LostSince reports losses
// only of chips in the checkpoint. Of a restarted chip, LostSince reports only the losses
// since the restart.
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

// maxCheckpoint is the size of the largest checkpoint file that [ReadCheckpoint] reads, in bytes. The
// checkpoint of the largest fabric is many times smaller.
const maxCheckpoint = 256 << 20

// Write writes the checkpoint to a file.
func (c *Checkpoint) Write(file string) error {
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	return folder.WriteFile(file, append(b, '\n'))
}

// ReadCheckpoint reads a file that [Checkpoint.Write] wrote.
func ReadCheckpoint(ctx context.Context, file string) (c Checkpoint, err error) {
	b, err := folder.ReadFile(ctx, file, maxCheckpoint)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil || len(c.Chips) == 0 {
		return c, fmt.Errorf("%s: the file holds no checkpoint; 'ttfabric checkpoint -f FILE' writes a checkpoint", file)
	}
	return c, nil
}

// moments asks all chips at once how their requests have ended so far. The results have the
// order of cs.
func moments(ctx context.Context, cs []*api.Client) ([]flow.Moment, []error) {
	ms, errs := make([]flow.Moment, len(cs)), make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { ms[i], errs[i] = c.Moment(ctx) })
	}
	wg.Wait()
	return ms, errs
}
