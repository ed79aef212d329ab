package traffic

import (
	"slices"

	"ttfabric/wire"
)

// The traffic region in a destination's memory consists of slots of 4 KiB. The slots lie in the L1
// of Tensix tiles that both Wormhole and Blackhole have. The slots of the first tile suffice for
// 256 sources. More sources take more tiles.
//
// Every source of a destination has its own slots, chosen by the source's rank among all sources
// of the destination. A source uses its slots in turn. Two sources therefore never write the same
// byte, and the verifier cannot blame one source for damage by another.
const (
	regionBase      = 0x20000 // offset of the region in each tile, in bytes; kernels and firmware use the memory below the region
	slotsPerTile    = 256     // the slots take 1 MiB: the region ends at 0x120000, within the 0x16E000 bytes of a Wormhole L1
	maxSlotsPerPair = 16
)

// The columns and rows in which both architectures have Tensix tiles (tt-metal,
// wormhole_b0_80_arch.yaml and blackhole_140_arch.yaml: functional_workers).
var (
	regionX = [...]uint8{1, 2, 3, 4, 6, 7}
	regionY = [...]uint8{2, 3, 4, 5, 7, 8, 9, 10, 11}
)

// regionTiles is the number of tiles of the region.
const regionTiles = len(regionX) * len(regionY)

// MaxSources is the number of sources that one destination can have.
const MaxSources = regionTiles * slotsPerTile

// slots describes the slots of one pair in its destination's memory.
type slots struct {
	first, count int // number of the first slot, and number of slots
}

// slotsOf returns the slots of the source with the given rank, from 0, among n sources.
func slotsOf(rank, n int) slots {
	k := max(1, min(maxSlotsPerPair, slotsPerTile/n))
	return slots{rank * k, k}
}

// addr returns the address to which the source writes the pair's packet number k.
func (s slots) addr(k uint64) wire.NocAddr {
	n := s.first + int(k%uint64(s.count))
	tile := n / slotsPerTile % regionTiles
	return wire.NewNocAddr(regionX[tile%len(regionX)], regionY[tile/len(regionX)], regionBase+uint64(n%slotsPerTile)*MaxSize)
}

// slotAt returns the number of the slot that contains the address a. If a lies outside the
// region, slotAt returns false.
func slotAt(a wire.NocAddr) (int, bool) {
	x, y := slices.Index(regionX[:], a.X()), slices.Index(regionY[:], a.Y())
	if x < 0 || y < 0 || a.Offset() < regionBase || a.Offset() >= regionBase+slotsPerTile*MaxSize {
		return 0, false
	}
	return (y*len(regionX)+x)*slotsPerTile + int(a.Offset()-regionBase)/MaxSize, true
}
