package fabric

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// trafficPoll is how often the chips of a run are asked how far they are.
const trafficPoll = 100 * time.Millisecond

// StartTraffic has chips take part in a run: with send they speak, else they listen only.
func StartTraffic(ctx context.Context, cs []*api.Client, spec traffic.Spec, pairs []traffic.Pair, send bool) error {
	return Tell(ctx, cs, 0, func(ctx context.Context, c *api.Client) error {
		return c.StartTraffic(ctx, api.TrafficStart{Spec: spec, Pairs: pairs, Send: send})
	})
}

// StopTraffic ends a run, also where ctx has ended. A chip that died has nothing to stop.
func StopTraffic(ctx context.Context, cs []*api.Client) {
	_ = Tell(context.WithoutCancel(ctx), cs, AskTime, func(ctx context.Context, c *api.Client) error { return c.StopTraffic(ctx) })
}

// Traffic runs verified traffic between chips: all chips listen, then all speak,
// then all are asked until they are done. progress, if not nil, is told how many
// packets have been delivered. Where ctx ends first, the result is what is known so far.
func Traffic(ctx context.Context, cs []*api.Client, run traffic.Spec, pairs []traffic.Pair, progress func(delivered int)) (traffic.Result, error) {
	for _, send := range []bool{false, true} {
		if err := StartTraffic(ctx, cs, run, pairs, send); err != nil {
			return traffic.Result{}, err
		}
	}
	defer StopTraffic(ctx, cs)
	last := map[wire.FabricNodeID]traffic.Report{} // of a chip that dies, what it said last
	for {
		silent, done := collect(ctx, cs, run.Run, last)
		if done { // the last to finish may have sent to one that had been asked before
			silent, done = collect(ctx, cs, run.Run, last)
		}
		reports := slices.SortedFunc(maps.Values(last), func(a, b traffic.Report) int {
			return cmp.Or(cmp.Compare(a.Chip.Mesh, b.Chip.Mesh), cmp.Compare(a.Chip.Chip, b.Chip.Chip))
		})
		res := traffic.Merge(run, pairs, reports)
		res.Silent = silent
		if progress != nil {
			progress(int(res.Total.Delivered))
		}
		if done && ctx.Err() == nil { // chips that nobody may ask any more have not died
			return res, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return res, spec.NotReadyf("not done in time: %d of %d packets delivered; more time with --timeout", res.Total.Delivered, run.Packets)
			}
			return res, ctx.Err()
		case <-time.After(trafficPoll):
		}
	}
}

// collect asks all chips for their reports of the run. It is done when all
// have finished but those that do not answer, or know nothing of the run any more.
func collect(ctx context.Context, cs []*api.Client, run uint64, last map[wire.FabricNodeID]traffic.Report) (silent []wire.FabricNodeID, done bool) {
	done = true
	for _, a := range Each(ctx, cs, AskTime, func(ctx context.Context, c *api.Client) (traffic.Report, error) { return c.Traffic(ctx) }) {
		if a.Err != nil || a.Value.Run != run {
			silent = append(silent, a.Chip)
			continue
		}
		last[a.Chip] = a.Value
		done = done && a.Value.Finished
	}
	slices.SortFunc(silent, func(a, b wire.FabricNodeID) int {
		return cmp.Or(cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(a.Chip, b.Chip))
	})
	return silent, done
}

// NewRun draws the number of a run of traffic.
func NewRun() uint64 { return random64() }
