package mapping

import (
	"cmp"
	"fmt"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/router/topo/mgd"
	"ttfabric/wire"
)

// build fills in the mapping of an assignment. For each mesh and each logical chip, "at" has the index of a
// physical chip.
func (b *builder) build(out *Mapping, at [][]int) error {
	t := &topo.Topology{Name: out.Graph, Source: fmt.Sprintf("%s on %s", out.Graph, tidy(cmp.Or(first(b.m.Hosts), "a machine"))), Arch: b.m.Arch}
	of := map[int]wire.FabricNodeID{} // logical chip of each physical chip
	for i := range b.g.Meshes {
		m := &b.g.Meshes[i]
		t.Meshes = append(t.Meshes, topo.Mesh{ID: wire.MeshID(m.ID), Rows: m.Rows, Cols: m.Cols, WrapX: m.WrapX, WrapY: m.WrapY})
		for c, x := range at[i] {
			p := &b.m.Chips[x]
			n := p.Chip
			n.Node, n.Row, n.Col = b.node(i, c), c/m.Cols, c%m.Cols
			if len(b.m.Hosts) > 1 {
				n.UMD = x // ids of several hosts overlap
			}
			of[x] = n.Node
			t.Chips = append(t.Chips, n)
			_, pinned := b.may[i][c]
			out.Chips = append(out.Chips, Place{n.Node, b.m.Hosts[p.Host], p.UMD, p.UniqueID, p.Tray, p.Location, pinned})
		}
	}
	if len(b.m.Hosts) > 1 {
		out.Notes = append(out.Notes, "the chips' UMD ids in the topology count the chips of all hosts, because each host numbers its chips from 0")
	}
	out.Spare = len(b.m.Chips) - len(out.Chips)
	free := map[[2]int][]Cable{} // cables between two physical chips that the topology does not have yet, the lower chip first
	for _, c := range b.m.Cables {
		free[[2]int{c.A.Chip, c.B.Chip}] = append(free[[2]int{c.A.Chip, c.B.Chip}], c)
	}
	for i := range b.g.Meshes {
		b.within(out, t, i, at[i], free, of)
	}
	if err := b.join(out, t, at, free, of); err != nil {
		return err
	}
	rest, third := 0, 0
	for pair, list := range free {
		_, okA := of[pair[0]]
		_, okB := of[pair[1]]
		for _, c := range list {
			switch {
			case !okA || !okB:
			case c.Z:
				third++
			default:
				rest++
			}
		}
	}
	for _, l := range []topo.LeftOut{{Count: rest, What: "cables of the machine", Why: "the descriptor does not ask for them"}, {Count: third, What: "cables of a third dimension", Why: "the descriptor does not ask for them"}} {
		if l.Count > 0 {
			out.LeftOut = append(out.LeftOut, l)
		}
	}
	t.LeftOut = out.LeftOut
	t.Layout = fmt.Sprintf("chips mapped on %s", out.Machine)
	if err := t.Finish(); err != nil {
		return fmt.Errorf("the mapping makes no topology: %w", err)
	}
	out.Topology = t
	return nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// within adds the cables within a mesh: for each two neighbours as many cables as the descriptor asks for, those
// with the lowest channels.
func (b *builder) within(out *Mapping, t *topo.Topology, mesh int, at []int, free map[[2]int][]Cable, of map[int]wire.FabricNodeID) {
	edges(&b.g.Meshes[mesh], func(x, y, count int) {
		if count == 0 {
			return
		}
		pair := [2]int{min(at[x], at[y]), max(at[x], at[y])}
		var rest []Cable
		n := 0
		for _, c := range free[pair] {
			if n == count || c.Z && !b.third {
				rest = append(rest, c)
				continue
			}
			n++
			t.Cables = append(t.Cables, b.cable(c, of))
		}
		free[pair] = rest
		if n < count {
			out.Short = append(out.Short, Short{b.node(mesh, x), b.node(mesh, y), count, n})
		}
	})
}

// cable returns a physical cable between logical chips, without direction.
func (b *builder) cable(c Cable, of map[int]wire.FabricNodeID) topo.Cable {
	x := topo.Cable{A: wire.PortID{Node: of[c.A.Chip], Channel: c.A.Channel}, B: wire.PortID{Node: of[c.B.Chip], Channel: c.B.Channel}, Dir: topo.AnyDir}
	if c.Z {
		x.Dir = wire.Z
	}
	return x
}

// join adds the cables of the connections. Connections that name their chips come first. The cables of a
// connection spread over pairs of chips: from each pair, a connection first takes at most as many cables as the
// meshes have planes.
func (b *builder) join(out *Mapping, t *topo.Topology, at [][]int, free map[[2]int][]Cable, of map[int]wire.FabricNodeID) error {
	exits, given := topo.NewExits(t), make([]int, len(b.g.Links))
	var order []int
	for i := range b.g.Links {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(open(&b.g.Links[i]), open(&b.g.Links[k])) })
	for _, i := range order {
		l := &b.g.Links[i]
		pairs := b.pairs(l, at, free)
		for _, most := range []int{b.planes(l), wire.MaxChannels} {
			for _, pair := range pairs {
				var rest []Cable
				n := 0
				for _, c := range free[pair] {
					if given[i] == l.Count || n == most || !exits.Add(b.cable(c, of)) {
						rest = append(rest, c)
						continue
					}
					given[i]++
					n++
				}
				free[pair] = rest
			}
		}
	}
	for i, l := range b.g.Links {
		c := Connection{b.end(l.A), b.end(l.B), l.Count, given[i], l.Relaxed}
		out.Connections = append(out.Connections, c)
		if given[i] == 0 || given[i] < l.Count && !l.Relaxed {
			return &UnfitError{Reason: fmt.Sprintf("the connection of %s with %s on line %d wants %s and gets %d: more cables join these meshes, but their chips have no free direction for them (a chip has one direction for the cables to one other chip)", c.A, c.B, l.Line, topo.Count(l.Count, "cable"), given[i])}
		}
	}
	return nil
}

// open returns how much choice a connection leaves.
func open(l *mgd.Link) int {
	if l.A.Chip != mgd.AnyChip {
		return 0
	}
	return len(l.A.Meshes) + len(l.B.Meshes)
}

// pairs returns the pairs of physical chips with free cables between the ends of a connection, sorted. Pairs with
// cables of a third dimension come first if the connection asks for direction Z, and last otherwise.
func (b *builder) pairs(l *mgd.Link, at [][]int, free map[[2]int][]Cable) (list [][2]int) {
	side := func(e mgd.End) map[int]bool {
		set := map[int]bool{}
		for _, m := range e.Meshes {
			for c, x := range at[m] {
				if e.Chip == mgd.AnyChip || e.Chip == c {
					set[x] = true
				}
			}
		}
		return set
	}
	mesh := map[int]int{}
	for m := range at {
		for _, x := range at[m] {
			mesh[x] = m
		}
	}
	one, other := side(l.A), side(l.B)
	for pair, cables := range free {
		if len(cables) > 0 && mesh[pair[0]] != mesh[pair[1]] && (one[pair[0]] && other[pair[1]] || one[pair[1]] && other[pair[0]]) {
			list = append(list, pair)
		}
	}
	slices.SortFunc(list, func(p, q [2]int) int {
		zp, zq := free[p][0].Z != l.Z, free[q][0].Z != l.Z
		return cmp.Or(bit(zp)-bit(zq), p[0]-q[0], p[1]-q[1])
	})
	return list
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// planes returns the number of planes of the mesh with fewer planes at the ends of a connection.
func (b *builder) planes(l *mgd.Link) int {
	n := wire.MaxChannels
	for _, e := range []mgd.End{l.A, l.B} {
		for _, i := range e.Meshes {
			if m := &b.g.Meshes[i]; m.Rows*m.Cols > 1 {
				n = min(n, max(m.Across, m.Down))
			}
		}
	}
	return n
}

// end names an end of a connection.
func (b *builder) end(e mgd.End) string {
	m := b.g.Meshes[e.Meshes[0]]
	switch {
	case e.Chip != mgd.AnyChip:
		return wire.FabricNodeID{Mesh: wire.MeshID(m.ID), Chip: wire.ChipID(e.Chip)}.String()
	case len(e.Meshes) > 1:
		return fmt.Sprintf("%d meshes from M%d on", len(e.Meshes), m.ID)
	}
	return fmt.Sprintf("M%d", m.ID)
}
