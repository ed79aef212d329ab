package edm

import (
	"fmt"

	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Path is a line or a ring of chips, and the links between neighbours (the guide's Topology Config).
type Path struct {
	Chips []wire.FabricNodeID
	Ring  bool     // the last chip is the neighbour of the first
	Hops  [][]Link // Hops[i] are the links from chip i to the next chip, NumLinks of them
}

// Link is a link between two neighbours of a path: From at the earlier chip, To at the later chip.
type Link struct{ From, To wire.PortID }

// NewLine returns the line of the given chips, at least two. Each hop gets numLinks links that the dispatcher
// does not reserve.
func NewLine(t *topo.Topology, chips []wire.FabricNodeID, numLinks int) (*Path, error) {
	return newPath(t, chips, false, numLinks)
}

// NewRing returns the ring of the given chips, at least two. The links of a ring of two chips are
// all different, because each of the two hops needs its own links.
func NewRing(t *topo.Topology, chips []wire.FabricNodeID, numLinks int) (*Path, error) {
	return newPath(t, chips, true, numLinks)
}

func newPath(t *topo.Topology, chips []wire.FabricNodeID, ring bool, numLinks int) (*Path, error) {
	if len(chips) < 2 || numLinks < 1 {
		return nil, fmt.Errorf("a path of %d chips with %d links a hop: want at least 2 chips and 1 link", len(chips), numLinks)
	}
	p, used, seen := &Path{Chips: chips, Ring: ring}, map[wire.PortID]bool{}, map[wire.FabricNodeID]bool{}
	for i, from := range chips {
		if seen[from] {
			return nil, fmt.Errorf("chip %s is in the path twice", from)
		}
		seen[from] = true
		if i == len(chips)-1 && !ring {
			break
		}
		to := chips[(i+1)%len(chips)]
		var hop []Link
		for _, ch := range kernel.ActiveEthernetCores(t, from, true) {
			local := wire.PortID{Node: from, Channel: ch}
			if peer, ok := kernel.ConnectedEthernetCore(t, from, ch); ok && peer.Node == to && !used[local] && len(hop) < numLinks {
				used[local], used[peer] = true, true
				hop = append(hop, Link{local, peer})
			}
		}
		if len(hop) < numLinks {
			return nil, fmt.Errorf("hop %d of the path, from chip %s to chip %s: %d links are free, and %d are wanted", i, from, to, len(hop), numLinks)
		}
		p.Hops = append(p.Hops, hop)
	}
	return p, nil
}

// Clockwise returns this chip's end of a link to the next chip. The last chip of a line has no such link.
func (p *Path) Clockwise(chip, link int) (wire.PortID, bool) {
	if chip < 0 || chip >= len(p.Hops) || link < 0 || link >= len(p.Hops[chip]) {
		return wire.PortID{}, false
	}
	return p.Hops[chip][link].From, true
}

// Counter returns this chip's end of a link to the chip before. The first chip of a line has no such link.
func (p *Path) Counter(chip, link int) (wire.PortID, bool) {
	i := chip - 1
	if chip == 0 && p.Ring {
		i = len(p.Hops) - 1
	}
	if i < 0 || i >= len(p.Hops) || link < 0 || link >= len(p.Hops[i]) {
		return wire.PortID{}, false
	}
	return p.Hops[i][link].To, true
}
