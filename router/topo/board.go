package topo

import (
	"strings"

	"ttfabric/wire"
)

// Position is the place of a chip: its rack, the shelf in the rack, and x and y within the shelf
// (tt-umd, ethernet coordinates).
type Position struct {
	Known             bool // false: the topology gives no position
	X, Y, Rack, Shelf uint8
}

// PositionSide is the largest number of chips in a row or column of a shelf. A host's request has 6
// bits each for x and y (BDMS, routing_cmd_t).
const PositionSide = 64

// Positions returns the positions of the chips from the topology's cluster descriptor. Positions
// returns nil if a chip has no position, or if two chips have the same position. Positions also
// returns nil if an x or y is not below [PositionSide].
func (t *Topology) Positions() map[wire.FabricNodeID]Position {
	at, taken := make(map[wire.FabricNodeID]Position, len(t.Chips)), make(map[Position]bool, len(t.Chips))
	for _, c := range t.Chips {
		p := c.Position
		if !p.Known || taken[p] || p.X >= PositionSide || p.Y >= PositionSide {
			return nil
		}
		at[c.Node], taken[p] = p, true
	}
	return at
}

// Channel numbers at the two ends of a cable within an n300, at its left chip and at its right chip
// (tt-umd, wormhole_N300.yaml).
const (
	n300Left  = 8
	n300Right = 0
)

// Boards returns for each chip, by index, the index of the first chip of the chip's board. The
// result "right" says for each chip whether the chip is the right chip of an n300. Chips with equal
// [Chip].BoardID are on one board. Two n300 chips without a board id are on one board if a cable
// leads from channel 8 of one chip to channel 0 of the other. All chips of a mesh that are on a ubb
// and have no board id share a board, as in tt-umd's files of a Galaxy. Any other chip is alone on
// its board.
func (t *Topology) Boards() (first []int, right []bool) {
	first, right = make([]int, len(t.Chips)), make([]bool, len(t.Chips))
	byID, galaxies := map[uint64]int{}, map[wire.MeshID]int{}
	for i, c := range t.Chips {
		first[i] = i
		switch ubb := strings.HasPrefix(strings.ToLower(c.Board), "ubb"); {
		case c.BoardID != 0:
			if k, seen := byID[c.BoardID]; seen {
				first[i] = k
			}
			byID[c.BoardID] = first[i]
		case ubb:
			if k, seen := galaxies[c.Node.Mesh]; seen {
				first[i] = k
			}
			galaxies[c.Node.Mesh] = first[i]
		}
	}
	paired := make([]bool, len(t.Chips))
	for _, c := range t.Cables {
		l, r := c.A, c.B
		if l.Channel != n300Left {
			l, r = r, l
		}
		a, b := t.Index(l.Node), t.Index(r.Node)
		if l.Channel != n300Left || r.Channel != n300Right || paired[a] || paired[b] || t.Chips[a].Board != "n300" || t.Chips[b].Board != "n300" {
			continue
		}
		switch one, other := t.Chips[a].BoardID, t.Chips[b].BoardID; {
		case one != other:
			continue
		case one == 0:
			first[max(a, b)] = min(a, b)
		}
		paired[a], paired[b], right[b] = true, true, true
	}
	return first, right
}
