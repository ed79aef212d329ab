package topo

import "ttfabric/wire"

// t3000 builds the 2×4 mesh of a TT-LoudBox or TT-QuietBox. The left chips of four n300 boards form
// the square in the middle, the right chips the two outer columns. Within a board the cables are
// 8↔0 and 9↔1. Between the left chips, 14↔14 and 15↔15 run north to south. From west to east, 6↔6
// and 7↔7 join the two upper left chips, and 0↔0 and 1↔1 the two lower left chips. In each outer
// column, 6↔6 and 7↔7 join the two right chips.
//
//	D0 ── D1 ══ D2 ── D3     ── 8↔0 and 9↔1 on a board, the host's chip in the middle
//	║     ║     ║     ║      ══ and ║ two cables between boards
//	D4 ── D5 ══ D6 ── D7
//
// tt-umd tests/cluster_descriptor_examples/t3k_cluster_desc.yaml has the same cables with its own
// chip numbers.
func t3000() (*Topology, error) {
	t := grid("t3000", 2, 4)
	umd := [8]int{4, 0, 2, 6, 5, 1, 3, 7} // tt-umd's ids of these chips
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
