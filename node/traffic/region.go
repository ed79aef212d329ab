package traffic

import (
	"slices"

	"ttfabric/wire"
)

// The traffic region in a destination's memory consists of slots of 4 KiB. The slots lie in the L1
// of Tensix tiles that exist on both Wormhole and Blackhole, and are not harvested in the
// destination. The slots of the first tile suffice for 256 sources. More sources take more tiles.
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

// MaxSources is the number of sources that one destination can have if none of the region's tiles is
// harvested.
const MaxSources = len(regionX) * len(regionY) * slotsPerTile

// tiles holds the region's columns and rows in one destination. The tiles of the region are at the
// crossings of these columns and rows.
type tiles struct{ xs, ys []uint8 }

// allTiles returns the region of a destination without harvested tiles.
func allTiles() tiles { return tiles{regionX[:], regionY[:]} }

// Tiles returns the columns and rows of the working Tensix tiles of a chip.
type Tiles func(n wire.FabricNodeID) (xs, ys []uint8)

// of returns the region in a destination with a number of sources. If the working tiles have too few
// slots for the sources, the region also has the harvested tiles. The destination then refuses the
// packets to the harvested tiles, and no two sources write the same byte.
func (f Tiles) of(n wire.FabricNodeID, sources int) tiles {
	if f == nil {
		return allTiles()
	}
	xs, ys := f(n)
	t := tiles{both(regionX[:], xs), both(regionY[:], ys)}
	if t.number() == 0 || t.number()*slotsPerTile < sources {
		return allTiles()
	}
	return t
}

// both returns the members of list that are also in other.
func both(list, other []uint8) (out []uint8) {
	for _, v := range list {
		if slices.Contains(other, v) {
			out = append(out, v)
		}
	}
	return out
}

// number returns the number of tiles.
func (t tiles) number() int { return len(t.xs) * len(t.ys) }

// slots describes the slots of one pair in its destination's memory.
type slots struct {
	first, count int // number of the first slot, and number of slots
	sources      int // number of sources of the destination
	in           tiles
}

// slotsOf returns the slots of the source with the given rank, from 0, among n sources.
func slotsOf(rank, n int) slots {
	k := max(1, min(maxSlotsPerPair, slotsPerTile/n))
	return slots{rank * k, k, n, allTiles()}
}

// addr returns the address to which the source writes the pair's packet number k.
func (s *slots) addr(k uint64) wire.NocAddr {
	n := s.first + int(k%uint64(s.count))
	tile := n / slotsPerTile % s.in.number()
	return wire.NewNocAddr(s.in.xs[tile%len(s.in.xs)], s.in.ys[tile/len(s.in.xs)], regionBase+uint64(n%slotsPerTile)*MaxSize)
}

// slotAt returns the number of the slot that contains the address a. If a lies outside the
// region, slotAt returns false.
func (t tiles) slotAt(a wire.NocAddr) (int, bool) {
	x, y := slices.Index(t.xs, a.X()), slices.Index(t.ys, a.Y())
	if x < 0 || y < 0 || a.Offset() < regionBase || a.Offset() >= regionBase+slotsPerTile*MaxSize {
		return 0, false
	}
	return (y*len(t.xs)+x)*slotsPerTile + int(a.Offset()-regionBase)/MaxSize, true
}
