package arrange

import (
	"slices"
)

// maxLacking limits the neighbours without a cable in a grid that FindLacking finds. At most one of
// maxLacking pairs of neighbours may lack its cable.
const maxLacking = 4

// lacking is a search for the row and column of every chip, from the cables alone, if some
// neighbours have no cable. Each cable joins neighbours of the grid.
type lacking struct {
	adj   [][]int // for each chip: the chips to which it has cables, sorted
	near  [][]int // for each place of the grid: the neighbouring places
	place []int   // for each chip: its place; -1: none yet
	at    []int   // for each place: its chip; -1: none yet
	steps int     // number of steps left, see maxLayoutSteps
}

// FindLacking arranges chips in a grid in which some neighbours have no cable. Of the grids that fit
// the cables, FindLacking takes a grid in which the fewest neighbours have no cable.
func FindLacking(adj [][]int) (Grid, []int, bool) {
	edges := 0
	for _, a := range adj {
		if edges += len(a); len(a) > sides {
			return Grid{}, nil, false
		}
	}
	edges /= 2
	count := func(m Grid) int {
		return m.Rows*(m.Cols-bit(!m.WrapX)) + m.Cols*(m.Rows-bit(!m.WrapY))
	}
	ms := shapes(len(adj))
	ms = slices.DeleteFunc(ms, func(m Grid) bool { return count(m) <= edges || (count(m)-edges)*maxLacking > count(m) })
	slices.SortStableFunc(ms, func(a, b Grid) int { return count(a) - count(b) })
	for _, m := range ms {
		l := &lacking{adj: adj, steps: maxLayoutSteps}
		strict := &layout{adj: adj}
		strict.begin(m)
		l.near = strict.near
		for start := range l.near {
			l.place, l.at = slices.Repeat([]int{-1}, len(adj)), slices.Repeat([]int{-1}, len(adj))
			l.place[0], l.at[start] = start, 0
			if len(adj[0]) <= len(l.near[start]) && l.fill(1) {
				return m, l.at, true
			}
			if l.steps < 0 || m.WrapX && m.WrapY { // in a torus, all places are equivalent
				break
			}
		}
	}
	return Grid{}, nil, false
}

// fill searches for places for the remaining chips, and reports whether it succeeded. The argument n
// is the number of chips that have a place. fill continues with the chip that fits the fewest
// places. Of several such chips, fill takes the first.
func (l *lacking) fill(n int) bool {
	if n == len(l.adj) {
		return true
	}
	chip, fit := -1, []int(nil)
	for c := range l.adj {
		if l.place[c] >= 0 || !slices.ContainsFunc(l.adj[c], func(o int) bool { return l.place[o] >= 0 }) {
			continue
		}
		if ps := l.fitting(c); chip < 0 || len(ps) < len(fit) {
			chip, fit = c, ps
		}
		if len(fit) == 0 {
			return false
		}
	}
	for _, p := range fit {
		if l.steps--; l.steps < 0 {
			return false
		}
		l.place[chip], l.at[p] = p, chip
		if l.fill(n + 1) {
			return true
		}
		l.place[chip], l.at[p] = -1, -1
	}
	return false
}

// fitting lists the free places that are neighbours of all chips to which chip c has cables. At
// least one of these chips must have a place.
func (l *lacking) fitting(c int) (ps []int) {
	from := slices.IndexFunc(l.adj[c], func(o int) bool { return l.place[o] >= 0 })
	for _, p := range l.near[l.place[l.adj[c][from]]] {
		if l.at[p] >= 0 || len(l.near[p]) < len(l.adj[c]) {
			continue
		}
		if !slices.ContainsFunc(l.adj[c], func(o int) bool { return l.place[o] >= 0 && !slices.Contains(l.near[p], l.place[o]) }) {
			ps = append(ps, p)
		}
	}
	return ps
}
