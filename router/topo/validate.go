package topo

import (
	"fmt"
	"slices"

	"ttfabric/wire"
)

// Validate reports the first property that the topology lacks: one known
// architecture; one mesh; a full grid of chips, sorted, each in the place that
// its id says; cables between neighbours, lower end first and sorted, no
// channel used twice or beyond the architecture's, every pair of neighbours
// joined at least once; directions and planes as the package documents.
func (t *Topology) Validate() error {
	if f := t.check(); f != nil {
		return fmt.Errorf("topology %s: %s", t.Name, f.reason)
	}
	return nil
}

// fault is one broken property and the chip or cable that breaks it: an index, or -1.
type fault struct {
	chip, cable int
	reason      string
}

func faultOf(chip, cable int, format string, args ...any) *fault {
	return &fault{chip, cable, fmt.Sprintf(format, args...)}
}

func (t *Topology) check() *fault {
	if Channels(t.Arch) == 0 {
		return faultOf(-1, -1, "unknown architecture; want %s or %s", wire.Wormhole, wire.Blackhole)
	}
	if len(t.Meshes) != 1 {
		return faultOf(-1, -1, "%d meshes: a machine of exactly one is supported so far", len(t.Meshes))
	}
	m := t.Meshes[0]
	if m.ID >= wire.MaxMeshes {
		return faultOf(-1, -1, "mesh id %d: the highest is %d", m.ID, wire.MaxMeshes-1)
	}
	if m.Rows < 1 || m.Cols < 1 || m.Rows > wire.MaxChipsPerMesh || m.Cols > wire.MaxChipsPerMesh || m.Rows*m.Cols > wire.MaxChipsPerMesh {
		return faultOf(-1, -1, "mesh of %d×%d: want at least 1×1 and at most %d chips", m.Rows, m.Cols, wire.MaxChipsPerMesh)
	}
	if f := t.checkChips(m); f != nil {
		return f
	}
	if f := t.checkCables(); f != nil {
		return f
	}
	if f := t.checkEdges(m); f != nil {
		return f
	}
	return t.checkPlanes()
}

func (t *Topology) checkChips(m Mesh) *fault {
	umd := map[int]wire.FabricNodeID{}
	for i, c := range t.Chips {
		want := wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID(i)}
		if i >= m.Rows*m.Cols {
			return faultOf(i, -1, "chip %s is one more than the %d×%d mesh holds", c.Node, m.Rows, m.Cols)
		}
		if c.Node != want {
			return faultOf(i, -1, "chip %s where %s is due: chips must be sorted, and all of them there", c.Node, want)
		}
		if c.Row != i/m.Cols || c.Col != i%m.Cols {
			return faultOf(i, -1, "chip %s at row %d column %d: ids are row-major, so its place is row %d column %d", c.Node, c.Row, c.Col, i/m.Cols, i%m.Cols)
		}
		if len(c.Board) > MaxBoardName {
			return faultOf(i, -1, "chip %s has a board name of %d bytes: at most %d", c.Node, len(c.Board), MaxBoardName)
		}
		if c.UMD < NoUMD {
			return faultOf(i, -1, "chip %s has UMD id %d: want 0 or more, or %d for none", c.Node, c.UMD, NoUMD)
		}
		if other, dup := umd[c.UMD]; dup && c.UMD != NoUMD {
			return faultOf(i, -1, "chips %s and %s both have UMD id %d", other, c.Node, c.UMD)
		}
		umd[c.UMD] = c.Node
	}
	if len(t.Chips) != m.Rows*m.Cols {
		return faultOf(-1, -1, "%s in a %d×%d mesh: want %d", count(len(t.Chips), "chip"), m.Rows, m.Cols, m.Rows*m.Cols)
	}
	return nil
}

func (t *Topology) checkCables() *fault {
	used := map[wire.PortID]bool{}
	for i, c := range t.Cables {
		if !c.A.Less(c.B) {
			return faultOf(-1, i, "cable %s to %s: the lower end comes first", c.A, c.B)
		}
		if i > 0 && !t.Cables[i-1].A.Less(c.A) {
			return faultOf(-1, i, "cable %s to %s: cables must be sorted by their lower end, each channel once", c.A, c.B)
		}
		for _, p := range []wire.PortID{c.A, c.B} {
			if _, ok := t.Chip(p.Node); !ok {
				return faultOf(-1, i, "cable %s to %s: there is no chip %s", c.A, c.B, p.Node)
			}
			if int(p.Channel) >= Channels(t.Arch) {
				return faultOf(-1, i, "cable %s to %s: %s has channels 0 to %d", c.A, c.B, t.Arch, Channels(t.Arch)-1)
			}
			if used[p] {
				return faultOf(-1, i, "cable %s to %s: %s is in use by another cable", c.A, c.B, p)
			}
			used[p] = true
		}
		a, _ := t.Chip(c.A.Node)
		b, _ := t.Chip(c.B.Node)
		d, ok := towards(a.Row, a.Col, b.Row, b.Col)
		if !ok {
			return faultOf(-1, i, "cable %s to %s: a cable must join neighbours in the grid", c.A, c.B)
		}
		if d != c.Dir {
			return faultOf(-1, i, "cable %s to %s has direction %s: want %s", c.A, c.B, c.Dir, d)
		}
	}
	return nil
}

// checkEdges finds that every chip is cabled to its neighbours (Spec §2.2.1: "A mesh is a fully and uniformaly connected grid").
func (t *Topology) checkEdges(m Mesh) *fault {
	joined := map[[2]wire.FabricNodeID]bool{}
	for _, c := range t.Cables {
		joined[[2]wire.FabricNodeID{c.A.Node, c.B.Node}] = true
	}
	for i, c := range t.Chips {
		for _, d := range []wire.Direction{wire.East, wire.South} {
			row, col := step(c.Row, c.Col, d)
			if row >= m.Rows || col >= m.Cols {
				continue
			}
			peer := t.Chips[row*m.Cols+col].Node
			if !joined[[2]wire.FabricNodeID{c.Node, peer}] {
				return faultOf(i, -1, "no cable joins the neighbours %s and %s: a mesh needs at least one between any two", c.Node, peer)
			}
		}
	}
	return nil
}

func (t *Topology) checkPlanes() *fault {
	want := slices.Clone(t.Cables)
	t.assignPlanes(want)
	for i, c := range t.Cables {
		if c != want[i] {
			return faultOf(-1, i, "cable %s to %s has plane %d unused %t: want plane %d unused %t", c.A, c.B, c.Plane, c.Unused, want[i].Plane, want[i].Unused)
		}
	}
	return nil
}

// edge is the cables from one chip to one neighbour.
type edge struct {
	low, high wire.FabricNodeID
	dir       wire.Direction
}

// finish brings chips and cables into order, gives each cable its direction,
// plane and whether it is used, and validates. Chips and cable ends must be set.
func (t *Topology) finish() error {
	t.arrange()
	return t.Validate()
}

// arrange is finish without the judgement: a cable that joins no neighbours keeps its direction.
func (t *Topology) arrange() {
	slices.SortStableFunc(t.Chips, func(a, b Chip) int { return compareNodes(a.Node, b.Node) })
	for i := range t.Cables {
		c := &t.Cables[i]
		if c.B.Less(c.A) {
			c.A, c.B = c.B, c.A
		}
		a, _ := t.Chip(c.A.Node)
		b, _ := t.Chip(c.B.Node)
		if d, ok := towards(a.Row, a.Col, b.Row, b.Col); ok {
			c.Dir = d
		}
	}
	slices.SortStableFunc(t.Cables, func(c, d Cable) int { return comparePorts(c.A, d.A) })
	t.assignPlanes(t.Cables)
}

// assignPlanes numbers cables, which must be in the order of t.Cables, and marks those unused that the thinnest edge lacks.
func (t *Topology) assignPlanes(cables []Cable) {
	n := map[edge]int{}
	for i := range cables {
		c := &cables[i]
		e := edge{c.A.Node, c.B.Node, c.Dir}
		c.Plane = wire.Plane(n[e])
		n[e]++
	}
	planes := wire.MaxChannels
	for _, k := range n {
		planes = min(planes, k)
	}
	for i := range cables {
		cables[i].Unused = int(cables[i].Plane) >= planes
	}
}
