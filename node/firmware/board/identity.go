package board

import (
	"slices"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Identity holds the names of a chip that a host reads: the chip's position, its board, and its own
// id.
type Identity struct {
	Coord    Coord
	Board    uint64 // id of the board; bits 36 to 55 are the number of the board's type (UPI)
	Location uint8  // number of the chip on its board, see [Identify]
	ASIC     uint64 // unique id of the chip
	Kind     Kind
}

// Kind is a type of board, with the name that tt-umd gives it.
type Kind string

// The kinds of boards.
const (
	N150         Kind = "n150"
	N300         Kind = "n300"
	UBBWormhole  Kind = "ubb"
	P100         Kind = "p100"
	P150         Kind = "p150"
	P300         Kind = "p300"
	UBBBlackhole Kind = "ubb_blackhole"
)

// galaxy reports whether the kind is a board of a Galaxy (6U), whose base firmware has routing disabled.
func (k Kind) galaxy() bool { return k == UBBWormhole || k == UBBBlackhole }

// upis are the numbers of board types in board ids, with the newest first for each kind (tt-umd,
// board_upi_map).
var upis = []struct {
	upi  uint64
	kind Kind
	arch wire.Arch
}{{0x18, N150, wire.Wormhole}, {0x14, N300, wire.Wormhole}, {0x35, UBBWormhole, wire.Wormhole},
	{0x36, P100, wire.Blackhole}, {0x43, P100, wire.Blackhole}, {0x40, P150, wire.Blackhole}, {0x41, P150, wire.Blackhole}, {0x42, P150, wire.Blackhole},
	{0x44, P300, wire.Blackhole}, {0x45, P300, wire.Blackhole}, {0x46, P300, wire.Blackhole}, {0x47, UBBBlackhole, wire.Blackhole}}

// Bits of a board id.
const (
	upiBit  = 36
	upiMask = 0xFFFFF
)

// kindOf returns the kind of board that a board id names. If no board of the architecture has the
// number in the id, kindOf returns false.
func kindOf(a wire.Arch, id uint64) (Kind, bool) {
	for _, u := range upis {
		if u.upi == id>>upiBit&upiMask && u.arch == a {
			return u.kind, true
		}
	}
	return "", false
}

// kindNamed returns the kind of board with the name that a topology gives, and the number of the kind in
// board ids. A board with an unknown name counts as an n150 or a p150, as in
// [topo.Topology.EncodeClusterDescriptor].
func kindNamed(a wire.Arch, name string) (Kind, uint64) {
	if name = strings.ToLower(name); name == "ubb_wormhole" {
		name = string(UBBWormhole)
	}
	fallback := N150
	if a == wire.Blackhole {
		fallback = P150
		name = strings.TrimRight(name, "ac") // p150a, p150c, p300a and p300c
		if name == "ubb" {
			name = string(UBBBlackhole)
		}
	}
	for _, want := range []string{name, string(fallback)} {
		for _, u := range upis {
			if u.arch == a && string(u.kind) == want {
				return u.kind, u.upi
			}
		}
	}
	return "", 0
}

// Mangle returns the mangled board id: the 32 bits of a board id that the base firmware of Wormhole's
// ethernet tiles knows (tt-umd, TopologyDiscoveryWormhole::get_local_board_id).
func Mangle(board uint64) uint32 { return uint32(board>>4&0xF0000000 | board&0x0FFFFFFF) }

// Identify returns the identity of each chip, in the order of t.Chips.
//
// Boards. [topo.Topology.Boards] says which chips are on one board. If the BoardID names a known
// board type, the BoardID is the board's id. Otherwise Identify makes an id out of the board's
// type, the hash of the topology and the index of the board's first chip. A made id is the same in
// every run of a topology, and differs from the other made ids of the topology.
//
// Locations. The left chip of an n300 is 0, and the right chip is 1. The left chip has channels 8 and 9
// towards the right chip. The chips of each tray of a Galaxy are 1 to 8. A chip alone on its board is 0.
//
// Unique ids. tt-umd computes the id of a chip behind a cable from the board id and the location that an
// ethernet tile reports. Identify computes the same id:
//   - Wormhole: The low word is the mangled board id, and the high word is 2 plus the location. If
//     the low word of [topo.Chip].UniqueID is the mangled board id, however, UniqueID is the id.
//   - Blackhole: The id is the board id times 32, plus the location.
//
// A chip without cables has the board id (Wormhole) or its UniqueID (Blackhole). A Galaxy chip has its
// UniqueID. If a Galaxy chip has no UniqueID, Identify makes an id.
func Identify(t *topo.Topology) []Identity {
	out := make([]Identity, len(t.Chips))
	at, hash := Coords(t), t.Hash()
	first, right := t.Boards()
	rank := ranks(t, first, right)
	cabled := make([]bool, len(t.Chips))
	for _, c := range t.Cables {
		cabled[t.Index(c.A.Node)], cabled[t.Index(c.B.Node)] = true, true
	}
	for i, c := range t.Chips {
		head := t.Chips[first[i]]
		id := Identity{Coord: at[c.Node], Board: head.BoardID}
		var known bool
		if id.Kind, known = kindOf(t.Arch, id.Board); !known {
			var upi uint64
			id.Kind, upi = kindNamed(t.Arch, head.Board)
			id.Board = madeBoard(t.Arch, upi, hash, first[i])
		}
		id.Location = uint8(rank[i])
		if id.Kind.galaxy() {
			id.Location = uint8(rank[i]%trayChips) + 1
		}
		id.ASIC = asic(t.Arch, &c, &id, cabled[i], hash, i)
		out[i] = id
	}
	return out
}

// trayChips is the number of chips on a tray of a Galaxy.
const trayChips = 8

// ranks returns the number of each chip among the chips of its board, from 0. Left chips come
// before right chips. Of two left or two right chips, a chip on PCIe comes first, and then the chip
// with the lower tt-umd id.
func ranks(t *topo.Topology, first []int, right []bool) []int {
	members := map[int][]int{}
	for i, f := range first {
		members[f] = append(members[f], i)
	}
	rank := make([]int, len(first))
	key := func(i int) int { // chips with smaller keys come first
		k := 0
		if right[i] {
			k = 2
		}
		if !t.Chips[i].MMIO {
			k++
		}
		return k
	}
	for _, of := range members {
		slices.SortStableFunc(of, func(a, b int) int {
			if d := key(a) - key(b); d != 0 {
				return d
			}
			return t.Chips[a].UMD - t.Chips[b].UMD
		})
		for n, i := range of {
			rank[i] = n
		}
	}
	return rank
}

// Bits of the ids that Identify makes.
const (
	madeFirst   = 0x1 << 56 // in the ids of real Wormhole boards
	madeThird   = 0x1 << 28
	madeIndex   = 18 // bits of the index of the board's first chip
	madeHash    = 10 // bits of the topology's hash above the index
	madeNibble  = 32 // first bit of four more bits of the hash
	hashNibble  = 4
	asicIndex   = 24 // bits of the index in a Galaxy chip's made id
	leftASIC    = 2  // high word of the id of an n300's left chip, or of a chip alone on its board
	asicNumber  = 5  // bits of the location in a Blackhole chip's id (tt-umd, mangle_asic_id)
	highestASIC = 1 << 63
)

// madeBoard returns the id of a board whose first chip has an index.
func madeBoard(a wire.Arch, upi, hash uint64, index int) uint64 {
	id := upi<<upiBit | hash&(1<<hashNibble-1)<<madeNibble | hash>>hashNibble&(1<<madeHash-1)<<madeIndex | uint64(index)&(1<<madeIndex-1)
	if a == wire.Wormhole {
		id |= madeFirst | madeThird
	}
	return id
}

// asic returns the unique id of chip i.
func asic(a wire.Arch, c *topo.Chip, id *Identity, cabled bool, hash uint64, i int) uint64 {
	real := c.UniqueID != 0 && (c.UMD < 0 || c.UniqueID != uint64(c.UMD)<<32)
	switch {
	case id.Kind.galaxy() && real:
		return c.UniqueID
	case id.Kind.galaxy():
		return highestASIC | hash<<asicIndex&^highestASIC | uint64(i)
	case a == wire.Blackhole && !cabled && real:
		return c.UniqueID
	case a == wire.Blackhole:
		return id.Board<<asicNumber | uint64(id.Location)
	case !cabled:
		return id.Board
	case uint32(c.UniqueID) == Mangle(id.Board):
		return c.UniqueID
	}
	return (leftASIC+uint64(id.Location))<<32 | uint64(Mangle(id.Board))
}
