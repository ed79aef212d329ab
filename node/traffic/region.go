package traffic

import (
	"slices"

	"ttfabric/wire"
)

// The traffic region in a destination's memory: slots of 4 KiB in the L1 of
// Tensix tiles that Wormhole and Blackhole both have. The first tile's slots
// do for 256 sources; more sources take more tiles.
//
// Every source of a destination has slots of its own, by its rank among that
// destination's sources, and uses them in turn. So no two sources ever write
// the same byte, and damage done to one is not seen as another's.
const (
	regionBase      = 0x20000 // bytes; what lies below, kernels and firmware keep for themselves
	slotsPerTile    = 256     // 1 MiB: the region ends at 0x120000, within the 0x16E000 bytes of a Wormhole L1
	maxSlotsPerPair = 16
)

// The columns and rows that are Tensix tiles on both architectures
// (tt-metal, wormhole_b0_80_arch.yaml and blackhole_140_arch.yaml: functional_workers).
var (
	regionX = [...]uint8{1, 2, 3, 4, 6, 7}
	regionY = [...]uint8{2, 3, 4, 5, 7, 8, 9, 10, 11}
)

// regionTiles is how many tiles that makes.
const regionTiles = len(regionX) * len(regionY)

// MaxSources is the number of sources that one destination can have.
const MaxSources = regionTiles * slotsPerTile

// slots are the places of one pair in its destination's memory.
type slots struct {
	first, count int // slot numbers
}

// slotsOf gives the source of a rank among n sources its slots.
func slotsOf(rank, n int) slots {
	k := max(1, min(maxSlotsPerPair, slotsPerTile/n))
	return slots{rank * k, k}
}

// addr is where the pair's packet number k goes.
func (s slots) addr(k uint64) wire.NocAddr {
	n := s.first + int(k%uint64(s.count))
	tile := n / slotsPerTile % regionTiles
	return wire.NewNocAddr(regionX[tile%len(regionX)], regionY[tile/len(regionX)], regionBase+uint64(n%slotsPerTile)*MaxSize)
}

// slotAt is the number of the slot that a lies in; false outside the region.
func slotAt(a wire.NocAddr) (int, bool) {
	x, y := slices.Index(regionX[:], a.X()), slices.Index(regionY[:], a.Y())
	if x < 0 || y < 0 || a.Offset() < regionBase || a.Offset() >= regionBase+slotsPerTile*MaxSize {
		return 0, false
	}
	return (y*len(regionX)+x)*slotsPerTile + int(a.Offset()-regionBase)/MaxSize, true
}
