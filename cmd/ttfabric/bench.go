package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/chart"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// benchFlags are those of all benchmarks.
type benchFlags struct {
	plane int
	plot  string
}

func newBench() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure a running fabric", Args: cobra.NoArgs,
		Long: `bench runs the microbenchmarks of Tenstorrent's CCL developer guide on a
running fabric that should do nothing else meanwhile: the bandwidth of one link
by packet size and number of channels, the trip of packets round a ring of
chips, and the parts of one link's round trip. --plot draws them.`,
		Example: "  ttfabric bench link --plot link.svg\n  ttfabric bench ring --hops 8,12\n  ttfabric bench rtt M0D0 M0D1"}
	c.AddCommand(newBenchLink(), newBenchRing(), newBenchRTT())
	return c
}

func (f *benchFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.plane, "plane", 0, "routing plane")
	c.Flags().StringVar(&f.plot, "plot", "", "also draw the result as SVG into this `file`")
}

// writeChart writes the chart to a file, if one is named.
func writeChart(path string, c *chart.Chart) error {
	if path == "" {
		return nil
	}
	return folder.WriteOut(path, []byte(c.SVG()))
}

// benchTarget is what a benchmark works on.
type benchTarget struct {
	topo  *topo.Topology
	chips map[wire.FabricNodeID]*api.Client
}

func benchOn(c *cobra.Command, f *benchFlags) (benchTarget, error) {
	if f.plot != "" && !strings.EqualFold(filepath.Ext(f.plot), ".svg") {
		return benchTarget{}, spec.Usagef("--plot %s: plots are drawn as SVG; name a file that ends with .svg", f.plot)
	}
	fab, err := openFabric(c)
	if err != nil {
		return benchTarget{}, err
	}
	t := fab.Topology
	cs, _, err := fab.Clients()
	if err != nil {
		return benchTarget{}, err
	}
	if _, err := planeOf(t, f.plane); err != nil {
		return benchTarget{}, err
	}
	b := benchTarget{t, map[wire.FabricNodeID]*api.Client{}}
	for _, cl := range cs {
		b.chips[cl.Self()] = cl
	}
	return b, nil
}

// neighbours are the two chips of a link: those that are named, or the first two that are cabled.
func (b *benchTarget) neighbours(c *cobra.Command, args []string, plane wire.Plane) (x, y wire.FabricNodeID, err error) {
	if len(args) == 2 {
		if _, x, err = chipArg(c, args[0]); err == nil {
			_, y, err = chipArg(c, args[1])
		}
		if err != nil {
			return x, y, err
		}
	} else {
		if len(b.topo.Cables) == 0 {
			return x, y, fmt.Errorf("%s has no cable to measure", b.topo)
		}
		x, y = b.topo.Cables[0].A.Node, b.topo.Cables[0].B.Node
	}
	for d := range wire.Direction(wire.NumDirections) {
		if n, ok := b.topo.Neighbour(x, d, plane); ok && n == y {
			return x, y, b.running(x, y)
		}
	}
	return x, y, spec.Usagef("%s and %s are not neighbours on plane %d", x, y, plane)
}

func (b *benchTarget) running(ns ...wire.FabricNodeID) error {
	for _, n := range ns {
		if b.chips[n] == nil {
			return fmt.Errorf("chip %s is not running", n)
		}
	}
	return nil
}

// linkRow is one size and number of channels of a link, both directions at once.
type linkRow struct {
	Size     int     `json:"packet_bytes"`
	Channels int     `json:"channels"` // packets under way in each direction
	Gbps     float64 `json:"payload_gigabits_per_second"`
	Wire     float64 `json:"wire_gigabits_per_second"` // with all headers, padding and control frames
	Share    float64 `json:"payload_share"`            // of the bytes on the wire
	Headers  float64 `json:"payload_share_headers"`    // the same with headers and padding alone
	Guide    float64 `json:"payload_share_guide"`      // the same on the guide's link
	Use      float64 `json:"utilisation"`              // of the most that this run put on the wire
}

func newBenchLink() *cobra.Command {
	var f benchFlags
	var sizes, channels []int
	var each time.Duration
	c := &cobra.Command{Use: "link [SRC DST]", Short: "One link's bandwidth by packet size and number of channels, both directions at once", Args: noneOrTwo,
		Long: `link writes packets from each of two neighbours to the other at once, over one
cable and verified, and keeps as many under way in each direction as there are
channels (CCL guide, "Bidirectional Bandwidth"; 30 is the most that the guide uses).

Gb/s is the mean of both directions. Share is how much of what crosses the
cable is payload: the rest is headers, padding, acknowledgements and
completions. Headers is what headers and padding alone would leave, Guide what
the hardware's headers leave, 50 bytes on each packet of 1500 (CCL guide,
"Ethernet Link"). Use is relative to the most that any of the cells put on the
wire. --plot FILE.svg draws the bandwidth, and FILE-utilisation.svg the shares.`,
		Example: "  ttfabric bench link\n  ttfabric bench link M0D0 M0D1 --sizes 64,4096 --channels 8,30 --plot link.svg",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := format(c)
			if err != nil {
				return err
			}
			b, err := benchOn(c, &f)
			if err != nil {
				return err
			}
			x, y, err := b.neighbours(c, args, wire.Plane(f.plane))
			if err != nil {
				return err
			}
			rows, frame, err := b.link(c, x, y, sizes, channels, each)
			if err != nil {
				return err
			}
			if err := errors.Join(writeChart(f.plot, linkChart(x, y, rows)), writeChart(besides(f.plot, "utilisation"), utilisationChart(rows, frame))); err != nil {
				return err
			}
			if format == "json" {
				return printJSON(c, rows)
			}
			tw := newTable(c, "Packet B", "Channels", "Gb/s", "Wire Gb/s", "Share %", "Headers %", "Guide %", "Use %")
			for _, r := range rows {
				tw.AppendRow(table.Row{r.Size, r.Channels, fmt.Sprintf("%.3f", r.Gbps), fmt.Sprintf("%.3f", r.Wire), percent(r.Share), percent(r.Headers), percent(r.Guide), percent(r.Use)})
			}
			tw.Render()
			return nil
		}}
	f.add(c)
	c.Flags().IntSliceVar(&sizes, "sizes", []int{64, 128, 256, 512, 1024, 2048, 4096}, "packet sizes in bytes")
	c.Flags().IntSliceVar(&channels, "channels", []int{1, 2, 4, 8, 16, 30}, "packets under way in each direction")
	c.Flags().DurationVar(&each, "time", 300*time.Millisecond, "of each measurement, about")
	return c
}

func noneOrTwo(_ *cobra.Command, args []string) error {
	if len(args) != 0 && len(args) != 2 {
		return fmt.Errorf("give two neighbours, or nothing for the first two")
	}
	return nil
}

// firstPackets are sent to learn how fast a cell is.
const firstPackets = 2000

func (b *benchTarget) link(c *cobra.Command, x, y wire.FabricNodeID, sizes, channels []int, each time.Duration) (rows []linkRow, frame int, err error) {
	cs := []*api.Client{b.chips[x], b.chips[y]}
	bar := newProgress(c.ErrOrStderr(), "cells", len(sizes)*len(channels))
	defer bar.stop()
	most := 0.0
	for _, n := range channels {
		for _, size := range sizes {
			run := traffic.Spec{Run: fabric.NewRun(), Pattern: "link", Packets: firstPackets, Size: size, Planes: 1, Window: n, Seed: 1}
			if err := run.Validate(); err != nil {
				return nil, 0, spec.AsUsage(err)
			}
			pairs := []traffic.Pair{{Src: x, Dst: y}, {Src: y, Dst: x}}
			var r linkRow
			for range 2 { // once to learn the speed, once to measure
				before, _, err := sentBetween(c.Context(), cs[0], y)
				if err != nil {
					return nil, 0, err
				}
				res, err := fabric.Traffic(c.Context(), cs, run, pairs, nil)
				if err != nil {
					return nil, 0, err
				}
				if !res.OK() {
					return nil, 0, assertf("%d B, %d channels: %d of %d packets delivered", size, n, res.Total.Delivered, run.Packets)
				}
				after, agreed, err := sentBetween(c.Context(), cs[0], y)
				if err != nil {
					return nil, 0, err
				}
				frame = agreed
				seconds := res.Seconds
				payload := float64(res.Total.Bytes) / 2
				r = linkRow{Size: size, Channels: n, Gbps: payload * 8 / seconds / 1e9, Wire: float64(after-before) * 8 / seconds / 1e9}
				r.Share, r.Headers, r.Guide = payload/float64(after-before), headerShare(size, frame), guideShare(size)
				run.Run = fabric.NewRun()
				run.Packets = uint64(max(float64(run.Packets)*each.Seconds()/seconds, firstPackets))
			}
			most = max(most, r.Wire)
			rows = append(rows, r)
			bar.set(len(rows))
		}
	}
	for i := range rows {
		rows[i].Use = rows[i].Wire / most
	}
	return rows, frame, nil
}

// sentBetween is how many bytes a chip has put on its cables to a neighbour, and how many a frame of theirs carries.
func sentBetween(ctx context.Context, cl *api.Client, to wire.FabricNodeID) (n uint64, frame int, err error) {
	v, err := cl.Chip(ctx)
	for _, l := range v.Links {
		if l.Peer == to {
			n += l.Counters["bytes_sent"]
			frame = l.Payload
		}
	}
	return n, frame, err
}
