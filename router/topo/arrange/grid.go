// Package arrange finds the row and column of every chip of a machine from the cables alone.
package arrange

import "fmt"

// MinWrap is the smallest number of chips of an axis that wraps. With two chips, the wrap would
// join the same two neighbours again (tt-metal, mesh_graph.cpp).
const MinWrap = 3

// Grid is a full grid of chips.
type Grid struct {
	Rows, Cols   int
	WrapX, WrapY bool // the rows wrap from East to West; the columns wrap from South to North
}

// Side is the step to a neighbour in the grid.
type Side struct{ Down, Right int } // rows to the South, columns to the East

// Sides are the steps to the four neighbours: East, West, North and South, in the order of
// wire.Direction.
var Sides = [sides]Side{{0, 1}, {0, -1}, {-1, 0}, {1, 0}}

const sides = 4

// Step returns the row and column of the neighbour at side d. At the end of an axis that wraps, Step
// follows the wrap. At the end of any other axis, Step reports false.
func (m Grid) Step(row, col int, d Side) (int, int, bool) {
	row, col = row+d.Down, col+d.Right
	if m.WrapX && m.Cols > 0 {
		col = (col + m.Cols) % m.Cols
	}
	if m.WrapY && m.Rows > 0 {
		row = (row + m.Rows) % m.Rows
	}
	return row, col, row >= 0 && row < m.Rows && col >= 0 && col < m.Cols
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// count returns a number and a noun in singular or plural.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
