// Package shipped has the kernels that each chip of 'ttfabric node' can run: those of the CCL guide's ring, and
// the ERISC data mover with its workers.
package shipped

import (
	"maps"

	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/node/kernel/guide"
)

// Kernels are the kernels by name.
var Kernels = merged(guide.Kernels, edm.Kernels)

// merged returns the kernels of all tables.
func merged(tables ...kernel.Table) kernel.Table {
	all := kernel.Table{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}
