package fabric

import (
	"context"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/losses"
	"ttfabric/wire"
)

// lossesPoll is the time between two rounds of questions about packets.
const lossesPoll = 50 * time.Millisecond

// Balance says what became of every packet of a fabric.
type Balance struct {
	losses.Report
	AtRest bool                `json:"at_rest"` // no packet moved between two rounds of questions, so all figures hold at one instant
	Silent []wire.FabricNodeID `json:"no_answer"`
}

// Losses balances the packets of chips. missing are the fabric's other chips. It
// asks the chips in rounds, until no packet has moved between two rounds, or
// until the time wait is over.
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
