package topo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/router/topo/arrange"
	"ttfabric/wire"
)

// PlacedByCoordinates is the [Topology].Layout if the coordinates in a cluster descriptor give the
// row and column of each chip.
const PlacedByCoordinates = "placed by the coordinates in the file"

// placed is a part of a cluster descriptor that becomes one mesh.
type placed struct {
	descriptor // the chips and cables of the part
	mesh       Mesh
	lacks      [][2]int   // pairs of neighbouring chips without a cable
	astray     int        // number of cables that the mesh does not have, because they join chips that are not neighbours
	inThird    []umdCable // cables of a third dimension; the mesh does not have them
}

// place divides the chips into meshes, and finds the row and column of every chip. Chips that cables
// join, directly or over other chips, become one mesh. If such chips are on several shelves, and
// their cables fit no grid, the connected chips of each shelf become a mesh.
func (d *descriptor) place() ([]*placed, error) {
	var all []*placed
	parts := d.parts(func(a, b *umdChip) bool { return true })
	for _, p := range parts {
		err := p.placeAll()
		if err == nil {
			all = append(all, p)
			continue
		}
		shelves := p.parts(func(a, b *umdChip) bool { return a.told[2] == b.told[2] && a.told[3] == b.told[3] })
		if len(shelves) == 1 || !errors.Is(err, ErrNoLayout) {
			return nil, err
		}
		for _, s := range shelves {
			if err := s.placeAll(); err != nil {
				return nil, err
			}
		}
		all = append(all, shelves...)
	}
	slices.SortFunc(all, func(a, b *placed) int { return a.ids[0] - b.ids[0] })
	if len(all) > wire.MaxMeshes {
		return nil, d.fail(d.chipsKey(), "the chips form %d meshes; a fabric has at most %d", len(all), wire.MaxMeshes)
	}
	for i, p := range all {
		p.mesh.ID = wire.MeshID(i)
		for _, id := range p.ids {
			d.chips[id].mesh = p.mesh.ID
		}
	}
	return all, nil
}

// parts divides the chips into parts. Two chips are in one part if cables join them, directly or
// over other chips. Only cables for whose ends the function "joins" returns true count.
func (d *descriptor) parts(joins func(a, b *umdChip) bool) (all []*placed) {
	of, index := arrange.NewGroups(len(d.ids)), make(map[int]int, len(d.ids))
	for i, id := range d.ids {
		index[id] = i
	}
	for _, c := range d.cables {
		if a, b := c.ends[0].chip, c.ends[1].chip; !d.inZ(c) && joins(d.chips[a], d.chips[b]) {
			of.Join(index[a], index[b])
		}
	}
	at := map[int]*placed{}
	for i, id := range d.ids {
		p := at[of.Group(i)]
		if p == nil {
			p = &placed{descriptor: descriptor{file: d.file, root: d.root, keys: d.keys, arch: d.arch, chips: d.chips}}
			at[of.Group(i)] = p
			all = append(all, p)
		}
		p.ids = append(p.ids, id)
	}
	for _, c := range d.cables {
		switch a := of.Group(index[c.ends[0].chip]); {
		case a != of.Group(index[c.ends[1].chip]):
		case d.inZ(c):
			at[a].inThird = append(at[a].inThird, c)
		default:
			at[a].cables = append(at[a].cables, c)
		}
	}
	return all
}

// galaxyZ has a bit for each channel of a Blackhole Galaxy's chip that is wired for a third dimension,
// as tt-umd numbers the channels (tt-metal, golden mappings of Blackhole Galaxies).
const galaxyZ = 1<<8 | 1<<9

// galaxyBoard is the type of a Blackhole Galaxy's board in a cluster descriptor.
const galaxyBoard = "ubb_blackhole"

// inZ reports whether a cable is wired for a third dimension.
func (d *descriptor) inZ(c umdCable) bool {
	p, q := c.ends[0], c.ends[1]
	return ForZ(d.arch, [2]string{d.chips[p.chip].board, d.chips[q.chip].board}, [2]wire.Channel{p.channel, q.channel})
}

// placeAll finds the row and column of every chip of one mesh. If all chips have coordinates and are
// on one shelf of one rack, placeAll uses the coordinates. Otherwise placeAll uses the cables. If
// there is only one chip, placeAll uses no coordinates and no cables.
func (d *placed) placeAll() (err error) {
	first := d.chips[d.ids[0]]
	if len(d.ids) == 1 {
		first.coord, d.mesh = [4]int{}, Mesh{Rows: 1, Cols: 1}
		return nil
	}
	some := slices.ContainsFunc(d.ids, func(id int) bool { return d.chips[id].at != nil })
	for _, id := range d.ids {
		c := d.chips[id]
		switch {
		case !some:
			return d.placeByCabling("the file has no coordinates", true)
		case c.at == nil:
			return d.placeByCabling(fmt.Sprintf("chip %d has no coordinates", id), true)
		case c.told[2] != first.told[2] || c.told[3] != first.told[3]:
			return d.placeByCabling(fmt.Sprintf("chip %d is on rack %d shelf %d and chip %d on rack %d shelf %d, and each shelf has coordinates of its own",
				first.id, first.told[2], first.told[3], id, c.told[2], c.told[3]), false)
		}
	}
	if d.mesh, err = d.placeByCoordinates(); err != nil {
		return err
	}
	d.layout = PlacedByCoordinates
	return d.checkGrid(&d.mesh)
}

// chipsKey returns the YAML node whose line appears in errors about the coordinates of all chips.
func (d *descriptor) chipsKey() *yaml.Node {
	if at := d.keys["chips"].key; at != nil {
		return at
	}
	return d.root
}

// placeByCabling finds the rows and columns of the chips from the cables. The argument "why" is a
// text for messages that says why coordinates cannot be used. If the cables fit no grid,
// placeByCabling also looks at the cables of a third dimension. If "lacking" is true, and the cables
// still fit no grid, placeByCabling takes a grid in which some neighbours have no cable.
func (d *placed) placeByCabling(why string, lacking bool) error {
	index := make(map[int]int, len(d.ids))
	for i, id := range d.ids {
		index[id] = i
	}
	adj := make([][]int, len(d.ids))
	add := func(cables []umdCable) {
		for _, c := range cables {
			a, b := index[c.ends[0].chip], index[c.ends[1].chip]
			adj[a], adj[b] = append(adj[a], b), append(adj[b], a)
		}
		for i := range adj {
			slices.Sort(adj[i])
			adj[i] = slices.Compact(adj[i])
		}
	}
	add(d.cables)
	g, at, err := arrange.Find(adj, d.ids)
	if err != nil && len(d.inThird) > 0 { // some cables of the grid are missing, and cables of the third dimension run beside them
		add(d.inThird)
		g, at, err = arrange.Find(adj, d.ids)
	}
	if err != nil && lacking {
		if lg, lat, ok := arrange.FindLacking(adj); ok {
			g, at, err = lg, lat, nil
		}
	}
	if err != nil {
		return &Error{File: d.path, Line: d.chipsKey().Line, Err: ErrNoLayout,
			Reason: fmt.Sprintf("%s, so rows and columns must follow from the cables, but %v; give all chips coordinates of one shelf, or correct ethernet_connections", why, err)}
	}
	m := Mesh{Rows: g.Rows, Cols: g.Cols, WrapX: g.WrapX, WrapY: g.WrapY}
	for place, i := range at {
		d.chips[d.ids[i]].coord = [4]int{place % m.Cols, place / m.Cols}
	}
	d.layout = fmt.Sprintf("%s: laid out from the cabling, chip %d in the north-west corner", why, d.ids[at[0]])
	var sides []string
	if m.Cols > 1 {
		sides = append(sides, fmt.Sprintf("chip %d east", d.ids[at[1]]))
	}
	if m.Rows > 1 {
		sides = append(sides, fmt.Sprintf("chip %d south", d.ids[at[m.Cols]]))
	}
	d.layout += ", " + strings.Join(sides, " and ") + " of it"
	d.leaveOut(&m)
	d.mesh = m
	d.findLacks(nil)
	return nil
}

// findLacks lists the pairs of neighbours in the grid without a cable. For each pair at the end of an
// axis that wraps, findLacks calls the function "wrap", if it is not nil.
func (d *placed) findLacks(wrap func(axis int, a, b *umdChip) error) error {
	m, joined, byNode := &d.mesh, map[[2]int]bool{}, map[wire.ChipID]*umdChip{}
	for _, c := range d.cables {
		a, b := c.ends[0].chip, c.ends[1].chip
		joined[[2]int{a, b}], joined[[2]int{b, a}] = true, true
	}
	for _, id := range d.ids {
		byNode[node(*m, d.chips[id]).Chip] = d.chips[id]
	}
	for i := range wire.ChipID(len(d.ids)) {
		a := byNode[i]
		for axis, dir := range [2]wire.Direction{wire.East, wire.South} {
			row, col, ok := m.step(a.coord[1], a.coord[0], dir)
			if !ok {
				continue
			}
			b := byNode[wire.ChipID(row*m.Cols+col)]
			if joined[[2]int{a.id, b.id}] {
				continue
			}
			d.lacks = append(d.lacks, [2]int{a.id, b.id})
			if wrap != nil && (row < a.coord[1] || col < a.coord[0]) {
				if err := wrap(axis, a, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// leaveOut removes the cables between chips that are not neighbours in the grid.
func (d *placed) leaveOut(m *Mesh) {
	all := len(d.cables)
	d.cables = slices.DeleteFunc(d.cables, func(c umdCable) bool {
		a, b := d.chips[c.ends[0].chip], d.chips[c.ends[1].chip]
		for dir := range wire.Direction(wire.NumDirections) {
			if row, col, ok := m.step(a.coord[1], a.coord[0], dir); ok && row == b.coord[1] && col == b.coord[0] {
				return false
			}
		}
		return true
	})
	d.astray += all - len(d.cables)
}

// placeByCoordinates computes rows and columns from coordinates, so that the north-west corner is
// row 0 and column 0. placeByCoordinates returns the size of the grid. The chips must fill a
// rectangle.
func (d *placed) placeByCoordinates() (Mesh, error) {
	chips := d.chipsKey()
	low, high := [2]int{maxCoordinate, maxCoordinate}, [2]int{}
	at := map[[2]int]int{}
	for _, id := range d.ids {
		c := d.chips[id]
		xy := [2]int(c.coord[:2])
		if other, dup := at[xy]; dup {
			return Mesh{}, d.fail(c.at, "chips %d and %d have the same coordinates, x %d, y %d", other, id, xy[0], xy[1])
		}
		at[xy] = id
		for k := range low {
			low[k], high[k] = min(low[k], xy[k]), max(high[k], xy[k])
		}
	}
	for y := low[1]; y <= high[1]; y++ {
		for x := low[0]; x <= high[0]; x++ {
			if _, ok := at[[2]int{x, y}]; !ok {
				return Mesh{}, d.fail(chips, "the chips span x %d to %d and y %d to %d, but no chip is at x %d, y %d: a mesh is a full rectangle",
					low[0], high[0], low[1], high[1], x, y)
			}
		}
	}
	for _, id := range d.ids {
		c := d.chips[id]
		c.coord[0], c.coord[1] = c.coord[0]-low[0], c.coord[1]-low[1]
	}
	d.origin = low
	return Mesh{Rows: high[1] - low[1] + 1, Cols: high[0] - low[0] + 1}, nil
}

// checkGrid finds the axes that wrap, and the neighbours without a cable. checkGrid returns an error
// if a cable joins chips that are neither neighbours nor the two ends of a row or column. checkGrid
// also returns an error if an axis wraps in some rows or columns, but not in most of them.
func (d *placed) checkGrid(m *Mesh) error {
	var round [2]*umdCable           // a cable from the last to the first column of a row, and a cable from the last to the first row of a column
	lines := [2]map[int]bool{{}, {}} // rows and columns with such a cable
	for i := range d.cables {
		c := &d.cables[i]
		a, b := d.chips[c.ends[0].chip], d.chips[c.ends[1].chip]
		if _, ok := m.towards(a.coord[1], a.coord[0], b.coord[1], b.coord[0]); ok {
			continue
		}
		dx, dy := max(a.coord[0]-b.coord[0], b.coord[0]-a.coord[0]), max(a.coord[1]-b.coord[1], b.coord[1]-a.coord[1])
		switch {
		case dy == 0 && dx == m.Cols-1 && m.Cols >= MinWrap:
			round[0], lines[0][a.coord[1]] = c, true
		case dx == 0 && dy == m.Rows-1 && m.Rows >= MinWrap:
			round[1], lines[1][a.coord[0]] = c, true
		default:
			return d.fail(c.at, "the cable from %s to %s joins %s and %s, which are neither neighbours nor the two ends of a row or column; correct the coordinates or remove the cable",
				c.ends[0], c.ends[1], d.where(a), d.where(b))
		}
	}
	m.WrapX, m.WrapY = round[0] != nil, round[1] != nil
	count := [2]int{m.Rows, m.Cols}
	return d.findLacks(func(axis int, a, b *umdChip) error {
		if 2*len(lines[axis]) > count[axis] {
			return nil
		}
		return d.fail(round[axis].at, "the cable from %s to %s joins the two ends of a row or column, but no cable joins %s and %s: an axis wraps in most rows or columns, or in none",
			round[axis].ends[0], round[axis].ends[1], d.where(a), d.where(b))
	})
}

// The method "where" names a chip with its coordinates in the file.
func (d *placed) where(c *umdChip) string {
	return fmt.Sprintf("chip %d at x %d, y %d", c.id, c.coord[0]+d.origin[0], c.coord[1]+d.origin[1])
}
