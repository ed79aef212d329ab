package topo

import "ttfabric/wire"

// t3000 builds the 2×4 mesh of a TT-LoudBox or TT-QuietBox. Each of four n300 boards has a left
// chip and a right chip. The left chips form the two middle columns, the right chips the two outer
// columns. In this text, 8↔0 is a cable from channel 8 of one chip to channel 0 of another chip.
// From the left chip to the right chip of a board, the cables are 8↔0 and 9↔1. In each middle
// column, the cables are 14↔14 and 15↔15. In each outer column, the cables are 6↔6 and 7↔7. Between
// the middle columns, the cables are 6↔6 and 7↔7 in the upper row, and 0↔0 and 1↔1 in the lower
// row.
//
//	D0 ── D1 ══ D2 ── D3     ── 8↔0 and 9↔1 on a board; the host reaches the board's chip in the middle
//	║     ║     ║     ║      ══ and ║: two cables between boards
//	D4 ── D5 ══ D6 ── D7
//
// tt-umd tests/cluster_descriptor_examples/t3k_cluster_desc.yaml has the same cables, with tt-umd's
// ids for the chips.
func t3000() (*Topology, error) {
	t := grid("t3000", 2, 4)
	umd := [8]int{4, 0, 2, 6, 5, 1, 3, 7} // tt-umd's ids of chips D0 to D7
	for i := range t.Chips {
		t.Chips[i].Board, t.Chips[i].UMD, t.Chips[i].MMIO = "n300", umd[i], umd[i] < 4
	}
	for row := range 2 {
		o := 4 * row
		t.join(o+1, o, []wire.Channel{8, 9}, []wire.Channel{0, 1})
		t.join(o+2, o+3, []wire.Channel{8, 9}, []wire.Channel{0, 1})
	}
	t.join(1, 2, []wire.Channel{6, 7}, []wire.Channel{6, 7})
	t.join(5, 6, []wire.Channel{0, 1}, []wire.Channel{0, 1})
	t.join(0, 4, []wire.Channel{6, 7}, []wire.Channel{6, 7})
	t.join(1, 5, []wire.Channel{14, 15}, []wire.Channel{14, 15})
	t.join(2, 6, []wire.Channel{14, 15}, []wire.Channel{14, 15})
	t.join(3, 7, []wire.Channel{6, 7}, []wire.Channel{6, 7})
	return t, t.finish()
}

// n300 builds an n300 board: a left chip, which the host reaches, and a right chip. Cables join
// channels 8 and 9 of the left chip with channels 0 and 1 of the right chip (E8↔E0 and E9↔E1).
func n300() (*Topology, error) {
	t := grid("n300", 1, 2)
	for i := range t.Chips {
		t.Chips[i].Board, t.Chips[i].UMD, t.Chips[i].MMIO = "n300", i, i == 0
	}
	t.join(0, 1, []wire.Channel{8, 9}, []wire.Channel{0, 1})
	return t, t.finish()
}
