package spec

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// Chips returns the chips of a topology that the arguments CHIPS of a command name, in the order of the
// topology. If an argument names no chip, Chips returns a usage error.
func Chips(t *topo.Topology, args []string) ([]wire.FabricNodeID, error) {
	set := map[wire.FabricNodeID]bool{}
	for _, a := range args {
		if a == "all" {
			a = "*"
		}
		some, err := pick.Chips(t, a)
		if err != nil {
			return nil, AsUsage(err)
		}
		for n := range some {
			set[n] = true
		}
	}
	return slices.DeleteFunc(t.Nodes(), func(n wire.FabricNodeID) bool { return !set[n] }), nil
}

// TwoSets reads the arguments CHIPS [CHIPS] of a command, and returns the two sets of chips. Without a
// second argument, the second set holds all chips outside the first set. If a chip is in
// both sets, or if the second set is empty, TwoSets returns a
// usage error.
func TwoSets(t *topo.Topology, args []string) (one, other []wire.FabricNodeID, err error) {
	if one, err = Chips(t, args[:1]); err != nil {
		return nil, nil, err
	}
	if len(args) == 2 {
		if other, err = Chips(t, args[1:]); err != nil {
			return nil, nil, err
		}
	}
	for _, c := range t.Chips {
		switch in := slices.Contains(one, c.Node); {
		case len(args) == 1 && !in:
			other = append(other, c.Node)
		case in && slices.Contains(other, c.Node):
			return nil, nil, Usagef("chip %s is in both sets, %s and %s; want two sets without a common chip", c.Node, args[0], args[1])
		}
	}
	if len(other) == 0 {
		return nil, nil, Usagef("%s: this set holds all chips of %s, and leaves no chip for the other side of the cut; name fewer chips", args[0], t.Name)
	}
	return one, other, nil
}

// Plane returns n, the value of --plane, as a routing plane. If the topology has no
// such plane, Plane returns a usage error. Plane 0 is valid for every topology, even for a
// topology without cables.
func Plane(t *topo.Topology, n int) (wire.Plane, error) {
	if n < 0 || n >= max(t.Planes(), 1) {
		return 0, Usagef("--plane %d: want 0 to %d, the planes of %s", n, max(t.Planes(), 1)-1, t)
	}
	return wire.Plane(n), nil
}

// LinkNames returns names for the cables of a topology: all, planes, labels, chips and
// pairs of chips. If channels is true, LinkNames returns ports instead of pairs of chips.
func LinkNames(t *topo.Topology, channels bool) []string {
	out := []string{"all"}
	for p := range t.Planes() {
		out = append(out, fmt.Sprintf("plane:%d", p))
	}
	for _, l := range t.AllLabels() {
		out = append(out, "label:"+l)
	}
	for _, n := range t.Nodes() {
		out = append(out, n.String())
	}
	for _, c := range t.Cables {
		if c.Unused {
			continue
		}
		if channels {
			for _, p := range []wire.PortID{c.A, c.B} {
				out = append(out, p.Short(), fmt.Sprintf("%s:%d", p.Node, p.Channel))
			}
		} else if pair := fmt.Sprintf("%s-%s", c.A.Node, c.B.Node); !slices.Contains(out, pair) {
			out = append(out, pair)
		}
	}
	return out
}

// Random chooses some of the chips or cables that a command names. The zero value chooses all.
type Random struct {
	Count int    // number of chips or cables to choose, of the flag --random; 0: all
	Seed  uint64 // seed of the choice, of the flag --seed; the same seed and the same candidates give the same choice
}

// Choose returns r.Count of the candidates, in their order. The argument "what" names one candidate
// in words, such as "cable". If there are too few candidates, Choose returns a usage error.
func Choose[T any](r Random, what string, from []T) ([]T, error) {
	switch {
	case r.Count == 0:
		return from, nil
	case r.Count < 0:
		return nil, Usagef("--random %d: want 1 or more", r.Count)
	case r.Count > len(from):
		return nil, Usagef("--random %d: the command can choose only from %s", r.Count, topo.Count(len(from), what))
	}
	places := rand.New(rand.NewPCG(r.Seed, 0)).Perm(len(from))[:r.Count]
	slices.Sort(places)
	var out []T
	for _, i := range places {
		out = append(out, from[i])
	}
	return out, nil
}
