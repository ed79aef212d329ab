package main

import (
	"context"
	"fmt"

	"ttfabric/node/admin/api"
	"ttfabric/node/scenario"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// gossip does to a chip's gossip what an action says.
func (g *liveStage) gossip(ctx context.Context, n wire.FabricNodeID, a *scenario.Action) error {
	cl := g.chips.clients[n]
	if cl == nil {
		return fmt.Errorf("chip %s is not running", n)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	what := a.Step.Gossip
	b := api.GossipBody{Options: fault.Change{}, Cut: what.Down, ForS: a.For.Seconds()}
	if what.Delay > 0 {
		b.Options["delay"] = what.Delay.String()
	}
	if what.Loss != "" {
		b.Options["loss"] = what.Loss
	}
	if len(b.Options) == 0 && !b.Cut {
		return cl.HealGossip(ctx, true)
	}
	return cl.SetGossip(ctx, b)
}
