package session

import (
	"fmt"

	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Tensix returns the address of the first byte of a Tensix tile that works on all given chips of a
// topology. Without chips, the tile works on all chips of the topology. If several tiles work on all
// these chips, Tensix returns the northernmost row's westernmost tile. Tensix returns an error if the
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
		return 0, fmt.Errorf("topology %s: harvesting has left no Tensix tile that works on all chips asked for; choose a tile for each chip", t)
	}
	return wire.NewNocAddr(xs[0], ys[0], 0), nil
}

// Tiles lists the tiles of a chip, with its harvested tiles. Tiles returns an error if the topology
// lacks the chip.
func Tiles(t *topo.Topology, n wire.FabricNodeID) ([]noc.Tile, error) {
	c, ok := t.Chip(n)
	if !ok {
		return nil, fmt.Errorf("chip %s is not in topology %s", n, t)
	}
	m, err := noc.New(t.Arch, 0)
	if err == nil {
		err = m.Harvest(noc.Harvested(c.Harvested))
	}
	if err != nil {
		return nil, fmt.Errorf("chip %s: %w", n, err)
	}
	return m.Tiles(), nil
}
