// Package bench runs the microbenchmarks of Tenstorrent's CCL developer guide on a running fabric: the
// bandwidth of a link, trips round a ring of chips, and the parts of a link's round trip. The package
// also draws the results, and computes the results of the guide's formulas. The package prints nothing.
//
//	t, err := bench.On(f)
//	rows, frame, err := t.Link(ctx, bench.LinkRun{X: x, Y: y, Sizes: []int{64}, Channels: []int{8}, Each: time.Second}, nil)
//	svg := bench.LinkChart(x, y, rows).SVG()
//
// The fabric should carry no other traffic during a benchmark. If a chip's process was starved during
// a measurement, the row of the measurement names the chip.
package bench

import (
	"context"
	"fmt"
	"slices"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Target is the fabric that a benchmark measures, and clients of the fabric's running chips.
type Target struct {
	fab   *fabric.Fabric
	chips map[wire.FabricNodeID]*api.Client // the chips that ran when On was called
}

// On returns a target for benchmarks of the fabric f. If no chip of f runs, On returns an error.
func On(f *fabric.Fabric) (*Target, error) {
	cs, _, err := f.Clients()
	if err != nil {
		return nil, err
	}
	b := &Target{f, map[wire.FabricNodeID]*api.Client{}}
	for _, cl := range cs {
		b.chips[cl.Self()] = cl
	}
	return b, nil
}

// Topology returns the topology of the fabric.
func (b *Target) Topology() *topo.Topology { return b.fab.Topology }

// FirstCable returns the chips at the ends of the topology's first cable. If the topology has no cable,
// FirstCable returns an error.
func (b *Target) FirstCable() (x, y wire.FabricNodeID, err error) {
	t := b.fab.Topology
	if len(t.Cables) == 0 {
		return x, y, fmt.Errorf("%s has no cable to measure; want a topology with at least one cable", t)
	}
	return t.Cables[0].A.Node, t.Cables[0].B.Node, nil
}

// CheckNeighbours returns an error if no cable of the plane joins chips x and y, or if one of the chips
// is not running.
func (b *Target) CheckNeighbours(x, y wire.FabricNodeID, plane wire.Plane) error {
	for d := range wire.Direction(wire.NumSides) {
		if n, ok := b.fab.Topology.Neighbour(x, d, plane); ok && n == y {
			return b.running(x, y)
		}
	}
	return spec.Usagef("no cable joins chips %s and %s on plane %d; name two neighbours, as 'ttfabric inspect --links' lists them", x, y, plane)
}

// starvedFromNow begins to look for starvation of the given chips.
func (b *Target) starvedFromNow(ctx context.Context, ns ...wire.FabricNodeID) *fabric.StarvedRun {
	var cs []*api.Client
	for _, n := range ns {
		if cl := b.chips[n]; cl != nil && !slices.Contains(cs, cl) {
			cs = append(cs, cl)
		}
	}
	return fabric.StarvedFromNow(ctx, cs)
}

// running returns an error if one of the given chips is not running.
func (b *Target) running(ns ...wire.FabricNodeID) error {
	for _, n := range ns {
		if b.chips[n] == nil {
			return fmt.Errorf("chip %s is not running; 'ttfabric chip start %s' starts the chip", n, n)
		}
	}
	return nil
}

// tell calls progress, which may be nil, with the number of measurements that have ended.
func tell(progress func(done int), done int) {
	if progress != nil {
		progress(done)
	}
}

// percentiles returns the median and the 99th percentile of ns. The values in ns are
// nanoseconds, and the results are microseconds. Without values, both results are 0.
func percentiles(ns []int64) (p50, p99 float64) {
	if len(ns) == 0 {
		return 0, 0
	}
	ns = slices.Sorted(slices.Values(ns))
	return float64(ns[len(ns)/2]) / 1e3, float64(ns[len(ns)*99/100]) / 1e3
}
