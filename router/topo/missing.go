package topo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ttfabric/router/topo/arrange"
	"ttfabric/wire"
)

// Edge is a pair of neighbours in the grid of a mesh. B is the neighbour of A to the East or South,
// perhaps round a wrap.
type Edge struct {
	A wire.FabricNodeID `json:"a"` // the western or northern chip
	B wire.FabricNodeID `json:"b"` // the eastern or southern chip
}

func (e Edge) compare(o Edge) int { return cmp.Or(e.A.Compare(o.A), e.B.Compare(o.B)) }

// holes returns the edges of mesh m that have no cable. The chips of mesh m begin at t.Chips[at].
// The argument "joined" has, for each chip, the directions in which a cable leads to a neighbour.
func (t *Topology) holes(m Mesh, at int, joined []uint8) (es []Edge) {
	for i, c := range t.Chips[at : at+m.Rows*m.Cols] {
		for _, d := range []wire.Direction{wire.East, wire.South} {
			if row, col, ok := m.step(c.Row, c.Col, d); ok && joined[at+i]>>d&1 == 0 {
				es = append(es, Edge{c.Node, t.Chips[at+row*m.Cols+col].Node})
			}
		}
	}
	slices.SortFunc(es, Edge.compare)
	return es
}

// checkMissing returns a fault if the list Missing lacks an edge without a cable. checkMissing also
// returns a fault if the chips of mesh m do not reach each other. The argument "es" has the edges
// of mesh m without a cable.
func (t *Topology) checkMissing(m Mesh, at int, es []Edge, joined []uint8) *fault {
	for _, e := range es {
		if _, listed := slices.BinarySearchFunc(t.Missing, e, Edge.compare); !listed {
			return faultOf(t.Index(e.A), -1, "no cable joins the neighbours %s and %s: a mesh has a cable between any two neighbours; add the cable, or describe a smaller mesh", e.A, e.B)
		}
	}
	if len(es) == 0 {
		return nil
	}
	seen, queue := make([]bool, m.Rows*m.Cols), []int{0}
	seen[0] = true
	for k := 0; k < len(queue); k++ {
		c := t.Chips[at+queue[k]]
		for d := range wire.Direction(wire.NumDirections) {
			row, col, ok := m.step(c.Row, c.Col, d)
			if next := row*m.Cols + col; ok && joined[at+queue[k]]>>d&1 != 0 && !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return faultOf(at+i, -1, "no cables lead from chip %s to chip %s within mesh %d; describe two meshes", t.Chips[at].Node, t.Chips[at+i].Node, m.ID)
	}
	return nil
}

// Lacks reports whether neighbours in the grid of mesh "id" have no cable.
func (t *Topology) Lacks(id wire.MeshID) bool {
	return slices.ContainsFunc(t.Missing, func(e Edge) bool { return e.A.Mesh == id })
}

// Parts divides the meshes into parts. Used cables join the meshes of one part, directly or over
// other meshes. No used cable joins two parts. The parts and their meshes are sorted.
func (t *Topology) Parts() [][]wire.MeshID {
	of := arrange.NewGroups(len(t.Meshes))
	for i := range t.Cables {
		if c := &t.Cables[i]; c.External() && !c.Unused {
			a, _ := t.meshAt(c.A.Node.Mesh)
			b, _ := t.meshAt(c.B.Node.Mesh)
			of.Join(a, b)
		}
	}
	at := map[int]int{}
	var parts [][]wire.MeshID
	for i, m := range t.Meshes {
		k, known := at[of.Group(i)]
		if !known {
			k = len(parts)
			at[of.Group(i)] = k
			parts = append(parts, nil)
		}
		parts[k] = append(parts[k], m.ID)
	}
	return parts
}

// Apart returns the number of ordered pairs of chips in two parts, see [Topology.Parts].
func (t *Topology) Apart() int {
	n := len(t.Chips) * len(t.Chips)
	for _, part := range t.Parts() {
		chips := 0
		for _, id := range part {
			m, _ := t.Mesh(id)
			chips += m.Rows * m.Cols
		}
		n -= chips * chips
	}
	return n
}

// maxNamed is the largest number of parts or edges that a sentence names.
const maxNamed = 4

// listed joins names. Of more than maxNamed names, listed gives only the first.
func listed(names []string, sep string) string {
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "…")
	}
	return strings.Join(names, sep)
}

// remarkParts returns a sentence about the parts, or "" if there is only one part.
func (t *Topology) remarkParts() string {
	parts := t.Parts()
	if len(parts) < 2 {
		return ""
	}
	var names []string
	for _, p := range parts {
		name := fmt.Sprintf("M%d", p[0])
		if len(p) > 1 {
			name += fmt.Sprintf(" and %d more", len(p)-1)
		}
		names = append(names, name)
	}
	return fmt.Sprintf("No cable joins the %d parts of the machine (%s): %d ordered pairs of chips have no route.", len(parts), listed(names, "; "), t.Apart())
}

// remarkMissing returns a sentence about the edges without a cable, or "" if there are none.
func (t *Topology) remarkMissing() string {
	if len(t.Missing) == 0 {
		return ""
	}
	var names []string
	for _, e := range t.Missing {
		names = append(names, e.A.String()+"-"+e.B.String())
	}
	return fmt.Sprintf("No cable joins %s (%s): routes lead round them.", Count(len(t.Missing), "pair")+" of neighbours", listed(names, ", "))
}

// readMissing reads the key missing of the rendered form.
func (r *renderedFile) readMissing(p pair) error {
	list, err := r.items(p.val, "missing", "a list of pairs such as [M0D0, M0D1]")
	if err != nil {
		return err
	}
	if len(list) > MaxCables {
		return r.fail(p.key, "missing: %d entries; want at most %d", len(list), MaxCables)
	}
	for _, n := range list {
		ends, err := r.items(n, "missing", "a pair such as [M0D0, M0D1]")
		if err == nil && len(ends) != 2 {
			err = r.fail(n, "missing: want a pair such as [M0D0, M0D1]")
		}
		if err != nil {
			return err
		}
		var e Edge
		for k, to := range []*wire.FabricNodeID{&e.A, &e.B} {
			if *to, err = wire.ParseFabricNodeID(ends[k].Value); err != nil {
				return r.fail(ends[k], "chip %s: want an id such as M0D3", show(ends[k]))
			}
		}
		r.t.Missing = append(r.t.Missing, e)
	}
	return nil
}
