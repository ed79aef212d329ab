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

// The time between two requests to the chips for their reports of a run is a tenth of the time since
// the run's start, within two limits. A report with the latencies costs a chip about as much processor
// time as 50 packets. Such a report costs the command several times as much. While the run continues,
// most reports therefore have only the counts.
const (
	leastTrafficPoll = 50 * time.Millisecond
	mostTrafficPoll  = 250 * time.Millisecond
	latencyPoll      = time.Second // time between two requests for reports with the latencies
)

// StartTraffic makes chips take part in a run of verified traffic. If send is true, the
// chips send and receive packets. If send is false, the chips only receive packets. The
// owner is a random number of the caller, see [api.TrafficStart].
func StartTraffic(ctx context.Context, cs []*api.Client, owner uint64, spec traffic.Spec, pairs []traffic.Pair, send bool) error {
	return Tell(ctx, cs, 0, func(ctx context.Context, c *api.Client) error {
		return c.StartTraffic(ctx, api.TrafficStart{Spec: spec, Pairs: pairs, Owner: owner, Send: send})
	})
}

// StopTraffic ends the owner's run of verified traffic at the given chips, even if ctx has
// ended. StopTraffic ignores errors, for example of chips that have ended.
func StopTraffic(ctx context.Context, cs []*api.Client, owner uint64) {
	_ = Tell(context.WithoutCancel(ctx), cs, AskTime, func(ctx context.Context, c *api.Client) error { return c.StopTraffic(ctx, owner) })
}

// Traffic runs verified traffic between chips. Traffic first makes all chips receive, and
// then makes all chips send. Then Traffic asks the chips for their reports, until all
// chips that answer have finished. Traffic calls the function "progress", which may be nil,
// with the number of packets delivered so far. If ctx ends first, Traffic asks
// the chips once more, and returns the results so far and an error. Packets under way then count as lost. The result names the chips that were starved during the run.
func Traffic(ctx context.Context, cs []*api.Client, run traffic.Spec, pairs []traffic.Pair, progress func(delivered int)) (traffic.Result, error) {
	starved := StarvedFromNow(ctx, cs)
	res, err := runTraffic(ctx, cs, run, pairs, progress)
	res.Starved = starved.End(ctx)
	return res, err
}

func runTraffic(ctx context.Context, cs []*api.Client, run traffic.Spec, pairs []traffic.Pair, progress func(delivered int)) (traffic.Result, error) {
	owner := random64()
	defer StopTraffic(ctx, cs, owner)
	for _, send := range []bool{false, true} {
		if err := StartTraffic(ctx, cs, owner, run, pairs, send); err != nil {
			return traffic.Result{}, err
		}
	}
	last := map[wire.FabricNodeID]traffic.Report{} // latest report of each chip, also of a chip that has ended
	began := time.Now()
	for whole := began; ; { // whole is the time of the latest reports with the latencies
		ask := (*api.Client).TrafficCounts
		if time.Since(whole) >= latencyPoll {
			ask, whole = (*api.Client).Traffic, time.Now()
		}
		silent, done := collect(ctx, cs, ask, owner, run.Run, last)
		if done { // asks again, because a chip may have received packets after its answer
			silent, done = collect(ctx, cs, (*api.Client).Traffic, owner, run.Run, last)
		}
		res := merge(run, pairs, last, silent)
		if progress != nil {
			progress(int(res.Total.Delivered))
		}
		if done && ctx.Err() == nil { // after the end of ctx, even running chips do not answer, so the result would list them as silent
			return res, nil
		}
		select {
		case <-ctx.Done():
			silent, _ = collect(context.WithoutCancel(ctx), cs, (*api.Client).Traffic, owner, run.Run, last)
			res = merge(run, pairs, last, silent)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return res, spec.NotReadyf("the traffic was not done in time: %d of %d packets were delivered; allow more time with --timeout", res.Total.Delivered, run.Packets)
			}
			return res, ctx.Err()
		case <-time.After(min(max(time.Since(began)/10, leastTrafficPoll), mostTrafficPoll)):
		}
	}
}

// merge returns the result of a run by the latest reports of the chips. The argument "silent" lists the chips
// that did not answer.
func merge(run traffic.Spec, pairs []traffic.Pair, last map[wire.FabricNodeID]traffic.Report, silent []wire.FabricNodeID) traffic.Result {
	reports := slices.SortedFunc(maps.Values(last), func(a, b traffic.Report) int {
		return cmp.Or(cmp.Compare(a.Chip.Mesh, b.Chip.Mesh), cmp.Compare(a.Chip.Chip, b.Chip.Chip))
	})
	res := traffic.Merge(run, pairs, reports)
	res.Silent = silent
	return res
}

// collect asks all chips for their reports of the run, and stores the reports in last. The argument
// "ask" is the client's method that asks for a report. If a report has no latencies, collect keeps the
// latencies of the chip's earlier report. The result "silent" lists the chips that do not answer or do
// not know the run. The result "done" reports whether all other chips have finished.
func collect(ctx context.Context, cs []*api.Client, ask func(c *api.Client, ctx context.Context, owner uint64) (traffic.Report, error), owner, run uint64, last map[wire.FabricNodeID]traffic.Report) (silent []wire.FabricNodeID, done bool) {
	done = true
	for _, a := range Each(ctx, cs, AskTime, func(ctx context.Context, c *api.Client) (traffic.Report, error) { return ask(c, ctx, owner) }) {
		if a.Err != nil || a.Value.Run != run {
			silent = append(silent, a.Chip)
			continue
		}
		for i, before := range last[a.Chip].Source {
			if i < len(a.Value.Source) && a.Value.Source[i].Latency.N == 0 {
				a.Value.Source[i].Latency = before.Latency
			}
		}
		last[a.Chip] = a.Value
		done = done && a.Value.Finished
	}
	slices.SortFunc(silent, func(a, b wire.FabricNodeID) int {
		return cmp.Or(cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(a.Chip, b.Chip))
	})
	return silent, done
}

// TrafficWanted holds a user's options for a run of verified traffic.
type TrafficWanted struct {
	Pattern  string  // a name of traffic.Patterns
	Packets  uint64  // number of packets of the run, split over the pairs of chips
	Size     int     // payload of a packet, in bytes
	Window   int     // largest number of packets that each chip has under way; 0: the default
	Planes   int     // number of routing planes that the packets of a pair of chips use in turn; 0: all planes
	Ways     int     // number of directions round a ring that the packets of a pair of chips use in turn, 1 or traffic.MaxWays; 0: traffic.MaxWays
	Seed     uint64  // seed of the random numbers that choose pairs, the order of destinations, and times
	Load     float64 // packets per second that each sending chip is to send; 0: as many as the window allows
	Hot      string  // chip of the hotspot pattern; "": the first chip
	HotShare int     // percentage of each chip's packets that go to Hot in the hotspot pattern; 0: traffic.DefaultHotShare
}

// TrafficPlan is a run of verified traffic that [Traffic] can carry out.
type TrafficPlan struct {
	Spec  traffic.Spec
	Pairs []traffic.Pair
	Apart int // number of pairs of the pattern that the plan leaves out, because the fabric has no route between the two chips
}

// PlanTraffic plans a run of verified traffic between the fabric's chips. If an option is
// not valid, the error names the option.
func (f *Fabric) PlanTraffic(w TrafficWanted) (p TrafficPlan, err error) {
	w.Ways, w.HotShare = cmp.Or(w.Ways, traffic.MaxWays), cmp.Or(w.HotShare, traffic.DefaultHotShare)
	pattern, err := traffic.PatternByName(w.Pattern)
	if err != nil {
		return p, spec.AsUsage(err)
	}
	routes, err := f.Plan()
	if err != nil {
		return p, err
	}
	planes := max(f.Topology.Planes(), 1)
	if w.Planes > planes {
		return p, spec.Usagef("--planes %d: want at most %d, the planes of %s", w.Planes, planes, f.Topology)
	}
	if w.Planes != 0 {
		planes = w.Planes
	}
	p.Spec = traffic.Spec{Run: random64(), Pattern: pattern.Name, Packets: w.Packets, Size: w.Size, Planes: planes, Ways: w.Ways, Window: w.Window, Seed: w.Seed, Draw: pattern.Draw, Load: w.Load}
	switch {
	case w.Window == 0 && w.Load > 0:
		p.Spec.Window = traffic.MaxWindow
	case w.Window == 0:
		p.Spec.Window = traffic.DefaultWindow
	}
	if w.Ways < 0 {
		return p, spec.Usagef("--ways %d: want 1 or %d", w.Ways, traffic.MaxWays)
	}
	if err := p.Spec.Validate(); err != nil {
		return p, spec.AsUsage(err)
	}
	if w.HotShare < 0 {
		return p, spec.Usagef("--hot-share %d: want 1 to 100", w.HotShare)
	}
	o := traffic.Options{Seed: w.Seed, Hot: f.Topology.Chips[0].Node, HotShare: w.HotShare, Ways: routes.WaysBetween,
		Planes: func(src, dst wire.FabricNodeID) int {
			n := routes.PlanesBetween(src, dst)
			if n == 0 {
				p.Apart++
			}
			return n
		}}
	if w.Hot != "" {
		if o.Hot, err = wire.ParseFabricNodeID(w.Hot); err != nil {
			return p, spec.Usagef("--hot: %w", err)
		}
		if _, there := f.Topology.Chip(o.Hot); !there {
			return p, spec.Usagef("--hot: chip %s is not in the topology %s", o.Hot, f.Topology)
		}
	}
	p.Pairs, err = pattern.Pairs(f.Topology, o)
	return p, spec.AsUsage(err)
}

// NewRun returns a random number that names a run of verified traffic.
func NewRun() uint64 { return random64() }
