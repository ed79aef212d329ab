package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/bench"
	"ttfabric/node/kernel/guide"
	"ttfabric/node/output/screen"
	"ttfabric/node/traffic"
)

// benchKernels runs the guide's ring programs.
func benchKernels(c *cobra.Command, b *bench.Target, f *benchFlags, format string, run bench.RingRun, s guide.Settings) error {
	bar := screen.NewProgress(c.ErrOrStderr(), "measurements", run.Measurements())
	rows, err := b.Kernels(c.Context(), run, s, bar.Set)
	bar.Stop()
	if err != nil && !cutShort(c, len(rows), run.Measurements(), "measurement") {
		return err
	}
	if err := writeChart(f.plot, bench.KernelChart(rows)); err != nil {
		return err
	}
	if format == "json" {
		return errors.Join(printJSON(c, rows), c.Context().Err())
	}
	tw := newTable(c, "Hops", "Payload B", "Payloads", "p50 µs", "p99 µs", "µs a hop", "Routed p50 µs")
	var orders []string
	for _, r := range rows {
		if o := r.Order(); !slices.Contains(orders, o) {
			orders = append(orders, o)
		}
		routed := "-"
		if r.Routed > 0 {
			routed = us1(r.Routed)
		}
		tw.AppendRow(table.Row{r.Hops, r.Size, r.Batch, us1(r.P50), us1(r.P99), fmt.Sprintf("%.2f", r.PerHop), routed})
	}
	tw.Render()
	fmt.Fprintln(c.OutOrStdout(), strings.Join(orders, "\n"))
	tellStarved(c, rows, func(r bench.RingRow) []traffic.Starved { return r.Starved })
	return c.Context().Err()
}
