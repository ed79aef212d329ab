package session

import (
	"fmt"

	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Tensix returns the address of the first byte of a Tensix tile that works on all given chips of a
// topology. Without chips, the tile works on all chips of the topology. Of several such tiles, Tensix
// returns the northernmost tile, and of these the westernmost tile. Tensix returns an error if the
// topology lacks a chip, or if harvesting has left the chips no tile in common.
func Tensix(t *topo.Topology, chips ...wire.FabricNodeID) (wire.NocAddr, error) {
	var all noc.Harvested
	for _, n := range chips {
		c, ok := t.Chip(n)
		if !ok {
			return 0, fmt.Errorf("chip %s is not in topology %s", n, t)
		}
		all |= noc.Harvested(c.Harvested)
	}
	for i := range t.Chips {
		if len(chips) == 0 {
			all |= noc.Harvested(t.Chips[i].Harvested)
		}
	}
	xs, ys := noc.Shared(t.Arch, all)
	if len(xs) == 0 || len(ys) == 0 {
		return 0, fmt.Errorf("no Tensix tile of %s works on all %d chips: choose a tile for each chip", t, max(len(chips), len(t.Chips)*(1-min(len(chips), 1))))
	}
	return wire.NewNocAddr(xs[0], ys[0], 0), nil
}
