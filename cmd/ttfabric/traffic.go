package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
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
		return spec.Usagef("%w", err)
	}
	fab, err := openFabric(c)
	if err != nil {
		return err
	}
	t := fab.Topology
	cs, missing, err := fab.Clients()
	if err != nil {
		return err
	}
	routes, err := fab.Plan()
	if err != nil {
		return err
	}
	apart := 0
	run, pairs, err := f.plan(p, t, func(src, dst wire.FabricNodeID) int {
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
		fmt.Fprintf(c.ErrOrStderr(), leftOut, topo.Count(apart, "pair"))
	}
	if len(missing) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "not running, their packets will be missing: %v\n", missing)
	}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	bar := newProgress(c.ErrOrStderr(), "packets verified", int(run.Packets))
	res, err := fabric.Traffic(ctx, cs, run, pairs, bar.set)
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
		return assertf("not everything arrived exactly once: sent %d of %d, overflowed %d, delivered %d, lost %d, failed %d, duplicated %d, corrupted %d, reordered %d, misdirected %d",
			res.Total.Sent, run.Packets, res.Total.Overflowed, res.Total.Delivered, res.Total.Lost, res.Total.Failed, res.Total.Duplicated, res.Total.Corrupted, res.Total.Reordered, res.Misdirected)
	}
	return nil
}

// plan is the run that the flags ask for; between and ways are [traffic.Options].Planes and Ways.
func (f *trafficFlags) plan(p traffic.Pattern, t *topo.Topology, between, ways func(src, dst wire.FabricNodeID) int) (traffic.Spec, []traffic.Pair, error) {
	planes := max(t.Planes(), 1)
	if f.planes > planes {
		return traffic.Spec{}, nil, spec.Usagef("--planes %d: %s", f.planes, t)
	}
	if f.planes != 0 {
		planes = f.planes
	}
	run := traffic.Spec{Run: fabric.NewRun(), Pattern: p.Name, Packets: f.packets, Size: f.size, Planes: planes, Ways: f.ways, Window: f.window, Seed: f.seed, Draw: p.Draw, Load: f.load}
	switch {
	case f.window == 0 && f.load > 0:
		run.Window = traffic.MaxWindow
	case f.window == 0:
		run.Window = traffic.DefaultWindow
	}
	if f.ways < 1 {
		return run, nil, spec.Usagef("--ways %d: want 1 or %d", f.ways, traffic.MaxWays)
	}
	if err := run.Validate(); err != nil {
		return run, nil, spec.Usagef("%w", err)
	}
	o := traffic.Options{Seed: f.seed, Hot: t.Chips[0].Node, HotShare: f.share, Planes: between, Ways: ways}
	if f.share < 1 {
		return run, nil, spec.Usagef("--hot-share %d: want 1 to 100", f.share)
	}
	if f.hot != "" {
		var err error
		if o.Hot, err = wire.ParseFabricNodeID(f.hot); err != nil {
			return run, nil, spec.Usagef("--hot: %w", err)
		}
	}
	pairs, err := p.Pairs(t, o)
	if err != nil {
		return run, nil, spec.Usagef("%w", err)
	}
	return run, pairs, nil
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
