// Package shipped has the kernels that each chip of 'ttfabric node' can run: the kernels of the CCL guide's ring, and
// the ERISC data mover with its workers. Among these workers are those of the all-gather, of the reduce-scatter and of
// the schedules of collective operations.
package shipped

import (
	"maps"

	"ttfabric/node/edm"
	"ttfabric/node/edm/allgather"
	"ttfabric/node/edm/reducescatter"
	"ttfabric/node/edm/schedule"
	"ttfabric/node/kernel"
	"ttfabric/node/kernel/guide"
)

// Kernels are the kernels by name.
var Kernels = merged(guide.Kernels, edm.Kernels, allgather.Kernels, reducescatter.Kernels, schedule.Kernels)

// merged returns the kernels of all tables.
func merged(tables ...kernel.Table) kernel.Table {
	all := kernel.Table{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}
