package topo

import "ttfabric/wire"

// galaxyUMD lists tt-umd's ids of the chips of a Wormhole Galaxy, row by row.
var galaxyUMD = [4][8]int{
	{0, 4, 8, 12, 13, 9, 5, 1},
	{16, 20, 24, 28, 29, 25, 21, 17},
	{18, 22, 26, 30, 31, 27, 23, 19},
	{2, 6, 10, 14, 15, 11, 7, 3},
}

// galaxy builds a Wormhole Galaxy (6U) as one mesh: four trays of 2×4 chips, with four cables on
// every edge. Neighbouring trays are mirror images of each other. Of two neighbours in a row of a
// tray, one chip is nearer to an end of the machine's row. Channels 8 to 11 of this chip lead to
// channels 4 to 7 of the other chip. In a column of a tray, the chip nearer to an end uses channels
// 12 to 15, and the other chip uses channels 0 to 3. Between two trays, each cable joins channels
// with equal numbers.
//
// tt-umd tests/cluster_descriptor_examples/6u_cluster_desc.yaml has the same cables, with tt-umd's
// ids for the chips.
func galaxy() (*Topology, error) {
	const rows, cols, planes = 4, 8, 4
	t := grid("galaxy", rows, cols)
	for i := range t.Chips {
		t.Chips[i].Board, t.Chips[i].UMD, t.Chips[i].MMIO = "ubb", galaxyUMD[i/cols][i%cols], true
	}
	for i := range rows * cols {
		row, col := i/cols, i%cols
		for k := range wire.Channel(planes) {
			if col < cols-1 {
				a, b := outward(col, cols, 8+k, 4+k)
				t.join(i, i+1, []wire.Channel{a}, []wire.Channel{b})
			}
			if row < rows-1 {
				a, b := outward(row, rows, 12+k, k)
				t.join(i, i+cols, []wire.Channel{a}, []wire.Channel{b})
			}
		}
	}
	return t, t.finish()
}

// outward returns the channels of the cable from the place "at" to the next place on an axis of n
// places. The chip nearer to an end of the axis uses channel "out", and the other chip uses channel
// "in". In the middle of the axis, both chips use channel "out".
func outward(at, n int, out, in wire.Channel) (a, b wire.Channel) {
	switch {
	case at < n/2-1:
		return out, in
	case at == n/2-1:
		return out, out
	}
	return in, out
}
