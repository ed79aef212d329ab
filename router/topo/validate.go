package topo

import (
	"cmp"
	"fmt"
	"slices"

	"ttfabric/wire"
)

// Validate returns an error that names the first broken rule. The rules are:
//
//   - The architecture is Wormhole or Blackhole.
//   - Meshes are sorted by id. Each mesh is a full grid of chips. The chips are sorted. A chip's
//     row and column follow from its id. An axis that wraps has at least [MinWrap] chips.
//   - Each cable joins neighbours in a grid, or chips of two meshes. The end A of a cable is the
//     lower end, and cables are sorted by A. At most one cable uses a channel of a chip. Each
//     channel exists in the architecture. At least one cable joins each pair of neighbours, or the
//     pair is in the list Missing. The chips of a mesh reach each other.
//   - Directions and planes follow the rules in the package documentation. Each chip has at most
//     one used cable for a direction and plane.
//   - Notes, impairments, transport and auth are valid.
//   - The numbers of meshes, chips and cables, the names of boards and the UMD ids are within their
//     limits. No two chips of a mesh have one UMD id.
//
// Validate also makes the index that other methods use. No other method may run during the first
// call of Validate.
func (t *Topology) Validate() error {
	if f := t.check(); f != nil {
		return fmt.Errorf("topology %s: %s", t.Name, f.reason)
	}
	ix := t.makeIndex()
	if t.ix == nil || !slices.Equal(ix.upper, t.ix.upper) || !slices.Equal(ix.planes, t.ix.planes) || ix.most != t.ix.most {
		t.ix = ix
	}
	return nil
}

// fault describes a broken rule. The numbers are the indices of the mesh, chip or cable that breaks
// the rule, or -1.
type fault struct {
	mesh, chip, cable int
	reason            string
}

func faultOf(chip, cable int, format string, args ...any) *fault {
	return &fault{-1, chip, cable, fmt.Sprintf(format, args...)}
}

func (t *Topology) check() *fault {
	if Channels(t.Arch) == 0 {
		return faultOf(-1, -1, "unknown architecture; want %s or %s", wire.Wormhole, wire.Blackhole)
	}
	if len(t.Meshes) < 1 || len(t.Meshes) > wire.MaxMeshes {
		return faultOf(-1, -1, "%d meshes: want 1 to %d", len(t.Meshes), wire.MaxMeshes)
	}
	if t.MaxPlanes < 0 || t.MaxPlanes > wire.MaxChannels {
		return faultOf(-1, -1, "at most %d planes: want a limit from 1 to %d, or 0 for none", t.MaxPlanes, wire.MaxChannels)
	}
	if len(t.Cables) > MaxCables {
		return faultOf(-1, -1, "%d cables: at most %d", len(t.Cables), MaxCables)
	}
	for i := range t.Meshes {
		if f := t.checkMesh(i); f != nil {
			f.mesh = i
			return f
		}
	}
	at := 0
	for _, m := range t.Meshes {
		var f *fault
		if at, f = t.checkChips(m, at); f != nil {
			return f
		}
	}
	if at < len(t.Chips) {
		c, m := t.Chips[at], t.Meshes[len(t.Meshes)-1]
		if c.Node.Mesh != m.ID {
			return faultOf(at, -1, "chip %s: there is no mesh %d", c.Node, c.Node.Mesh)
		}
		return faultOf(at, -1, "chip %s is one chip too many for the %d×%d mesh", c.Node, m.Rows, m.Cols)
	}
	joined, f := t.checkCables()
	if f != nil {
		return f
	}
	if f := t.checkEdges(joined); f != nil {
		return f
	}
	if f := t.checkPlanes(); f != nil {
		return f
	}
	return t.checkNotes()
}

func (t *Topology) checkMesh(i int) *fault {
	m := t.Meshes[i]
	if m.ID >= wire.MaxMeshes {
		return faultOf(-1, -1, "mesh id %d: the highest is %d", m.ID, wire.MaxMeshes-1)
	}
	if i > 0 && t.Meshes[i-1].ID >= m.ID {
		return faultOf(-1, -1, "mesh %d follows mesh %d: meshes must be sorted by id, and each id must occur only once", m.ID, t.Meshes[i-1].ID)
	}
	if !fits(m.Rows, m.Cols) {
		return faultOf(-1, -1, "mesh of %d×%d: want at least 1×1 and at most %d chips", m.Rows, m.Cols, wire.MaxChipsPerMesh)
	}
	if m.WrapX && m.OpenX || m.WrapY && m.OpenY {
		return faultOf(-1, -1, "mesh %d both uses and does not use the cables that wrap an axis; want one of wrap_x and open_x, and one of wrap_y and open_y", m.ID)
	}
	if m.Axes >= numAxes {
		return faultOf(-1, -1, "mesh %d uses the unknown axes %d", m.ID, m.Axes)
	}
	if m = m.cabled(); m.WrapX && m.Cols < MinWrap || m.WrapY && m.Rows < MinWrap {
		return faultOf(-1, -1, "mesh %d of %s: an axis that wraps has at least %d chips", m.ID, m.Shape(), MinWrap)
	}
	return nil
}

// fits reports whether a mesh may have the given numbers of rows and columns.
func fits(rows, cols int) bool {
	return rows >= 1 && cols >= 1 && rows <= wire.MaxChipsPerMesh && cols <= wire.MaxChipsPerMesh && rows*cols <= wire.MaxChipsPerMesh
}

// checkChips checks the chips of mesh m, which begin at t.Chips[at]. checkChips returns the index
// at which the chips of the next mesh begin.
func (t *Topology) checkChips(m Mesh, at int) (int, *fault) {
	umd := map[int]wire.FabricNodeID{}
	for k := range m.Rows * m.Cols {
		i := at + k
		if i >= len(t.Chips) {
			return at, faultOf(-1, -1, "%s in a %d×%d mesh: want %d", Count(k, "chip"), m.Rows, m.Cols, m.Rows*m.Cols)
		}
		c, want := t.Chips[i], wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID(k)}
		if c.Node != want {
			return at, faultOf(i, -1, "found chip %s instead of chip %s: chips must be sorted, and no chip may be missing", c.Node, want)
		}
		if c.Row != k/m.Cols || c.Col != k%m.Cols {
			return at, faultOf(i, -1, "chip %s has row %d and column %d, but its id stands for row %d and column %d", c.Node, c.Row, c.Col, k/m.Cols, k%m.Cols)
		}
		if c.Harvested > MaxHarvested(t.Arch) {
			return at, faultOf(i, -1, "chip %s has the harvesting mask %d: want at most %d on %s", c.Node, c.Harvested, MaxHarvested(t.Arch), t.Arch)
		}
		if len(c.Board) > MaxBoardName {
			return at, faultOf(i, -1, "chip %s has a board name of %d bytes: at most %d", c.Node, len(c.Board), MaxBoardName)
		}
		if c.UMD < NoUMD || c.UMD > maxUMD {
			return at, faultOf(i, -1, "chip %s has UMD id %d: want 0 to %d, or %d for none", c.Node, c.UMD, maxUMD, NoUMD)
		}
		if other, dup := umd[c.UMD]; dup && c.UMD != NoUMD {
			return at, faultOf(i, -1, "chips %s and %s both have UMD id %d", other, c.Node, c.UMD)
		}
		umd[c.UMD] = c.Node
	}
	return at + m.Rows*m.Cols, nil
}

// checkCables checks all cables. For each chip, checkCables returns the directions in which a cable
// leads to a neighbour in the chip's mesh. The result has one bit for each direction.
func (t *Topology) checkCables() (joined []uint8, f *fault) {
	joined = make([]uint8, len(t.Chips))
	used := make([]uint32, len(t.Chips)) // for each chip: set of channels in use, one bit for each channel
	for i, c := range t.Cables {
		if !c.A.Less(c.B) {
			return nil, faultOf(-1, i, "cable %s to %s: the lower end must come first", c.A, c.B)
		}
		if i > 0 && !t.Cables[i-1].A.Less(c.A) {
			return nil, faultOf(-1, i, "cable %s to %s: cables must be sorted by their lower ends, and each lower end must occur only once", c.A, c.B)
		}
		var ends [2]int
		for k, p := range [2]wire.PortID{c.A, c.B} {
			at, ok := t.chipAt(p.Node)
			if !ok {
				return nil, faultOf(-1, i, "cable %s to %s: there is no chip %s", c.A, c.B, p.Node)
			}
			if int(p.Channel) >= Channels(t.Arch) {
				return nil, faultOf(-1, i, "cable %s to %s: %s has channels 0 to %d", c.A, c.B, t.Arch, Channels(t.Arch)-1)
			}
			if used[at]>>p.Channel&1 != 0 {
				return nil, faultOf(-1, i, "cable %s to %s: another cable uses %s", c.A, c.B, p)
			}
			used[at] |= 1 << p.Channel
			ends[k] = at
		}
		if f := t.checkDirections(i, ends, joined); f != nil {
			return nil, f
		}
	}
	return joined, nil
}

// checkDirections checks the directions of cable i. The cable's ends A and B are at the chips with
// the indices in ends. If the cable lies within a mesh, checkDirections adds its directions to
// joined.
func (t *Topology) checkDirections(i int, ends [2]int, joined []uint8) *fault {
	c := &t.Cables[i]
	if c.Dir >= wire.NumSides || c.Back >= wire.NumSides {
		return faultOf(-1, i, "cable %s to %s has directions %d and %d: want numbers below %d", c.A, c.B, c.Dir, c.Back, wire.NumSides)
	}
	if c.External() {
		return nil
	}
	m, _ := t.Mesh(c.A.Node.Mesh)
	a, b := t.Chips[ends[0]], t.Chips[ends[1]]
	d, ok := m.cabled().towards(a.Row, a.Col, b.Row, b.Col)
	if !ok {
		return faultOf(-1, i, "cable %s to %s: a cable within a mesh must join neighbours in the grid", c.A, c.B)
	}
	if d != c.Dir {
		return faultOf(-1, i, "cable %s to %s has direction %s: want %s", c.A, c.B, c.Dir, d)
	}
	if c.Back != d.Opposite() {
		return faultOf(-1, i, "cable %s to %s has direction %s at its upper end: want %s", c.A, c.B, c.Back, d.Opposite())
	}
	joined[ends[0]] |= 1 << c.Dir
	joined[ends[1]] |= 1 << c.Back
	return nil
}

// checkEdges checks that every chip has a cable to each of its neighbours, except the neighbours in
// the list Missing. Spec §2.2.1 says: "A mesh is a fully and uniformaly connected grid".
func (t *Topology) checkEdges(joined []uint8) *fault {
	at, missing := 0, 0
	for _, m := range t.Meshes {
		es := t.holes(m, at, joined)
		if f := t.checkMissing(m, at, es, joined); f != nil {
			return f
		}
		missing += len(es)
		at += m.Rows * m.Cols
	}
	for i, e := range t.Missing {
		if i > 0 && t.Missing[i-1].compare(e) >= 0 {
			return faultOf(-1, -1, "the pair %s and %s is missing twice, or the missing pairs are not sorted", e.A, e.B)
		}
	}
	if len(t.Missing) != missing {
		return faultOf(-1, -1, "%d pairs of neighbours are said to lack a cable, and %d pairs lack a cable: list each of these pairs, the western or northern chip first", len(t.Missing), missing)
	}
	return nil
}

func (t *Topology) checkPlanes() *fault {
	want := slices.Clone(t.Cables)
	t.assignPlanes(want)
	taken := make([][wire.NumSides]uint16, len(t.Chips)) // for each chip and direction: set of planes with a used cable, one bit for each plane
	for i, c := range t.Cables {
		if c != want[i] {
			return faultOf(-1, i, "cable %s to %s has plane %d and unused %t: want plane %d and unused %t", c.A, c.B, c.Plane, c.Unused, want[i].Plane, want[i].Unused)
		}
		if c.Unused {
			continue
		}
		for _, p := range [2]Port{c.fromA(), c.fromB()} {
			at, _ := t.chipAt(p.Local.Node)
			bit := uint16(1) << p.Plane
			if taken[at][p.Dir]&bit != 0 {
				return faultOf(-1, i, "cable %s to %s: chip %s has another cable in direction %s on plane %d; give this cable a direction that is free at the chip", c.A, c.B, p.Local.Node, p.Dir, p.Plane)
			}
			taken[at][p.Dir] |= bit
		}
	}
	return nil
}

// finish calls arrange and Validate. The caller must have set the chips, the ends of all cables,
// and the directions of cables between meshes.
func (t *Topology) finish() error {
	t.arrange()
	return t.Validate()
}

// arrange sorts meshes, chips and cables. arrange sets the directions of each cable between
// neighbours, and the plane and the field Unused of each cable. Other cables keep their directions.
func (t *Topology) arrange() {
	slices.SortStableFunc(t.Meshes, func(a, b Mesh) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(t.Missing, Edge.compare)
	slices.SortStableFunc(t.Chips, func(a, b Chip) int { return a.Node.Compare(b.Node) })
	for i := range t.Cables {
		c := &t.Cables[i]
		if c.B.Less(c.A) {
			c.A, c.B, c.Dir, c.Back = c.B, c.A, c.Back, c.Dir
		}
		if c.External() {
			continue
		}
		m, _ := t.Mesh(c.A.Node.Mesh)
		a, _ := t.Chip(c.A.Node)
		b, _ := t.Chip(c.B.Node)
		if d, ok := m.cabled().towards(a.Row, a.Col, b.Row, b.Col); ok {
			c.Dir, c.Back = d, d.Opposite()
		}
	}
	slices.SortStableFunc(t.Cables, func(c, d Cable) int { return comparePorts(c.A, d.A) })
	t.assignPlanes(t.Cables)
}

// assignPlanes sets the fields Plane and Unused of the given cables, which must be in the order of
// t.Cables. A cable is unused if a mesh at one of its ends does not have the cable's plane. The
// number of planes of a mesh is the smallest number of cables on any of its edges. A mesh without
// edges has no limit. A downshift can leave further cables unused, see [Topology.Downshift].
func (t *Topology) assignPlanes(cables []Cable) {
	thinnest := make([]int, len(t.Meshes))
	for i := range thinnest {
		thinnest[i] = wire.MaxChannels
	}
	for first := 0; first < len(cables); {
		end := first + 1 // end of the cables whose lower ends are at the same chip
		for end < len(cables) && cables[end].A.Node == cables[first].A.Node {
			end++
		}
		m, known := t.meshAt(cables[first].A.Node.Mesh)
		for i := first; i < end; i++ {
			c, n := &cables[i], 0 // n is the number of cables on the edge of c so far
			for k := first; k < end; k++ {
				if k == i {
					c.Plane = wire.Plane(n)
				}
				if d := &cables[k]; d.B.Node == c.B.Node && d.Dir == c.Dir {
					n++
				}
			}
			if known && !c.External() && t.idle(c) == "" {
				thinnest[m] = min(thinnest[m], n)
			}
		}
		first = end
	}
	for i := range cables {
		c := &cables[i]
		planes := wire.MaxChannels
		if t.MaxPlanes > 0 {
			planes = t.MaxPlanes
		}
		for _, id := range [2]wire.MeshID{c.A.Node.Mesh, c.B.Node.Mesh} {
			if m, ok := t.meshAt(id); ok {
				planes = min(planes, thinnest[m])
			}
		}
		c.Unused = int(c.Plane) >= planes || t.idle(c) != ""
	}
}
