package topo

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"ttfabric/wire"
)

// Limits of a mesh graph descriptor.
const (
	maxConnections = 1 << 16 // connections between meshes: more than the free directions of the edge chips of all meshes
	maxNotes       = 4       // largest number of sentences in a [Topology].Layout
)

// graph is the content of a mesh graph descriptor of either form. A graph names meshes and
// connections. The cables and their channels follow from the meshes and connections.
//
// # Where exits are placed
//
// A connection may leave open which chips it joins, or in which direction it leaves these chips.
// Connections that give both chips and directions come first. Then come the connections that give
// only chips, then all others. Each kind comes in the order of the file. A connection takes cables
// in groups. A group has as many cables as the smaller plane count of the two meshes. At each end,
// a group takes one chip and one free direction of this chip.
//
// In the first mesh, the group takes the first free place: directions in the order E, S, W, N, and
// chips in the order of their ids. In the second mesh, the group takes the opposite direction if
// this direction is free, else the first free direction in the same order. Among the chips of the
// second mesh, the group takes the chip that most nearly faces the first chip. If a relaxed
// connection finds no room at all, the relaxed connections take one group each in turn. Tori make
// room by giving up rings, see downshift.
type graph struct {
	file
	arch   wire.Arch
	meshes []graphMesh
	links  []graphLink
	notes  []string
	open   []int // for each mesh: number of places where an exit can be
}

// graphMesh is a mesh and the number of cables on its edges.
type graphMesh struct {
	Mesh
	across, down int // number of cables between neighbours in a row, and between neighbours in a column
	line         int
}

// planes returns the number of cables in a group of exits.
func (m *graphMesh) planes() int {
	switch {
	case m.Rows == 1 && m.Cols > 1:
		return m.across
	case m.Cols == 1 && m.Rows > 1:
		return m.down
	}
	return min(m.across, m.down)
}

// anyChip and anyDir stand for a chip or direction that an end of a connection leaves open.
const (
	anyChip = -1
	anyDir  = wire.Direction(wire.NumDirections)
)

// graphEnd is one end of a connection.
type graphEnd struct {
	meshes []int // indices in graph.meshes; if there are several, the first mesh with room is taken
	chip   int   // chip of the mesh, or anyChip
	dir    wire.Direction
}

func (e graphEnd) open() int { return bit(e.chip == anyChip) + bit(e.dir == anyDir) }

// graphLink is a connection.
type graphLink struct {
	a, b    graphEnd
	n       int  // number of cables
	relaxed bool // fewer cables are allowed, but at least one
	z       bool // the file asks for a third dimension (assign_z_direction), which this package does not have
	line    int
}

// exitOrder is the order in which free directions are used.
var exitOrder = [wire.NumDirections]wire.Direction{wire.East, wire.South, wire.West, wire.North}

func (g *graph) note(format string, a ...any) { g.notes = append(g.notes, fmt.Sprintf(format, a...)) }

// connect adds a connection.
func (g *graph) connect(l graphLink) error {
	if len(g.links) >= maxConnections {
		return g.failAt(l.line, "more than %d connections", maxConnections)
	}
	g.links = append(g.links, l)
	return nil
}

// build makes the topology.
func (g *graph) build(name string) (*Topology, error) {
	g.downshift()
	slices.SortStableFunc(g.links, func(l, k graphLink) int {
		return cmp.Compare(l.a.open()+l.b.open(), k.a.open()+k.b.open())
	})
	d, left, err := g.lay(name, false)
	if err != nil && slices.ContainsFunc(g.links, func(l graphLink) bool { return l.relaxed }) {
		d, left, err = g.lay(name, true)
	}
	if err != nil {
		return nil, err
	}
	open, z := 0, 0
	for _, l := range g.links {
		open += bit(l.a.open()+l.b.open() > 0)
		z += bit(l.z)
	}
	if open > 0 {
		g.note("exits of %s placed where a chip has a direction free", Count(open, "connection"))
	}
	if z > 0 {
		g.note("assign_z_direction of %s counts for nothing, as there is no third dimension here", Count(z, "connection"))
	}
	if left > 0 {
		g.note("%s left out, for which no chip had a direction or channel free; the policy there is RELAXED", Count(left, "cable"))
	}
	if over := len(g.notes) - maxNotes; over > 0 {
		g.notes = append(g.notes[:maxNotes], fmt.Sprintf("and %d more of the like", over))
	}
	d.t.Layout = strings.ToValidUTF8(strings.Join(g.notes, "; "), "\uFFFD")
	t, err := d.finish()
	if err != nil {
		return nil, g.failAt(0, "%v", err)
	}
	return t, nil
}

// downshift makes room for exits in meshes whose both axes wrap, and which therefore have no free
// direction. downshift turns the rings of an axis into lines. It chooses the axis or axes that give
// the chips named in connections a free direction. If the named chips decide nothing, downshift
// chooses the shorter axis. Spec §3: "TT-Fabric topology can be an exact match of the physical
// connection topology, or it can be a functionally downshifted topology where all available
// ethernet links are not utilized".
func (g *graph) downshift() {
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
			g.note("the %s of %s are lines and no rings, as a chip of a torus has no direction free for exits", [2]string{"rows", "columns"}[k], of)
		}
	}
}

// lay makes a draft with all connections, and returns how many cables it left out. Each connection
// takes all its cables at its turn. If fair is set, the other connections come first. The relaxed
// connections then take one group each in turn, while there is room.
func (g *graph) lay(name string, fair bool) (d *draft, out int, err error) {
	d = newDraft(strings.ToValidUTF8(name, "\uFFFD"), strings.ToValidUTF8(g.path, "\uFFFD"), g.arch)
	g.open = make([]int, len(g.meshes))
	for i := range g.meshes {
		m := &g.meshes[i]
		if err := d.addMesh(m.Mesh, m.across, m.down); err != nil {
			return nil, 0, g.failAt(m.line, "mesh %d: %v", m.ID, err)
		}
		for c := range m.Rows * m.Cols {
			g.open[i] += wire.NumDirections - bits.OnesCount8(d.dirs[d.first[m.ID]+c])
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
// parameter left lists the number of cables that each connection still lacks.
func (g *graph) share(d *draft, left []int) error {
	full := make([]bool, len(g.links)) // connections for which no room is left
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

// place gives a connection one group of cables. The parameter left is the number of cables that the
// connection lacks. place returns the number of cables in the group. The number is 0 if there is no
// room, or if the connection lacks no cables.
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

// noRoom returns the error for a connection that has no place for some cables. The parameter left
// is the number of these cables.
func (g *graph) noRoom(l graphLink, left int) error {
	third := ""
	if l.z {
		third = "; assign_z_direction asks for a third dimension, which is not supported"
	}
	return g.failAt(l.line, "the connection of %s with %s: for %d of its %s no chip at both ends has a direction and channels free "+
		"(a direction is free where the mesh neither continues nor wraps and no other connection leaves%s); ask for fewer, or name other chips",
		g.nameOf(l.a), g.nameOf(l.b), left, Count(l.n, "channel"), third)
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

// slot is a chip of a mesh and a direction in which it can have an exit.
type slot struct {
	chip int // number of the chip within its mesh
	dir  wire.Direction
}

// room finds the place for the next group of a connection, and the number of cables in the group.
// If there is no place, the number is 0.
func (g *graph) room(d *draft, l graphLink, left int) (ma, mb int, a, b slot, n int) {
	for _, ma = range l.a.meshes {
		for _, mb = range l.b.meshes {
			if ma == mb || g.open[ma] == 0 || g.open[mb] == 0 {
				continue
			}
			most := left
			if l.a.open()+l.b.open() > 0 { // otherwise there is only one place, for all cables
				most = min(left, g.meshes[ma].planes(), g.meshes[mb].planes())
			}
			for n = most; n > 0 && (n == most || l.relaxed); n-- {
				from, to := g.slots(d, ma, l.a, n), g.slots(d, mb, l.b, n)
				if len(from) > 0 && len(to) > 0 {
					return ma, mb, from[0], g.facing(ma, mb, from[0], to), n
				}
			}
		}
	}
	return 0, 0, slot{}, slot{}, 0
}

// slots lists the places where mesh m can have an exit of n cables. If the end e names a chip or a
// direction, slots lists only places with this chip or direction.
func (g *graph) slots(d *draft, m int, e graphEnd, n int) (ss []slot) {
	first := d.first[g.meshes[m].ID]
	for _, dir := range exitOrder {
		if e.dir != anyDir && e.dir != dir {
			continue
		}
		for chip := range g.meshes[m].Rows * g.meshes[m].Cols {
			if e.chip != anyChip && e.chip != chip || !d.free(first+chip, dir) || Channels(g.arch)-bits.OnesCount16(d.used[first+chip]) < n {
				continue
			}
			ss = append(ss, slot{chip, dir})
		}
	}
	return ss
}

// facing returns the slot of mesh mb that most nearly faces slot a of mesh ma.
func (g *graph) facing(ma, mb int, a slot, to []slot) slot {
	along := func(m int, s slot) int {
		if s.dir == wire.East || s.dir == wire.West {
			return s.chip / g.meshes[m].Cols
		}
		return s.chip % g.meshes[m].Cols
	}
	best := to[0]
	if i := slices.IndexFunc(to, func(s slot) bool { return s.dir == a.dir.Opposite() }); i >= 0 {
		best = to[i]
	}
	off := func(s slot) int { return max(along(mb, s)-along(ma, a), along(ma, a)-along(mb, s)) }
	for _, s := range to {
		if s.dir == best.dir && off(s) < off(best) {
			best = s
		}
	}
	return best
}
