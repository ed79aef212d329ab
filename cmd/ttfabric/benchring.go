package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/chart"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/figures"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// ringRow holds the times of trips round a ring, for one length of the trip, one packet
// size and one number of packets.
type ringRow struct {
	Hops    int               `json:"hops"`                  // number of hops of a trip
	Size    int               `json:"packet_bytes"`          // length of the payload of each packet, in bytes
	Batch   int               `json:"packets"`               // number of packets that make the trip together
	P50     float64           `json:"trip_p50_microseconds"` // median time of a trip, in microseconds
	P99     float64           `json:"trip_p99_microseconds"` // 99th percentile of the time of a trip, in microseconds
	PerHop  float64           `json:"per_hop_microseconds"`  // median time of a trip, divided by Hops
	Gbps    float64           `json:"gigabits_per_second"`   // payload of all packets of a trip, divided by the median time of a trip
	Starved []traffic.Starved `json:"starved,omitempty"`     // chips that were starved during the measurement, of those that took part
}

func newBenchRing() *cobra.Command {
	var f benchFlags
	var hops, sizes, batches []int
	var rounds int
	var kernels bool
	c := &cobra.Command{Use: "ring", Short: "Time packets round a ring of chips", Args: cobra.NoArgs,
		Long: `The command sends packets from the first chip round a ring of chips and back to the
first chip. Each packet carries its route (a source route). The time of a trip
begins with the request of the first packet and ends with the arrival of the last
packet (CCL guide, "Ring Ping Latency").

The ring is the outline of a rectangle of chips in two rows of the mesh, or in two
columns. If --hops asks for more hops than this outline has, the packets also go round
a square of four chips in the rectangle, once or several times. In the guide's
measurement over 12 hops on a T3000, packets go round such a square too.

With --kernels, the guide's own programs run instead: on each chip, a receiver takes the
payload from the cable and a sender passes it on, with the guide's handshake, channel
words and semaphores (CCL guide, "Example Multi-Chip Program Implementation
Walkthrough"). The trips of routed packets stand beside them.`,
		Example: "  ttfabric bench ring\n  ttfabric bench ring --hops 8 --packets 1,2,4,8 --sizes 64 --plot ring.svg\n  ttfabric bench ring --kernels --hops 2,4,8,12 --sizes 16,1024",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := format(c)
			if err != nil {
				return err
			}
			b, err := benchOn(c, &f)
			if err != nil {
				return err
			}
			if kernels {
				return benchKernels(c, &b, &f, format, hops, sizes, rounds)
			}
			rows, err := b.ring(c, wire.Plane(f.plane), hops, sizes, batches, rounds)
			if err != nil {
				return err
			}
			if err := writeChart(f.plot, ringChart(rows)); err != nil {
				return err
			}
			if format == "json" {
				return printJSON(c, rows)
			}
			tw := newTable(c, "Hops", "Packet B", "Packets", "p50 µs", "p99 µs", "µs a hop", "Gb/s")
			for _, r := range rows {
				tw.AppendRow(table.Row{r.Hops, r.Size, r.Batch, fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.1f", r.P99), fmt.Sprintf("%.2f", r.PerHop), fmt.Sprintf("%.3f", r.Gbps)})
			}
			tw.Render()
			tellStarved(c, rows, func(r ringRow) []traffic.Starved { return r.Starved })
			return nil
		}}
	f.add(c)
	c.Flags().IntSliceVar(&hops, "hops", []int{8, 12}, "lengths of the trip in hops; even numbers from 4")
	c.Flags().IntSliceVar(&sizes, "sizes", []int{16, 256, 1024, 2048, 4096}, "packet sizes in bytes")
	c.Flags().IntSliceVar(&batches, "packets", []int{1, 2, 4, 8}, "numbers of packets that make a trip together, 1 to 8")
	c.Flags().IntVar(&rounds, "rounds", 500, "trips per measurement")
	c.Flags().BoolVar(&kernels, "kernels", false, "run the CCL guide's ring programs as kernels on the chips; --packets and --plane do not matter")
	return c
}

// ringBatch is the largest number of packets that make a trip together. A ring has at
// least four cables, and a sender channel for requests has at least seven slots. So these
// packets cannot fill a ring and bring the ring to a standstill.
const ringBatch = 8

func (b *benchTarget) ring(c *cobra.Command, plane wire.Plane, hops, sizes, batches []int, rounds int) ([]ringRow, error) {
	first := b.topo.Chips[0].Node
	if err := b.running(first); err != nil {
		return nil, err
	}
	bar := newProgress(c.ErrOrStderr(), "measurements", len(hops)*len(sizes)*len(batches))
	defer bar.stop()
	var rows []ringRow
	for _, h := range hops {
		via, err := figures.RingPath(b.topo, plane, h)
		if err != nil {
			return nil, spec.Usagef("--hops %d: %w", h, err)
		}
		for _, size := range sizes {
			for _, n := range batches {
				if n < 1 || n > ringBatch {
					return nil, spec.Usagef("--packets %d: want 1 to %d", n, ringBatch)
				}
				starved := b.starvedFromNow(c.Context(), figures.Along(b.topo, first, plane, via)...)
				res, err := b.chips[first].Bench(c.Context(), api.BenchBody{Dst: first, Plane: plane, Via: via, Size: size, Batch: n, Rounds: rounds})
				if err != nil {
					return nil, err
				}
				r := ringRow{Hops: h, Size: size, Batch: n, Starved: starved.End(c.Context())}
				r.P50, r.P99 = figures.Percentiles(res.Nanos)
				r.PerHop = r.P50 / float64(h)
				r.Gbps = float64(size*n) * 8 / r.P50 / 1e3
				rows = append(rows, r)
				bar.set(len(rows))
			}
		}
	}
	return rows, nil
}

func ringChart(rows []ringRow) *chart.Chart {
	c := &chart.Chart{Title: "Packets round a ring of chips", X: "packet size, bytes", Y: "trip, median, µs", LogX: true}
	type key struct{ hops, n int }
	var keys []key
	for _, r := range rows {
		if k := (key{r.Hops, r.Batch}); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		l := chart.Line{Name: fmt.Sprintf("%d hops, %s", k.hops, topo.Count(k.n, "packet"))}
		for _, r := range rows {
			if (key{r.Hops, r.Batch}) == k {
				l.X, l.Y = append(l.X, float64(r.Size)), append(l.Y, r.P50)
			}
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// rttReport holds the times of one link's round trip and of the round trip's parts. All
// times are in microseconds.
type rttReport struct {
	Src     wire.FabricNodeID `json:"src"`                                          // chip that sends the packets
	Dst     wire.FabricNodeID `json:"dst"`                                          // neighbour that answers
	Size    int               `json:"packet_bytes"`                                 // length of the payload of each packet, in bytes; 0: a packet without a command
	P50     float64           `json:"round_trip_p50_microseconds"`                  // median round trip
	P99     float64           `json:"round_trip_p99_microseconds"`                  // 99th percentile of the round trip
	Mean    float64           `json:"round_trip_mean_microseconds"`                 // mean round trip
	Submit  float64           `json:"request_until_handed_over_microseconds"`       // mean time from the request until the chip hands the datagram to the kernel
	Far     float64           `json:"peer_received_until_handed_over_microseconds"` // mean time from the datagram's arrival at the neighbour until the neighbour hands the completion to the kernel
	Transit float64           `json:"kernel_and_wakeups_each_way_microseconds"`     // half of the mean round trip without the other parts: the kernel's transfer of one datagram, and the wake-up
	Call    float64           `json:"send_call_microseconds"`                       // mean time of the sender's system call; it overlaps with other parts
	Near    float64           `json:"answer_received_until_told_microseconds"`      // mean time from the completion's arrival until the chip has told the program; not part of the round trip
	LinkRTT float64           `json:"link_round_trip_microseconds"`                 // estimate of the link's round trip by TT-link at Dst
	Starved []traffic.Starved `json:"starved,omitempty"`                            // chips that were starved during the measurement, of those that took part
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
  told       from the completion's arrival until the chip has told the program;
             this part comes after the round trip

The times of the parts are means. The command prints the mean, the median and the
99th percentile of the round trip.`,
		Example: "  ttfabric bench rtt\n  ttfabric bench rtt M0D0 M0D1 --sizes 0,4096 -o json",
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
			var out []rttReport
			for _, size := range sizes {
				r, err := b.rtt(c, x, y, wire.Plane(f.plane), size, rounds)
				if err != nil {
					return err
				}
				out = append(out, r)
			}
			if err := writeChart(f.plot, rttChart(out)); err != nil {
				return err
			}
			if format == "json" {
				return printJSON(c, out)
			}
			tw := newTable(c, "Packet B", "p50 µs", "p99 µs", "Mean µs", "Request", "Peer", "Each way", "Send call", "Told")
			for _, r := range out {
				tw.AppendRow(table.Row{r.Size, us1(r.P50), us1(r.P99), us1(r.Mean), us1(r.Submit), us1(r.Far), us1(r.Transit), us1(r.Call), us1(r.Near)})
			}
			tw.Render()
			tellStarved(c, out, func(r rttReport) []traffic.Starved { return r.Starved })
			return nil
		}}
	f.add(c)
	c.Flags().IntSliceVar(&sizes, "sizes", []int{0, 64, 1024, 4096}, "packet sizes in bytes; 0 is a packet without a command")
	c.Flags().IntVar(&rounds, "rounds", 3000, "round trips per size")
	return c
}

func us1(v float64) string { return fmt.Sprintf("%.1f", v) }

func (b *benchTarget) rtt(c *cobra.Command, x, y wire.FabricNodeID, plane wire.Plane, size, rounds int) (rttReport, error) {
	ctx := c.Context()
	starved := b.starvedFromNow(ctx, x, y)
	before, err := b.chips[y].Chip(ctx)
	if err != nil {
		return rttReport{}, err
	}
	res, err := b.chips[x].Bench(ctx, api.BenchBody{Dst: y, Plane: plane, Size: size, Batch: 1, Rounds: rounds})
	if err != nil {
		return rttReport{}, err
	}
	after, err := b.chips[y].Chip(ctx)
	if err != nil {
		return rttReport{}, err
	}
	r := rttReport{Src: x, Dst: y, Size: size, Starved: starved.End(ctx)}
	r.P50, r.P99 = figures.Percentiles(res.Nanos)
	for _, n := range res.Nanos {
		r.Mean += float64(n) / 1e3 / float64(len(res.Nanos))
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	submit, call := res.Near.Submitted.Mean()
	far, _ := after.Loop.Minus(before.Loop).Received.Mean()
	got, told := res.Near.Received.Mean()
	r.Submit, r.Call, r.Far, r.Near = micros(submit), micros(call), micros(far), micros(got+told)
	r.Transit = (r.Mean - r.Submit - r.Far) / 2
	for _, l := range after.Links {
		if l.Peer == x && l.Plane == plane {
			r.LinkRTT = l.RTTMicros
		}
	}
	return r, nil
}

func rttChart(rs []rttReport) *chart.Chart {
	c := &chart.Chart{Title: "One link's round trip and its parts", X: "packet size, bytes", Y: "µs"}
	parts := []struct {
		name string
		of   func(rttReport) float64
	}{
		{"round trip, mean", func(r rttReport) float64 { return r.Mean }},
		{"kernel and wake-up, each way", func(r rttReport) float64 { return r.Transit }},
		{"send call", func(r rttReport) float64 { return r.Call }},
		{"request, until handed over", func(r rttReport) float64 { return r.Submit }},
		{"peer, until handed over", func(r rttReport) float64 { return r.Far }},
		{"program told, after the round trip", func(r rttReport) float64 { return r.Near }},
	}
	for _, p := range parts {
		l := chart.Line{Name: p.name}
		for _, r := range rs {
			l.X, l.Y = append(l.X, float64(r.Size)), append(l.Y, p.of(r))
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}
