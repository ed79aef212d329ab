package bench

import (
	"context"
	"fmt"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel/guide"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// Kernels runs the guide's ring programs as kernels on the chips, once for each number of hops in
// "hops" and each size in "sizes". The sizes are lengths of the payload in bytes. The argument s
// has the number of trips of each run; s.Size has no effect. Each row also has the time of a routed
// packet. After each run, Kernels calls progress, which may be nil, with the number of runs that
// have ended. If a run fails or ctx ends, Kernels returns the rows so far with the error.
func (b *Target) Kernels(ctx context.Context, hops, sizes []int, s guide.Settings, progress func(done int)) (rows []RingRow, err error) {
	for _, h := range hops {
		order, err := guide.Order(b.fab.Topology, h)
		if err != nil {
			return nil, spec.Usagef("--hops %d: %w", h, err)
		}
		for _, size := range sizes {
			s.Size = size
			r, err := b.kernelRing(ctx, order, s)
			if err != nil {
				return rows, fmt.Errorf("ring of %d hops, %d bytes: %w", h, size, err)
			}
			rows = append(rows, r)
			tell(progress, len(rows))
		}
	}
	return rows, nil
}

// kernelRing runs one ring, and reads its times from the memory of the master.
func (b *Target) kernelRing(ctx context.Context, order []wire.FabricNodeID, s guide.Settings) (r RingRow, err error) {
	ring, err := guide.New(b.fab.Topology, fabric.NewJobID(), order, s)
	if err != nil {
		return r, spec.Usagef("%w", err)
	}
	if err := b.running(order...); err != nil {
		return r, err
	}
	starved := b.starvedFromNow(ctx, order...)
	if err := b.fab.RunJob(ctx, ring.Parts); err != nil {
		return r, err
	}
	bytes := make([]byte, 4*ring.Samples)
	if err := session.New(b.chips[ring.Master]).Read(ctx, ring.Master, ring.Results, bytes); err != nil {
		return r, err
	}
	r = RingRow{Hops: len(order), Size: s.Size, Batch: 1, Starved: starved.End(ctx)}
	var ns []int64
	for _, t := range guide.Trips(bytes) {
		ns = append(ns, t.Nanoseconds())
	}
	r.P50, r.P99 = percentiles(ns)
	r.PerHop = r.P50 / float64(r.Hops)
	r.Gbps = float64(s.Size) * 8 / r.P50 / 1e3
	if via, err := RingPath(b.fab.Topology, 0, r.Hops); err == nil && s.Size <= wire.MaxPayload {
		first := b.fab.Topology.Chips[0].Node
		res, err := b.chips[first].Bench(ctx, api.BenchBody{Dst: first, Via: via, Size: s.Size, Batch: 1, Rounds: s.Samples})
		if err != nil {
			return r, err
		}
		r.Routed, _ = percentiles(res.Nanos)
	}
	return r, nil
}
