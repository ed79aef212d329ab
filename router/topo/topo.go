package topo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ttfabric/router/topo/arrange"
	"ttfabric/wire"
)

// Limits of a topology. A generated topology may be too large for a file of MaxFile bytes.
const (
	MaxFile      = 4 << 20                                                      // largest size of a topology file, in bytes; a file of about twenty full meshes with two cables per edge has this size
	MaxBoardName = 64                                                           // largest length of the name of a board, in bytes
	MaxCables    = wire.MaxMeshes * wire.MaxChipsPerMesh * wire.MaxChannels / 2 // largest number of cables of one topology
	MinWrap      = arrange.MinWrap                                              // smallest number of chips of an axis that wraps
)

// Numbers of ethernet channels of a chip without harvested channels (tt-isa-documentation,
// EthernetTile: 16 such tiles on Wormhole, 14 on Blackhole).
const (
	wormholeChannels  = 16
	blackholeChannels = 14
)

// Channels returns the number of ethernet channels of a chip without harvested channels. For an
// unknown architecture, Channels returns 0.
func Channels(a wire.Arch) int {
	switch a {
	case wire.Wormhole:
		return wormholeChannels
	case wire.Blackhole:
		return blackholeChannels
	}
	return 0
}

// Numbers of rows with Tensix tiles of a Wormhole chip and of columns with Tensix tiles of a
// Blackhole chip (tt-umd, TENSIX_GRID_SIZE).
const (
	wormholeRows     = 10
	blackholeColumns = 14
)

// MaxHarvested returns the largest harvesting mask of an architecture. For an unknown architecture,
// MaxHarvested returns 0.
func MaxHarvested(a wire.Arch) uint16 {
	switch a {
	case wire.Wormhole:
		return 1<<wormholeRows - 1
	case wire.Blackhole:
		return 1<<blackholeColumns - 1
	}
	return 0
}

// ErrNoLayout is the error for a cluster descriptor without usable coordinates whose cables fit no
// line, ring, mesh or torus.
var ErrNoLayout = errors.New("the cabling fits no grid")

// Error is a fault in the content of a topology file.
type Error struct {
	File   string
	Line   int // number of the line, counted from 1; 0: the fault concerns the file as a whole, or its line is not known
	Reason string
	Err    error // cause of the fault, such as [ErrNoLayout]; or nil
}

// Error returns the fault in the form "FILE:LINE: reason", or "FILE: reason" if Line is 0.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Unwrap returns the cause of the fault.
func (e *Error) Unwrap() error { return e.Err }

// Topology is a machine: chips in one or more meshes and the cables between their ethernet
// channels. [Named] and [Load] return valid topologies. A program that builds or changes a topology
// itself must call [Topology.Validate] before any other method.
type Topology struct {
	Name   string // "t3000", "mesh:4x8", or a file's name without its folder
	Arch   wire.Arch
	Meshes []Mesh  // sorted by ID, at most [wire.MaxMeshes]; ids may have gaps
	Chips  []Chip  // sorted by Node; each mesh is full
	Cables []Cable // each with A.Less(B); sorted by A
	Source string  // the file that the topology comes from, or built-in; for messages
	Layout string  // a sentence for people about what Load chose itself, such as rows and columns of chips, or directions of exits; may be empty

	MaxPlanes int // largest number of routing planes that the fabric uses; 0: no limit; see [Topology.Downshift]

	Missing []Edge    // pairs of neighbours in a grid without a cable, the western or northern chip first; sorted; nil: every two neighbours have a cable
	LeftOut []LeftOut // parts of the file that the topology does not have; nil: none

	Notes map[wire.PortID]Note // notes about cables, by the cable's lower end; nil: none
	Netem []string             // impairments that apply from the start, such as "M0D0-M0D1,delay=1ms"; the first part names cables in the form of pick.Links

	Transport string // transport of the links, one of [Transports]; "": the file has no such key
	Auth      string // how chips authenticate each other, one of [Auths]; "": the file has no such key

	ix *index // index of Cables; Validate makes it
}

// Mesh is a full grid of chips.
type Mesh struct {
	ID    wire.MeshID
	Rows  int  // number of rows, from North to South; at least 1
	Cols  int  // number of columns, from West to East; at least 1; Rows*Cols is at most [wire.MaxChipsPerMesh]
	WrapX bool // the east neighbour of the last column is the first column; Cols is then at least [MinWrap]
	WrapY bool // the south neighbour of the last row is the first row; Rows is then at least [MinWrap]
	OpenX bool // cables join the last column and the first, but the fabric does not use them; WrapX is then false; see [Topology.Downshift]
	OpenY bool // cables join the last row and the first, but the fabric does not use them; WrapY is then false
	Axes  Axes // axes whose cables the fabric uses
}

// NoUMD is the value of UMD for a chip without an id of tt-umd.
const NoUMD = -1

// Chip is one device and its place in the grid of its mesh.
type Chip struct {
	Node     wire.FabricNodeID // address; Node.Chip is Row*Cols+Col
	Row, Col int               // row and column of the chip, counted from 0 at the north-west corner of its mesh
	UMD      int               // tt-umd's id of the chip, as in a cluster descriptor; [NoUMD]: none
	Board    string            // type of the chip's board, such as n300; may be empty
	UniqueID uint64            // id from the key chip_unique_ids of the cluster descriptor; if the descriptor has no such id, UMD<<32 as in tt-umd; 0: the topology is not from a descriptor
	BoardID  uint64            // id of the chip's board, from the key boards of the cluster descriptor; chips with equal ids are on one board; 0: the topology does not name the board
	MMIO     bool              // the host reaches the chip directly (over PCIe)

	// Harvested is the mask of the Tensix tiles that are switched off. On Wormhole, bit i is the i-th
	// row with Tensix tiles, counted from 0 at the north. On Blackhole, bit i is the i-th column with
	// Tensix tiles, counted from 0 at the west. The mask is at most [MaxHarvested].
	Harvested uint16

	// Position is the chip's position in the cluster descriptor. Position is set only if some
	// chip's position does not follow from its row and column; see [Topology.Positions].
	Position Position

	// Untranslated says that the chip has no translated NoC coordinates: the descriptor's key
	// noc_translation is false.
	Untranslated bool
}

// Cable joins two ethernet ports. The ports belong to neighbours in the grid of one mesh, or to
// exit nodes of two meshes (Spec §2.2.1).
type Cable struct {
	A, B   wire.PortID    // the two ends, with A.Less(B)
	Dir    wire.Direction // direction from A to B
	Back   wire.Direction // direction from B to A: within a mesh, the opposite of Dir; between meshes, any direction, because real machines have rotated labels
	Plane  wire.Plane     // the cable's number among the cables with the same chips and the same Dir, sorted by A.Channel
	Unused bool           // the cable carries no traffic, because a mesh at one of its ends has no such plane
}

// External reports whether the cable joins two meshes.
func (c Cable) External() bool { return c.A.Node.Mesh != c.B.Node.Mesh }

// Port is a cable, seen from the chip at one of its ends.
type Port struct {
	Local, Peer wire.PortID
	Dir         wire.Direction // direction from Local to Peer
	Plane       wire.Plane
}

// Hash returns a checksum of the architecture, the meshes, the rows and columns of chips, and the
// cables with their planes. Chips that form one fabric compare their hashes. Names, boards and
// their ids, UMD numbers, harvesting masks, labels and impairments are not part of the hash. The
// hash of a machine is therefore the same in every file format.
func (t *Topology) Hash() uint64 {
	// The hash is FNV-1a, as in hash/fnv, of the values as little-endian 32-bit numbers. Most bytes
	// are zero, and a zero byte costs only a multiplication.
	const (
		offset, prime  = 14695981039346656037, 1099511628211
		prime3, prime4 = prime * prime * prime % (1 << 64), prime * prime * prime * prime % (1 << 64)
	)
	h := uint64(offset)
	put := func(vs ...int) {
		for _, n := range vs {
			switch v := uint64(uint32(n)); {
			case v < 1<<8:
				h = (h ^ v) * prime4
			case v < 1<<16:
				h = (h ^ v&0xff) * prime
				h = (h ^ v>>8) * prime3
			default:
				for k := 0; k < 32; k += 8 {
					h = (h ^ v>>k&0xff) * prime
				}
			}
		}
	}
	put(int(t.Arch), len(t.Meshes), len(t.Chips), len(t.Cables))
	for _, m := range t.Meshes {
		put(int(m.ID), m.Rows, m.Cols, bit(m.WrapX)|bit(m.WrapY)<<1)
	}
	for _, c := range t.Chips {
		put(int(c.Node.Mesh), int(c.Node.Chip), c.Row, c.Col)
	}
	for _, c := range t.Cables {
		put(int(c.A.Node.Mesh), int(c.A.Node.Chip), int(c.A.Channel), int(c.B.Node.Mesh), int(c.B.Node.Chip), int(c.B.Channel),
			int(c.Dir), int(c.Back), int(c.Plane), bit(!c.Unused))
	}
	return h
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxSummary is the largest number of mesh sizes that String lists.
const maxSummary = 4

// String summarises the machine: "t3000: 8 chips 2×4, 20 cables, 2 planes", or "spec-l1: 36 chips
// in 4 meshes 3×3, 58 cables, 2 planes". The sign ○ after a size marks an axis that wraps: "4×8○".
func (t *Topology) String() string {
	if t == nil {
		return "no topology"
	}
	unused := 0
	for _, c := range t.Cables {
		if c.Unused {
			unused++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", t.Name, Count(len(t.Chips), "chip"))
	if len(t.Meshes) > 1 {
		fmt.Fprintf(&b, " in %d meshes", len(t.Meshes))
	}
	var shapes []string
	for _, m := range t.Meshes {
		if s := m.Shape(); !slices.Contains(shapes, s) && len(shapes) <= maxSummary {
			shapes = append(shapes, s)
		}
	}
	if len(shapes) > maxSummary {
		shapes[maxSummary] = "…"
	}
	b.WriteString(strings.TrimRight(" "+strings.Join(shapes, ", "), " "))
	fmt.Fprintf(&b, ", %s", Count(len(t.Cables), "cable"))
	if unused > 0 {
		fmt.Fprintf(&b, " (%d unused)", unused)
	}
	fmt.Fprintf(&b, ", %s", Count(t.Planes(), "plane"))
	return b.String()
}

// Count returns a number and a noun in singular or plural: "1 cable", "3 cables".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Shape returns the size of the mesh: "4×8". The sign ○ after a size marks an axis that wraps:
// "4○×8○".
func (m Mesh) Shape() string {
	ring := [2]string{"", "○"}
	return fmt.Sprintf("%d%s×%d%s", m.Rows, ring[bit(m.WrapY)], m.Cols, ring[bit(m.WrapX)])
}

// grid returns the grid of the mesh.
func (m Mesh) grid() arrange.Grid {
	return arrange.Grid{Rows: m.Rows, Cols: m.Cols, WrapX: m.WrapX, WrapY: m.WrapY}
}

// step returns the row and column of the neighbour in direction d, see [arrange.Grid.Step].
func (m Mesh) step(row, col int, d wire.Direction) (int, int, bool) {
	if int(d) >= len(arrange.Sides) {
		return row, col, false
	}
	return m.grid().Step(row, col, arrange.Sides[d])
}

// towards returns the direction from one place of the grid to a neighbouring place. If the places
// are not neighbours, towards reports false.
func (m Mesh) towards(rowA, colA, rowB, colB int) (wire.Direction, bool) {
	for d := range wire.Direction(wire.NumDirections) {
		if r, c, ok := m.step(rowA, colA, d); ok && r == rowB && c == colB {
			return d, true
		}
	}
	return 0, false
}

func comparePorts(a, b wire.PortID) int {
	if c := a.Node.Compare(b.Node); c != 0 {
		return c
	}
	return int(a.Channel) - int(b.Channel)
}
