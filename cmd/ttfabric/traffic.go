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
)

type trafficFlags struct {
	fabric.TrafficWanted
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
	fl.Uint64Var(&f.Packets, "packets", 10000, "packets in all, split over the pairs: evenly, but for hotspot")
	fl.IntVar(&f.Size, "size", 4096, "bytes of a packet")
	fl.IntVar(&f.Window, "window", 0, fmt.Sprintf("packets that each chip keeps outstanding (0: %d, or with --load %d)", traffic.DefaultWindow, traffic.MaxWindow))
	fl.IntVar(&f.Planes, "planes", 0, "routing planes to use in turn (0: all); a pair takes those of them that lead from the one chip to the other")
	fl.IntVar(&f.Ways, "ways", traffic.MaxWays, "ways round a ring that the packets of a pair take in turn where both are equally long: 2, or 1")
	fl.Uint64Var(&f.Seed, "seed", 1, "of the order of destinations, of arrivals and of random pairs")
	fl.Float64Var(&f.Load, "load", 0, fmt.Sprintf("packets per second that arrive at each sending chip, %v to %.0f (0: as fast as the window allows)", traffic.MinLoad, float64(traffic.MaxLoad)))
	fl.StringVar(&f.Hot, "hot", "", "chip of the hotspot pattern, such as M0D5 (default: the first)")
	fl.IntVar(&f.HotShare, "hot-share", traffic.DefaultHotShare, "percent of each chip's packets that the hotspot pattern sends there")
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
	if _, err := traffic.PatternByName(name); err != nil {
		return spec.AsUsage(err)
	}
	fab, err := openFabric(c)
	if err != nil {
		return err
	}
	f.Pattern = name
	plan, err := fab.PlanTraffic(f.TrafficWanted)
	if err != nil {
		return err
	}
	cs, missing, err := fab.Clients()
	if err != nil {
		return err
	}
	if plan.Apart > 0 {
		fmt.Fprintf(c.ErrOrStderr(), leftOut, topo.Count(plan.Apart, "pair"))
	}
	if len(missing) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "not running, their packets will be missing: %v\n", missing)
	}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	bar := newProgress(c.ErrOrStderr(), "packets verified", int(plan.Spec.Packets))
	res, err := fabric.Traffic(ctx, cs, plan.Spec, plan.Pairs, bar.set)
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
			res.Total.Sent, plan.Spec.Packets, res.Total.Overflowed, res.Total.Delivered, res.Total.Lost, res.Total.Failed, res.Total.Duplicated, res.Total.Corrupted, res.Total.Reordered, res.Misdirected)
	}
	return nil
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
