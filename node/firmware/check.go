package firmware

import (
	"ttfabric/node/noc"
	"ttfabric/wire"
)

// Reason says why the firmware refused a request, or could not end it. The documents do not say
// what happens to refused requests. Our firmware performs no write of a refused part.
type Reason uint8

// The reasons.
const (
	BadFlags    Reason = iota + 1 // the flags name no request of the table, or have unknown bits
	Misaligned                    // the address is not a multiple of what the request type wants
	BadLength                     // the length is too large, or no multiple of 4
	BadHost                       // the host address is no multiple of 32, or the block reaches beyond the 4 GiB of host addresses
	BadTarget                     // no tile has the address, or the block reaches beyond the tile's memory
	BadPage                       // a scatter page breaks a rule
	NoMemory                      // the chip has reached its limit of host memory for tiles
	BadIndex                      // wr_idx and rd_idx name more than four entries; the queue stands still until the host stores its index again
	HostRefused                   // the host memory refused a transfer, or no host lends the chip memory
	NoWay                         // no chip has the position, or no cable leads to the chip
	NoAnswer                      // no answer came in [AnswerTimeout]
	UnknownFate                   // the session of a cable ended while a write was on the cable; nobody knows whether the write arrived
	numReasons
)

var reasons = [numReasons]string{"unknown reason", "the flags name no request", "misaligned address", "wrong length", "wrong host address", "bad address",
	"bad scatter page", "no memory", "wrong queue indices", "no host memory", "destination unreachable", "no answer in time", "fate unknown, a cable's session ended"}

// String returns the reason in words.
func (r Reason) String() string {
	if r >= numReasons {
		return reasons[0]
	}
	return reasons[r]
}

// unreachable reports whether a request that ends for this reason gets [DestUnreachable].
func (r Reason) unreachable() bool { return r == NoWay || r == NoAnswer || r == UnknownFate }

// Alignments of addresses, in bytes (BDMS, "Request types").
const (
	wordAlign  = 4
	blockAlign = 16 // blocks of Tensix and ethernet tiles
	otherAlign = 32 // blocks of other tiles, and host addresses
)

// tileKinds is what the firmware knows of the tiles of every chip: harvesting changes no kind and no size.
type tileKinds struct {
	memory *noc.Memory
	sizes  map[noc.Kind]uint64
}

func newTileKinds(m *noc.Memory) *tileKinds {
	k := &tileKinds{m, map[noc.Kind]uint64{}}
	for _, t := range m.Tiles() {
		k.sizes[t.Kind] = max(k.sizes[t.Kind], t.Size)
	}
	return k
}

// check checks a request, as far as this is possible without the target chip and without the data.
// check returns 0 if nothing is wrong.
func (k *tileKinds) check(e *Entry) Reason {
	block, dram, mod := e.Flags&DataBlock != 0, e.Flags&DataBlockDRAM != 0, e.Flags&Mod != 0
	a := e.addr()
	switch {
	case e.Flags.Type() == WrongRequest:
		return BadFlags
	case block && (e.Data%wordAlign != 0 || !dram && e.Data > BlockSize):
		return BadLength
	case dram && (e.HostAddr%otherAlign != 0 || uint64(e.HostAddr)+uint64(e.Data) > HostSize):
		return BadHost
	case mod:
		return 0 // the scatter pages have the addresses
	case !block && a.Offset()%wordAlign != 0:
		return Misaligned
	}
	t, ok := k.tile(a)
	switch {
	case !ok:
		return BadTarget
	case !block:
		return 0
	case a.Offset()%blockAlignOf(t.Kind) != 0:
		return Misaligned
	}
	if off, ok := k.memory.HostOffset(a); ok {
		if off+uint64(e.Data) > HostSize {
			return BadTarget
		}
		return 0
	}
	if a.Offset()+uint64(e.Data) > k.sizes[t.Kind] && e.Data > BlockSize {
		return BadTarget // registers are never that long
	}
	return 0
}

// tile returns the tile with an address of NoC 0 or NoC 1.
func (k *tileKinds) tile(a wire.NocAddr) (noc.Tile, bool) {
	a, ok := k.memory.OnNoC0(a)
	if !ok {
		return noc.Tile{}, false
	}
	return k.memory.TileAt(a.X(), a.Y())
}

func blockAlignOf(k noc.Kind) uint64 {
	if k == noc.Tensix || k == noc.Ethernet {
		return blockAlign
	}
	return otherAlign
}
