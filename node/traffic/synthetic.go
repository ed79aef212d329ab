package traffic

import (
	"fmt"
	"math/bits"

	"ttfabric/router/topo"
)

// This file has the patterns of the literature, as BookSim defines them (booksim2, traffic.cpp).
// For BookSim's node address, this file takes a chip's place in row-major order. BookSim's
// dimension 0 is the columns.
//
// BookSim requires powers of two and square grids for all these patterns. Here, if rows and columns
// can replace address bits, every mesh has the pattern. The complement of an address is then the
// chip opposite the centre. The exchange of an address's halves is then the exchange of row and
// column. The patterns bit-reverse and shuffle have no such meaning. Patterns that need rows and
// columns require a single mesh. The other patterns take the chips of all meshes in order.

// toEach returns pairs. The function "to" maps a source's place in the topology to its
// destination's place.
func toEach(t *topo.Topology, to func(i int) int) (out []Pair) {
	for i, c := range t.Chips {
		if k := to(i); k != i {
			out = append(out, Pair{Src: c.Node, Dst: t.Chips[k].Node})
		}
	}
	return out
}

// grid returns the number of rows and columns of the machine's only mesh.
func grid(t *topo.Topology) (rows, cols int, err error) {
	if len(t.Meshes) != 1 {
		return 0, 0, fmt.Errorf("the pattern needs the rows and columns of one mesh, but this topology has %d meshes", len(t.Meshes))
	}
	return t.Meshes[0].Rows, t.Meshes[0].Cols, nil
}

// addressBits returns the number of bits of a chip's address.
func addressBits(t *topo.Topology) (int, error) {
	n := len(t.Chips)
	if n&(n-1) != 0 {
		return 0, fmt.Errorf("the pattern permutes the bits of an address, so it needs 2, 4, 8 … chips, but this topology has %d chips", n)
	}
	return bits.Len(uint(n)) - 1, nil
}

// transpose exchanges row and column on a square mesh. On other shapes, transpose exchanges the
// halves of an address. If the number of rows of a square is a power of two, both give the same
// pairs.
func transpose(t *topo.Topology, _ Options) ([]Pair, error) {
	if rows, cols, err := grid(t); err == nil && rows == cols {
		return toEach(t, func(i int) int { return i%cols*cols + i/cols }), nil
	}
	n, err := addressBits(t)
	if err != nil || n%2 != 0 {
		return nil, fmt.Errorf("the pattern exchanges row and column, or the halves of an address, so it needs one mesh with as many rows as columns, or 4, 16, 64 … chips, but this topology has %d chips in %s", len(t.Chips), shapes(t))
	}
	half := n / 2
	return toEach(t, func(i int) int { return (i<<half | i>>half) & (1<<n - 1) }), nil
}

// shapes returns a text that describes the meshes of a machine.
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

// tornado goes ⌈k/2⌉-1 places further in a dimension of k places. At this distance all packets take
// the same direction. At any larger distance they do not.
func tornado(t *topo.Topology, _ Options) ([]Pair, error) {
	return shifted(t, func(k int) int { return (k+1)/2 - 1 })
}

func nextInEach(t *topo.Topology, _ Options) ([]Pair, error) {
	return shifted(t, func(int) int { return 1 })
}

// shifted goes by(k) places further in each dimension of k places. shifted continues round the
// edge, whether or not a cable leads there.
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
// goes to the hot chip. The other packets are uniform, and the hot chip also gets its part of them.
// Packets from the hot chip are uniform.
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
	// All packets together are 100 (n-1) parts. Each of n-1 destinations gets 100 parts, or fewer
	// after the hot chip has taken its share.
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
