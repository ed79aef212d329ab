package reliable

import (
	"fmt"
	"math/rand/v2"
	"sort"

	"ttfabric/node/traffic"
	"ttfabric/router/topo"
)

// PairTable draws the destinations of a traffic pattern.
type PairTable struct {
	mesh Mesh
	dsts [][]Place
	sums [][]uint64 // sums of the weights up to each destination
}

// Pairs returns the pairs of a pattern of node/traffic on a mesh. An unknown pattern, or a pattern that
// does not exist on the mesh, is an error.
func Pairs(m Mesh, pattern string) (*PairTable, error) {
	top, err := topo.Named(fmt.Sprintf("mesh:%dx%d", m.H, m.W))
	if err != nil {
		return nil, err
	}
	p, err := traffic.PatternByName(pattern)
	if err != nil {
		return nil, err
	}
	pairs, err := p.Pairs(top, traffic.Options{})
	if err != nil {
		return nil, err
	}
	t := &PairTable{m, make([][]Place, m.Nodes()), make([][]uint64, m.Nodes())}
	for _, x := range pairs {
		i, sum := int(x.Src.Chip), max(uint64(x.Weight), 1)
		if n := len(t.sums[i]); n > 0 {
			sum += t.sums[i][n-1]
		}
		t.dsts[i], t.sums[i] = append(t.dsts[i], m.Place(int(x.Dst.Chip))), append(t.sums[i], sum)
	}
	return t, nil
}

// Draw returns a source, given by its number, and a destination that is drawn by the weights of the
// pattern. A node that sends nothing in the pattern is its own destination.
func (t *PairTable) Draw(rng *rand.Rand, node int) (src, dst Place) {
	src = t.mesh.Place(node)
	sums := t.sums[node]
	if len(sums) == 0 {
		return src, src
	}
	x := rng.Uint64N(sums[len(sums)-1])
	return src, t.dsts[node][sort.Search(len(sums), func(i int) bool { return sums[i] > x })]
}

// senders returns the number of nodes that send in the pattern.
func (t *PairTable) senders() (n int) {
	for _, d := range t.dsts {
		if len(d) > 0 {
			n++
		}
	}
	return n
}
