package board

import (
	"slices"

	"ttfabric/wire"
)

// The rows (Wormhole) and columns (Blackhole) of Tensix tiles, in coordinates of NoC 0. The order
// of the rows and columns is that of the ARC processor and the efuses (tt-umd,
// HARVESTING_NOC_LOCATIONS). A descriptor's harvest_mask counts the same rows or columns in
// ascending order.
var (
	wormholeRows     = []uint8{11, 1, 10, 2, 9, 3, 8, 4, 7, 5}
	blackholeColumns = []uint8{1, 16, 2, 15, 3, 14, 4, 13, 5, 12, 6, 11, 7, 10}
)

// FirmwareMask converts a descriptor's harvest_mask to the bit order of the efuses. The ARC
// processor's answer to message 0x57 has this bit order too.
func FirmwareMask(a wire.Arch, harvested uint16) uint32 {
	order := wormholeRows
	if a == wire.Blackhole {
		order = blackholeColumns
	}
	sorted := slices.Sorted(slices.Values(order))
	v := uint32(0)
	for bit, at := range order {
		i, _ := slices.BinarySearch(sorted, at)
		v |= uint32(harvested>>i&1) << bit
	}
	return v
}
