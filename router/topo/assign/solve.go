package assign

import "slices"

// stage says which relaxed demands the search treats as strict.
type stage struct{ edges, connections bool }

// Solve looks for an assignment. If limit.Steps is 0, the limit is [MaxSteps]. Solve first looks
// for an assignment with all wanted cables. If there is no such assignment, relaxed demands get
// fewer cables: first connections between meshes, then edges within a mesh. Solve panics if
// [Problem.Check] finds a fault.
func Solve(p *Problem, limit Limit) Result {
	if err := p.Check(); err != nil {
		panic(err)
	}
	if limit.Steps == 0 {
		limit.Steps = MaxSteps
	}
	stages := []stage{{true, true}}
	relaxed := slices.ContainsFunc(p.Connections, func(c Connection) bool { return c.Relaxed && c.Count > 1 })
	if relaxed {
		stages = append(stages, stage{true, false})
	}
	if slices.ContainsFunc(p.Meshes, func(m Mesh) bool {
		return slices.ContainsFunc(m.Edges, func(e Edge) bool { return e.Relaxed && e.Count > 1 })
	}) {
		stages = append(stages, stage{false, false})
	}
	r := Result{}
	for i, st := range stages {
		share := (limit.Steps - r.Steps) / (len(stages) - i)
		v := solver{p: p, stage: st, w: newWiring(&p.Machine), limit: Limit{share, limit.Stop}}
		r.Verdict, r.At = v.solve()
		r.Steps += v.steps
		if r.Full = i == 0; r.Verdict == Found {
			return r
		}
	}
	r.Full = false
	return r
}

// solver is one search.
type solver struct {
	p     *Problem
	stage stage
	w     *wiring
	steps int
	limit Limit

	classes []*class // class of each mesh
	rows    map[rowKey]set
	pairs   map[[2]int][]Connection // connections between two meshes, by their indices; in both orders
	pairKey map[[2]int]string       // a text that is equal for pairs of meshes with equal connections
}

// rowKey stands for the places of one class that fit a place of another class.
type rowKey struct {
	from, to *class
	place    int
	asks     string
}

func (s *solver) solve() (Verdict, [][]int) {
	chips := 0
	for i := range s.p.Meshes {
		chips += s.p.Meshes[i].Chips
	}
	if chips > s.p.Machine.Chips {
		return None, nil
	}
	s.link()
	s.classify()
	each, effort := perAnchor, 1000
	if len(s.p.Meshes) == 1 {
		each = 1
	}
	for range rounds {
		complete, some := true, true
		for _, c := range s.classes {
			c.find(each, effort, &s.steps, s.limit)
			if c.complete && len(c.places) == 0 {
				return None, nil
			}
			complete, some = complete && c.complete, some && len(c.places) > 0
		}
		if some {
			at, all := s.choose()
			if at != nil {
				return Found, at
			}
			if all && complete {
				return None, nil
			}
		}
		if s.steps >= s.limit.Steps || s.limit.Stop != nil && s.limit.Stop() {
			break
		}
		each, effort = each*growth, effort*growth
	}
	return GaveUp, nil
}

// link sorts the connections by the pairs of meshes that they join.
func (s *solver) link() {
	s.pairs, s.pairKey, s.rows = map[[2]int][]Connection{}, map[[2]int]string{}, map[rowKey]set{}
	for _, c := range s.p.Connections {
		if len(c.A.Meshes) > 1 || len(c.B.Meshes) > 1 {
			continue
		}
		a, b := c.A.Meshes[0], c.B.Meshes[0]
		c.Count, c.Relaxed = wants(c.Count, c.Relaxed, s.stage.connections), false
		s.pairs[[2]int{a, b}] = append(s.pairs[[2]int{a, b}], c)
		c.A, c.B = c.B, c.A
		s.pairs[[2]int{b, a}] = append(s.pairs[[2]int{b, a}], c)
	}
	for pair, list := range s.pairs {
		var key []byte
		for _, c := range list {
			key = append(key, byte(c.Count), byte(c.Count>>8), byte(c.A.Chip), byte(c.A.Chip>>8), byte(c.B.Chip), byte(c.B.Chip>>8))
		}
		s.pairKey[pair] = string(key)
	}
}

// classify finds the class of each mesh.
func (s *solver) classify() {
	named := make([][]int, len(s.p.Meshes))
	for pair, list := range s.pairs {
		for _, c := range list {
			if m := pair[0]; c.A.Chip != AnyChip && !contains(named[m], c.A.Chip) {
				named[m] = append(named[m], c.A.Chip)
			}
		}
	}
	known := map[string]*class{}
	for i := range s.p.Meshes {
		m := &s.p.Meshes[i]
		slices.Sort(named[i])
		key := m.key(named[i])
		if known[key] == nil {
			known[key] = newClass(s.w, m, named[i], s.stage.edges)
		}
		s.classes = append(s.classes, known[key])
	}
}

// choose chooses one of the known places for each mesh. If there is no choice, the first result is nil. The
// second result is true if choose has tried all choices.
func (s *solver) choose() (at [][]int, all bool) {
	v := &search{steps: &s.steps, stop: s.limit.Stop, most: s.steps + max(1, (s.limit.Steps-s.steps)/2)}
	for i, c := range s.classes {
		v.domains = append(v.domains, newSet(MaxPlaces))
		for k := range c.places {
			v.domains[i].add(k)
		}
		var others []int
		for j := range s.classes {
			if j != i {
				others = append(others, j)
			}
		}
		v.neighbours = append(v.neighbours, others)
	}
	most := 0
	for _, c := range s.classes {
		most = max(most, len(c.places))
	}
	for i := range v.domains {
		v.domains[i] = v.domains[i][:words(most)]
	}
	clear(s.rows)
	v.row = func(u, x, w int) set {
		key := rowKey{s.classes[u], s.classes[w], x, s.pairKey[[2]int{u, w}]}
		r, ok := s.rows[key]
		if !ok {
			r = s.fitting(u, x, w, most)
			s.rows[key] = r
		}
		return r
	}
	all = v.run(-1, func(values []int) bool {
		if !s.groupsFit(values) {
			return true
		}
		for i, k := range values {
			at = append(at, s.classes[i].places[k].at)
		}
		return false
	})
	return at, all
}

// fitting returns the places of mesh w that fit place x of mesh u: the two places share no chip, and have
// the cables between them that connections ask for.
func (s *solver) fitting(u, x, w, most int) set {
	from, out, asks := &s.classes[u].places[x], newSet(most), s.pairs[[2]int{u, w}]
	for k := range s.classes[w].places {
		to := &s.classes[w].places[k]
		if !from.image.meets(to.image) && (len(asks) == 0 || from.reach.meets(to.image) && s.joined(from, to, asks)) {
			out.add(k)
		}
	}
	return out
}

// joined reports whether enough cables join two places.
func (s *solver) joined(from, to *place, asks []Connection) bool {
	want := 0
	for i, c := range asks {
		want += c.Count
		if c.A.Chip == AnyChip {
			continue
		}
		n := 0
		for _, d := range asks[:i+1] {
			if d.A.Chip == c.A.Chip && d.B.Chip == c.B.Chip {
				n += d.Count
			}
		}
		if s.w.cables(from.at[c.A.Chip], to.at[c.B.Chip]) < n {
			return false
		}
	}
	return s.between(from, to) >= want
}

// cables returns the number of cables between two physical chips, for connections.
func (w *wiring) cables(x, y int) int {
	for _, n := range w.near[x] {
		if n.chip == y {
			return n.cables + n.beside
		}
	}
	return 0
}

// between returns the number of cables between two places.
func (s *solver) between(from, to *place) (n int) {
	for _, x := range from.at {
		for _, y := range s.w.near[x] {
			if to.image.has(y.chip) {
				n += y.cables + y.beside
			}
		}
	}
	return n
}

// groupsFit reports whether the connections between groups of meshes have enough cables.
func (s *solver) groupsFit(values []int) bool {
	for _, c := range s.p.Connections {
		if len(c.A.Meshes) == 1 && len(c.B.Meshes) == 1 {
			continue
		}
		n := groupCables(&c, func(a, b int) int {
			return s.between(&s.classes[a].places[values[a]], &s.classes[b].places[values[b]])
		})
		if n < wants(c.Count, c.Relaxed, s.stage.connections) {
			return false
		}
	}
	return true
}
