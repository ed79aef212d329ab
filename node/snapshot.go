package node

import (
	"context"
	"fmt"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/snapshot"
	"ttfabric/wire/mono"
)

// cutPoll is the time between two looks at whether a cut is complete. The value is our own choice.
const cutPoll = 5 * time.Millisecond

// Snapshot returns the state of the chip at the cut with this number. If the chip has not begun this cut,
// Snapshot makes the chip begin, see [chip.Chip.Mark]. Snapshot calls "begun" when the chip has begun the
// cut. Snapshot then waits for the marks of the neighbours, at most [chip.CutTime] from the chip's cut on.
// If the chip has begun a later cut, or if another caller has fetched the state, Snapshot returns an error.
// Snapshot also returns an error if ctx ends, or if the node is closed.
func (n *Node) Snapshot(ctx context.Context, number uint32, begun func()) (p snapshot.Part, err error) {
	if err := n.order(func(now mono.Time) { n.chip.Mark(now, number) }); err != nil {
		return p, err
	}
	for first := true; ; first = false {
		var s *chip.Saved
		known := false
		n.WithChip(func(now mono.Time, c *chip.Chip) {
			s, known = c.CutState(now, number)
			p.Options = c.Options()
		})
		if known = known || s != nil; known && first {
			begun()
		}
		switch {
		case s != nil:
			p.Chip = *s.Routes()
			return p, nil
		case !known:
			return p, fmt.Errorf("chip %s does not have the state at cut %08x: the chip has begun a later cut, or another caller has fetched the state; take another snapshot", n.cfg.Node, number)
		}
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-time.After(cutPoll):
		}
	}
}
