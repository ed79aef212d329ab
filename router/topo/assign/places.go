package assign

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// wiring is the cables of a machine, in the forms that the search needs.
type wiring struct {
	chips int
	near  [][]neighbour // neighbours of each physical chip
	rows  map[int][]set // for a number of cables and each physical chip: the chips with at least so many cables to it
	hosts map[int]set   // chips of each host; nil: all chips are on one host
	host  []int
	all   set
}

// neighbour is a chip with cables to another chip.
type neighbour struct{ chip, cables, beside int }

func newWiring(m *Machine) *wiring {
	w := &wiring{chips: m.Chips, near: make([][]neighbour, m.Chips), rows: map[int][]set{}, all: fullSet(m.Chips), host: m.Host}
	for _, c := range m.Cables {
		w.near[c.A] = append(w.near[c.A], neighbour{c.B, c.Count, c.Beside})
		w.near[c.B] = append(w.near[c.B], neighbour{c.A, c.Count, c.Beside})
	}
	if m.Host != nil {
		w.hosts = map[int]set{}
		for x, h := range m.Host {
			if w.hosts[h] == nil {
				w.hosts[h] = newSet(m.Chips)
			}
			w.hosts[h].add(x)
		}
	}
	return w
}

// row returns for each physical chip the chips with at least n cables to it.
func (w *wiring) row(n int) []set {
	if w.rows[n] == nil {
		rows := make([]set, w.chips)
		for x := range rows {
			rows[x] = newSet(w.chips)
			for _, y := range w.near[x] {
				if y.cables >= n {
					rows[x].add(y.chip)
				}
			}
		}
		w.rows[n] = rows
	}
	return w.rows[n]
}

// place is a way to put all chips of a mesh on physical chips.
type place struct {
	at    []int // physical chip of each logical chip
	image set   // the physical chips
	reach set   // neighbours of the physical chips
}

// class holds the places of all meshes with equal demands.
type class struct {
	mesh     *Mesh
	named    []int // chips that connections name; places that differ in the physical chips of named chips are different places
	full     bool  // edges that are relaxed need Count cables too
	w        *wiring
	near     [][]demand // neighbours of each logical chip
	domains  []set      // for each logical chip: the physical chips that it may be
	places   []place
	have     map[string]bool // the keys of all places
	complete bool            // there are no other places
}

// demand asks for cables to another logical chip.
type demand struct{ chip, cables int }

// newClass returns the class of a mesh, without places. If the mesh fits nowhere, the class is
// complete without places.
func newClass(w *wiring, m *Mesh, named []int, full bool) *class {
	c := &class{mesh: m, named: named, full: full, w: w, near: make([][]demand, m.Chips), have: map[string]bool{}}
	for _, e := range m.Edges {
		n := wants(e.Count, e.Relaxed, full)
		c.near[e.A] = append(c.near[e.A], demand{e.B, n})
		c.near[e.B] = append(c.near[e.B], demand{e.A, n})
	}
	for u := range m.Chips {
		d := slices.Clone(w.all)
		if list, ok := m.May[u]; ok {
			d = newSet(w.chips)
			for _, x := range list {
				d.add(x)
			}
		}
		c.domains = append(c.domains, d)
	}
	c.complete = !c.filter()
	return c
}

// filter removes from each domain the physical chips for which fits is false. If a domain is empty,
// filter returns false.
func (c *class) filter() bool {
	waiting := make([]bool, len(c.domains))
	var queue []int
	for u := range c.domains {
		queue, waiting[u] = append(queue, u), true
	}
	for len(queue) > 0 {
		u := queue[0]
		queue, waiting[u] = queue[1:], false
		changed, d := false, c.domains[u]
		for x := d.next(0); x >= 0; x = nextAfter(d, x) {
			if !c.fits(u, x) {
				d[x>>6] &^= 1 << (x & 63)
				changed = true
			}
		}
		if d.next(0) < 0 {
			return false
		}
		if changed {
			for _, v := range c.near[u] {
				if !waiting[v.chip] {
					queue, waiting[v.chip] = append(queue, v.chip), true
				}
			}
		}
	}
	return true
}

// fits reports whether different neighbours of the physical chip x can stand for all neighbours of
// the logical chip u.
func (c *class) fits(u, x int) bool {
	near := c.w.near[x]
	if len(near) < len(c.near[u]) {
		return false
	}
	taken := make([]int, len(near)) // for each physical neighbour: 1 more than the index of its logical neighbour
	for i := range c.near[u] {
		if !c.match(u, i, near, taken, make([]bool, len(near))) {
			return false
		}
	}
	return true
}

// match finds a physical neighbour for the i-th logical neighbour. If necessary, match gives other
// logical neighbours another physical neighbour.
func (c *class) match(u, i int, near []neighbour, taken []int, tried []bool) bool {
	want := c.near[u][i]
	for k, y := range near {
		if tried[k] || y.cables < want.cables || !c.domains[want.chip].has(y.chip) {
			continue
		}
		tried[k] = true
		if taken[k] == 0 || c.match(u, taken[k]-1, near, taken, tried) {
			taken[k] = i + 1
			return true
		}
	}
	return false
}

// find looks for more places. For each physical chip that the logical chip "anchor" may be, find
// keeps at most "each" new places, and takes at most "effort" steps. The counter "steps" must not
// exceed limit.Steps.
func (c *class) find(each, effort int, steps *int, limit Limit) {
	if c.complete {
		return
	}
	anchor := 0
	for u, d := range c.domains {
		if d.count() < c.domains[anchor].count() {
			anchor = u
		}
	}
	s := c.search(steps)
	complete := true
	for x := c.domains[anchor].next(0); x >= 0; x = nextAfter(c.domains[anchor], x) {
		if len(c.places) >= MaxPlaces || *steps >= limit.Steps || limit.Stop != nil && limit.Stop() {
			return
		}
		for u, d := range c.domains {
			s.domains[u] = slices.Clone(d)
		}
		clear(s.domains[anchor])
		s.domains[anchor].add(x)
		left, all := each, true
		s.most, s.stop = min(limit.Steps, *steps+effort), limit.Stop
		*s.steps++
		done := s.run(-1, func(at []int) bool {
			if c.keep(at) {
				left--
			}
			all = left > 0
			return all
		})
		complete = complete && done && all
	}
	c.complete = complete
}

// search returns a search for the physical chips of all logical chips.
func (c *class) search(steps *int) *search {
	s := &search{domains: make([]set, len(c.domains)), neighbours: make([][]int, len(c.domains)), differ: true, steps: steps}
	rows := map[[2]int][]set{} // for each ordered pair of logical neighbours: rows of the wiring
	for u, near := range c.near {
		for _, d := range near {
			if r, ok := rows[[2]int{u, d.chip}]; !ok || r == nil {
				s.neighbours[u] = append(s.neighbours[u], d.chip)
			}
			rows[[2]int{u, d.chip}] = c.w.row(max(d.cables, c.demanded(u, d.chip)))
		}
	}
	blocks := c.mesh.Blocks
	if c.w.hosts == nil {
		blocks = nil
	}
	for u := range blocks {
		for v := range blocks {
			if u != v && blocks[u] == blocks[v] && rows[[2]int{u, v}] == nil {
				s.neighbours[u] = append(s.neighbours[u], v)
			}
		}
	}
	both := newSet(c.w.chips)
	s.row = func(u, x, v int) set {
		r := rows[[2]int{u, v}]
		switch {
		case blocks == nil || blocks[u] != blocks[v]:
			return r[x]
		case r == nil:
			return c.w.hosts[c.w.host[x]]
		}
		copy(both, r[x])
		both.and(c.w.hosts[c.w.host[x]])
		return both
	}
	return s
}

// demanded returns the largest number of cables that an edge between two logical chips asks for.
func (c *class) demanded(u, v int) (n int) {
	for _, d := range c.near[u] {
		if d.chip == v {
			n = max(n, d.cables)
		}
	}
	return n
}

// keep keeps a place if it is new.
func (c *class) keep(at []int) bool {
	p := place{at: at, image: newSet(c.w.chips), reach: newSet(c.w.chips)}
	for _, x := range at {
		p.image.add(x)
	}
	var key []byte
	for _, w := range p.image {
		key = binary.LittleEndian.AppendUint64(key, w)
	}
	for _, u := range c.named {
		key = binary.LittleEndian.AppendUint32(key, uint32(at[u]))
	}
	if c.have[string(key)] {
		return false
	}
	c.have[string(key)] = true
	for _, x := range at {
		for _, y := range c.w.near[x] {
			p.reach.add(y.chip)
		}
	}
	c.places = append(c.places, p)
	return true
}

// key returns a text that is equal for meshes of one class.
func (m *Mesh) key(named []int) string {
	return fmt.Sprint(m.Chips, m.Edges, m.May, m.Blocks, named)
}
