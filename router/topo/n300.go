package topo

import "ttfabric/wire"

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
