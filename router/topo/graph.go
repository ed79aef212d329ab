package topo

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"ttfabric/router/topo/mgd"
	"ttfabric/wire"
)

// maxNotes is the largest number of notes in a [Topology].Layout.
const maxNotes = 4

// graph is the content of a mesh graph descriptor, in YAML or in textual protobuf. The descriptor
// names meshes and connections between them. A connection asks for a number of cables between two
// meshes. The graph chooses the cables and their channels.
//
// # Where exits are placed
//
// A connection need not say which chips it joins, or in which direction its cables leave these
// chips. The graph first places the connections that leave the fewest choices. Connections that
// give both chips and both directions come first, and connections that give no chip and no
// direction come last. Connections that leave equally many choices are placed in the order of the
// file. A connection takes cables in groups. The number of cables in a group is the number of
// planes of the mesh that has fewer planes. The last group of a connection may have fewer cables,
// and so may each group of a RELAXED connection. If both ends give chip and direction, one group
// takes all cables. At each end, a group takes one chip and one free direction of this chip. A
// direction of a chip is free if no cable leaves the chip in this direction. On Blackhole, a chip
// also has the direction Z, which no neighbour in its mesh takes. On Wormhole, only connections with
// assign_z_direction leave in direction Z. The cables of a connection with assign_z_direction leave
// both meshes in direction Z, as long as chips have this direction free.
//
// In the first mesh, the group takes the first free direction in the order E, S, W, N, Z. Of the chips
// with this direction and enough channels free, the group takes the chip with the lowest id. In the second
// mesh, the group prefers the opposite direction. If no chip has the opposite direction free, the
// group takes the first free direction in the same order. If several chips of the second mesh have
// this direction free, the group takes the chip whose place along its side is nearest to the first
// chip's place along its own side. If an exit goes E or W, the place of its chip is the chip's row.
// If an exit goes N or S, the place is the chip's column. So a row of one mesh may meet a column of
// the other. For exits in direction Z, the rows and the columns count. If the graph finds no place for a connection, and some connections have the policy
// RELAXED, the graph starts again. The RELAXED connections then come last, and take one group each
// in turn. If tori still leave no room for a connection, they give up rings, see downshift.
type graph struct {
	file
	arch   wire.Arch
	meshes []graphMesh
	links  []graphLink
	notes  []string
	left   []LeftOut
	open   []int // for each mesh: number of pairs of a chip and a free direction
}

// graphMesh is a mesh, with the numbers of cables between two neighbouring chips.
type graphMesh struct {
	Mesh
	across, down int // number of cables between neighbours in a row, and between neighbours in a column
	line         int
}

// planes returns the number of planes of the mesh.
func (m *graphMesh) planes() int {
	switch {
	case m.Rows == 1 && m.Cols > 1:
		return m.across
	case m.Cols == 1 && m.Rows > 1:
		return m.down
	}
	return min(m.across, m.down)
}

// anyChip and anyDir say that an end of a connection does not give its chip or its direction.
const (
	anyChip = mgd.AnyChip
	anyDir  = wire.Direction(wire.NumSides)
)

// graphEnd is one end of a connection.
type graphEnd struct {
	meshes []int // indices in graph.meshes; if there are several, the connection ends at the first mesh with room
	chip   int   // number of the chip in its mesh, or anyChip
	dir    wire.Direction
}

func (e graphEnd) open() int { return bit(e.chip == anyChip) + bit(e.dir == anyDir) }

// open returns how many choices the connection leaves: chips and directions that the file does not
// give.
func (l graphLink) open() int {
	if l.z {
		return bit(l.a.chip == anyChip) + bit(l.b.chip == anyChip)
	}
	return l.a.open() + l.b.open()
}

// graphLink is a connection of the descriptor, which asks for cables between two meshes.
type graphLink struct {
	a, b    graphEnd
	n       int  // number of cables
	relaxed bool // the policy is RELAXED: the connection may get fewer than n cables, but at least one
	z       bool // the cables leave both meshes in direction Z if chips have it free (assign_z_direction)
	line    int
}

// exitOrder is the order in which exits take free directions.
var exitOrder = [wire.NumSides]wire.Direction{wire.East, wire.South, wire.West, wire.North, wire.Z}

// mayLeave reports whether an exit that may take any direction may leave in direction d. The chips
// of Wormhole have no channels of their own for direction Z.
func mayLeave(a wire.Arch, d wire.Direction) bool { return d != wire.Z || a == wire.Blackhole }

func (g *graph) note(format string, a ...any) { g.notes = append(g.notes, fmt.Sprintf(format, a...)) }

// connect adds a connection to the graph.
func (g *graph) connect(l graphLink) error {
	if len(g.links) >= mgd.MaxConnections {
		return g.failAt(l.line, "more than %d connections", mgd.MaxConnections)
	}
	g.links = append(g.links, l)
	return nil
}

// build places all connections and returns the topology.
func (g *graph) build(name string) (*Topology, error) {
	slices.SortStableFunc(g.links, func(l, k graphLink) int {
		return cmp.Compare(l.open(), k.open())
	})
	d, left, err := g.layAll(name)
	if err != nil && g.downshift() {
		d, left, err = g.layAll(name)
	}
	if err != nil {
		return nil, err
	}
	open := 0
	for _, l := range g.links {
		open += bit(l.open() > 0)
	}
	if open > 0 {
		g.note("exits of %s placed at chips with a free direction", Count(open, "connection"))
	}
	if left > 0 {
		g.note("%s of RELAXED connections left out, because no chip had a free direction or channel for them", Count(left, "cable"))
	}
	if over := len(g.notes) - maxNotes; over > 0 {
		g.notes = append(g.notes[:maxNotes], fmt.Sprintf("and %d more notes", over))
	}
	d.t.Layout = strings.ToValidUTF8(strings.Join(g.notes, "; "), "\uFFFD")
	d.t.LeftOut = g.left
	t, err := d.finish()
	if err != nil {
		return nil, g.failAt(0, "%v", err)
	}
	return t, nil
}

// layAll makes a draft with all meshes and connections, see lay. If there is no room for all cables,
// and some connections are RELAXED, these connections share the room.
func (g *graph) layAll(name string) (d *draft, left int, err error) {
	d, left, err = g.lay(name, false)
	if err != nil && slices.ContainsFunc(g.links, func(l graphLink) bool { return l.relaxed }) {
		d, left, err = g.lay(name, true)
	}
	return d, left, err
}

// downshift makes room for exits in tori with connections, because the chips of a torus have no
// free direction within the mesh. downshift reports whether it changed a torus. downshift turns the
// rings of one axis or of both axes into lines. The chips that connections name decide. For a chip in
// the first or last column, the rows become lines. For a chip in the first or last row, the columns
// become lines. A chip in a corner leaves the choice
// open, and so does a chip that is not in the first or last row or column. If all named chips leave
// the choice open, downshift chooses the shorter axis. Spec §3: "TT-Fabric topology can
// be an exact match of the physical connection topology, or it can be a functionally downshifted
// topology where all available ethernet links are not utilized".
func (g *graph) downshift() bool {
	joined, needX, needY := make([]bool, len(g.meshes)), make([]bool, len(g.meshes)), make([]bool, len(g.meshes))
	for _, l := range g.links {
		for _, e := range [2]graphEnd{l.a, l.b} {
			for _, i := range e.meshes {
				joined[i] = true
				if m := &g.meshes[i]; e.chip != anyChip {
					row, col := e.chip/m.Cols, e.chip%m.Cols
					inRow, inCol := col > 0 && col < m.Cols-1, row > 0 && row < m.Rows-1
					needX[i], needY[i] = needX[i] || inCol && !inRow, needY[i] || inRow && !inCol
				}
			}
		}
	}
	var rows, columns []string
	for i := range g.meshes {
		m := &g.meshes[i]
		if !joined[i] || !m.WrapX || !m.WrapY {
			continue
		}
		if !needX[i] && !needY[i] {
			needX[i], needY[i] = m.Cols <= m.Rows, m.Cols > m.Rows
		}
		if needX[i] {
			m.WrapX = false
			rows = append(rows, fmt.Sprint(m.ID))
		}
		if needY[i] {
			m.WrapY = false
			columns = append(columns, fmt.Sprint(m.ID))
		}
	}
	for k, ids := range [][]string{rows, columns} {
		if n := len(ids); n > 0 {
			of := "mesh " + ids[0]
			if n > 1 {
				of = fmt.Sprintf("%d meshes, %s to %s,", n, ids[0], ids[n-1])
			}
			g.note("the %s of %s are lines instead of rings, because a chip of a torus has no free direction for exits", [2]string{"rows", "columns"}[k], of)
		}
	}
	return len(rows)+len(columns) > 0
}

// lay makes a draft with all meshes and connections, and returns the number of cables for which
// there was no room. If "fair" is false, each connection takes all its cables before the next
// connection. If "fair" is true, the relaxed connections come last, and take one group each in turn
// while there is room. If a relaxed connection gets no cable, lay returns an error. lay also returns
// an error if a connection that is not relaxed gets only some of its cables.
func (g *graph) lay(name string, fair bool) (d *draft, out int, err error) {
	d = newDraft(strings.ToValidUTF8(name, "\uFFFD"), strings.ToValidUTF8(g.path, "\uFFFD"), g.arch)
	g.open = make([]int, len(g.meshes))
	sides := wire.NumDirections
	if mayLeave(g.arch, wire.Z) || slices.ContainsFunc(g.links, func(l graphLink) bool { return l.z }) {
		sides = wire.NumSides
	}
	for i := range g.meshes {
		m := &g.meshes[i]
		if err := d.addMesh(m.Mesh, m.across, m.down); err != nil {
			return nil, 0, g.failAt(m.line, "mesh %d: %v", m.ID, err)
		}
		for c := range m.Rows * m.Cols {
			g.open[i] += sides - bits.OnesCount8(d.dirs[d.first[m.ID]+c])
		}
	}
	left := make([]int, len(g.links))
	for i, l := range g.links {
		left[i] = l.n
		for n := 1; n > 0 && !(fair && l.relaxed); left[i] -= n {
			if n, err = g.place(d, l, left[i]); err != nil {
				return nil, 0, err
			}
		}
		if left[i] == l.n && !(fair && l.relaxed) || left[i] > 0 && !l.relaxed {
			return nil, 0, g.noRoom(l, left[i])
		}
	}
	if fair {
		if err := g.share(d, left); err != nil {
			return nil, 0, err
		}
	}
	for _, n := range left {
		out += n
	}
	return d, out, nil
}

// share gives the relaxed connections one group each in turn, until no connection has room. The
// argument "left" is the number of cables that each connection still lacks.
func (g *graph) share(d *draft, left []int) error {
	full := make([]bool, len(g.links)) // for each connection: there is no more room for it
	for placed := true; placed; {
		placed = false
		for i, l := range g.links {
			if !l.relaxed || full[i] {
				continue
			}
			n, err := g.place(d, l, left[i])
			if err != nil {
				return err
			}
			if left[i] -= n; left[i] == l.n {
				return g.noRoom(l, left[i])
			}
			full[i] = n == 0
			placed = placed || n > 0
		}
	}
	return nil
}

// place gives a connection one group of cables. The argument "left" is the number of cables that
// the connection still lacks. place returns the number of cables in the group, or 0 if there is no
// room or "left" is 0.
func (g *graph) place(d *draft, l graphLink, left int) (int, error) {
	if left == 0 {
		return 0, nil
	}
	ma, mb, a, b, n := g.room(d, l, left)
	if n == 0 {
		return 0, nil
	}
	if err := d.cable(d.first[g.meshes[ma].ID]+a.chip, d.first[g.meshes[mb].ID]+b.chip, a.dir, b.dir, n); err != nil {
		return 0, g.failAt(l.line, "%v", err)
	}
	g.open[ma]--
	g.open[mb]--
	return n, nil
}

// noRoom returns the error for a connection for which there is no room. The argument "left" is the
// number of cables that the connection lacks.
func (g *graph) noRoom(l graphLink, left int) error {
	return g.failAt(l.line, "the connection of %s with %s: there is no room for %d of its %s, because at one end or at both ends, no chip has a free direction and enough free channels "+
		"(a direction of a chip is free if no cable leaves the chip in this direction); ask for fewer channels, or name other chips",
		g.nameOf(l.a), g.nameOf(l.b), left, Count(l.n, "channel"))
}

func (g *graph) nameOf(e graphEnd) string {
	m := g.meshes[e.meshes[0]]
	if e.chip != anyChip {
		return wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID(e.chip)}.String()
	}
	if len(e.meshes) > 1 {
		return fmt.Sprintf("one of %d meshes from mesh %d on", len(e.meshes), m.ID)
	}
	return fmt.Sprintf("mesh %d", m.ID)
}

// outlet is a chip of a mesh and a free direction of this chip, in which it can have an exit.
type outlet struct {
	chip int // number of the chip within its mesh
	dir  wire.Direction
}

// room finds the meshes and outlets for the next group of a connection, and the number n of cables
// in the group. If there is no room, n is 0.
func (g *graph) room(d *draft, l graphLink, left int) (ma, mb int, a, b outlet, n int) {
	for _, ma = range l.a.meshes {
		for _, mb = range l.b.meshes {
			if ma == mb || g.open[ma] == 0 || g.open[mb] == 0 {
				continue
			}
			most := left
			if l.open() > 0 { // if both ends give chip and direction, this limit does not apply, and one group takes all cables
				most = min(left, g.meshes[ma].planes(), g.meshes[mb].planes())
			}
			for n = most; n > 0 && (n == most || l.relaxed); n-- {
				from, to := g.outlets(d, ma, l.a, l.z, n), g.outlets(d, mb, l.b, l.z, n)
				if len(from) > 0 && len(to) > 0 {
					return ma, mb, from[0], g.facing(ma, mb, from[0], to), n
				}
			}
		}
	}
	return 0, 0, outlet{}, outlet{}, 0
}

// outlets lists the outlets of mesh m that have room for an exit of n cables. If the end e names a
// chip or a direction, outlets lists only outlets with this chip or direction.
func (g *graph) outlets(d *draft, m int, e graphEnd, z bool, n int) (ss []outlet) {
	first, order := d.first[g.meshes[m].ID], exitOrder[:]
	if z {
		order = append([]wire.Direction{wire.Z}, exitOrder[:wire.NumDirections]...)
	}
	for _, dir := range order {
		if e.dir != anyDir && e.dir != dir || e.dir == anyDir && !z && !mayLeave(g.arch, dir) {
			continue
		}
		for chip := range g.meshes[m].Rows * g.meshes[m].Cols {
			if e.chip != anyChip && e.chip != chip || !d.free(first+chip, dir) || Channels(g.arch)-bits.OnesCount16(d.used[first+chip]) < n {
				continue
			}
			ss = append(ss, outlet{chip, dir})
		}
	}
	return ss
}

// facing returns the outlet of mesh mb that best faces outlet a of mesh ma. The outlets of mb are in
// the list "to". facing returns an outlet in the opposite direction, or if there is none, in the
// direction of the first outlet of the list. Of several outlets in this direction, facing returns
// the outlet whose place is nearest to the place of a. The place of an outlet is its position along
// its side of the mesh: the row for the directions E and W, the column for N and S. For
// direction Z, the row and the column count.
func (g *graph) facing(ma, mb int, a outlet, to []outlet) outlet {
	place := func(m int, s outlet) int {
		if s.dir == wire.East || s.dir == wire.West {
			return s.chip / g.meshes[m].Cols
		}
		return s.chip % g.meshes[m].Cols
	}
	best := to[0]
	if i := slices.IndexFunc(to, func(s outlet) bool { return s.dir == a.dir.Opposite() }); i >= 0 {
		best = to[i]
	}
	away := func(x, y int) int { return max(x-y, y-x) }
	off := func(s outlet) int {
		if s.dir == wire.Z {
			return away(s.chip/g.meshes[mb].Cols, a.chip/g.meshes[ma].Cols) + away(s.chip%g.meshes[mb].Cols, a.chip%g.meshes[ma].Cols)
		}
		return away(place(mb, s), place(ma, a))
	}
	for _, s := range to {
		if s.dir == best.dir && off(s) < off(best) {
			best = s
		}
	}
	return best
}
