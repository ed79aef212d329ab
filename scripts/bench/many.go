package main

import (
	"errors"
	"math/rand/v2"
	"time"

	"ttfabric/node/fabric"
)

// manies lists the machines of the measurement "many", from 8 processes to 256.
var manies = []string{"t3000", "mesh:4x4", "mesh:4x8", "mesh:8x8", "mesh:8x16", "mesh:12x16", "mesh:16x16"}

// Constants of the measurement "many".
const (
	manyPrefix = "many chips, "   // beginning of the names of the figures
	manyGossip = 20 * time.Second // time after "up" in which gossip tells all chips which chips have joined
	manyIdle   = 10 * time.Second // time for which the idle fabric is watched afterwards
	manyShare  = manyGossip / manyIdle
)

// many measures what the start, gossip and the idle state of fabrics of 8 to 256 chips cost. The
// cost of gossip is the processor time after "up", less the idle cost.
func (b *bench) many(round int, r *rand.Rand) error {
	if b.ttfabric == "" {
		return errors.New("-only many needs the program ttfabric; scripts/bench/run builds the program")
	}
	for _, i := range r.Perm(len(manies)) {
		err := fabricOf(b.ttfabric, manies[i], func(fab *fabric.Fabric, up time.Duration) error {
			var at [3]uint64 // processor time in ticks: at "up", after gossip, after the idle time
			n := 0
			for k, wait := range []time.Duration{0, manyGossip, manyIdle} {
				time.Sleep(wait)
				var err error
				if at[k], n, err = cpuTicks(fab); err != nil {
					return err
				}
			}
			idle := float64(at[2] - at[1])
			gossip := float64(at[1]-at[0]) - idle*float64(manyShare)
			for _, f := range []struct {
				what, unit string
				value      float64
			}{
				{"up to all links up", "s", up.Seconds()},
				{"processor time until up, per chip", "ms", float64(at[0]) / ticksPerSecond / float64(n) * 1e3},
				{"gossip after up, per pair of chips", "µs", max(0, gossip) / ticksPerSecond / float64(n*(n-1)) * 1e6},
				{"idle, per chip", "% of a core", idle / ticksPerSecond / manyIdle.Seconds() / float64(n) * 100},
			} {
				res := figure(manyPrefix+f.what, manies[i], f.unit, round, f.value)
				res.Size = n
				b.add(res)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
