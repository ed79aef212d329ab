package arrange

import (
	"fmt"
	"slices"
	"strings"
)

// maxLayoutSteps is the largest number of steps of one search. In each step, the search puts one
// chip in one place. If all chips have at most four neighbours, the search in each grid is a search
// of its own. Otherwise one search tries all grids. A search for 256 chips that succeeds takes less
// than a thousand steps.
const maxLayoutSteps = 20_000

// layout searches for the row and column of every chip of a machine, from the cables alone.
//
// Of the grids that fit the cables, the search takes a grid with the fewest wraps. Of several such
// grids, the search takes the grid that is nearest to a square. The grid has at most as many rows
// as columns. If a square grid wraps on only one axis, its rows wrap, and its columns do not. The
// north-west corner gets the smallest possible chip id. The place east of the corner gets the
// smallest possible neighbour of the corner chip.
//
// Chips may have cables to more than four other chips, as in a Blackhole Galaxy that is wired for a
// third dimension. Then no grid fits all cables, but a grid may fit some of the cables. Of such
// grids, the search takes a grid with the most cables, and of these the grid that is nearest to a
// square. The topology leaves out cables between chips that are not neighbours in the grid.
type layout struct {
	m     Grid
	adj   [][]int  // for each chip: the chips to which it has cables, sorted
	cable [][]bool // for each pair of chips: whether a cable joins them
	at    []int    // chip at each place of the grid, row by row; -1: no chip yet
	put   []bool   // for each chip: whether the chip has a place
	near  [][]int  // for each place: the neighbouring places
	loose bool     // cables may join chips that are not neighbours in the grid
	steps int      // number of steps left, see maxLayoutSteps
}

// Find arranges chips in a grid. The list adj has, for each chip, the chips to which cables
// lead, sorted and each once. Find returns the chip at every place of the grid, row by row.
// The error says why no grid fits the cables, and names chips by their numbers in ids.
func Find(adj [][]int, ids []int) (Grid, []int, error) {
	if err := apart(adj, ids); err != nil {
		return Grid{}, nil, err
	}
	most := 0
	for i := range adj {
		if len(adj[i]) > len(adj[most]) {
			most = i
		}
	}
	l := &layout{adj: adj, loose: len(adj[most]) > sides}
	for i := range adj {
		l.cable = append(l.cable, make([]bool, len(adj)))
		for _, j := range adj[i] {
			l.cable[i][j] = true
		}
	}
	if l.loose {
		if m, ok := l.within(len(adj[most])); ok {
			return m, l.at, nil
		}
		return Grid{}, nil, fmt.Errorf("chip %d has cables to %d other chips, and a chip of a mesh has at most %d neighbours, because a third dimension is not supported", ids[most], len(adj[most]), sides)
	}
	for _, m := range shapes(len(adj)) {
		if l.try(m) {
			return m, l.at, nil
		}
	}
	kinds := map[int]int{}
	for _, a := range adj {
		kinds[len(a)]++
	}
	var have []string
	for n := range sides + 1 {
		if kinds[n] > 0 {
			have = append(have, fmt.Sprintf("%s to %s", count(kinds[n], "chip"), count(n, "other")))
		}
	}
	return Grid{}, nil, fmt.Errorf("the cables fit no line, ring, mesh or torus of %d chips (there are cables from %s)", len(adj), strings.Join(have, ", "))
}

// The function "apart" returns an error if cables do not connect all chips.
func apart(adj [][]int, ids []int) error {
	seen, todo := make([]bool, len(adj)), []int{0}
	seen[0] = true
	for len(todo) > 0 {
		i := todo[0]
		todo = todo[1:]
		for _, j := range adj[i] {
			if !seen[j] {
				seen[j] = true
				todo = append(todo, j)
			}
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return fmt.Errorf("no cables lead from chip %d to chip %d, directly or over other chips", ids[0], ids[i])
	}
	return nil
}

// shapes returns the possible meshes of n chips, in the order in which the search tries them.
func shapes(n int) (ms []Grid) {
	var sides []int
	for r := 1; r*r <= n; r++ {
		if n%r == 0 {
			sides = append(sides, r)
		}
	}
	slices.Reverse(sides)
	for _, wrap := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		for _, r := range sides {
			m := Grid{Rows: r, Cols: n / r, WrapX: wrap[0], WrapY: wrap[1]}
			if m.WrapX && m.Cols < MinWrap || m.WrapY && m.Rows < MinWrap || m.WrapY && !m.WrapX && m.Rows == m.Cols {
				continue
			}
			ms = append(ms, m)
		}
	}
	return ms
}

// maxNeighbours is the largest number of neighbours that a chip has in three dimensions.
const maxNeighbours = sides + 2

// The method "within" searches for a grid that fits some of the cables of a machine. The argument
// "most" is the largest number of neighbours of a chip.
func (l *layout) within(most int) (Grid, bool) {
	if most > maxNeighbours {
		return Grid{}, false
	}
	l.steps = maxLayoutSteps
	ms := shapes(len(l.adj))
	missing := func(m Grid) int { return m.Rows*bit(!m.WrapX) + m.Cols*bit(!m.WrapY) } // number of edges that a torus of this size has and m lacks
	slices.SortStableFunc(ms, func(a, b Grid) int { return missing(a) - missing(b) })
	for _, m := range ms {
		for corner := range l.adj {
			l.begin(m)
			if len(l.adj[corner]) < len(l.near[0]) {
				continue
			}
			l.set(0, corner)
			if l.fill(1) {
				return m, true
			}
			if m.WrapX && m.WrapY || l.steps < 0 { // in a torus, any chip can be in the corner, so one attempt is enough
				break
			}
		}
	}
	return Grid{}, false
}

// try searches for a place for every chip in grid m, and reports whether the search succeeded.
func (l *layout) try(m Grid) bool {
	l.begin(m)
	have, want := [sides + 1]int{}, [sides + 1]int{}
	for p := range l.adj {
		want[len(l.near[p])]++
		have[len(l.adj[p])]++
	}
	if have != want {
		return false
	}
	// The search tries only one chip in the corner. All chips with as many neighbours as the corner
	// are equivalent, because a symmetry of the grid exchanges them.
	l.set(0, slices.IndexFunc(l.adj, func(a []int) bool { return len(a) == len(l.near[0]) }))
	l.steps = maxLayoutSteps
	return l.fill(1)
}

// begin prepares a search with the empty grid m.
func (l *layout) begin(m Grid) {
	n := len(l.adj)
	l.m, l.at, l.put, l.near = m, make([]int, n), make([]bool, n), make([][]int, n)
	for p := range n {
		l.at[p] = -1
		for _, d := range Sides {
			if row, col, ok := m.Step(p/m.Cols, p%m.Cols, d); ok {
				l.near[p] = append(l.near[p], row*m.Cols+col)
			}
		}
	}
}

func (l *layout) set(place, chip int) { l.at[place], l.put[chip] = chip, true }

func (l *layout) unset(place int) { l.put[l.at[place]], l.at[place] = false, -1 }

// fill searches for places for the remaining chips, and reports whether it succeeded. The argument
// n is the number of chips that have a place. fill continues with the place that the fewest chips
// fit. Of several such places, fill takes the first, row by row.
func (l *layout) fill(n int) bool {
	if n == len(l.at) {
		return true
	}
	place, fit := -1, []int(nil)
	for p := range l.at {
		if l.at[p] >= 0 || !slices.ContainsFunc(l.near[p], func(q int) bool { return l.at[q] >= 0 }) {
			continue
		}
		if cs := l.fitting(p); place < 0 || len(cs) < len(fit) {
			place, fit = p, cs
		}
		if len(fit) == 0 {
			return false
		}
	}
	for _, c := range fit {
		if l.steps--; l.steps < 0 {
			return false
		}
		l.set(place, c)
		if l.fill(n + 1) {
			return true
		}
		l.unset(place)
	}
	return false
}

// fitting lists the chips that can be at place p. At least one neighbouring place of p must have a
// chip. A listed chip has no place yet, and has cables to all chips at the neighbouring places of
// p. A listed chip has cables to as many chips as p has neighbouring places. The chip's other
// cables lead only to chips without a place. In a loose layout, a listed chip may have cables to
// further chips, with or without a place.
func (l *layout) fitting(p int) (cs []int) {
	placed, from := 0, -1
	for _, q := range l.near[p] {
		if l.at[q] >= 0 {
			placed, from = placed+1, l.at[q]
		}
	}
	for _, c := range l.adj[from] {
		if l.put[c] || len(l.adj[c]) < len(l.near[p]) || !l.loose && len(l.adj[c]) > len(l.near[p]) {
			continue
		}
		if slices.ContainsFunc(l.near[p], func(q int) bool { return l.at[q] >= 0 && !l.cable[c][l.at[q]] }) {
			continue
		}
		if l.loose {
			cs = append(cs, c)
			continue
		}
		n := 0
		for _, other := range l.adj[c] {
			n += bit(l.put[other])
		}
		if n == placed {
			cs = append(cs, c)
		}
	}
	return cs
}
