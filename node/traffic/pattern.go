// Package traffic is traffic that can be believed: patterns of pairs, a
// generator of packets whose every byte follows from what the packet is, and
// a verifier that tells from the bytes alone what has been lost, duplicated,
// corrupted, reordered or delivered to the wrong place. The pattern names are
// those of tt-metal's test_tt_fabric.
//
// All chips of a run get the same [Spec] and the same pairs; nothing else
// passes between them. A chip's [Generator] makes its packets, its [Verifier]
// looks at what others have written into its memory, and a [Report] says what
// both have seen. [Merge] joins the reports of all chips.
package traffic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Pair is one source and one destination.
type Pair struct {
	Src wire.FabricNodeID `json:"src"`
	Dst wire.FabricNodeID `json:"dst"`
}

// Pattern chooses the pairs of a run.
type Pattern struct {
	Name    string
	Aliases []string // other names that are accepted; test_tt_fabric's among them
	Help    string   // one line
	// Pairs returns distinct pairs of different chips, always the same for
	// the same topology and seed; none where the topology has too few chips.
	Pairs func(t *topo.Topology, seed uint64) []Pair
}

// Patterns are the patterns that can be named (tt-metal,
// tests/tt_metal/tt_metal/perf_microbenchmark/routing, HighLevelTrafficPattern).
var Patterns = []Pattern{
	{"all-to-all", []string{"all_to_all"}, "every chip to every other", allToAll},
	{"one-to-all", []string{"one_to_all"}, "the first chip to every other", oneToAll},
	{"all-to-one", []string{"all_to_one"}, "every other chip to the first", allToOne},
	{"neighbour", []string{"neighbor", "neighbor_exchange"}, "every chip to each of its neighbours", neighbours},
	{"random-pairs", []string{"full_device_random_pairing"}, "chips paired off at random, one of each pair to the other", randomPairs},
	{"permutation", []string{"random_permutation"}, "every chip to one other at random, each the destination of one", permutation},
}

// PatternByName finds a pattern by its name or an alias; the error lists the names.
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

func allToAll(t *topo.Topology, _ uint64) (out []Pair) {
	for _, a := range t.Chips {
		for _, b := range t.Chips {
			if a.Node != b.Node {
				out = append(out, Pair{a.Node, b.Node})
			}
		}
	}
	return out
}

func oneToAll(t *topo.Topology, _ uint64) (out []Pair) {
	for _, b := range t.Chips[1:] {
		out = append(out, Pair{t.Chips[0].Node, b.Node})
	}
	return out
}

func allToOne(t *topo.Topology, _ uint64) (out []Pair) {
	for _, a := range t.Chips[1:] {
		out = append(out, Pair{a.Node, t.Chips[0].Node})
	}
	return out
}

func neighbours(t *topo.Topology, _ uint64) (out []Pair) {
	for _, a := range t.Chips {
		first := len(out)
		for d := range wire.Direction(wire.NumDirections) {
			// Two directions lead to one chip where a short ring closes.
			if n, ok := t.Neighbour(a.Node, d, 0); ok && !slices.Contains(out[first:], Pair{a.Node, n}) {
				out = append(out, Pair{a.Node, n})
			}
		}
	}
	return out
}

// shuffled is the order in which a seed takes the chips.
func shuffled(t *topo.Topology, seed uint64) []int {
	return rand.New(rand.NewPCG(seed, 0)).Perm(len(t.Chips))
}

// randomPairs pairs the chips off, as test_tt_fabric does; one chip of an odd number stays out.
func randomPairs(t *topo.Topology, seed uint64) (out []Pair) {
	order := shuffled(t, seed)
	for i := 0; i+1 < len(order); i += 2 {
		out = append(out, Pair{t.Chips[order[i]].Node, t.Chips[order[i+1]].Node})
	}
	return out
}

// permutation is one cycle through all chips in random order, so that no chip is its own destination.
func permutation(t *topo.Topology, seed uint64) (out []Pair) {
	order := shuffled(t, seed)
	if len(order) < 2 {
		return nil
	}
	for i, k := range order {
		out = append(out, Pair{t.Chips[k].Node, t.Chips[order[(i+1)%len(order)]].Node})
	}
	return out
}
