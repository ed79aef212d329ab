package bench

import (
	"context"
	"fmt"
	"strings"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel/guide"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Kernels runs the guide's ring programs as kernels on the chips: once for each number of hops,
// each length of a payload and each number of payloads of the run. The argument s has the other
// settings. If the mesh has a route of the same length, each row also has the time in which the
// routers carry the same number of packets along this route. After each run, Kernels calls
// progress, which may be nil, with the number of runs that have ended. If a run fails or ctx ends,
// Kernels returns the rows so far with the error.
func (b *Target) Kernels(ctx context.Context, run RingRun, s guide.Settings, progress func(done int)) (rows []RingRow, err error) {
	s.Samples = run.Rounds
	for _, h := range run.Hops {
		order, err := guide.Order(b.fab.Topology, h)
		if err != nil {
			return nil, spec.Usagef("--hops %d: %w", h, err)
		}
		for _, size := range run.Sizes {
			for _, s.Payloads = range run.Batches {
				s.Size = size
				if s.Payloads < 1 {
					return nil, spec.Usagef("--payloads %d: want 1 to %d", s.Payloads, guide.MaxPayloads)
				}
				r, err := b.kernelRing(ctx, order, s)
				if err != nil {
					return rows, fmt.Errorf("ring of %d hops, %d bytes, %s: %w", h, size, topo.Count(s.Payloads, "payload"), err)
				}
				rows = append(rows, r)
				tell(progress, len(rows))
			}
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
	r = RingRow{Hops: len(order), Size: s.Size, Batch: s.Payloads, Starved: starved.End(ctx)}
	host := b.fab.Topology.HostView(ring.Master.Mesh)
	for _, n := range order {
		r.Chips, r.Host = append(r.Chips, n), append(r.Host, host[n].ID)
	}
	var ns []int64
	for _, t := range guide.Trips(bytes) {
		ns = append(ns, t.Nanoseconds())
	}
	r.P50, r.P99 = percentiles(ns)
	r.PerHop = r.P50 / float64(r.Hops)
	r.Gbps = float64(s.Size*s.Payloads) * 8 / r.P50 / 1e3
	if via, err := RingPath(b.fab.Topology, 0, r.Hops); err == nil && s.Size <= wire.MaxPayload {
		first := b.fab.Topology.Chips[0].Node
		res, err := b.chips[first].Bench(ctx, api.BenchBody{Dst: first, Via: via, Size: s.Size, Batch: s.Payloads, Rounds: s.Samples})
		if err != nil {
			return r, err
		}
		r.Routed, _ = percentiles(res.Nanos)
	}
	return r, nil
}

// Order describes the chips of a ring of kernels in both numberings: the fabric's, row by row, and that of
// tt-umd.
func (r *RingRow) Order() string {
	var ours, umd []string
	for i, n := range r.Chips {
		ours, umd = append(ours, n.String()), append(umd, fmt.Sprint(r.Host[i]))
	}
	return fmt.Sprintf("ring of %d hops: chips %s; the same chips by the ids of tt-umd: %s", r.Hops, strings.Join(ours, " "), strings.Join(umd, " "))
}
