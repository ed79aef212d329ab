package route

import (
	"fmt"

	"ttfabric/wire"
)

// A multicast to a set of members travels to the members' mesh as a unicast does. The multicast
// spreads from the chip where it enters that mesh, or from its source if the source is in that
// mesh. From this root, the copy for a member takes the dimension-ordered route from the root to
// the member ([wire.Members.Spread]). Therefore the tree of a set has only dependencies that
// unicast routes or the longest multicast trees have too:
//
//   - From the source, the routes to the members are parts of the longest trees, see [grid.trees].
//   - From an entry node, [checker.enter] adds these routes, without detours. Faults change neither
//     the tree of a set nor the trees of ranges. The cable into the mesh carries no packet that has
//     already been in the mesh, so the tree cannot wait for itself.

// Place returns the place of a chip in the grid of its mesh. The result is the zero value for a chip
// that is not in the fabric.
func (p *Plan) Place(n wire.FabricNodeID) wire.Place {
	g := p.grid(n)
	if g == nil {
		return wire.Place{}
	}
	return g.place(int(n.Chip))
}

func (g *grid) place(chip int) wire.Place {
	return wire.Place{Chip: wire.ChipID(chip), Rows: g.mesh.Rows, Cols: g.mesh.Cols, WrapX: g.mesh.WrapX, WrapY: g.mesh.WrapY}
}

// Sparse lists the hops of the tree of a multicast from chip src to a set of members of a mesh. If
// src is in the members' mesh, the tree begins at src. Otherwise, the tree begins at the entry node
// to which the route from src leads. A hop that leaves a chip other than the root comes after the
// hop that leads to this chip. The error says why the plan cannot reach all members.
func (p *Plan) Sparse(pl wire.Plane, src wire.FabricNodeID, mesh wire.MeshID, m wire.Members) ([]Branch, error) {
	fail := func(format string, a ...any) ([]Branch, error) {
		return nil, fmt.Errorf("multicast from %s to chips %s of mesh %d: "+format, append([]any{src, m, mesh}, a...)...)
	}
	g := p.grid(wire.FabricNodeID{Mesh: mesh})
	switch {
	case p.grid(src) == nil:
		return fail("chip %s is not in the fabric", src)
	case g == nil:
		return fail("the fabric has no mesh %d", mesh)
	case !p.dor():
		return fail("the routing engine %s does not support multicast", p.cfg.Engine)
	case !m.Any():
		return fail("the set is empty")
	case mesh == src.Mesh && m.Has(src.Chip):
		return fail("the source is in the set; write to the source separately")
	}
	for c := range m.All() {
		if int(c) >= g.chips() {
			return fail("the mesh has chips 0 to %d", g.chips()-1)
		}
	}
	root, ok := p.root(pl, src, mesh)
	if !ok {
		return fail("no route leads to mesh %d on plane %d", mesh, pl)
	}
	tree, ok := g.spread(nil, int(root.Chip), wire.NumDirections, m)
	if !ok {
		return fail("a 1D fabric has no turns")
	}
	for _, b := range tree {
		if q, ok := p.Port(b.From, b.Dir, pl); !ok || p.down(q) {
			return fail("there is no cable from %s to %s on plane %d", b.From, b.To, pl)
		}
	}
	return tree, nil
}

// Branches lists the hops of the tree that [Plan.Sparse] lists, but also hops over cables that are
// out of service. If no route leads to the mesh, Branches returns nil. The tree must exist without
// faults.
func (p *Plan) Branches(pl wire.Plane, src wire.FabricNodeID, mesh wire.MeshID, m wire.Members) []Branch {
	root, ok := p.root(pl, src, mesh)
	if !ok {
		return nil
	}
	tree, _ := p.grid(root).spread(nil, int(root.Chip), wire.NumDirections, m)
	return tree
}

// root returns the chip where the tree of a multicast from src to members of a mesh begins. This
// chip is src or the entry node of the members' mesh. root reports false if no route leads to the
// mesh.
func (p *Plan) root(pl wire.Plane, src wire.FabricNodeID, mesh wire.MeshID) (wire.FabricNodeID, bool) {
	if mesh == src.Mesh {
		return src, true
	}
	hops, _ := p.Walk(wire.ClassRequest, pl, src, wire.FabricNodeID{Mesh: mesh})
	for _, h := range hops {
		if h.To.Mesh == mesh {
			return h.To, true
		}
	}
	return src, false
}

// spread appends the hops of the tree to the members of m, from a chip to which the packet came by
// side "from". spread returns false if a 1D fabric would need a turn.
func (g *grid) spread(tree []Branch, chip int, from wire.Direction, m wire.Members) (_ []Branch, ok bool) {
	at := g.place(chip)
	copies, parts := m.Spread(&at, g.plan.Trunk(), from)
	for d := range wire.Direction(wire.NumDirections) {
		if parts>>d&1 == 0 {
			continue
		}
		if g.plan.cfg.Lines && from != wire.NumDirections && d != from.Opposite() {
			return tree, false
		}
		next, _, ok := g.beside(chip, d)
		if !ok {
			return tree, false
		}
		tree = append(tree, Branch{g.node(chip), g.node(next), d, copies[d].Has(wire.ChipID(next))})
		if tree, ok = g.spread(tree, next, d.Opposite(), copies[d]); !ok {
			return tree, false
		}
	}
	return tree, true
}

// members adds the dependencies of multicasts to members of a mesh that come into the mesh at a chip.
// The argument "held" is the channel of the cable into the mesh.
func (k *checker) members(g *grid, chip int, held int32) {
	r := dor{g: g}
	m := &g.mesh
	for dst := range g.chips() {
		x, y := r.along(chip%m.Cols, dst%m.Cols, m.Cols, m.WrapX), r.along(chip/m.Cols, dst/m.Cols, m.Rows, m.WrapY)
		if g.apart(chip, dst) {
			continue
		}
		leg := k.buf[:0]
		if k.p.Trunk() == wire.TrunkX {
			leg = hops(hops(leg, x, wire.East, wire.West), y, wire.South, wire.North)
		} else {
			leg = hops(hops(leg, y, wire.South, wire.North), x, wire.East, wire.West)
		}
		k.path(g, chip, leg, false, false, false, held)
	}
}
