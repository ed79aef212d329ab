package route

import (
	"slices"
	"testing"

	"ttfabric/wire"
)

// TestTree compares trees with routes. The tree to a single chip must be the unicast route to this chip, with
// equal hops and virtual channels. The tree to all other chips of a mesh must reach each chip once. If the source
// is in this mesh, the path in the tree to each chip must be the unicast route to the chip.
func TestTree(t *testing.T) {
	for _, name := range []string{"mesh:3x4", "torus:4x4", "ring:6", "2xt3000"} {
		p := plan(t, name, Config{})
		for _, a := range p.Topology().Chips {
			all := map[wire.MeshID]*wire.Members{}
			for _, b := range p.Topology().Chips {
				if a.Node == b.Node {
					continue
				}
				if all[b.Node.Mesh] == nil {
					all[b.Node.Mesh] = &wire.Members{}
				}
				all[b.Node.Mesh].Add(b.Node.Chip)
				tree, err := p.Tree(0, a.Node, b.Node.Mesh, wire.MembersOf(b.Node.Chip))
				walk, ok := p.Walk(wire.ClassRequest, 0, a.Node, b.Node)
				if err != nil || !ok {
					t.Fatalf("%s: %s to %s: %v, %v", name, a.Node, b.Node, err, ok)
				}
				if got := path(tree, a.Node, b.Node); !slices.Equal(got, walk) || len(tree) != len(walk) || !tree[len(tree)-1].Member {
					t.Errorf("%s: the tree from %s to %s alone is\n%v, the route is\n%v", name, a.Node, b.Node, tree, walk)
				}
			}
			for mesh, members := range all {
				tree, err := p.Tree(0, a.Node, mesh, *members)
				if err != nil {
					t.Fatal(err)
				}
				reached := map[wire.FabricNodeID]int{}
				for _, h := range tree {
					if h.Member {
						reached[h.To]++
					}
				}
				for c := range members.All() {
					b := wire.FabricNodeID{Mesh: mesh, Chip: c}
					if reached[b] != 1 {
						t.Errorf("%s: the tree from %s reaches %s %d times", name, a.Node, b, reached[b])
					}
					if walk, _ := p.Walk(wire.ClassRequest, 0, a.Node, b); mesh == a.Node.Mesh && !slices.Equal(path(tree, a.Node, b), walk) {
						t.Errorf("%s: in the tree of all chips, the path from %s to %s is %v, the route is %v", name, a.Node, b, path(tree, a.Node, b), walk)
					}
				}
			}
		}
	}
	if _, err := plan(t, "mesh:3x3", Config{}).Tree(0, wire.FabricNodeID{}, 0, wire.Members{}); err == nil {
		t.Error("the tree of an empty set is no error")
	}
}

// path returns the hops of a tree on the path from one chip to another.
func path(tree []TreeHop, from, to wire.FabricNodeID) (hops []Hop) {
	for at := to; at != from; {
		i := slices.IndexFunc(tree, func(h TreeHop) bool { return h.To == at })
		if i < 0 {
			return nil
		}
		hops = append(hops, tree[i].Hop)
		at = tree[i].At
	}
	slices.Reverse(hops)
	return hops
}
