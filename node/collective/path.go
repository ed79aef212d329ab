package collective

import (
	"fmt"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// MaxRanks is the largest number of ranks of an operation, our own choice. A rank waits on at most two
// words for each other rank and lane that is under way, and a chip keeps at most 256 waits on words.
const MaxRanks = 64

// Path is the order of the ranks on a ring or on a line. Neighbours on a ring or line are joined by a
// cable, unless Strided is set.
type Path struct {
	Order   []int // rank at each position
	Ring    bool  // the last position is the neighbour of the first
	Strided bool  // no ring or line of cables joins all ranks; neighbours on the path are joined by routes of several hops
	At      []int // position of each rank
}

// String names the path and the order of its ranks.
func (p *Path) String() string {
	kind := "a line"
	switch {
	case p.Strided:
		kind = "a line over routes of several hops"
	case p.Ring:
		kind = "a ring"
	}
	return fmt.Sprintf("%s of ranks %v", kind, p.Order)
}

// searchSteps is the largest number of steps of the search for a ring or line in a topology without
// grid.
const searchSteps = 1 << 20

// FindPath returns a ring of the given chips, or else a line. Both follow cables. In a full grid of
// chips FindPath builds the ring. In all other sets of chips, FindPath searches for at most 2^20 steps.
// If FindPath finds neither, FindPath returns a Strided line in the order of the ranks. FindPath
// returns an error for no chips, for more than [MaxRanks] chips, for a chip that the topology lacks,
// and for a chip that occurs twice.
func FindPath(t *topo.Topology, chips []wire.FabricNodeID) (*Path, error) {
	if len(chips) == 0 || len(chips) > MaxRanks {
		return nil, fmt.Errorf("%d ranks: want 1 to %d", len(chips), MaxRanks)
	}
	number := map[wire.FabricNodeID]int{}
	for i, n := range chips {
		if _, ok := t.Chip(n); !ok {
			return nil, fmt.Errorf("rank %d: chip %s is not in topology %s", i, n, t)
		}
		if first, ok := number[n]; ok {
			return nil, fmt.Errorf("ranks %d and %d have the same chip %s", first, i, n)
		}
		number[n] = i
	}
	next := make([][]int, len(chips))
	for i, n := range chips {
		for _, p := range t.Ports(n) {
			if j, ok := number[p.Peer.Node]; ok && !slices.Contains(next[i], j) {
				next[i] = append(next[i], j)
			}
		}
		slices.Sort(next[i])
	}
	order := grid(t, chips, number)
	if order == nil {
		order = hamilton(next)
	}
	p := &Path{Order: order, At: make([]int, len(chips))}
	if order == nil {
		p.Strided = true
		for i := range chips {
			p.Order = append(p.Order, i)
		}
	}
	p.Ring = !p.Strided && len(chips) > 2 && slices.Contains(next[p.Order[len(chips)-1]], p.Order[0])
	for pos, r := range p.Order {
		p.At[r] = pos
	}
	return p, nil
}

// grid returns a ring or a line through a full rectangle of chips of one mesh. For any other set of
// chips, grid returns nil.
func grid(t *topo.Topology, chips []wire.FabricNodeID, number map[wire.FabricNodeID]int) []int {
	m, ok := t.Mesh(chips[0].Mesh)
	if !ok || len(t.Missing) > 0 || m.Axes != topo.BothAxes {
		return nil
	}
	first, last := [2]int{m.Rows, m.Cols}, [2]int{-1, -1}
	for _, n := range chips {
		if n.Mesh != m.ID {
			return nil
		}
		for axis, x := range [2]int{int(n.Chip) / m.Cols, int(n.Chip) % m.Cols} {
			first[axis], last[axis] = min(first[axis], x), max(last[axis], x)
		}
	}
	rows, cols := last[0]-first[0]+1, last[1]-first[1]+1
	if rows*cols != len(chips) {
		return nil
	}
	var out []int
	for _, rc := range loop(rows, cols) {
		n := wire.FabricNodeID{Mesh: m.ID, Chip: wire.ChipID((first[0]+rc[0])*m.Cols + first[1] + rc[1])}
		out = append(out, number[n])
	}
	if rows%2 == 1 && cols%2 == 1 && rows > 1 && cols > 1 && (m.WrapX && cols == m.Cols || m.WrapY && rows == m.Rows) {
		return nil // the search may find a ring through a cable that wraps
	}
	return out
}

// loop returns the cells of a grid in an order in which each cell is beside the next. If the number of
// rows or columns is even, and both are above 1, the last cell is beside the first.
func loop(rows, cols int) (out [][2]int) {
	if rows%2 == 1 && cols%2 == 0 && rows > 1 {
		for _, rc := range loop(cols, rows) {
			out = append(out, [2]int{rc[1], rc[0]})
		}
		return out
	}
	if rows%2 == 1 || cols == 1 {
		for r := range rows {
			for c := range cols {
				if r%2 == 1 {
					c = cols - 1 - c
				}
				out = append(out, [2]int{r, c})
			}
		}
		return out
	}
	for r := range rows { // column 0 is the way back
		for c := 1; c < cols; c++ {
			if r%2 == 0 {
				out = append(out, [2]int{r, c})
			} else {
				out = append(out, [2]int{r, cols - c})
			}
		}
	}
	for r := rows - 1; r >= 0; r-- {
		out = append(out, [2]int{r, 0})
	}
	return out
}

// hamilton searches for a ring through all nodes of a graph, and else for a line. If hamilton finds
// neither within searchSteps, the result is nil.
func hamilton(next [][]int) []int {
	for _, ring := range []bool{true, false} {
		steps := searchSteps / 2
		starts := 1
		if !ring {
			starts = len(next)
		}
		for s := range starts {
			w := walk{next: next, ring: ring, steps: &steps, seen: make([]bool, len(next))}
			if w.from(s) {
				return w.path
			}
		}
	}
	return nil
}

// walk is a search in depth for a ring or line.
type walk struct {
	next  [][]int
	ring  bool
	steps *int // number of steps that are left
	seen  []bool
	path  []int
}

// from extends the path by a node, and reports whether the search has found a path through all nodes.
func (w *walk) from(n int) bool {
	if *w.steps--; *w.steps < 0 {
		return false
	}
	w.seen[n], w.path = true, append(w.path, n)
	if len(w.path) == len(w.next) {
		if !w.ring || len(w.path) < 3 || slices.Contains(w.next[n], w.path[0]) {
			return true
		}
	} else {
		free := slices.DeleteFunc(slices.Clone(w.next[n]), func(m int) bool { return w.seen[m] })
		slices.SortStableFunc(free, func(a, b int) int { return w.ways(a) - w.ways(b) }) // the rule of Warnsdorff
		if slices.ContainsFunc(free, w.from) {
			return true
		}
	}
	w.seen[n], w.path = false, w.path[:len(w.path)-1]
	return false
}

// ways returns the number of free neighbours of a node.
func (w *walk) ways(n int) (ways int) {
	for _, m := range w.next[n] {
		if !w.seen[m] {
			ways++
		}
	}
	return ways
}
