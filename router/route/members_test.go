package route

import (
	"math/rand/v2"
	"strings"
	"testing"

	"ttfabric/wire"
)

// TestSparseTreesAddNoDependency sends multicasts to random sets of chips of all meshes, and
// follows the virtual channels of each route from the source to a member. Each pair of consecutive
// channels must be a dependency of the graph that Check has found to be free of cycles. Therefore
// multicasts to members and all other traffic close no cycle together. The test also follows the
// trees after faults, because faults do not change the trees.
func TestSparseTreesAddNoDependency(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, name := range []string{"line:5", "ring:5", "ring:6", "mesh:3x3", "torus:3x3", "torus:4x4", "torus-x:2x4", "2xt3000", "spec-l1"} {
		for _, cfg := range []Config{{}, {Order: YX}, {Ring: Bubble}} {
			base := plan(t, name, cfg)
			cables := base.Topology().Cables
			for _, p := range []*Plan{base, base.Around([]wire.PortID{cables[len(cables)/2].A}), base.Around([]wire.PortID{cables[0].A, cables[len(cables)-1].A})} {
				if v := p.Check(base.Multicasts()); v.Cycle != nil {
					t.Fatalf("%s %+v: %s", name, cfg, &v)
				}
				g := p.graph()
				k := newChecker(p, 0, wire.ClassRequest, g)
				k.all(base.Multicasts())
				for range 200 {
					follow(t, k, base, rng)
				}
			}
		}
	}
}

// follow draws a multicast, and checks the dependencies of its tree.
func follow(t *testing.T, k *checker, base *Plan, rng *rand.Rand) {
	t.Helper()
	chips := base.Topology().Chips
	src := chips[rng.IntN(len(chips))].Node
	to := base.grids[rng.IntN(len(base.grids))]
	var m wire.Members
	for range 1 + rng.IntN(to.chips()) {
		if c := wire.ChipID(rng.IntN(to.chips())); to.mesh.ID != src.Mesh || c != src.Chip {
			m.Add(c)
		}
	}
	if !m.Any() {
		return
	}
	if _, err := base.Sparse(0, src, to.mesh.ID, m); err != nil {
		t.Fatal(err)
	}
	type held struct {
		n int32
		s Steps
	}
	root := src
	at := map[wire.FabricNodeID]held{src: {n: -1}}
	if to.mesh.ID != src.Mesh { // the packet enters the mesh by a cable
		hops, ok := k.p.Walk(wire.ClassRequest, 0, src, wire.FabricNodeID{Mesh: to.mesh.ID})
		if !ok {
			return // the faults leave no route
		}
		for _, h := range hops {
			if h.To.Mesh == to.mesh.ID {
				root = h.To
				at[root] = held{n: k.id(k.p.grid(h.At), int(h.At.Chip), h.Dir, h.VC, true)}
				break
			}
		}
	}
	tree, _ := to.spread(nil, int(root.Chip), wire.NumDirections, m)
	for _, b := range tree {
		from, ok := at[b.From]
		if !ok {
			t.Fatalf("%s is not on the way from %s", b.From, root)
		}
		h, ok := base.step(&from.s, wire.ClassRequest, false, 0, b.From, b.Dir)
		n := k.id(to, int(b.From.Chip), b.Dir, h.VC, false)
		if !ok || from.n >= 0 && from.n != n && !k.g.has(from.n, n) {
			t.Fatalf("%s to %s of mesh %d: %s waits for %s, which is no dependency of the graph", src, m, to.mesh.ID, k.channel(from.n), k.channel(n))
		}
		from.n = n
		at[b.To] = from
	}
}

func TestSparseErrors(t *testing.T) {
	for _, c := range []struct {
		machine string
		cfg     Config
		plane   wire.Plane
		mesh    wire.MeshID
		m       wire.Members
		want    string
	}{
		{"mesh:3x3", Config{}, 0, 0, wire.Members{}, "the set is empty"},
		{"mesh:3x3", Config{}, 0, 0, wire.MembersOf(0, 1), "the source is in the set"},
		{"mesh:3x3", Config{}, 0, 0, wire.MembersOf(9), "the mesh has chips 0 to 8"},
		{"mesh:3x3", Config{}, 0, 4, wire.MembersOf(1), "the fabric has no mesh 4"},
		{"mesh:3x3", Config{}, 7, 0, wire.MembersOf(1), "no cable from M0D0 to M0D1 on plane 7"},
		{"mesh:3x3", Config{Engine: "updown"}, 0, 0, wire.MembersOf(1), "updown does not support multicast"},
		{"mesh:3x3", Config{Lines: true}, 0, 0, wire.MembersOf(4), "a 1D fabric has no turns"},
		{"2xt3000", Config{}, 9, 1, wire.MembersOf(1), "no route leads to mesh 1 on plane 9"},
	} {
		_, err := plan(t, c.machine, c.cfg).Sparse(c.plane, wire.FabricNodeID{}, c.mesh, c.m)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.machine, c.m, err, c.want)
		}
	}
	if tree, err := plan(t, "mesh:3x3", Config{Lines: true}).Sparse(0, wire.FabricNodeID{}, 0, wire.MembersOf(2, 6)); err != nil || len(tree) != 4 {
		t.Errorf("%v, %v", tree, err)
	}
}

// The method "has" reports whether channel a depends on channel b.
func (g *graph) has(a, b int32) bool {
	for e := g.first[a]; e != 0; e = g.deps[e].next {
		if g.deps[e].on == b {
			return true
		}
	}
	return false
}
