package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/chart"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/figures"
	"ttfabric/node/kernel/guide"
	"ttfabric/node/session"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// kernelRow holds the times of trips round a ring of kernels, for one length of the trip and one size of
// the payload, with the times of a routed packet.
type kernelRow struct {
	Hops    int               `json:"hops"`                              // number of hops of a trip
	Size    int               `json:"payload_bytes"`                     // length of the payload in bytes
	P50     float64           `json:"trip_p50_microseconds"`             // median time of a trip, in microseconds
	P99     float64           `json:"trip_p99_microseconds"`             // 99th percentile of the time of a trip, in microseconds
	PerHop  float64           `json:"per_hop_microseconds"`              // median time of a trip, divided by Hops
	Routed  float64           `json:"routed_p50_microseconds,omitempty"` // median time of the trip of a routed packet of the same size, in microseconds; 0: the mesh has no such route
	Starved []traffic.Starved `json:"starved,omitempty"`                 // chips that were starved during the measurement, of those that took part
}

// benchKernels runs the guide's ring programs.
func benchKernels(c *cobra.Command, b *benchTarget, f *benchFlags, format string, hops, sizes []int, rounds int) error {
	fab, err := openFabric(c)
	if err != nil {
		return err
	}
	var rows []kernelRow
	bar := newProgress(c.ErrOrStderr(), "measurements", len(hops)*len(sizes))
	for _, h := range hops {
		order, err := guide.Order(b.topo, h)
		if err != nil {
			bar.stop()
			return spec.Usagef("--hops %d: %w", h, err)
		}
		for _, size := range sizes {
			r, err := b.kernelRing(c.Context(), fab, order, size, rounds)
			if err != nil {
				bar.stop()
				return fmt.Errorf("ring of %d hops, %d bytes: %w", h, size, err)
			}
			rows = append(rows, r)
			bar.set(len(rows))
		}
	}
	bar.stop()
	if err := writeChart(f.plot, kernelChart(rows)); err != nil {
		return err
	}
	if format == "json" {
		return printJSON(c, rows)
	}
	tw := newTable(c, "Hops", "Payload B", "p50 µs", "p99 µs", "µs a hop", "Routed p50 µs")
	for _, r := range rows {
		routed := "-"
		if r.Routed > 0 {
			routed = us1(r.Routed)
		}
		tw.AppendRow(table.Row{r.Hops, r.Size, us1(r.P50), us1(r.P99), fmt.Sprintf("%.2f", r.PerHop), routed})
	}
	tw.Render()
	tellStarved(c, rows, func(r kernelRow) []traffic.Starved { return r.Starved })
	return nil
}

// kernelRing runs one ring, and reads its times from the memory of the master.
func (b *benchTarget) kernelRing(ctx context.Context, fab *fabric.Fabric, order []wire.FabricNodeID, size, rounds int) (r kernelRow, err error) {
	ring, err := guide.New(b.topo, fabric.NewJobID(), order, guide.Settings{Samples: rounds, Size: size})
	if err != nil {
		return r, spec.Usagef("%w", err)
	}
	if err := b.running(order...); err != nil {
		return r, err
	}
	starved := b.starvedFromNow(ctx, order...)
	if err := fab.RunJob(ctx, ring.Parts); err != nil {
		return r, err
	}
	bytes := make([]byte, 4*ring.Samples)
	if err := session.New(b.chips[ring.Master]).Read(ctx, ring.Master, ring.Results, bytes); err != nil {
		return r, err
	}
	r = kernelRow{Hops: len(order), Size: size, Starved: starved.End(ctx)}
	var ns []int64
	for _, t := range guide.Trips(bytes) {
		ns = append(ns, t.Nanoseconds())
	}
	r.P50, r.P99 = figures.Percentiles(ns)
	r.PerHop = r.P50 / float64(r.Hops)
	if via, err := figures.RingPath(b.topo, 0, r.Hops); err == nil && size <= wire.MaxPayload {
		first := b.topo.Chips[0].Node
		res, err := b.chips[first].Bench(ctx, api.BenchBody{Dst: first, Via: via, Size: size, Batch: 1, Rounds: rounds})
		if err != nil {
			return r, err
		}
		r.Routed, _ = figures.Percentiles(res.Nanos)
	}
	return r, nil
}

// kernelChart draws the times by size of the payload, a line for each number of hops.
func kernelChart(rows []kernelRow) *chart.Chart {
	c := &chart.Chart{Title: "The guide's ring of kernels", X: "payload, bytes", Y: "trip, median, µs", LogX: true}
	for i, r := range rows {
		if i == 0 || rows[i-1].Hops != r.Hops {
			c.Lines = append(c.Lines, chart.Line{Name: fmt.Sprintf("%d hops", r.Hops)})
		}
		l := &c.Lines[len(c.Lines)-1]
		l.X, l.Y = append(l.X, float64(r.Size)), append(l.Y, r.P50)
	}
	return c
}
