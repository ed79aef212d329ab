package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
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
		Long: `The command lets the chips send patterned data to each other's memory. The chips
verify every byte at its destination, and count lost, duplicated, corrupted and
reordered packets. The traffic runs inside the chips. The command starts the traffic
and collects the results.

Patterns:
` + patternHelp() + `
The pattern uniform, and the patterns below uniform, come from the literature, with
the definitions of BookSim. A chip that is its own destination sends nothing. The
command refuses a pattern that the topology cannot have, such as shuffle on 3×4
chips. The command leaves out pairs without a route. A 1D fabric, for example, has
no route between its lines.

Two chips opposite each other on a ring of even length have two routes of equal
length. The packets of such a pair take both routes in turn. So the load spreads
over the cables. The chips check the order of the packets of each route separately.
With --ways 1, all packets of a pair take the same route.

The latency of a packet is the time from the packet's request until the packet's
completion arrives at the source. Without --load, every chip sends as fast as its
window allows. With --load, each sending chip gets, at random times, a new packet to
send: an arrival. The value of --load is the average number of arrivals per second at
each chip. The latency then begins at the arrival, and includes the packet's waiting time.
At most ` + fmt.Sprint(traffic.MaxQueue) + ` packets wait at a chip. The chip counts further arrivals as
overflowed and does not send these packets. The column Offered/s is the rate of
arrivals, and the column Accepted/s is the rate of deliveries.

If the process of a chip waited for a processor, or was stopped, for at least 100 ms
during the run, the chip was starved. Latencies and rates then do not show what the
fabric can do. The command names these chips.

After Ctrl-C, and after the time of --timeout, the command prints the results so far.
Packets that were under way then count as lost.

Exit code 5 unless every packet arrived exactly once, whole and in order.`,
		Example: "  ttfabric traffic all-to-all\n  ttfabric traffic random-pairs --packets 1000000 --size 64\n  ttfabric traffic all-to-all --pairs -o json\n  ttfabric traffic uniform --load 2000 --size 64\n  ttfabric traffic hotspot --hot M0D5 --hot-share 30",
		RunE:    func(c *cobra.Command, args []string) error { return runTraffic(c, args[0], f) },
	}
	fl := c.Flags()
	fl.Uint64Var(&f.Packets, "packets", 10000, "total number of packets; all pairs get equal shares, except with hotspot")
	fl.IntVar(&f.Size, "size", 4096, "bytes of a packet")
	fl.IntVar(&f.Window, "window", 0, fmt.Sprintf("window: number of packets that each chip keeps outstanding (0: %d, or with --load %d)", traffic.DefaultWindow, traffic.MaxWindow))
	fl.IntVar(&f.Planes, "planes", 0, "number of routing planes that packets use in turn (0: all); a pair uses only planes on which it has a route")
	fl.IntVar(&f.Ways, "ways", traffic.MaxWays, "2: packets of a pair take two equally long routes round a ring in turn; 1: all packets of a pair take the same route")
	fl.Uint64Var(&f.Seed, "seed", 1, "seed of all random choices: the order of destinations, arrivals and random pairs")
	fl.Float64Var(&f.Load, "load", 0, fmt.Sprintf("average number of packets per second that each sending chip gets to send, %v to %.0f; the packets come at random times (0: each chip sends as fast as its window allows)", traffic.MinLoad, float64(traffic.MaxLoad)))
	fl.StringVar(&f.Hot, "hot", "", "hot chip of the hotspot pattern, such as M0D5 (default: the first chip)")
	fl.IntVar(&f.HotShare, "hot-share", traffic.DefaultHotShare, "percentage of each chip's packets that the hotspot pattern sends to the hot chip")
	fl.DurationVar(&f.timeout, "timeout", 10*time.Minute, "give up after this time")
	fl.BoolVar(&f.pairs, "pairs", false, "show every pair, not only the worst pairs")
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
	if f.Ways < 1 {
		return spec.Usagef("--ways %d: want 1 or %d", f.Ways, traffic.MaxWays)
	}
	if f.HotShare < 1 {
		return spec.Usagef("--hot-share %d: want 1 to 100", f.HotShare)
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
		fmt.Fprintf(c.ErrOrStderr(), "these chips are not running, and the packets of these chips will be missing: %v\n", missing)
	}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	bar := screen.NewProgress(c.ErrOrStderr(), "packets verified", int(plan.Spec.Packets))
	res, err := fabric.Traffic(ctx, cs, plan.Spec, plan.Pairs, bar.Set)
	bar.Stop()
	late := ctx.Err() != nil
	if late && len(res.Rows) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "The run was not complete: %d of %d packets were delivered. Lost packets include packets that were under way.\n", res.Total.Delivered, plan.Spec.Packets)
	}
	switch {
	case len(res.Rows) == 0 || err != nil && !late:
	case format == "json":
		err = errors.Join(err, printJSON(c, res))
	default:
		printTraffic(c, res, f.pairs)
	}
	tellStarved(c, []traffic.Result{res}, func(r traffic.Result) []traffic.Starved { return r.Starved })
	if err != nil {
		return err
	}
	if !res.OK() {
		return assertf("not every packet arrived exactly once, whole and in order: sent %d of %d, overflowed %d, delivered %d, lost %d, failed %d, duplicated %d, corrupted %d, reordered %d, misdirected %d",
			res.Total.Sent, plan.Spec.Packets, res.Total.Overflowed, res.Total.Delivered, res.Total.Lost, res.Total.Failed, res.Total.Duplicated, res.Total.Corrupted, res.Total.Reordered, res.Misdirected)
	}
	return nil
}

// worstPairs is the number of pairs that the command shows without --pairs.
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
	tw.Least("Overflowed", "Offered/s", "Reordered", "Corrupted", "Duplicated", "Failed", "Accepted/s", "p99 µs", "Sent", "Gb/s")
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
		fmt.Fprintf(c.ErrOrStderr(), "These chips ended or restarted during the run: %v. The table holds the last figures that they gave.\n", res.Silent)
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: %d packets of %d bytes in %.2f s\n", res.Spec.Pattern, res.Total.Delivered, res.Spec.Size, res.Seconds)
}
