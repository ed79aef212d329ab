package figures

import (
	"fmt"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Percentiles returns the median and the 99th percentile of ns. The values in ns are
// nanoseconds, and the results are microseconds.
func Percentiles(ns []int64) (p50, p99 float64) {
	ns = slices.Sorted(slices.Values(ns))
	return float64(ns[len(ns)/2]) / 1e3, float64(ns[len(ns)*99/100]) / 1e3
}

// RingPath returns a route with the given number of hops. The route leads from the first chip along
// the outline of a rectangle, and back to the first chip. The rectangle lies in two rows or in two
// columns. If the outline has fewer hops, the route also goes round a square of four chips in the
// rectangle, once or several times. Of the rectangle's squares, the route takes the second, or the
// only one. If the topology has no such route on the plane, RingPath returns an error.
func RingPath(t *topo.Topology, plane wire.Plane, hops int) ([]wire.Direction, error) {
	if hops < 4 || hops%2 != 0 || hops > wire.MaxHops {
		return nil, fmt.Errorf("want an even number from 4 to %d: a ring on a mesh has an even number of hops", wire.MaxHops-1)
	}
	m := t.Meshes[0]
	along, across, back, home := wire.East, wire.South, wire.West, wire.North
	length := m.Cols
	if m.Rows < 2 || m.Cols < 2 {
		return nil, fmt.Errorf("%s has no ring; want a mesh of at least two rows and two columns", t)
	}
	if m.Rows > m.Cols {
		along, across, back, home, length = wire.South, wire.East, wire.North, wire.West, m.Rows
	}
	width := min(hops/2, length, 4)     // number of chips along the rectangle's longer side: at most four, as on a T3000
	if hops/2 <= length && hops != 12 { // the mesh is large enough for an outline with all hops; 12 hops are as in the guide
		width = hops / 2
	}
	turns := hops - 2*width
	for turns%4 != 0 {
		width--
		turns = hops - 2*width
	}
	var p []wire.Direction
	for k := range width - 1 {
		if k == min(1, width-2) {
			for range turns / 4 { // each turn goes round the square that begins at this chip, back to this chip
				p = append(p, along, across, back, home)
			}
		}
		p = append(p, along)
	}
	p = append(p, across)
	for range width - 1 {
		p = append(p, back)
	}
	p = append(p, home)
	at := t.Chips[0].Node
	for i, d := range p {
		next, ok := t.Neighbour(at, d, plane)
		if !ok {
			return nil, fmt.Errorf("hop %d needs a cable %s of chip %s, but this chip has no such cable on plane %d; try another --plane", i+1, d, at, plane)
		}
		at = next
	}
	return p, nil
}

// Along returns the chips of a route that begins at a chip.
func Along(t *topo.Topology, at wire.FabricNodeID, plane wire.Plane, via []wire.Direction) []wire.FabricNodeID {
	chips := []wire.FabricNodeID{at}
	for _, d := range via {
		at, _ = t.Neighbour(at, d, plane)
		chips = append(chips, at)
	}
	return chips
}
