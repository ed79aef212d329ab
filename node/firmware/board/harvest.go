package board

import (
	"math/bits"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// The rows (Wormhole) and columns (Blackhole) of Tensix tiles, in coordinates of NoC 0. Their order is
// that of the ARC processor and the efuses (tt-umd, HARVESTING_NOC_LOCATIONS). A descriptor's
// harvest_mask counts the same rows or columns in ascending order.
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

// blackholeOff is the number of harvested ethernet tiles that tt-umd expects on a Blackhole. tt-umd
// refuses a chip with another number, unless all ethernet tiles are harvested.
const blackholeOff = 2

// harvestedEth returns the mask of the ethernet tiles that a chip reports as harvested, bit i for
// channel i. On Blackhole these are the last two channels without a cable. If fewer than two channels
// have no cable, harvestedEth returns 0.
func harvestedEth(t *topo.Topology, n wire.FabricNodeID) uint16 {
	if t.Arch != wire.Blackhole {
		return 0
	}
	free := uint16(1)<<topo.Channels(t.Arch) - 1
	for _, p := range t.Ports(n) {
		free &^= 1 << p.Local.Channel
	}
	if bits.OnesCount16(free) < blackholeOff {
		return 0
	}
	off := uint16(0)
	for range blackholeOff {
		top := uint16(1) << (bits.Len16(free) - 1)
		free, off = free&^top, off|top
	}
	return off
}
