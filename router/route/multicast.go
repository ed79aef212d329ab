package route

import (
	"fmt"
	"iter"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Trunk returns the axis of the trunks of multicast trees, which is the axis that requests use
// first. For [NoOrder], Trunk returns [wire.TrunkX].
func (p *Plan) Trunk() wire.Trunk {
	if p.cfg.Order == YX {
		return wire.TrunkY
	}
	return wire.TrunkX
}

// Multicasts returns the kinds of multicast that the plan supports, as the argument for
// [Plan.Check].
func (p *Plan) Multicasts() Multicasts {
	return Multicasts{Any: p.dor(), Trunk: p.cfg.Order}
}

// dor reports whether the plan uses the dimension-ordered engine. Multicasts and [Plan.Other] need
// this engine.
func (p *Plan) dor() bool { return p.cfg.Engine == "" || p.cfg.Engine == Engines[0].Name }

// Branch is one hop of a multicast's tree.
type Branch struct {
	From, To wire.FabricNodeID
	Dir      wire.Direction
	Member   bool // the chip To is a member of the multicast
}

// Multicast lists the hops of a multicast's tree from chip src. A hop that leaves a chip other than
// src comes after the hop that leads to this chip. Each member is the end of exactly one hop. The
// error says why the plan cannot reach all chips of the ranges.
func (p *Plan) Multicast(pl wire.Plane, src wire.FabricNodeID, r wire.Ranges) ([]Branch, error) {
	g := p.grid(src)
	if g == nil {
		return nil, fmt.Errorf("chip %s is not in the fabric", src)
	}
	if err := g.reaches(int(src.Chip), r); err != nil {
		return nil, fmt.Errorf("ranges %s from %s: %w", r, src, err)
	}
	var tree []Branch
	for d := range wire.Direction(wire.NumDirections) {
		if r.Hops[d] > 0 {
			tree = p.Beyond(tree, src, d, p.Trunk(), r.Copy(p.Trunk(), d, false))
		}
	}
	for _, b := range tree {
		if q, ok := p.Port(b.From, b.Dir, pl); !ok || p.down(q) {
			return nil, fmt.Errorf("ranges %s from %s: there is no cable from %s to %s on plane %d", r, src, b.From, b.To, pl)
		}
	}
	return tree, nil
}

// reaches returns an error if the ranges have no hops, skip all hops of a direction, leave the mesh
// or name a chip twice. A turn that a 1D fabric does not have is also an error, and so is an engine
// that does not support multicast.
func (g *grid) reaches(src int, r wire.Ranges) error {
	m := &g.mesh
	e, w, n, s := int(r.Hops[wire.East]), int(r.Hops[wire.West]), int(r.Hops[wire.North]), int(r.Hops[wire.South])
	row, col := src/m.Cols, src%m.Cols
	for d := range wire.Direction(wire.NumDirections) {
		if r.Skip[d] > 0 && r.Skip[d] >= r.Hops[d] {
			return fmt.Errorf("the ranges skip all hops %s", d)
		}
	}
	switch {
	case !r.Any():
		return fmt.Errorf("the ranges have no hops")
	case !g.plan.dor():
		return fmt.Errorf("the routing engine %s does not support multicast", g.plan.cfg.Engine)
	case g.plan.cfg.Lines && e+w > 0 && n+s > 0:
		return fmt.Errorf("a 1D fabric has no turns")
	case m.Axes == topo.OnlyX && n+s > 0, m.Axes == topo.OnlyY && e+w > 0:
		return fmt.Errorf("the fabric uses only the %s axis of mesh %d", m.Axes, m.ID)
	case e+w > m.Cols-1 || n+s > m.Rows-1:
		return fmt.Errorf("mesh %d has %d rows and %d columns: want at most %d hops east and west together, and at most %d north and south together; otherwise a chip is named twice", m.ID, m.Rows, m.Cols, m.Cols-1, m.Rows-1)
	case !m.WrapX && (e > m.Cols-1-col || w > col), !m.WrapY && (s > m.Rows-1-row || n > row):
		return fmt.Errorf("the ranges leave mesh %d: the chip has %d columns to the east, %d to the west, %d rows to the north, %d to the south", m.ID, m.Cols-1-col, col, row, m.Rows-1-row)
	}
	return nil
}

// Beyond appends to tree the hops of a multicast's copy that leaves chip "at" in direction d with
// ranges r. If the ranges have as many hops along an axis as the mesh has chips there, Beyond
// appends nothing, because a chip could occur twice. Beyond leaves out hops that would lead out of
// the mesh.
func (p *Plan) Beyond(tree []Branch, at wire.FabricNodeID, d wire.Direction, t wire.Trunk, r wire.Ranges) []Branch {
	g := p.grid(at)
	if g == nil || d >= wire.NumDirections ||
		int(r.Hops[wire.East])+int(r.Hops[wire.West]) >= g.mesh.Cols || int(r.Hops[wire.North])+int(r.Hops[wire.South]) >= g.mesh.Rows {
		return tree
	}
	next, _, ok := g.beside(int(at.Chip), d)
	if !ok {
		return tree
	}
	parts := r.Parts(d.Opposite())
	to := g.node(next)
	tree = append(tree, Branch{at, to, d, parts&wire.PartHere != 0})
	for b := range wire.Direction(wire.NumDirections) {
		if parts>>b&1 != 0 {
			tree = p.Beyond(tree, to, b, t, r.Copy(t, b, b == d))
		}
	}
	return tree
}

// trees yields the routes from a chip to the ends of the branches of its longest multicasts. Such a
// multicast has a trunk in both directions along the first dimension of order o. From each chip of
// the trunk, branches leave in both directions along the second dimension. A yielded route is valid
// until trees yields the next route.
func (g *grid) trees(src int, o Order) iter.Seq[[]wire.Direction] {
	trunk, branch := []wire.Direction{wire.East, wire.West}, []wire.Direction{wire.South, wire.North}
	if o == YX {
		trunk, branch = branch, trunk
	}
	return func(yield func([]wire.Direction) bool) {
		var buf [wire.MaxHops]wire.Direction
		if g.plan.cfg.Lines { // a 1D fabric has only trunks and branches that begin at the source
			for d := range wire.Direction(wire.NumDirections) {
				if !yield(straight(buf[:0], d, min(g.run(src, d), wire.MaxHops))) {
					return
				}
			}
			return
		}
		for _, t := range trunk {
			at := src
			for n := range min(g.run(src, t), wire.MaxHops) + 1 {
				if n > 0 {
					at, _, _ = g.beside(at, t)
				}
				leg := straight(buf[:0], t, n)
				for _, b := range branch {
					if !yield(straight(leg, b, min(g.run(at, b), wire.MaxHops-n))) {
						return
					}
				}
			}
		}
	}
}

// straight appends n hops in direction d.
func straight(buf []wire.Direction, d wire.Direction, n int) []wire.Direction {
	for range n {
		buf = append(buf, d)
	}
	return buf
}

// run returns the number of hops from a chip in direction d to the last chip of the axis. On a
// ring, the last of these hops ends at the chip's neighbour on the other side.
func (g *grid) run(chip int, d wire.Direction) (n int) {
	for at := chip; ; n++ {
		next, _, ok := g.beside(at, d)
		if !ok || next == chip {
			return n
		}
		at = next
	}
}
