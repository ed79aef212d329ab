package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/chart"
	"ttfabric/node/fabric/bench"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
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
times the parts of one link's round trip. --plot draws the results of these commands.
'bench collective' times all-reduce and other operations between all chips.

If the process of a chip waited for a processor, or was stopped, for at least 100 ms
during a measurement, the chip was starved. The measurement then does not show what the
fabric can do. The commands name the starved chips.`,
		Example: "  ttfabric bench link --plot link.svg\n  ttfabric bench ring --hops 8,12\n  ttfabric bench rtt M0D0 M0D1"}
	c.AddCommand(newBenchLink(), newBenchRing(), newBenchRTT(), newBenchCollective())
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

// benchOn checks the flags, and returns the output format and the fabric to measure.
func benchOn(c *cobra.Command, f *benchFlags) (form string, b *bench.Target, err error) {
	if form, err = format(c); err != nil {
		return "", nil, err
	}
	if f.plot != "" && !strings.EqualFold(filepath.Ext(f.plot), ".svg") {
		return "", nil, spec.Usagef("--plot %s: plots are drawn as SVG; want a file name that ends with .svg", f.plot)
	}
	fab, err := openFabric(c)
	if err != nil {
		return "", nil, err
	}
	if b, err = bench.On(fab); err == nil {
		_, err = spec.Plane(fab.Topology, f.plane)
	}
	return form, b, err
}

// neighboursIn returns the two chips in args. If args is empty, neighboursIn returns the
// chips at the ends of the topology's first cable. If no cable of the plane joins the two
// chips, or if one of them is not running, neighboursIn returns an error.
func neighboursIn(b *bench.Target, args []string, plane wire.Plane) (x, y wire.FabricNodeID, err error) {
	if len(args) == 2 {
		if x, err = chipOf(b.Topology(), args[0]); err == nil {
			y, err = chipOf(b.Topology(), args[1])
		}
	} else {
		x, y, err = b.FirstCable()
	}
	if err != nil {
		return x, y, err
	}
	return x, y, b.CheckNeighbours(x, y, plane)
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
			format, b, err := benchOn(c, &f)
			if err != nil {
				return err
			}
			x, y, err := neighboursIn(b, args, wire.Plane(f.plane))
			if err != nil {
				return err
			}
			run := bench.LinkRun{X: x, Y: y, Sizes: sizes, Channels: channels, Each: each}
			bar := screen.NewProgress(c.ErrOrStderr(), "measurements", run.Measurements())
			rows, frame, err := b.Link(c.Context(), run, bar.Set)
			bar.Stop()
			if lost := (*bench.LostError)(nil); errors.As(err, &lost) {
				tellStarved(c, []traffic.Result{lost.Result}, func(r traffic.Result) []traffic.Starved { return r.Starved })
				return &assertionError{lost}
			}
			if err != nil && !cutShort(c, len(rows), run.Measurements(), "measurement") {
				return err
			}
			if err := errors.Join(writeChart(f.plot, bench.LinkChart(x, y, rows)), writeChart(bench.Besides(f.plot, "utilisation"), bench.UtilisationChart(rows, frame))); err != nil {
				return err
			}
			if format == "json" {
				return errors.Join(printJSON(c, rows), c.Context().Err())
			}
			tw := newTable(c, "Packet B", "Channels", "Gb/s", "Wire Gb/s", "Share %", "Headers %", "Guide %", "Use %")
			tw.Least("Guide %", "Headers %", "Use %", "Share %")
			for _, r := range rows {
				tw.AppendRow(table.Row{r.Size, r.Channels, fmt.Sprintf("%.3f", r.Gbps), fmt.Sprintf("%.3f", r.Wire), percent(r.Share), percent(r.Headers), percent(r.Guide), percent(r.Use)})
			}
			tw.Render()
			tellStarved(c, rows, func(r bench.LinkRow) []traffic.Starved { return r.Starved })
			return c.Context().Err()
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
