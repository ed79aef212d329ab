package bench

import (
	"context"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// RTTReport holds the times of one link's round trip and of the round trip's parts. All
// times are in microseconds.
type RTTReport struct {
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
	Starved []traffic.Starved `json:"starved,omitempty"`                            // chips that took part and were starved during the measurement
}

// RTT writes single packets from chip x to its neighbour y, one after another, and times each packet
// until the packet's completion is back. The argument "size" is the length of the payload of each
// packet, in bytes. The argument "rounds" is the number of packets.
func (b *Target) RTT(ctx context.Context, x, y wire.FabricNodeID, plane wire.Plane, size, rounds int) (RTTReport, error) {
	if err := b.running(x, y); err != nil {
		return RTTReport{}, err
	}
	starved := b.starvedFromNow(ctx, x, y)
	before, err := b.chips[y].Chip(ctx)
	if err != nil {
		return RTTReport{}, err
	}
	res, err := b.chips[x].Bench(ctx, api.BenchBody{Dst: y, Plane: plane, Size: size, Batch: 1, Rounds: rounds})
	if err != nil {
		return RTTReport{}, err
	}
	after, err := b.chips[y].Chip(ctx)
	if err != nil {
		return RTTReport{}, err
	}
	r := RTTReport{Src: x, Dst: y, Size: size, Starved: starved.End(ctx)}
	r.P50, r.P99 = percentiles(res.Nanos)
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
