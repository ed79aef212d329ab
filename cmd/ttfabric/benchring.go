package main

import (
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/bench"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel/guide"
	"ttfabric/node/output/screen"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

func newBenchRing() *cobra.Command {
	var f benchFlags
	var hops, sizes, batches, payloads []int
	rounds, kernels, strict := 0, false, false
	c := &cobra.Command{Use: "ring", Short: "Time packets round a ring of chips", Args: cobra.NoArgs,
		Long: `The command sends packets from the first chip round a ring of chips and back to the
first chip. Each packet carries its route (a source route). The time of a trip
begins with the request of the first packet and ends with the arrival of the last
packet (CCL guide, "Ring Ping Latency").

The ring is the outline of a rectangle of chips in two rows of the mesh, or in two
columns. If --hops asks for more hops than this outline has, the packets also go round
a square of four chips in the rectangle, once or several times. In the guide's
measurement over 12 hops on a T3000, packets go round such a square too.

With --kernels, the guide's own programs run instead (CCL guide, "Example Multi-Chip
Program Implementation Walkthrough"). On each chip, a receiver takes the payload from
the cable, and a sender passes the payload on. Both use the guide's handshake, channel
words and semaphores. The table also has the times of routed packets. With --payloads,
several payloads go round the ring at once, and the time of a trip ends when the last
payload is back. The line below the table names the chips of the ring twice: by the
fabric's numbers, and by tt-umd's numbers.`,
		Example: "  ttfabric bench ring\n  ttfabric bench ring --hops 8 --packets 1,2,4,8 --sizes 64 --plot ring.svg\n  ttfabric bench ring --kernels --hops 2,4,8,12 --sizes 16,1024 --payloads 1,4",
		RunE: func(c *cobra.Command, args []string) error {
			format, b, err := benchOn(c, &f)
			if err != nil {
				return err
			}
			if kernels {
				return benchKernels(c, b, &f, format, bench.RingRun{Hops: hops, Sizes: sizes, Batches: payloads, Rounds: rounds}, guide.Settings{Strict: strict})
			}
			if strict || c.Flags().Changed("payloads") {
				return spec.Usagef("--strict and --payloads are options of jobs: add --kernels")
			}
			run := bench.RingRun{Plane: wire.Plane(f.plane), Hops: hops, Sizes: sizes, Batches: batches, Rounds: rounds}
			bar := screen.NewProgress(c.ErrOrStderr(), "measurements", run.Measurements())
			rows, err := b.Ring(c.Context(), run, bar.Set)
			bar.Stop()
			if err != nil && !cutShort(c, len(rows), run.Measurements(), "measurement") {
				return err
			}
			if err := writeChart(f.plot, bench.RingChart(rows)); err != nil {
				return err
			}
			if format == "json" {
				return errors.Join(printJSON(c, rows), c.Context().Err())
			}
			tw := newTable(c, "Hops", "Packet B", "Packets", "p50 µs", "p99 µs", "µs a hop", "Gb/s")
			tw.Least("µs a hop", "p99 µs")
			for _, r := range rows {
				tw.AppendRow(table.Row{r.Hops, r.Size, r.Batch, fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.1f", r.P99), fmt.Sprintf("%.2f", r.PerHop), fmt.Sprintf("%.3f", r.Gbps)})
			}
			tw.Render()
			tellStarved(c, rows, func(r bench.RingRow) []traffic.Starved { return r.Starved })
			return c.Context().Err()
		}}
	f.add(c)
	c.Flags().IntSliceVar(&hops, "hops", []int{8, 12}, "lengths of the trip in hops; even numbers from 4, with --kernels from 2")
	c.Flags().IntSliceVar(&sizes, "sizes", []int{16, 256, 1024, 2048, 4096}, "packet sizes in bytes; with --kernels multiples of 16 up to 65536")
	c.Flags().IntSliceVar(&batches, "packets", []int{1, 2, 4, 8}, "numbers of packets that make a trip together, 1 to 8")
	c.Flags().IntVar(&rounds, "rounds", 500, "trips per measurement")
	c.Flags().BoolVar(&kernels, "kernels", false, "run the CCL guide's ring programs as kernels on the chips; --packets and --plane have no effect")
	c.Flags().IntSliceVar(&payloads, "payloads", []int{1}, "with --kernels: numbers of payloads in flight at once, 1 to 7 (the guide's max_concurrent_samples)")
	c.Flags().BoolVar(&strict, "strict", false, "with --kernels: the base firmware of the ring's ethernet tiles works only while the tile's kernel calls RunRouting (CCL guide, \"Link Health and Retraining\")")
	return c
}

func newBenchRTT() *cobra.Command {
	var f benchFlags
	var sizes []int
	var rounds int
	c := &cobra.Command{Use: "rtt [SRC DST]", Short: "Time one link's round trip and its parts", Args: noneOrTwo,
		Long: `The command writes single packets to a neighbour, and times each packet until the
packet's completion is back (CCL guide, "Single Ethernet Link Round-Trip Latency").

  request    from the request until the chip hands the datagram to the kernel
  peer       from the datagram's arrival at the neighbour until the neighbour
             hands the completion to the kernel
  each way   half of the remaining time: the kernel takes a datagram from one
             process to the other and wakes the other process up
  send call  the sender's system call, in which the kernel does most of the
             transfer; the call may end after the peer's part has begun
  told       from the completion's arrival until the program has the result;
             this part comes after the round trip

The times of the parts are means. The command prints the mean, the median and the
99th percentile of the round trip.`,
		Example: "  ttfabric bench rtt\n  ttfabric bench rtt M0D0 M0D1 --sizes 0,4096 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			format, b, err := benchOn(c, &f)
			if err != nil {
				return err
			}
			x, y, err := neighboursIn(b, args, wire.Plane(f.plane))
			if err != nil {
				return err
			}
			var out []bench.RTTReport
			for _, size := range sizes {
				r, err := b.RTT(c.Context(), x, y, wire.Plane(f.plane), size, rounds)
				if err != nil && cutShort(c, len(out), len(sizes), "measurement") {
					break
				}
				if err != nil {
					return err
				}
				out = append(out, r)
			}
			if err := writeChart(f.plot, bench.RTTChart(out)); err != nil {
				return err
			}
			if format == "json" {
				return errors.Join(printJSON(c, out), c.Context().Err())
			}
			tw := newTable(c, "Packet B", "p50 µs", "p99 µs", "Mean µs", "Request", "Peer", "Each way", "Send call", "Told")
			tw.Least("Send call", "Told", "Each way", "Mean µs")
			for _, r := range out {
				tw.AppendRow(table.Row{r.Size, us1(r.P50), us1(r.P99), us1(r.Mean), us1(r.Submit), us1(r.Far), us1(r.Transit), us1(r.Call), us1(r.Near)})
			}
			tw.Render()
			tellStarved(c, out, func(r bench.RTTReport) []traffic.Starved { return r.Starved })
			return c.Context().Err()
		}}
	f.add(c)
	c.Flags().IntSliceVar(&sizes, "sizes", []int{0, 64, 1024, 4096}, "packet sizes in bytes; 0 is a packet without a command")
	c.Flags().IntVar(&rounds, "rounds", 3000, "round trips per size")
	return c
}

func us1(v float64) string { return fmt.Sprintf("%.1f", v) }
