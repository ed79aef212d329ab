package topo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"ttfabric/wire"
)

// Limits of a topology.
const (
	MaxFile      = 1 << 20                                     // bytes of a file; one of a full mesh has about a third of it
	MaxBoardName = 64                                          // bytes
	MaxCables    = wire.MaxChipsPerMesh * wire.MaxChannels / 2 // cables of one topology
)

// Ethernet channels of a chip with nothing harvested (tt-isa-documentation,
// EthernetTile: 16 such tiles on Wormhole, 14 on Blackhole).
const (
	wormholeChannels  = 16
	blackholeChannels = 14
)

// Channels returns the number of ethernet channels of a chip with nothing harvested; 0 for an unknown architecture.
func Channels(a wire.Arch) int {
	switch a {
	case wire.Wormhole:
		return wormholeChannels
	case wire.Blackhole:
		return blackholeChannels
	}
	return 0
}

// ErrNoCoordinates says that a descriptor of several chips gives them no
// coordinates, so that its layout would have to be derived from its cables.
var ErrNoCoordinates = errors.New("no chip coordinates")

// Error is a fault in a topology file. It is always the file's or its
// author's, never the program's.
type Error struct {
	File   string
	Line   int // 1 for the first; 0 where the file as a whole is at fault
	Reason string
	Err    error // cause, such as [ErrNoCoordinates]; or nil
}

// Error is "FILE:LINE: reason".
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Topology is a machine: chips in one or more meshes and the cables between
// their ethernet channels. [Named] and [Load] return valid ones; one put
// together by hand should pass [Topology.Validate] before it is used. Methods
// only read it.
type Topology struct {
	Name   string // "t3000", "mesh:4x8", or a file's name without its folder
	Arch   wire.Arch
	Meshes []Mesh  // sorted by ID; exactly one for now
	Chips  []Chip  // sorted by Node; each mesh is full
	Cables []Cable // A.Less(B); sorted by A
	Source string  // what it was read from, for messages
}

// Mesh is a full grid of chips.
type Mesh struct {
	ID   wire.MeshID
	Rows int // North to South, at least 1
	Cols int // West to East, at least 1; Rows*Cols is at most [wire.MaxChipsPerMesh]
}

// NoUMD is the UMD number of a chip that no cluster descriptor numbers.
const NoUMD = -1

// Chip is one device and its place.
type Chip struct {
	Node     wire.FabricNodeID // Node.Chip = Row*Cols+Col
	Row, Col int               // from the north-west corner of its mesh
	UMD      int               // logical id in the cluster descriptor, [NoUMD] when generated
	Board    string            // type of the board it sits on, such as n300; may be empty
	UniqueID uint64            // the descriptor's chip_unique_ids, by default UMD<<32 as in tt-umd; 0 when built in
	MMIO     bool              // the host reaches it directly (over PCIe)
}

// Cable joins two ethernet ports of neighbouring chips.
type Cable struct {
	A, B   wire.PortID    // A.Less(B)
	Dir    wire.Direction // in which B lies seen from A
	Plane  wire.Plane     // its number among the cables of its edge
	Unused bool           // the machine's thinnest edge has no cable for this plane
}

// Port is one chip's view of a cable.
type Port struct {
	Local, Peer wire.PortID
	Dir         wire.Direction // in which the peer lies
	Plane       wire.Plane
}

// Chip returns the chip with address n.
func (t *Topology) Chip(n wire.FabricNodeID) (Chip, bool) {
	i, ok := slices.BinarySearchFunc(t.Chips, n, func(c Chip, n wire.FabricNodeID) int { return compareNodes(c.Node, n) })
	if !ok {
		return Chip{}, false
	}
	return t.Chips[i], true
}

// Mesh returns the mesh numbered id.
func (t *Topology) Mesh(id wire.MeshID) (Mesh, bool) {
	for _, m := range t.Meshes {
		if m.ID == id {
			return m, true
		}
	}
	return Mesh{}, false
}

// Ports lists the ports of chip n that carry traffic, sorted by channel. Ports of unused cables are not among them.
func (t *Topology) Ports(n wire.FabricNodeID) []Port {
	var ps []Port
	for _, c := range t.Cables {
		switch {
		case c.Unused:
		case c.A.Node == n:
			ps = append(ps, Port{Local: c.A, Peer: c.B, Dir: c.Dir, Plane: c.Plane})
		case c.B.Node == n:
			ps = append(ps, Port{Local: c.B, Peer: c.A, Dir: c.Dir.Opposite(), Plane: c.Plane})
		}
	}
	slices.SortFunc(ps, func(p, q Port) int { return int(p.Local.Channel) - int(q.Local.Channel) })
	return ps
}

// Neighbour returns the chip at the other end of n's cable in direction d on
// plane p. There is none at the edge of the grid, and none over an unused
// cable. It takes logarithmic time and does not allocate.
func (t *Topology) Neighbour(n wire.FabricNodeID, d wire.Direction, p wire.Plane) (wire.FabricNodeID, bool) {
	m, ok := t.Mesh(n.Mesh)
	if !ok || m.Cols < 1 || d >= wire.NumDirections {
		return wire.FabricNodeID{}, false
	}
	row, col := step(int(n.Chip)/m.Cols, int(n.Chip)%m.Cols, d)
	if row < 0 || row >= m.Rows || col < 0 || col >= m.Cols {
		return wire.FabricNodeID{}, false
	}
	peer := wire.FabricNodeID{Mesh: n.Mesh, Chip: wire.ChipID(row*m.Cols + col)}
	low, high, seen := n, peer, d
	if compareNodes(peer, n) < 0 {
		low, high, seen = peer, n, d.Opposite()
	}
	i, _ := slices.BinarySearchFunc(t.Cables, wire.PortID{Node: low}, func(c Cable, q wire.PortID) int { return comparePorts(c.A, q) })
	for ; i < len(t.Cables) && t.Cables[i].A.Node == low; i++ {
		if c := &t.Cables[i]; c.B.Node == high && c.Dir == seen && c.Plane == p && !c.Unused {
			return peer, true
		}
	}
	return wire.FabricNodeID{}, false
}

// Planes returns the number of routing planes: the minimum number of cables
// over the edges of the grid (Spec §2.2.2). A single chip, which has no edges, has none.
func (t *Topology) Planes() int {
	n := 0
	for _, c := range t.Cables {
		if !c.Unused {
			n = max(n, int(c.Plane)+1)
		}
	}
	return n
}

// Hash names the wiring: the architecture, the meshes, the chips' places, the
// cables and their planes. Chips that are to be one fabric compare it. Names,
// boards and UMD numbers are no part of it, so that one machine has one hash,
// however it was described.
func (t *Topology) Hash() uint64 {
	h := fnv.New64a()
	var b []byte
	put := func(vs ...int) {
		b = b[:0]
		for _, v := range vs {
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
		h.Write(b)
	}
	put(int(t.Arch), len(t.Meshes), len(t.Chips), len(t.Cables))
	for _, m := range t.Meshes {
		put(int(m.ID), m.Rows, m.Cols)
	}
	for _, c := range t.Chips {
		put(int(c.Node.Mesh), int(c.Node.Chip), c.Row, c.Col)
	}
	for _, c := range t.Cables {
		used := 1
		if c.Unused {
			used = 0
		}
		put(int(c.A.Node.Mesh), int(c.A.Node.Chip), int(c.A.Channel), int(c.B.Node.Mesh), int(c.B.Node.Chip), int(c.B.Channel),
			int(c.Dir), int(c.Plane), used)
	}
	return h.Sum64()
}

// String summarises the machine: "t3000: 8 chips 2×4, 20 cables, 2 planes".
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
	fmt.Fprintf(&b, "%s: %s", t.Name, count(len(t.Chips), "chip"))
	for _, m := range t.Meshes {
		fmt.Fprintf(&b, " %d×%d", m.Rows, m.Cols)
	}
	fmt.Fprintf(&b, ", %s", count(len(t.Cables), "cable"))
	if unused > 0 {
		fmt.Fprintf(&b, " (%d unused)", unused)
	}
	fmt.Fprintf(&b, ", %s", count(t.Planes(), "plane"))
	return b.String()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// step moves one place in direction d.
func step(row, col int, d wire.Direction) (int, int) {
	switch d {
	case wire.East:
		col++
	case wire.West:
		col--
	case wire.North:
		row--
	case wire.South:
		row++
	}
	return row, col
}

// towards returns the direction of a step from one place to another, false where they are not next to each other.
func towards(rowA, colA, rowB, colB int) (wire.Direction, bool) {
	for d := range wire.Direction(wire.NumDirections) {
		if r, c := step(rowA, colA, d); r == rowB && c == colB {
			return d, true
		}
	}
	return 0, false
}

func compareNodes(a, b wire.FabricNodeID) int {
	if a.Mesh != b.Mesh {
		return int(a.Mesh) - int(b.Mesh)
	}
	return int(a.Chip) - int(b.Chip)
}

func comparePorts(a, b wire.PortID) int {
	if c := compareNodes(a.Node, b.Node); c != 0 {
		return c
	}
	return int(a.Channel) - int(b.Channel)
}
