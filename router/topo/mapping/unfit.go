package mapping

import (
	"fmt"
	"slices"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/router/topo/assign"
	"ttfabric/wire"
)

// maxNamed is the largest number of chips or demands that a reason lists.
const maxNamed = 12

// UnfitError says why a descriptor does not fit a machine.
type UnfitError struct {
	Reason    string
	Chips     []wire.FabricNodeID // a smallest set of logical chips that do not fit together; nil: there is another reason
	Undecided bool                // the search reached its limit
}

// Error returns the reason.
func (e *UnfitError) Error() string { return e.Reason }

// explain returns the error for a problem without an assignment.
func (b *builder) explain(p *assign.Problem) error {
	c, ok := assign.Explain(p, assign.Limit{Stop: b.o.Limit.Stop})
	switch {
	case !ok:
		return &UnfitError{Reason: fmt.Sprintf("the descriptor does not fit %s", b.m)}
	case c.Total:
		n := 0
		for _, m := range b.g.Meshes {
			n += m.Rows * m.Cols
		}
		return &UnfitError{Reason: fmt.Sprintf("the descriptor has %s, and the machine %d", topo.Count(n, "chip"), len(b.m.Chips))}
	}
	e := &UnfitError{}
	for _, x := range c.Chips {
		e.Chips = append(e.Chips, b.node(x.Mesh, x.Chip))
	}
	smallest := "each smaller part of this set fits"
	if c.Loose {
		smallest = "perhaps a part of this set does not fit either"
	}
	many := topo.Count(len(e.Chips), "chip does") + " not fit"
	if len(e.Chips) > 1 {
		many = fmt.Sprintf("%d chips do not fit together", len(e.Chips))
	}
	e.Reason = fmt.Sprintf("%s: %s (%s). They want %s. %s", many, nodes(b, c.Chips), smallest, b.demands(p, &c), b.offers(p, &c))
	if len(e.Chips) == 1 {
		e.Reason = fmt.Sprintf("%s: %s. %s", many, nodes(b, c.Chips), b.offers(p, &c))
	}
	return e
}

// nodes names the chips of a conflict. The chips of a whole mesh are named by their mesh.
func nodes(b *builder, chips []assign.Chip) string {
	count := map[int]int{}
	for _, x := range chips {
		count[x.Mesh]++
	}
	var names []string
	for i, x := range chips {
		m := &b.g.Meshes[x.Mesh]
		switch whole := count[x.Mesh] == m.Rows*m.Cols && count[x.Mesh] > 4; {
		case !whole:
			names = append(names, b.node(x.Mesh, x.Chip).String())
		case i == 0 || chips[i-1].Mesh != x.Mesh:
			names = append(names, fmt.Sprintf("all of M%d", m.ID))
		}
	}
	return list(names)
}

// list joins names, and shortens a long list.
func list(names []string) string {
	if len(names) > maxNamed {
		names = append(slices.Clone(names[:maxNamed-1]), fmt.Sprintf("and %d more", len(names)-maxNamed+1))
	}
	return strings.Join(names, ", ")
}

// demands says what the chips of a conflict ask for.
func (b *builder) demands(p *assign.Problem, c *assign.Conflict) string {
	in := map[assign.Chip]bool{}
	for _, x := range c.Chips {
		in[x] = true
	}
	var parts []string
	for i := range p.Meshes {
		joined, most := 0, 0
		var one string
		for _, d := range p.Meshes[i].Edges {
			if in[assign.Chip{Mesh: i, Chip: d.A}] && in[assign.Chip{Mesh: i, Chip: d.B}] {
				joined++
				most = d.Count
				one = fmt.Sprintf("%s–%s", b.node(i, d.A), b.node(i, d.B))
			}
		}
		switch kind := map[bool]string{false: "", true: "at least 1 of "}[b.g.Meshes[i].Relaxed]; {
		case joined == 1:
			parts = append(parts, fmt.Sprintf("%s%s between %s", kind, topo.Count(most, "cable"), one))
		case joined > 1:
			parts = append(parts, fmt.Sprintf("%s%s between each of %d pairs of neighbours in M%d", kind, topo.Count(most, "cable"), joined, b.g.Meshes[i].ID))
		}
	}
	for _, k := range c.Connections {
		l := &b.g.Links[k]
		kind := map[bool]string{false: "", true: "at least 1 of "}[l.Relaxed]
		parts = append(parts, fmt.Sprintf("%s%s between %s and %s (line %d)", kind, topo.Count(l.Count, "cable"), b.end(l.A), b.end(l.B), l.Line))
	}
	for _, x := range c.Chips {
		if _, ok := b.may[x.Mesh][x.Chip]; ok {
			parts = append(parts, fmt.Sprintf("%s at its pinned place", b.node(x.Mesh, x.Chip)))
		}
	}
	if slices.ContainsFunc(c.Chips, func(x assign.Chip) bool { return p.Meshes[x.Mesh].Blocks != nil }) {
		parts = append(parts, "the chips of each host of host_topology on one host of the machine")
	}
	if len(parts) == 0 {
		return "places of their own"
	}
	return list(parts)
}

// offers says what the machine has.
func (b *builder) offers(p *assign.Problem, c *assign.Conflict) string {
	pairs, most, neighbours := len(p.Machine.Cables), 0, make([]int, p.Machine.Chips)
	for _, x := range p.Machine.Cables {
		most = max(most, x.Count)
		if x.Count > 0 {
			neighbours[x.A]++
			neighbours[x.B]++
		}
	}
	s := fmt.Sprintf("In the machine, cables join %s of chips, at most %d within a mesh, and a chip has at most %s", topo.Count(pairs, "pair"), most, topo.Count(slices.Max(neighbours), "neighbour"))
	if n := len(b.m.Hosts); n > 1 {
		chips := make([]int, n)
		for _, x := range b.m.Chips {
			chips[x.Host]++
		}
		s += fmt.Sprintf("; its largest host has %s", topo.Count(slices.Max(chips), "chip"))
	}
	return s + "."
}
