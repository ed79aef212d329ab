package bench

import (
	"context"
	"fmt"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// LinkRow is the result of 'bench link' for one packet size and one number of channels.
// In 'bench link', a channel is a packet under way, not an ethernet port.
type LinkRow struct {
	Size     int               `json:"packet_bytes"`                // length of the payload of each packet, in bytes
	Channels int               `json:"channels"`                    // packets under way in each direction
	Gbps     float64           `json:"payload_gigabits_per_second"` // rate of the payload, in 10^9 bits per second
	Wire     float64           `json:"wire_gigabits_per_second"`    // payload with all headers, padding and control frames
	Share    float64           `json:"payload_share"`               // payload's share of the bytes on the wire
	Headers  float64           `json:"payload_share_headers"`       // payload's share if headers and padding were the only other bytes, computed
	Guide    float64           `json:"payload_share_guide"`         // payload's share on the link of the CCL guide, computed
	Use      float64           `json:"utilisation"`                 // Wire, divided by the largest Wire of this run
	Starved  []traffic.Starved `json:"starved,omitempty"`           // chips that took part and were starved during the measurement
}

// firstPackets is the number of packets of the first run for each packet size and number
// of channels. The first run measures how many packets the second run needs. The second
// run has at least as many packets as the first.
const firstPackets = 2000

// LinkRun says what [Target.Link] measures.
type LinkRun struct {
	X, Y     wire.FabricNodeID // two neighbours
	Sizes    []int             // packet sizes in bytes
	Channels []int             // numbers of packets under way in each direction
	Each     time.Duration     // approximate duration of each measurement
}

// Measurements returns the number of measurements of the run.
func (r *LinkRun) Measurements() int { return len(r.Sizes) * len(r.Channels) }

// LostError is the error of a measurement in which packets were not delivered.
type LostError struct {
	Size, Channels int            // packet size in bytes, and number of packets under way in each direction
	Packets        uint64         // number of packets that each chip had to send
	Result         traffic.Result // what the chips reported
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("%d B, %d channels: only %d of %d packets were delivered", e.Size, e.Channels, e.Result.Total.Delivered, e.Packets)
}

// Link writes packets between two neighbours, in both directions at once, verifies the data, and
// measures the bandwidth. Link measures each packet size with each number of channels. After each
// measurement, Link calls progress, which may be nil, with the number of measurements that have ended.
// The result "frame" is the largest frame payload of the link, in bytes. If packets were not delivered,
// the error is a [*LostError]. If a measurement fails or ctx ends, Link returns the rows so far with the error.
func (b *Target) Link(ctx context.Context, what LinkRun, progress func(done int)) (rows []LinkRow, frame int, err error) {
	x, y := what.X, what.Y
	if err := b.running(x, y); err != nil {
		return nil, 0, err
	}
	cs := []*api.Client{b.chips[x], b.chips[y]}
	most := 0.0
	defer func() {
		for i := range rows {
			rows[i].Use = rows[i].Wire / most
		}
	}()
	for _, n := range what.Channels {
		for _, size := range what.Sizes {
			run := traffic.Spec{Run: fabric.NewRun(), Pattern: "link", Packets: firstPackets, Size: size, Planes: 1, Window: n, Seed: 1}
			if err := run.Validate(); err != nil {
				return rows, frame, spec.AsUsage(err)
			}
			pairs := []traffic.Pair{{Src: x, Dst: y}, {Src: y, Dst: x}}
			var r LinkRow
			for range 2 { // the first run finds the number of packets, the second run measures
				before, _, err := sentBetween(ctx, cs[0], y)
				if err != nil {
					return rows, frame, err
				}
				res, err := fabric.Traffic(ctx, cs, run, pairs, nil)
				if err != nil {
					return rows, frame, err
				}
				if !res.OK() {
					return rows, frame, &LostError{size, n, run.Packets, res}
				}
				after, agreed, err := sentBetween(ctx, cs[0], y)
				if err != nil {
					return rows, frame, err
				}
				frame = agreed
				seconds := res.Seconds
				payload := float64(res.Total.Bytes) / 2
				r = LinkRow{Size: size, Channels: n, Gbps: payload * 8 / seconds / 1e9, Wire: float64(after-before) * 8 / seconds / 1e9}
				r.Share, r.Headers, r.Guide = payload/float64(after-before), HeaderShare(size, frame), GuideShare(size)
				r.Starved = res.Starved
				run.Run = fabric.NewRun()
				run.Packets = uint64(max(float64(run.Packets)*what.Each.Seconds()/seconds, firstPackets))
			}
			most = max(most, r.Wire)
			rows = append(rows, r)
			tell(progress, len(rows))
		}
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
