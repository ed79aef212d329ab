package bench

import (
	"context"
	"fmt"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// RingRow holds the times of trips round a ring, for one length of the trip, one packet
// size and one number of packets. In a ring of kernels, each payload counts as one packet.
type RingRow struct {
	Hops    int                 `json:"hops"`                              // number of hops of a trip
	Size    int                 `json:"packet_bytes"`                      // length of the payload of each packet, in bytes
	Batch   int                 `json:"packets"`                           // number of packets that make the trip together
	P50     float64             `json:"trip_p50_microseconds"`             // median time of a trip, in microseconds
	P99     float64             `json:"trip_p99_microseconds"`             // 99th percentile of the time of a trip, in microseconds
	PerHop  float64             `json:"per_hop_microseconds"`              // median time of a trip, divided by Hops
	Gbps    float64             `json:"gigabits_per_second"`               // payload of all packets of a trip, divided by the median time of a trip
	Routed  float64             `json:"routed_p50_microseconds,omitempty"` // for a ring of kernels: median time in which the routers carry the same number of packets of the same size along a route of the same length, in microseconds; 0: not measured, because the mesh has no such route or a packet cannot have this size
	Chips   []wire.FabricNodeID `json:"chips,omitempty"`                   // for a ring of kernels: the chips in the order of the ring
	Host    []int               `json:"umd_chips,omitempty"`               // for a ring of kernels: the same chips by the ids of tt-umd, or by their numbers if the machine has no ids of tt-umd
	Starved []traffic.Starved   `json:"starved,omitempty"`                 // chips that took part and were starved during the measurement
}

// MaxBatch is the largest number of packets that make a trip together. A ring has at
// least four cables, and a sender channel for requests has at least seven slots. So these
// packets cannot fill a ring and bring the ring to a standstill.
const MaxBatch = 8

// RingRun says what [Target.Ring] measures.
type RingRun struct {
	Plane   wire.Plane // routing plane of all packets
	Hops    []int      // lengths of the trips in hops; even numbers from 4
	Sizes   []int      // packet sizes in bytes
	Batches []int      // numbers of packets that make a trip together, 1 to [MaxBatch]
	Rounds  int        // trips per measurement
}

// Measurements returns the number of measurements of the run.
func (r *RingRun) Measurements() int { return len(r.Hops) * len(r.Sizes) * len(r.Batches) }

// Ring sends packets from the first chip round rings of chips, and times each trip. Ring measures each
// length of the trip with each packet size and each number of packets. After each measurement, Ring
// calls progress, which may be nil, with the number of measurements that have ended. If a measurement
// fails or ctx ends, Ring returns the rows so far with the error.
func (b *Target) Ring(ctx context.Context, run RingRun, progress func(done int)) ([]RingRow, error) {
	t := b.fab.Topology
	first := t.Chips[0].Node
	if err := b.running(first); err != nil {
		return nil, err
	}
	var rows []RingRow
	for _, h := range run.Hops {
		via, err := RingPath(t, run.Plane, h)
		if err != nil {
			return nil, spec.Usagef("--hops %d: %w", h, err)
		}
		for _, size := range run.Sizes {
			for _, n := range run.Batches {
				if n < 1 || n > MaxBatch {
					return nil, spec.Usagef("--packets %d: want 1 to %d", n, MaxBatch)
				}
				starved := b.starvedFromNow(ctx, along(t, first, run.Plane, via)...)
				res, err := b.chips[first].Bench(ctx, api.BenchBody{Dst: first, Plane: run.Plane, Via: via, Size: size, Batch: n, Rounds: run.Rounds})
				if err != nil {
					return rows, err
				}
				r := RingRow{Hops: h, Size: size, Batch: n, Starved: starved.End(ctx)}
				r.P50, r.P99 = percentiles(res.Nanos)
				r.PerHop = r.P50 / float64(h)
				r.Gbps = float64(size*n) * 8 / r.P50 / 1e3
				rows = append(rows, r)
				tell(progress, len(rows))
			}
		}
	}
	return rows, nil
}

// RingPath returns a route with the given number of hops. The route leads from the first chip along
// the outline of a rectangle, and back to the first chip. The rectangle lies in two rows or in two
// columns. If the outline has fewer hops, the route also goes round a square of four chips in the
// rectangle, once or several times. A rectangle of several squares uses its second square; a
// rectangle of one square uses this square. If the topology has no such route on the plane,
// RingPath returns an error.
func RingPath(t *topo.Topology, plane wire.Plane, hops int) ([]wire.Direction, error) {
	if hops < 4 || hops%2 != 0 || hops > wire.MaxHops {
		return nil, fmt.Errorf("want an even number from 4 to %d: a ring on a mesh has an even number of hops", wire.MaxHops-1)
	}
	m := t.Meshes[0]
	along, across, back, home := wire.East, wire.South, wire.West, wire.North
	length := m.Cols
	if m.Rows < 2 || m.Cols < 2 {
		return nil, fmt.Errorf("%s has no ring; want a mesh of at least two rows and two columns", t)
	}
	if m.Rows > m.Cols {
		along, across, back, home, length = wire.South, wire.East, wire.North, wire.West, m.Rows
	}
	width := min(hops/2, length, 4)     // number of chips along the rectangle's longer side: at most four, as on a T3000
	if hops/2 <= length && hops != 12 { // an outline can have all hops; for 12 hops, the route is that of the guide
		width = hops / 2
	}
	turns := hops - 2*width
	for turns%4 != 0 {
		width--
		turns = hops - 2*width
	}
	var p []wire.Direction
	for k := range width - 1 {
		if k == min(1, width-2) {
			for range turns / 4 { // each turn goes round the square that begins at this chip, back to this chip
				p = append(p, along, across, back, home)
			}
		}
		p = append(p, along)
	}
	p = append(p, across)
	for range width - 1 {
		p = append(p, back)
	}
	p = append(p, home)
	at := t.Chips[0].Node
	for i, d := range p {
		next, ok := t.Neighbour(at, d, plane)
		if !ok {
			return nil, fmt.Errorf("hop %d needs a cable %s of chip %s, but this chip has no such cable on plane %d; try another --plane", i+1, d, at, plane)
		}
		at = next
	}
	return p, nil
}

// The function "along" returns the chips of a route that begins at a chip.
func along(t *topo.Topology, at wire.FabricNodeID, plane wire.Plane, via []wire.Direction) []wire.FabricNodeID {
	chips := []wire.FabricNodeID{at}
	for _, d := range via {
		at, _ = t.Neighbour(at, d, plane)
		chips = append(chips, at)
	}
	return chips
}
