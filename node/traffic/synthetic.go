package traffic

import (
	"fmt"
	"math/bits"

	"ttfabric/router/topo"
)

// This file has the patterns of the literature, as BookSim defines them (booksim2, traffic.cpp).
// The number of a chip in row-major order serves as BookSim's node address. BookSim's dimension 0
// is the columns.
//
// BookSim requires a number of nodes that is a power of two for patterns of address bits, and
// dimensions of equal length for tornado and neighbour. This file defines some of these patterns for
// every mesh, by rows and columns instead of address bits. The pattern bit-complement goes to the
// chip on the opposite side of the centre. The pattern transpose exchanges row and column. The
// patterns bit-reverse and shuffle have no meaning in rows and columns. Patterns that need rows and
// columns require a single mesh. The other patterns take the chips of all meshes in order.

// toEach returns one pair for each source whose destination is another chip. The function "to"
// maps a source's index in the topology to its destination's index.
func toEach(t *topo.Topology, to func(i int) int) (out []Pair) {
	for i, c := range t.Chips {
		if k := to(i); k != i {
			out = append(out, Pair{Src: c.Node, Dst: t.Chips[k].Node})
		}
	}
	return out
}

// grid returns the number of rows and columns of the topology's only mesh. For a topology of several
// meshes, grid returns an error.
func grid(t *topo.Topology) (rows, cols int, err error) {
	if len(t.Meshes) != 1 {
		return 0, 0, fmt.Errorf("the pattern needs the rows and columns of one mesh, but this topology has %d meshes", len(t.Meshes))
	}
	return t.Meshes[0].Rows, t.Meshes[0].Cols, nil
}

// addressBits returns the number of bits of a chip's address. If the number of chips is not a power
// of two, addressBits returns an error.
func addressBits(t *topo.Topology) (int, error) {
	n := len(t.Chips)
	if n&(n-1) != 0 {
		return 0, fmt.Errorf("the pattern permutes the bits of a chip's address: want 2, 4, 8 … chips, but this topology has %d chips", n)
	}
	return bits.Len(uint(n)) - 1, nil
}

// transpose exchanges row and column on a square mesh. On other shapes with 4, 16, 64 … chips, and
// on several meshes, transpose exchanges the two halves of an address's bits. On a square mesh whose
// number of rows is a power of two, the two rules give equal pairs.
func transpose(t *topo.Topology, _ Options) ([]Pair, error) {
	if rows, cols, err := grid(t); err == nil && rows == cols {
		return toEach(t, func(i int) int { return i%cols*cols + i/cols }), nil
	}
	n, err := addressBits(t)
	if err != nil || n%2 != 0 {
		return nil, fmt.Errorf("the pattern exchanges row and column, or the halves of an address: want one mesh with as many rows as columns, or 4, 16, 64 … chips, but this topology has %d chips in %s", len(t.Chips), shapes(t))
	}
	half := n / 2
	return toEach(t, func(i int) int { return (i<<half | i>>half) & (1<<n - 1) }), nil
}

// shapes returns a text that describes the meshes of a topology.
func shapes(t *topo.Topology) string {
	if len(t.Meshes) > 1 {
		return fmt.Sprintf("%d meshes", len(t.Meshes))
	}
	return t.Meshes[0].Shape()
}

func bitComplement(t *topo.Topology, _ Options) ([]Pair, error) {
	return toEach(t, func(i int) int { return len(t.Chips) - 1 - i }), nil
}

func bitReverse(t *topo.Topology, _ Options) ([]Pair, error) {
	n, err := addressBits(t)
	if err != nil {
		return nil, err
	}
	return toEach(t, func(i int) int { return int(bits.Reverse64(uint64(i)) >> (64 - n)) }), nil
}

func shuffle(t *topo.Topology, _ Options) ([]Pair, error) {
	n, err := addressBits(t)
	if err != nil {
		return nil, err
	}
	return toEach(t, func(i int) int { return (i<<1 | i>>max(n-1, 0)) & (1<<n - 1) }), nil
}

// tornado goes ⌈k/2⌉-1 places further in a dimension of k places. ⌈k/2⌉-1 is the largest distance
// at which all packets go round a ring in one direction.
func tornado(t *topo.Topology, _ Options) ([]Pair, error) {
	return shifted(t, func(k int) int { return (k+1)/2 - 1 })
}

func nextInEach(t *topo.Topology, _ Options) ([]Pair, error) {
	return shifted(t, func(int) int { return 1 })
}

// shifted goes by(k) places further in each dimension of k places. At the end of a dimension,
// shifted continues at the start, whether or not a cable wraps.
func shifted(t *topo.Topology, by func(k int) int) ([]Pair, error) {
	rows, cols, err := grid(t)
	if err != nil {
		return nil, err
	}
	return toEach(t, func(i int) int {
		return (i/cols+by(rows))%rows*cols + (i%cols+by(cols))%cols
	}), nil
}

// hotspot returns the pairs of uniform traffic with a hot chip. A share of each source's packets
// goes to the hot chip. The rest of the packets go to all other chips in equal parts, including
// the hot chip. The hot chip itself sends to all other chips in equal parts.
func hotspot(t *topo.Topology, o Options) ([]Pair, error) {
	share := o.HotShare
	if share == 0 {
		share = DefaultHotShare
	}
	if share < 1 || share > 100 {
		return nil, fmt.Errorf("a share of %d %% for the hot chip: want 1 to 100", o.HotShare)
	}
	if _, ok := t.Chip(o.Hot); !ok {
		return nil, fmt.Errorf("the hot chip %s is not in the topology; name a chip of the topology", o.Hot)
	}
	// The packets of a source are 100 (n-1) parts, with n chips. Without a hot chip, each of the n-1
	// destinations gets 100 parts. The hot chip takes its share from the parts of every destination.
	others := len(t.Chips) - 1
	var out []Pair
	for _, a := range t.Chips {
		for _, b := range t.Chips {
			w := 100 - share
			switch {
			case a.Node == b.Node:
				continue
			case a.Node == o.Hot:
				w = 100
			case b.Node == o.Hot:
				w += share * others
			}
			if w > 0 {
				out = append(out, Pair{Src: a.Node, Dst: b.Node, Weight: uint32(w)})
			}
		}
	}
	return out, nil
}
