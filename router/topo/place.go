package topo

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
)

// PlacedByCoordinates is the [Topology].Layout if the coordinates in a cluster descriptor give the
// row and column of each chip.
const PlacedByCoordinates = "placed by the coordinates in the file"

// place finds the row and column of every chip. If all chips have coordinates and are on one shelf
// of one rack, place uses the coordinates. Otherwise place uses the cables. If there is only one
// chip, place uses no coordinates and no cables.
func (d *descriptor) place() (Mesh, error) {
	first := d.chips[d.ids[0]]
	if len(d.ids) == 1 {
		first.coord = [4]int{}
		return Mesh{Rows: 1, Cols: 1}, nil
	}
	some := slices.ContainsFunc(d.ids, func(id int) bool { return d.chips[id].at != nil })
	for _, id := range d.ids {
		c := d.chips[id]
		switch {
		case !some:
			return d.placeByCabling("the file has no coordinates")
		case c.at == nil:
			return d.placeByCabling(fmt.Sprintf("chip %d has no coordinates", id))
		case c.coord[2] != first.coord[2] || c.coord[3] != first.coord[3]:
			return d.placeByCabling(fmt.Sprintf("chip %d is on rack %d shelf %d and chip %d on rack %d shelf %d, and each shelf has coordinates of its own",
				first.id, first.coord[2], first.coord[3], id, c.coord[2], c.coord[3]))
		}
	}
	m, err := d.placeByCoordinates()
	if err != nil {
		return Mesh{}, err
	}
	d.layout = PlacedByCoordinates
	return m, d.checkGrid(&m)
}

// chipsKey returns the YAML node whose line appears in errors about the coordinates of all chips.
func (d *descriptor) chipsKey() *yaml.Node {
	if at := d.keys["chips"].key; at != nil {
		return at
	}
	return d.root
}

// placeByCabling finds the rows and columns of the chips from the cables. The argument "why" is a
// text for messages that says why place cannot use coordinates.
func (d *descriptor) placeByCabling(why string) (Mesh, error) {
	index := make(map[int]int, len(d.ids))
	for i, id := range d.ids {
		index[id] = i
	}
	adj := make([][]int, len(d.ids))
	for _, c := range d.cables {
		a, b := index[c.ends[0].chip], index[c.ends[1].chip]
		adj[a], adj[b] = append(adj[a], b), append(adj[b], a)
	}
	for i := range adj {
		slices.Sort(adj[i])
		adj[i] = slices.Compact(adj[i])
	}
	m, at, err := findLayout(adj, d.ids)
	if err != nil {
		return Mesh{}, &Error{File: d.path, Line: d.chipsKey().Line, Err: ErrNoLayout,
			Reason: fmt.Sprintf("%s, so rows and columns must follow from the cables, but %v; give all chips coordinates of one shelf, or correct ethernet_connections", why, err)}
	}
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
	return m, nil
}

// leaveOut removes the cables between chips that are not neighbours in the grid.
func (d *descriptor) leaveOut(m *Mesh) {
	var out []umdCable
	d.cables = slices.DeleteFunc(d.cables, func(c umdCable) bool {
		a, b := d.chips[c.ends[0].chip], d.chips[c.ends[1].chip]
		for dir := range wire.Direction(wire.NumDirections) {
			if row, col, ok := m.step(a.coord[1], a.coord[0], dir); ok && row == b.coord[1] && col == b.coord[0] {
				return false
			}
		}
		out = append(out, c)
		return true
	})
	if len(out) > 0 {
		d.layout += fmt.Sprintf("; %s left out, such as the cable from %s to %s, because a third dimension is not supported", Count(len(out), "cable"), out[0].ends[0], out[0].ends[1])
	}
}

// placeByCoordinates computes rows and columns from coordinates, so that the north-west corner is
// row 0 and column 0. placeByCoordinates returns the size of the grid. The chips must fill a
// rectangle.
func (d *descriptor) placeByCoordinates() (Mesh, error) {
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

// checkGrid finds the axes that wrap. checkGrid returns an error if a cable joins chips that are
// neither neighbours nor the two ends of a row or column. checkGrid also returns an error if
// neighbours have no cable, or if an axis wraps in some rows or columns but not in all.
func (d *descriptor) checkGrid(m *Mesh) error {
	joined := map[[2]int]bool{}
	var round [2]*umdCable // a cable from the last to the first column of a row, and a cable from the last to the first row of a column
	for i := range d.cables {
		c := &d.cables[i]
		a, b := d.chips[c.ends[0].chip], d.chips[c.ends[1].chip]
		joined[[2]int{a.id, b.id}], joined[[2]int{b.id, a.id}] = true, true
		if _, ok := m.towards(a.coord[1], a.coord[0], b.coord[1], b.coord[0]); ok {
			continue
		}
		dx, dy := max(a.coord[0]-b.coord[0], b.coord[0]-a.coord[0]), max(a.coord[1]-b.coord[1], b.coord[1]-a.coord[1])
		switch {
		case dy == 0 && dx == m.Cols-1 && m.Cols >= MinWrap:
			round[0] = c
		case dx == 0 && dy == m.Rows-1 && m.Rows >= MinWrap:
			round[1] = c
		default:
			return d.fail(c.at, "the cable from %s to %s joins %s and %s, which are neither neighbours nor the two ends of a row or column; correct the coordinates or remove the cable",
				c.ends[0], c.ends[1], d.where(a), d.where(b))
		}
	}
	m.WrapX, m.WrapY = round[0] != nil, round[1] != nil
	byNode := map[wire.ChipID]*umdChip{}
	for _, id := range d.ids {
		byNode[node(*m, d.chips[id]).Chip] = d.chips[id]
	}
	at := d.keys["ethernet_connections"].key
	if at == nil {
		at = d.root
	}
	for i := range wire.ChipID(len(d.ids)) {
		a := byNode[i]
		for k, dir := range [2]wire.Direction{wire.East, wire.South} {
			row, col, ok := m.step(a.coord[1], a.coord[0], dir)
			if !ok {
				continue
			}
			b := byNode[wire.ChipID(row*m.Cols+col)]
			switch {
			case joined[[2]int{a.id, b.id}]:
			case row < a.coord[1] || col < a.coord[0]:
				return d.fail(round[k].at, "the cable from %s to %s joins the two ends of a row or column, but no cable joins %s and %s: an axis wraps in all rows or columns, or in none",
					round[k].ends[0], round[k].ends[1], d.where(a), d.where(b))
			default:
				return d.fail(at, "no cable joins the neighbours %s and %s: a mesh has a cable between any two neighbours; add the cable, or describe a smaller mesh", d.where(a), d.where(b))
			}
		}
	}
	return nil
}

// The method "where" names a chip with its coordinates in the file.
func (d *descriptor) where(c *umdChip) string {
	return fmt.Sprintf("chip %d at x %d, y %d", c.id, c.coord[0]+d.origin[0], c.coord[1]+d.origin[1])
}
