package assign

import "slices"

// Limits of [Explain].
const (
	ExplainSteps = 200_000 // largest number of steps of one call of Explain, if the caller gives no limit
	trySteps     = 10_000  // largest number of steps to find out whether some of the chips fit
	radius       = 2       // Explain first looks at chips with their neighbours up to this distance
)

// Chip is a logical chip.
type Chip struct{ Mesh, Chip int }

// Conflict is a set of logical chips that do not fit the machine together.
type Conflict struct {
	Total       bool   // the meshes have more chips than the machine; the other fields are then empty
	Chips       []Chip // sorted; if any one chip is removed, the other chips fit, unless Loose is true
	Connections []int  // indices of the connections that belong to the conflict; if any one connection is removed, the chips fit
	Loose       bool   // the search reached its limit, and a smaller set may be a conflict, too
}

// Explain is for a problem for which [Solve] has found no assignment. Explain returns a set of
// logical chips that do not fit the machine together. Each smaller part of the set fits. A problem
// may have several such sets. Demands that are relaxed count with one cable. If limit.Steps is 0,
// the limit is [ExplainSteps]. If Explain cannot prove within its limit that the problem has no
// assignment, the second result is false.
func Explain(p *Problem, limit Limit) (Conflict, bool) {
	if limit.Steps == 0 {
		limit.Steps = ExplainSteps
	}
	e := &explainer{p: p, left: limit.Steps, stop: limit.Stop}
	all, chips := e.whole(), 0
	for _, m := range p.Meshes {
		chips += m.Chips
	}
	if chips > p.Machine.Chips {
		return Conflict{Total: true}, true
	}
	start, found := e.ball()
	if !found {
		if start = all; !e.refuted(all, limit.Steps/2) {
			return Conflict{}, false
		}
		e.dropMeshes(&start)
		e.dropConnections(&start)
	}
	best := e.shrink(start, false)
	if other := e.shrink(start, true); other.size() < best.size() {
		best = other
	}
	c := Conflict{Loose: e.loose}
	for i, keep := range best.keep {
		for k, is := range keep {
			if is {
				c.Chips = append(c.Chips, Chip{i, k})
			}
		}
	}
	for i, is := range best.connections {
		if is && e.applies(&best, i) {
			c.Connections = append(c.Connections, i)
		}
	}
	return c, true
}

// part is a part of a problem: some chips and connections.
type part struct {
	keep        [][]bool // for each mesh and chip
	connections []bool
}

func (t *part) clone() part {
	c := part{connections: slices.Clone(t.connections)}
	for _, k := range t.keep {
		c.keep = append(c.keep, slices.Clone(k))
	}
	return c
}

func (t *part) size() (n int) {
	for _, keep := range t.keep {
		for _, is := range keep {
			if is {
				n++
			}
		}
	}
	return n
}

type explainer struct {
	p     *Problem
	stop  func() bool
	left  int  // number of steps left
	loose bool // a question has no answer, because the search for it reached its limit
}

func (e *explainer) whole() part {
	t := part{connections: make([]bool, len(e.p.Connections))}
	for i := range t.connections {
		t.connections[i] = true
	}
	for _, m := range e.p.Meshes {
		keep := make([]bool, m.Chips)
		for k := range keep {
			keep[k] = true
		}
		t.keep = append(t.keep, keep)
	}
	return t
}

// none returns a part without chips.
func (e *explainer) none() part {
	t := part{connections: make([]bool, len(e.p.Connections))}
	for _, m := range e.p.Meshes {
		t.keep = append(t.keep, make([]bool, m.Chips))
	}
	return t
}

// applies reports whether a part has the chips that a connection needs. A connection that names its
// chips needs these chips. Any other connection needs all chips of its meshes.
func (e *explainer) applies(t *part, i int) bool {
	c := &e.p.Connections[i]
	for _, end := range []End{c.A, c.B} {
		for _, m := range end.Meshes {
			if end.Chip != AnyChip && !t.keep[m][end.Chip] || end.Chip == AnyChip && slices.Contains(t.keep[m], false) {
				return false
			}
		}
	}
	return true
}

// refuted reports whether the search proves that a part does not fit.
func (e *explainer) refuted(t part, most int) bool {
	most = min(most, e.left)
	if most <= 0 {
		e.loose = true
		return false
	}
	r := Solve(e.problem(&t), Limit{most, e.stop})
	e.left -= r.Steps + 1
	e.loose = e.loose || r.Verdict == GaveUp
	return r.Verdict == None
}

// problem returns a part as a problem of its own. The pieces of a mesh that no edge joins become meshes
// of their own.
func (e *explainer) problem(t *part) *Problem {
	out := &Problem{Machine: e.p.Machine}
	where := make([]map[int][2]int, len(e.p.Meshes)) // for each mesh and chip: mesh and chip in the result
	for i := range e.p.Meshes {
		m := &e.p.Meshes[i]
		where[i] = map[int][2]int{}
		near := make([][]int, m.Chips)
		for _, d := range m.Edges {
			near[d.A], near[d.B] = append(near[d.A], d.B), append(near[d.B], d.A)
		}
		whole := !slices.Contains(t.keep[i], false)
		for k := range m.Chips {
			if _, done := where[i][k]; done || !t.keep[i][k] {
				continue
			}
			piece := reached(near, t.keep[i], k)
			if whole {
				piece = piece[:0]
				for c := range m.Chips {
					piece = append(piece, c)
				}
			}
			for n, c := range piece {
				where[i][c] = [2]int{len(out.Meshes), n}
			}
			out.Meshes = append(out.Meshes, m.piece(piece, where[i], len(out.Meshes)))
		}
	}
	for i, c := range e.p.Connections {
		if !t.connections[i] || !e.applies(t, i) {
			continue
		}
		n := Connection{Count: wants(c.Count, c.Relaxed, false)}
		for k, end := range []End{c.A, c.B} {
			to := End{Chip: AnyChip}
			for _, m := range end.Meshes {
				at := where[m][max(end.Chip, 0)]
				if to.Meshes = append(to.Meshes, at[0]); end.Chip != AnyChip {
					to.Chip = at[1]
				}
			}
			*[]*End{&n.A, &n.B}[k] = to
		}
		if len(n.A.Meshes) > 1 || len(n.B.Meshes) > 1 || n.A.Meshes[0] != n.B.Meshes[0] {
			out.Connections = append(out.Connections, n)
		}
	}
	return out
}

// reached returns the chips that edges join with chip k, directly or over other chips that are kept, sorted.
func reached(near [][]int, keep []bool, k int) []int {
	seen, list := map[int]bool{k: true}, []int{k}
	for i := 0; i < len(list); i++ {
		for _, v := range near[list[i]] {
			if keep[v] && !seen[v] {
				seen[v] = true
				list = append(list, v)
			}
		}
	}
	slices.Sort(list)
	return list
}

// piece returns a mesh of the given chips. Each demand that is relaxed becomes a strict demand for one cable.
func (m *Mesh) piece(chips []int, where map[int][2]int, mesh int) Mesh {
	out := Mesh{Chips: len(chips)}
	for _, d := range m.Edges {
		a, okA := where[d.A]
		b, okB := where[d.B]
		if okA && okB && a[0] == mesh && b[0] == mesh {
			out.Edges = append(out.Edges, Edge{A: a[1], B: b[1], Count: wants(d.Count, d.Relaxed, false)})
		}
	}
	blocks := map[int]int{}
	for n, c := range chips {
		if list, ok := m.May[c]; ok {
			if out.May == nil {
				out.May = map[int][]int{}
			}
			out.May[n] = list
		}
		if m.Blocks != nil {
			if _, ok := blocks[m.Blocks[c]]; !ok {
				blocks[m.Blocks[c]] = len(blocks)
			}
			out.Blocks = append(out.Blocks, blocks[m.Blocks[c]])
		}
	}
	return out
}

// ball looks for a chip that does not fit, alone or with its neighbours up to a small distance.
func (e *explainer) ball() (part, bool) {
	for r := range radius + 1 {
		seen := map[string]bool{}
		for i := range e.p.Meshes {
			m := &e.p.Meshes[i]
			if key := m.key(nil); seen[key] {
				continue
			} else {
				seen[key] = true
			}
			for k := range m.Chips {
				t := e.none()
				t.keep[i][k] = true
				for range r {
					was := slices.Clone(t.keep[i])
					for _, d := range m.Edges {
						t.keep[i][d.A] = t.keep[i][d.A] || was[d.B]
						t.keep[i][d.B] = t.keep[i][d.B] || was[d.A]
					}
				}
				if e.refuted(t, trySteps/10) {
					return t, true
				}
			}
		}
	}
	return part{}, false
}

// dropMeshes removes each mesh without which the others do not fit.
func (e *explainer) dropMeshes(t *part) {
	for i := len(t.keep) - 1; i >= 0; i-- {
		n := t.clone()
		clear(n.keep[i])
		if n.size() > 0 && e.refuted(n, trySteps) {
			*t = n
		}
	}
}

// dropConnections removes each connection without which the chips do not fit.
func (e *explainer) dropConnections(t *part) {
	for i, is := range t.connections {
		if n := t.clone(); is {
			if n.connections[i] = false; e.refuted(n, trySteps) {
				*t = n
			}
		}
	}
}

// shrink removes chips without which the others do not fit: first many at a time, and at last one at a time. If
// "backward" is true, shrink begins with the last chip.
func (e *explainer) shrink(t part, backward bool) part {
	var list []Chip
	for i, keep := range t.keep {
		for k, is := range keep {
			if is {
				list = append(list, Chip{i, k})
			}
		}
	}
	if backward {
		slices.Reverse(list)
	}
	for many := max(1, len(list)/2); ; many /= 2 {
		for again := true; again; {
			again = false
			var rest []Chip
			for i := 0; i < len(list); i += many {
				group, n := list[i:min(i+many, len(list))], t.clone()
				for _, c := range group {
					n.keep[c.Mesh][c.Chip] = false
				}
				if n.size() > 0 && e.refuted(n, trySteps) {
					t, again = n, many == 1
				} else {
					rest = append(rest, group...)
				}
			}
			list = rest
		}
		if many == 1 {
			break
		}
	}
	e.dropConnections(&t)
	return t
}
