package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/chart"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/figures"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// benchFlags are the flags that all benchmarks have.
type benchFlags struct {
	plane int
	plot  string
}

func newBench() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure a running fabric", Args: cobra.NoArgs,
		Long: `The commands below bench run the microbenchmarks of Tenstorrent's CCL developer
guide on a running fabric. The fabric should carry no other traffic meanwhile.

'bench link' measures the bandwidth of one link by packet size and number of
packets under way. 'bench ring' times packets round a ring of chips. 'bench rtt'
times the parts of one link's round trip. --plot draws the results.

If the process of a chip waited for a processor, or was stopped, for at least 100 ms
during a measurement, the chip was starved, and the measurement says little about the
fabric. The commands name these chips.`,
		Example: "  ttfabric bench link --plot link.svg\n  ttfabric bench ring --hops 8,12\n  ttfabric bench rtt M0D0 M0D1"}
	c.AddCommand(newBenchLink(), newBenchRing(), newBenchRTT())
	return c
}

func (f *benchFlags) add(c *cobra.Command) {
	c.Flags().IntVar(&f.plane, "plane", 0, "routing plane")
	c.Flags().StringVar(&f.plot, "plot", "", "also draw the results into this SVG `file`")
}

// writeChart writes the chart to the file at path. If path is empty, writeChart does nothing.
func writeChart(path string, c *chart.Chart) error {
	if path == "" {
		return nil
	}
	return folder.WriteOut(path, []byte(c.SVG()))
}

// benchTarget is the topology and the running chips that a benchmark uses.
type benchTarget struct {
	topo  *topo.Topology
	chips map[wire.FabricNodeID]*api.Client
}

func benchOn(c *cobra.Command, f *benchFlags) (benchTarget, error) {
	if f.plot != "" && !strings.EqualFold(filepath.Ext(f.plot), ".svg") {
		return benchTarget{}, spec.Usagef("--plot %s: plots are drawn as SVG; want a file name that ends with .svg", f.plot)
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

// neighbours returns the two chips in args. If args is empty, neighbours returns the
// chips at the ends of the topology's first cable. If no cable of the plane joins the two
// chips, or if one of them is not running, neighbours returns an error.
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
			return x, y, fmt.Errorf("%s has no cable to measure; want a topology with at least one cable", b.topo)
		}
		x, y = b.topo.Cables[0].A.Node, b.topo.Cables[0].B.Node
	}
	for d := range wire.Direction(wire.NumDirections) {
		if n, ok := b.topo.Neighbour(x, d, plane); ok && n == y {
			return x, y, b.running(x, y)
		}
	}
	return x, y, spec.Usagef("no cable joins chips %s and %s on plane %d; name two neighbours, as 'ttfabric inspect --links' lists them", x, y, plane)
}

// starvedFromNow begins a run at the given chips.
func (b *benchTarget) starvedFromNow(ctx context.Context, ns ...wire.FabricNodeID) *fabric.StarvedRun {
	var cs []*api.Client
	for _, n := range ns {
		if cl := b.chips[n]; cl != nil && !slices.Contains(cs, cl) {
			cs = append(cs, cl)
		}
	}
	return fabric.StarvedFromNow(ctx, cs)
}

func (b *benchTarget) running(ns ...wire.FabricNodeID) error {
	for _, n := range ns {
		if b.chips[n] == nil {
			return fmt.Errorf("chip %s is not running; 'ttfabric chip start %s' starts it", n, n)
		}
	}
	return nil
}

// linkRow is the result of 'bench link' for one packet size and one number of channels.
// In 'bench link', a channel is a packet under way, not an ethernet port.
type linkRow struct {
	Size     int               `json:"packet_bytes"`                // length of the payload of each packet, in bytes
	Channels int               `json:"channels"`                    // packets under way in each direction
	Gbps     float64           `json:"payload_gigabits_per_second"` // rate of the payload, in 10^9 bits per second
	Wire     float64           `json:"wire_gigabits_per_second"`    // payload with all headers, padding and control frames
	Share    float64           `json:"payload_share"`               // payload's share of the bytes on the wire
	Headers  float64           `json:"payload_share_headers"`       // payload's share if headers and padding were the only other bytes, computed
	Guide    float64           `json:"payload_share_guide"`         // payload's share on the link of the CCL guide, computed
	Use      float64           `json:"utilisation"`                 // Wire, divided by the largest Wire of this run
	Starved  []traffic.Starved `json:"starved,omitempty"`           // chips that were starved during the measurement, of those that took part
}

func newBenchLink() *cobra.Command {
	var f benchFlags
	var sizes, channels []int
	var each time.Duration
	c := &cobra.Command{Use: "link [SRC DST]", Short: "Measure one link's bandwidth by packet size and number of channels, in both directions at once", Args: noneOrTwo,
		Long: `The command writes packets between two neighbours, in both directions at once, over
one cable, and verifies the data. --channels is the number of packets under way in
each direction (CCL guide, "Bidirectional Bandwidth"). The guide uses at most 30.

  Gb/s       payload per second, the mean of both directions
  Wire Gb/s  all bytes that cross the cable, including headers and control frames
  Share      the payload's share of the bytes that cross the cable; the rest is
             headers, padding, acknowledgements and completions
  Headers    the payload's share if headers and padding were the only other bytes
  Guide      the payload's share on the hardware's link, with 50 bytes of overhead
             on each packet of at most 1500 bytes (CCL guide, "Ethernet Link")
  Use        Wire Gb/s, relative to the largest Wire Gb/s in the table

--plot FILE.svg draws the bandwidth into FILE.svg, and the shares into
FILE-utilisation.svg.`,
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
			if err := errors.Join(writeChart(f.plot, figures.LinkChart(x, y, points(rows))), writeChart(besides(f.plot, "utilisation"), figures.UtilisationChart(points(rows), frame))); err != nil {
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
			tellStarved(c, rows, func(r linkRow) []traffic.Starved { return r.Starved })
			return nil
		}}
	f.add(c)
	c.Flags().IntSliceVar(&sizes, "sizes", []int{64, 128, 256, 512, 1024, 2048, 4096}, "packet sizes in bytes")
	c.Flags().IntSliceVar(&channels, "channels", []int{1, 2, 4, 8, 16, 30}, "packets under way in each direction")
	c.Flags().DurationVar(&each, "time", 300*time.Millisecond, "approximate duration of each measurement")
	return c
}

func noneOrTwo(_ *cobra.Command, args []string) error {
	if len(args) != 0 && len(args) != 2 {
		return fmt.Errorf("%s: want two neighbouring chips, or no argument for the chips at the ends of the first cable", topo.Count(len(args), "argument"))
	}
	return nil
}

// firstPackets is the number of packets of the first run for each packet size and number
// of channels. The first run measures how many packets the second run needs. The second
// run has at least as many packets as the first.
const firstPackets = 2000

func (b *benchTarget) link(c *cobra.Command, x, y wire.FabricNodeID, sizes, channels []int, each time.Duration) (rows []linkRow, frame int, err error) {
	cs := []*api.Client{b.chips[x], b.chips[y]}
	bar := newProgress(c.ErrOrStderr(), "measurements", len(sizes)*len(channels))
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
			for range 2 { // the first run finds the number of packets, the second run measures
				before, _, err := sentBetween(c.Context(), cs[0], y)
				if err != nil {
					return nil, 0, err
				}
				res, err := fabric.Traffic(c.Context(), cs, run, pairs, nil)
				if err != nil {
					return nil, 0, err
				}
				if !res.OK() {
					tellStarved(c, []traffic.Result{res}, func(r traffic.Result) []traffic.Starved { return r.Starved })
					return nil, 0, assertf("%d B, %d channels: only %d of %d packets were delivered", size, n, res.Total.Delivered, run.Packets)
				}
				after, agreed, err := sentBetween(c.Context(), cs[0], y)
				if err != nil {
					return nil, 0, err
				}
				frame = agreed
				seconds := res.Seconds
				payload := float64(res.Total.Bytes) / 2
				r = linkRow{Size: size, Channels: n, Gbps: payload * 8 / seconds / 1e9, Wire: float64(after-before) * 8 / seconds / 1e9}
				r.Share, r.Headers, r.Guide = payload/float64(after-before), figures.HeaderShare(size, frame), figures.GuideShare(size)
				r.Starved = res.Starved
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

// sentBetween asks the chip of client cl what the chip has sent to the neighbour that the
// argument "to" names. The result n is the number of bytes sent, summed over all cables to
// this neighbour. The result "frame" is the largest frame payload of the last of these
// cables, in bytes.
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

// points returns what the charts show of some rows.
func points(rows []linkRow) (ps []figures.Point) {
	for _, r := range rows {
		ps = append(ps, figures.Point{Size: r.Size, Channels: r.Channels, Gbps: r.Gbps, Share: r.Share})
	}
	return ps
}

// besides returns path with "-" and the text "what" inserted before the ending of the
// file's name. If path is empty, besides returns "".
func besides(path, what string) string {
	if path == "" {
		return ""
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + what + ext
}
