package fabric

import (
	"context"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/losses"
	"ttfabric/wire"
)

// lossesPoll is the time between two rounds in which [Losses] asks the chips.
const lossesPoll = 50 * time.Millisecond

// Balance counts the packets of a fabric by how they ended, or where they are.
type Balance struct {
	losses.Report
	AtRest bool                `json:"at_rest"`   // no packet moved between the last two rounds in which [Losses] asked the chips, so that all figures are of one moment
	Silent []wire.FabricNodeID `json:"no_answer"` // chips that did not answer in the last round
}

// Losses asks the chips cs for their counts of packets, and merges the counts with [losses.Merge].
// Losses asks in rounds until no packet has moved between two rounds. When the time "wait" is over,
// Losses begins no further round. The parameter "missing" lists the fabric's other chips.
func Losses(ctx context.Context, cs []*api.Client, missing []wire.FabricNodeID, wait time.Duration) Balance {
	end := time.Now().Add(wait)
	for last := []losses.Chip(nil); ; time.Sleep(lossesPoll) {
		chips, silent := Values(Each(ctx, cs, AskTime, func(ctx context.Context, c *api.Client) (losses.Chip, error) { return c.Losses(ctx) }))
		chips = append([]losses.Chip{}, chips...)
		rest := last != nil && slices.EqualFunc(last, chips, func(a, b losses.Chip) bool { return a.Same(&b) })
		if rest || time.Now().After(end) || ctx.Err() != nil {
			return Balance{losses.Merge(chips, append(slices.Clone(missing), silent...)), rest, append([]wire.FabricNodeID{}, silent...)}
		}
		last = chips
	}
}
