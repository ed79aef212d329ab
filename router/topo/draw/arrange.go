package draw

import (
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// cell is the row and column of a mesh in the grid of meshes of a picture.
type cell struct{ row, col int }

// arrange puts the meshes of a picture into cells. If possible, a mesh lies on the side of its
// neighbour to which the neighbour's exits lead. The function "size" returns the width and height
// of a drawn mesh. arrange returns the cell of each mesh, and the positions x and y at which each
// column and each row of cells begins.
func arrange(t *topo.Topology, size func(topo.Mesh) (w, h int)) (cells []cell, x, y []int) {
	cells = cellsOf(t)
	low := cell{cells[0].row, cells[0].col}
	for _, c := range cells {
		low.row, low.col = min(low.row, c.row), min(low.col, c.col)
	}
	grow := func(list []int, n, v int) []int {
		for len(list) <= n {
			list = append(list, 0)
		}
		list[n] = max(list[n], v)
		return list
	}
	for i, m := range t.Meshes {
		cells[i].row -= low.row
		cells[i].col -= low.col
		w, h := size(m)
		x, y = grow(x, cells[i].col, w), grow(y, cells[i].row, h)
	}
	for _, list := range [2][]int{x, y} {
		at := 0
		for i, v := range list {
			list[i] = at
			at += v
		}
	}
	return cells, x, y
}

// cellsOf gives the first mesh a cell. Then cellsOf gives cells to the neighbours of each mesh that
// has a cell. A neighbour lies on the side to which the exits lead. If the directions at the two
// ends of a cable are not opposite, the neighbour lies to the east or west. If the cell of a mesh
// is taken, the mesh gets the nearest free cell to the right or below. A mesh that no cables join
// to the meshes before it gets the free cell nearest to the first cell.
func cellsOf(t *topo.Topology) []cell {
	type peer struct {
		mesh int
		dir  wire.Direction
	}
	index, peers := map[wire.MeshID]int{}, make([][]peer, len(t.Meshes))
	for i, m := range t.Meshes {
		index[m.ID] = i
	}
	es := edgesOf(t)
	slices.SortStableFunc(es, func(e, f edge) int { // edges with opposite directions at their ends come first
		return int(e.dir^e.back.Opposite()) - int(f.dir^f.back.Opposite())
	})
	for _, e := range es {
		if a, b := index[e.a.Mesh], index[e.b.Mesh]; a != b {
			if e.back != e.dir.Opposite() {
				e.dir, e.back = wire.East, wire.West
			}
			peers[a], peers[b] = append(peers[a], peer{b, e.dir}), append(peers[b], peer{a, e.back})
		}
	}
	at, taken, placed := make([]cell, len(t.Meshes)), map[cell]bool{}, make([]bool, len(t.Meshes))
	put := func(i int, want cell) {
		for far := 0; !placed[i]; far++ {
			for down := range far + 1 {
				if c := (cell{want.row + down, want.col + far - down}); !taken[c] && !placed[i] {
					at[i], placed[i], taken[c] = c, true, true
				}
			}
		}
	}
	for i := range t.Meshes {
		if placed[i] {
			continue
		}
		put(i, cell{})
		for todo := []int{i}; len(todo) > 0; todo = todo[1:] {
			for _, p := range peers[todo[0]] {
				if placed[p.mesh] {
					continue
				}
				c := at[todo[0]]
				switch p.dir {
				case wire.East:
					c.col++
				case wire.West:
					c.col--
				case wire.South:
					c.row++
				case wire.North:
					c.row--
				}
				put(p.mesh, c)
				todo = append(todo, p.mesh)
			}
		}
	}
	return at
}

// Cell is the row and column of a mesh in the grid of meshes of a picture, counted from 0.
type Cell struct{ Row, Col int }

// Cells returns the cell of each mesh, in the order of the meshes. If possible, a mesh lies on the
// side of its neighbour to which the neighbour's exits lead.
func Cells(t *topo.Topology) (out []Cell) {
	cells, _, _ := arrange(t, func(topo.Mesh) (int, int) { return 1, 1 })
	for _, c := range cells {
		out = append(out, Cell{c.row, c.col})
	}
	return out
}
