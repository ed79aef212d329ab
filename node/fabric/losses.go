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

// Balance says how every packet of a fabric ended, or where the packet is.
type Balance struct {
	losses.Report
	AtRest bool                `json:"at_rest"` // whether no packet moved between two rounds of questions, so that all figures are of the same moment
	Silent []wire.FabricNodeID `json:"no_answer"`
}

// Losses balances the packets of chips. The list "missing" holds the fabric's other
// chips. Losses asks the chips in rounds, until no packet has moved between two rounds,
// or until the time wait is over.
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
