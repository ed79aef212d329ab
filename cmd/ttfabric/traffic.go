package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

type trafficFlags struct {
	packets uint64
	size    int
	window  int
	planes  int
	ways    int
	seed    uint64
	load    float64
	hot     string
	share   int
	timeout time.Duration
	pairs   bool
}

// leftOut tells of pairs that the tables of a fabric, 1D or without exits on a plane, have no way for.
const leftOut = "Left out: %s without a way in this fabric.\n"

func newTraffic() *cobra.Command {
	var f trafficFlags
	var names []string
	for _, p := range traffic.Patterns {
		names = append(names, p.Name)
	}
	c := &cobra.Command{
		Use: "traffic PATTERN", Short: "Send verified data between chips", Args: cobra.ExactArgs(1), ValidArgs: names,
		Long: `traffic lets the chips send patterned data to each other's memory, verifies
every byte at its destination, and counts what was lost, duplicated, corrupted
or reordered. It runs inside the chips; this command steers and collects.

Patterns:
` + patternHelp() + `
From uniform on they are those of the literature, as BookSim defines them. A
chip that is its own destination sends nothing; a pattern that the machine
cannot have, such as shuffle on 3×4 chips, is refused. Pairs that the fabric
has no way for, as a 1D fabric has none between its lines, are left out.

Chips opposite each other on a ring of even length are as far both ways round: a
pair's packets take both in turn, so that cables carry no more than they need, and
order is looked at on each. --ways 1 sends all of a pair the same way.

Latency is from a packet's request to the arrival of its completion at its
source. Without --load every chip sends as fast as its window allows. With
--load packets arrive at each sending chip at random times, so many a second on
average, and latency is from there: it holds what a packet waits for others.
The most that wait at a chip are ` + fmt.Sprint(traffic.MaxQueue) + `; what arrives beyond is not sent, and
counted. "Offered" is what arrives, "accepted" what is delivered, per second.

Exit code 5 unless everything arrived exactly once, whole and in order.`,
		Example: "  ttfabric traffic all-to-all\n  ttfabric traffic random-pairs --packets 1000000 --size 64\n  ttfabric traffic all-to-all --pairs -o json\n  ttfabric traffic uniform --load 2000 --size 64\n  ttfabric traffic hotspot --hot M0D5 --hot-share 30",
		RunE:    func(c *cobra.Command, args []string) error { return runTraffic(c, args[0], f) },
	}
	fl := c.Flags()
	fl.Uint64Var(&f.packets, "packets", 10000, "packets in all, split over the pairs: evenly, but for hotspot")
	fl.IntVar(&f.size, "size", 4096, "bytes of a packet")
	fl.IntVar(&f.window, "window", 0, fmt.Sprintf("packets that each chip keeps outstanding (0: %d, or with --load %d)", traffic.DefaultWindow, traffic.MaxWindow))
	fl.IntVar(&f.planes, "planes", 0, "routing planes to use in turn (0: all); a pair takes those of them that lead from the one chip to the other")
	fl.IntVar(&f.ways, "ways", traffic.MaxWays, "ways round a ring that the packets of a pair take in turn where both are equally long: 2, or 1")
	fl.Uint64Var(&f.seed, "seed", 1, "of the order of destinations, of arrivals and of random pairs")
	fl.Float64Var(&f.load, "load", 0, fmt.Sprintf("packets per second that arrive at each sending chip, %v to %.0f (0: as fast as the window allows)", traffic.MinLoad, float64(traffic.MaxLoad)))
	fl.StringVar(&f.hot, "hot", "", "chip of the hotspot pattern, such as M0D5 (default: the first)")
	fl.IntVar(&f.share, "hot-share", traffic.DefaultHotShare, "percent of each chip's packets that the hotspot pattern sends there")
	fl.DurationVar(&f.timeout, "timeout", 10*time.Minute, "give up after this time")
	fl.BoolVar(&f.pairs, "pairs", false, "show every pair, not only the worst")
	return c
}

func patternHelp() string {
	var b strings.Builder
	for _, p := range traffic.Patterns {
		fmt.Fprintf(&b, "  %-19s %s", p.Name, p.Help)
		if len(p.Aliases) > 0 {
			fmt.Fprintf(&b, " (also %s)", strings.Join(p.Aliases, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func runTraffic(c *cobra.Command, name string, f trafficFlags) error {
	format, err := format(c)
	if err != nil {
		return err
	}
	p, err := traffic.PatternByName(name)
	if err != nil {
		return coded(exitUsage, "%w", err)
	}
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	cs, missing, t, err := dir.clients()
	if err != nil {
		return err
	}
	routes, err := routesOf(dir, t)
	if err != nil {
		return err
	}
	apart := 0
	spec, pairs, err := f.plan(p, t, func(src, dst wire.FabricNodeID) int {
		n := routes.PlanesBetween(src, dst)
		if n == 0 {
			apart++
		}
		return n
	}, routes.WaysBetween)
	if err != nil {
		return err
	}
	if apart > 0 {
		fmt.Fprintf(c.ErrOrStderr(), leftOut, counted(apart, "pair"))
	}
	if len(missing) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "not running, their packets will be missing: %v\n", missing)
	}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	bar := newProgress(c.ErrOrStderr(), "packets verified", int(spec.Packets))
	res, err := drive(ctx, cs, spec, pairs, bar)
	bar.stop()
	if err != nil {
		return err
	}
	if format == "json" {
		if err := printJSON(c, res); err != nil {
			return err
		}
	} else {
		printTraffic(c, res, f.pairs)
	}
	if !res.OK() {
		return coded(exitAssert, "not everything arrived exactly once: sent %d of %d, overflowed %d, delivered %d, lost %d, failed %d, duplicated %d, corrupted %d, reordered %d, misdirected %d",
			res.Total.Sent, spec.Packets, res.Total.Overflowed, res.Total.Delivered, res.Total.Lost, res.Total.Failed, res.Total.Duplicated, res.Total.Corrupted, res.Total.Reordered, res.Misdirected)
	}
	return nil
}

// plan is the run that the flags ask for; between and ways are [traffic.Options].Planes and Ways.
func (f *trafficFlags) plan(p traffic.Pattern, t *topo.Topology, between, ways func(src, dst wire.FabricNodeID) int) (traffic.Spec, []traffic.Pair, error) {
	planes := max(t.Planes(), 1)
	if f.planes > planes {
		return traffic.Spec{}, nil, coded(exitUsage, "--planes %d: %s", f.planes, t)
	}
	if f.planes != 0 {
		planes = f.planes
	}
	spec := traffic.Spec{Run: random64(), Pattern: p.Name, Packets: f.packets, Size: f.size, Planes: planes, Ways: f.ways, Window: f.window, Seed: f.seed, Draw: p.Draw, Load: f.load}
	switch {
	case f.window == 0 && f.load > 0:
		spec.Window = traffic.MaxWindow
	case f.window == 0:
		spec.Window = traffic.DefaultWindow
	}
	if f.ways < 1 {
		return spec, nil, coded(exitUsage, "--ways %d: want 1 or %d", f.ways, traffic.MaxWays)
	}
	if err := spec.Validate(); err != nil {
		return spec, nil, coded(exitUsage, "%w", err)
	}
	o := traffic.Options{Seed: f.seed, Hot: t.Chips[0].Node, HotShare: f.share, Planes: between, Ways: ways}
	if f.share < 1 {
		return spec, nil, coded(exitUsage, "--hot-share %d: want 1 to 100", f.share)
	}
	if f.hot != "" {
		var err error
		if o.Hot, err = wire.ParseFabricNodeID(f.hot); err != nil {
			return spec, nil, coded(exitUsage, "--hot: %w", err)
		}
	}
	pairs, err := p.Pairs(t, o)
	if err != nil {
		return spec, nil, coded(exitUsage, "%w", err)
	}
	return spec, pairs, nil
}

func random64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// each calls f for every chip at once and joins the errors.
func each(cs []*api.Client, f func(*api.Client) error) error {
	errs := make([]error, len(cs))
	var wg sync.WaitGroup
	for i, c := range cs {
		wg.Go(func() { errs[i] = f(c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// drive runs the traffic: all chips listen, then all speak, then all are asked until they are done. bar may be nil.
func drive(ctx context.Context, cs []*api.Client, spec traffic.Spec, pairs []traffic.Pair, bar *progress) (traffic.Result, error) {
	for _, send := range []bool{false, true} {
		if err := each(cs, func(cl *api.Client) error {
			return cl.StartTraffic(ctx, api.TrafficStart{Spec: spec, Pairs: pairs, Send: send})
		}); err != nil {
			return traffic.Result{}, err
		}
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), askTime)
		defer cancel()
		_ = each(cs, func(cl *api.Client) error { return cl.StopTraffic(stop) }) // a chip that died has nothing to stop
	}()
	last := map[wire.FabricNodeID]traffic.Report{} // of a chip that dies, what it said last
	for {
		silent, done := collect(ctx, cs, spec.Run, last)
		if done { // the last to finish may have sent to one that had been asked before
			silent, done = collect(ctx, cs, spec.Run, last)
		}
		reports := slices.SortedFunc(maps.Values(last), func(a, b traffic.Report) int {
			return cmp.Or(cmp.Compare(a.Chip.Mesh, b.Chip.Mesh), cmp.Compare(a.Chip.Chip, b.Chip.Chip))
		})
		res := traffic.Merge(spec, pairs, reports)
		res.Silent = silent
		if bar != nil {
			bar.set(int(res.Total.Delivered))
		}
		if done && ctx.Err() == nil { // chips that nobody may ask any more have not died
			return res, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return res, coded(exitNotReady, "not done in time: %d of %d packets delivered; more time with --timeout", res.Total.Delivered, spec.Packets)
			}
			return res, ctx.Err()
		case <-time.After(pollTime):
		}
	}
}

// pollTime is how often the chips of a run are asked how far they are.
const pollTime = 100 * time.Millisecond

// collect asks all chips for their reports of the run. It is done when all
// have finished but those that don't answer, or know nothing of the run any more.
func collect(ctx context.Context, cs []*api.Client, run uint64, last map[wire.FabricNodeID]traffic.Report) (silent []wire.FabricNodeID, done bool) {
	var mu sync.Mutex
	done = true
	_ = each(cs, func(cl *api.Client) error {
		one, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		r, err := cl.Traffic(one)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || r.Run != run {
			silent = append(silent, cl.Self())
			return err
		}
		last[cl.Self()] = r
		done = done && r.Finished
		return nil
	})
	slices.SortFunc(silent, func(a, b wire.FabricNodeID) int {
		return cmp.Or(cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(a.Chip, b.Chip))
	})
	return silent, done
}

// worstPairs is how many pairs are shown without --pairs.
const worstPairs = 5

func printTraffic(c *cobra.Command, res traffic.Result, all bool) {
	rows := append([]traffic.Row(nil), res.Rows...)
	if !all && len(rows) > worstPairs {
		sort.SliceStable(rows, func(i, j int) bool {
			bad := func(r traffic.Row) uint64 { return r.Lost + r.Duplicated + r.Corrupted + r.Reordered + r.Failed }
			if bad(rows[i]) != bad(rows[j]) {
				return bad(rows[i]) > bad(rows[j])
			}
			return rows[i].P99 > rows[j].P99
		})
		rows = rows[:worstPairs]
		fmt.Fprintf(c.ErrOrStderr(), "The %d worst of %d pairs; --pairs shows all.\n", worstPairs, len(res.Rows))
	}
	head := []any{"Src", "Dst", "Sent", "Delivered", "Lost", "Duplicated", "Corrupted", "Reordered", "Failed", "Gb/s", "p50 µs", "p99 µs"}
	if res.Spec.Load > 0 {
		head = append(head, "Offered/s", "Accepted/s", "Overflowed")
	}
	tw := newTable(c, head...)
	row := func(src, dst any, r traffic.Row) table.Row {
		out := table.Row{src, dst, r.Sent, r.Delivered, r.Lost, r.Duplicated, r.Corrupted, r.Reordered, r.Failed,
			fmt.Sprintf("%.3f", r.Gbps), fmt.Sprintf("%.0f", r.P50), fmt.Sprintf("%.0f", r.P99)}
		if res.Spec.Load > 0 {
			out = append(out, fmt.Sprintf("%.0f", r.OfferedRate), fmt.Sprintf("%.0f", r.AcceptedRate), r.Overflowed)
		}
		return out
	}
	for _, r := range rows {
		tw.AppendRow(row(r.Src, r.Dst, r))
	}
	tw.AppendFooter(row("all", fmt.Sprintf("%d pairs", len(res.Rows)), res.Total))
	tw.Render()
	if len(res.Silent) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "Died or started anew under way: %v; of them the figures are the last that they gave.\n", res.Silent)
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %d packets of %d bytes in %.2f s\n", res.Spec.Pattern, res.Total.Delivered, res.Spec.Size, res.Seconds)
}
