package topo

import "ttfabric/wire"

// galaxyUMD lists tt-umd's ids of the chips of a Wormhole Galaxy of 4 rows and 8 columns, row by
// row.
var galaxyUMD = [4][8]int{
	{0, 4, 8, 12, 13, 9, 5, 1},
	{16, 20, 24, 28, 29, 25, 21, 17},
	{18, 22, 26, 30, 31, 27, 23, 19},
	{2, 6, 10, 14, 15, 11, 7, 3},
}

// galaxyPlanes is the number of cables between two neighbours in a Wormhole Galaxy (Spec §2.2.2).
const galaxyPlanes = 4

// galaxy builds a Wormhole Galaxy (6U) as one mesh of 8 rows and 4 columns, as the figures of Spec
// §3 draw the machine. The numbers of the chips grow row by row, as in these figures. The chips,
// channels and cables are those of [galaxyWide], with rows and columns exchanged.
func galaxy() (*Topology, error) { return galaxyOf("galaxy", 8, 4) }

// galaxyWide builds a Wormhole Galaxy (6U) as one mesh of 4 rows and 8 columns: four trays of 2×4
// chips, with four cables on every edge. Neighbouring trays are mirror images of each other. Of two
// neighbours in a row of a tray, one chip is nearer to an end of the machine's row. Channels 8 to
// 11 of this chip lead to channels 4 to 7 of the other chip. In a column of a tray, the chip nearer
// to an end uses channels 12 to 15, and the other chip uses channels 0 to 3. Between two trays,
// each cable joins channels with equal numbers.
//
// tt-umd tests/cluster_descriptor_examples/6u_cluster_desc.yaml has the same cables, with tt-umd's
// ids for the chips. [Load] lays out that file in the same way.
func galaxyWide() (*Topology, error) { return galaxyOf("galaxy-umd", 4, 8) }

// galaxyOf builds a Wormhole Galaxy with the given name and shape. The shape is 4×8 or 8×4.
func galaxyOf(name string, rows, cols int) (*Topology, error) {
	t := grid(name, rows, cols)
	tall := rows > cols
	for i := range t.Chips {
		row, col := i/cols, i%cols
		if tall {
			row, col = col, row
		}
		t.Chips[i].Board, t.Chips[i].UMD, t.Chips[i].MMIO = "ubb", galaxyUMD[row][col], true
	}
	long, short := 1, cols // distance to the next chip on the axis of 8 chips, and on the axis of 4
	if tall {
		long, short = cols, 1
	}
	for i := range t.Chips {
		row, col := i/cols, i%cols
		if tall {
			row, col = col, row
		}
		for k := range wire.Channel(galaxyPlanes) {
			if col < 8-1 {
				a, b := outward(col, 8, 8+k, 4+k)
				t.join(i, i+long, []wire.Channel{a}, []wire.Channel{b})
			}
			if row < 4-1 {
				a, b := outward(row, 4, 12+k, k)
				t.join(i, i+short, []wire.Channel{a}, []wire.Channel{b})
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
