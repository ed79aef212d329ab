// Package traffic makes traffic and verifies every byte that arrives. The package has patterns of
// pairs, a generator of packets, and a verifier. Every byte of a packet follows from the packet's
// header. The verifier compares the bytes with the header, and the header with what the fabric
// reports about the packet. The verifier thus finds which packets were lost, duplicated, corrupted,
// reordered or delivered to the wrong place. The patterns are the patterns of
// tt-metal's test_tt_fabric (pattern.go) and of the literature on networks on chips
// (synthetic.go).
//
// A source sends as fast as its window allows. If the spec has a [Spec.Load], packets arrive at
// the source's queue at the rate of the load instead (arrivals.go).
//
// All chips of a run get the same [Spec] and the same pairs. The chips exchange no other data
// about the run. A chip's [Generator] makes its packets. A chip's [Verifier] checks the data that
// other chips have written into the chip's memory. A [Report] holds the results of a chip's
// generator and verifier. [Merge] joins the reports of all chips.
package traffic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Pair is one source and one destination.
type Pair struct {
	Src    wire.FabricNodeID `json:"src"`              // source of the packets
	Dst    wire.FabricNodeID `json:"dst"`              // destination of the packets
	Weight uint32            `json:"weight,omitempty"` // the pair's share of the run's packets, relative to the weights of the other pairs; at most MaxWeight; 0 counts as 1
	Planes uint8             `json:"planes,omitempty"` // number of planes with a route from Src to Dst; planes are numbered from 0; 0 counts as all planes of the run
	Ways   uint8             `json:"ways,omitempty"`   // number of directions round rings: 2 if both directions are equally long; 0 counts as 1
}

// weight returns the weight of the pair's share of the packets.
func (p *Pair) weight() uint64 { return max(uint64(p.Weight), 1) }

// Options holds parameters of some patterns.
type Options struct {
	Seed     uint64            // seed of the random choices in the patterns random-pairs and permutation
	Hot      wire.FabricNodeID // for the pattern hotspot: the hot chip
	HotShare int               // for the pattern hotspot: percentage of each source's packets that go to the hot chip, 1 to 100; 0: DefaultHotShare

	// Planes returns the number of planes with a route from src to dst. The planes with a route have
	// the lowest numbers, from 0. A pattern leaves out pairs with 0 planes. If Planes is nil, every
	// pair has all planes. Some fabrics need Planes. Meshes may be joined by fewer cables than they
	// have planes, and on a 1D fabric only chips of one line have routes.
	Planes func(src, dst wire.FabricNodeID) int

	// Ways returns the number of routes from src to dst on each plane: 2 if both directions round a
	// ring are equally long, else 1. See route.Plan.WaysBetween. If Ways is nil, every pair has 1
	// route.
	Ways func(src, dst wire.FabricNodeID) int
}

// DefaultHotShare is the percentage of packets that go to the hot chip if HotShare in [Options]
// is 0.
const DefaultHotShare = 20

// Pattern chooses the pairs of a run.
type Pattern struct {
	Name    string
	Aliases []string // other accepted names, including the names in test_tt_fabric or BookSim
	Help    string   // description in one line
	Draw    bool     // sources draw the destination of each packet at random, see Spec.Draw
	pairs   func(t *topo.Topology, o Options) ([]Pair, error)
}

// Patterns are the patterns that a user can name. Some patterns come from test_tt_fabric (tt-metal,
// tests/tt_metal/tt_metal/perf_microbenchmark/routing, HighLevelTrafficPattern), and some from
// BookSim (booksim2, traffic.cpp).
var Patterns = []Pattern{
	{"all-to-all", []string{"all_to_all"}, "every chip to every other chip", false, allToAll},
	{"one-to-all", []string{"one_to_all"}, "the first chip to every other chip", false, oneToAll},
	{"all-to-one", []string{"all_to_one"}, "every other chip to the first chip", false, allToOne},
	{"neighbour-exchange", []string{"neighbor_exchange"}, "every chip to each of its neighbours", false, neighbours},
	{"random-pairs", []string{"full_device_random_pairing"}, "random pairs of chips, from one chip to the other", false, randomPairs},
	{"permutation", []string{"random_permutation", "randperm"}, "a random permutation: every chip to another chip", false, permutation},
	{"uniform", []string{"uniform_random"}, "every chip to random chips, drawn for each packet", true, allToAll},
	{"transpose", nil, "exchange row and column; square meshes, or 4, 16, 64 … chips", false, transpose},
	{"bit-complement", []string{"bit_complement", "bitcomp"}, "to the chip on the opposite side of the centre", false, bitComplement},
	{"bit-reverse", []string{"bit_reverse", "bitrev"}, "reverse the address bits; 2, 4, 8 … chips", false, bitReverse},
	{"shuffle", nil, "rotate the address bits left; 2, 4, 8 … chips", false, shuffle},
	{"tornado", nil, "one hop less than halfway round in each dimension", false, tornado},
	{"neighbour", []string{"neighbor"}, "one hop on in each dimension, with wrap at the edge", false, nextInEach},
	{"hotspot", nil, "a share of the packets to the hot chip, the rest as uniform", true, hotspot},
}

// PatternByName returns the pattern with the given name or alias. The error lists the known names,
// without aliases.
func PatternByName(name string) (Pattern, error) {
	var have []string
	for _, p := range Patterns {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p, nil
		}
		have = append(have, p.Name)
	}
	return Pattern{}, fmt.Errorf("traffic pattern %q: want one of %s", name, strings.Join(have, ", "))
}

// Pairs returns the pattern's pairs: distinct pairs of different chips. Equal topologies and
// equal options give equal pairs. A chip that the pattern maps to itself sends nothing. If the
// pattern does not exist on the topology or gives no pairs, the error says why.
func (p *Pattern) Pairs(t *topo.Topology, o Options) ([]Pair, error) {
	pairs, err := p.pairs(t, o)
	if err == nil && o.Planes != nil {
		pairs = onPlanes(pairs, t.Planes(), o.Planes)
	}
	if err == nil && o.Ways != nil {
		for i := range pairs {
			if n := o.Ways(pairs[i].Src, pairs[i].Dst); n > 1 {
				pairs[i].Ways = uint8(n)
			}
		}
	}
	if err == nil && len(pairs) == 0 {
		err = errors.New("no chip would send to another chip; choose another pattern or a larger topology")
	}
	if err != nil {
		return nil, fmt.Errorf("pattern %s on %s: %w", p.Name, t.Name, err)
	}
	return pairs, nil
}

// onPlanes sets the field Planes of each pair that has fewer than all planes. onPlanes leaves out
// pairs that have no plane.
func onPlanes(pairs []Pair, all int, planes func(src, dst wire.FabricNodeID) int) (out []Pair) {
	for _, p := range pairs {
		n := planes(p.Src, p.Dst)
		if n == 0 {
			continue
		}
		if n < all {
			p.Planes = uint8(n)
		}
		out = append(out, p)
	}
	return out
}

func allToAll(t *topo.Topology, _ Options) (out []Pair, err error) {
	for _, a := range t.Chips {
		for _, b := range t.Chips {
			if a.Node != b.Node {
				out = append(out, Pair{Src: a.Node, Dst: b.Node})
			}
		}
	}
	return out, nil
}

func oneToAll(t *topo.Topology, _ Options) (out []Pair, err error) {
	for _, b := range t.Chips[1:] {
		out = append(out, Pair{Src: t.Chips[0].Node, Dst: b.Node})
	}
	return out, nil
}

func allToOne(t *topo.Topology, _ Options) (out []Pair, err error) {
	for _, a := range t.Chips[1:] {
		out = append(out, Pair{Src: a.Node, Dst: t.Chips[0].Node})
	}
	return out, nil
}

func neighbours(t *topo.Topology, _ Options) (out []Pair, err error) {
	for _, a := range t.Chips {
		first := len(out)
		for d := range wire.Direction(wire.NumSides) {
			// On a ring of two chips, both directions lead to the same neighbour.
			if n, ok := t.Neighbour(a.Node, d, 0); ok && !slices.Contains(out[first:], Pair{Src: a.Node, Dst: n}) {
				out = append(out, Pair{Src: a.Node, Dst: n})
			}
		}
	}
	return out, nil
}

// shuffled returns the chips in a random order, which depends on the seed.
func shuffled(t *topo.Topology, seed uint64) []int {
	return rand.New(rand.NewPCG(seed, 0)).Perm(len(t.Chips))
}

// randomPairs pairs off the chips at random, as test_tt_fabric does. If the number of chips is odd,
// randomPairs leaves out one chip.
func randomPairs(t *topo.Topology, o Options) (out []Pair, err error) {
	order := shuffled(t, o.Seed)
	for i := 0; i+1 < len(order); i += 2 {
		out = append(out, Pair{Src: t.Chips[order[i]].Node, Dst: t.Chips[order[i+1]].Node})
	}
	return out, nil
}

// permutation returns the pairs of one cycle through all chips in random order. A chip's
// destination is therefore always another chip.
func permutation(t *topo.Topology, o Options) (out []Pair, err error) {
	order := shuffled(t, o.Seed)
	if len(order) < 2 {
		return nil, nil
	}
	for i, k := range order {
		out = append(out, Pair{Src: t.Chips[k].Node, Dst: t.Chips[order[(i+1)%len(order)]].Node})
	}
	return out, nil
}
