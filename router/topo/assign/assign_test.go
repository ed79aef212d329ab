package assign

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// grid returns a machine or mesh of rows and columns: the edges between neighbours, with count cables each.
func grid(rows, cols int, wrapY, wrapX bool, count int) (list []Edge) {
	for r := range rows {
		for c := range cols {
			if c+1 < cols || wrapX {
				list = append(list, Edge{A: r*cols + c, B: r*cols + (c+1)%cols, Count: count})
			}
			if r+1 < rows || wrapY {
				list = append(list, Edge{A: r*cols + c, B: (r+1)%rows*cols + c, Count: count})
			}
		}
	}
	return list
}

func machine(chips int, edges []Edge) Machine {
	m := Machine{Chips: chips}
	for _, e := range edges {
		m.Cables = append(m.Cables, Cable{A: e.A, B: e.B, Count: e.Count})
	}
	return m
}

func mesh(chips int, edges []Edge) Mesh { return Mesh{Chips: chips, Edges: edges} }

func relaxed(edges []Edge) []Edge {
	out := slices.Clone(edges)
	for i := range out {
		out[i].Relaxed = true
	}
	return out
}

func TestSolve(t *testing.T) {
	pinned := mesh(4, grid(2, 2, false, false, 1))
	pinned.May = map[int][]int{0: {5}, 3: {0}}
	badly := mesh(4, grid(2, 2, false, false, 1))
	badly.May = map[int][]int{0: {0}, 1: {3}}
	split := machine(8, grid(2, 4, false, false, 1))
	split.Host = []int{0, 0, 1, 1, 0, 0, 1, 1}
	oneHost := mesh(4, grid(1, 4, false, false, 1))
	oneHost.Blocks = []int{0, 0, 0, 0}
	straddle := mesh(6, grid(2, 3, false, false, 1))
	straddle.Blocks = []int{0, 0, 0, 0, 0, 0}
	ends := func(a, ca, b, cb int) Connection {
		return Connection{A: End{[]int{a}, ca}, B: End{[]int{b}, cb}, Count: 1}
	}
	thin := machine(8, grid(2, 4, false, false, 2))
	thin.Cables[3].Count = 1
	beside := machine(4, nil)
	beside.Cables = []Cable{{0, 1, 1, 0}, {1, 2, 0, 1}, {2, 3, 1, 0}}
	for _, c := range []struct {
		name string
		p    Problem
		want Verdict
		full bool
	}{
		{"one chip", Problem{machine(1, nil), []Mesh{mesh(1, nil)}, nil}, Found, true},
		{"grid in itself", Problem{machine(32, grid(4, 8, false, false, 4)), []Mesh{mesh(32, grid(8, 4, false, false, 4))}, nil}, Found, true},
		{"torus in a grid", Problem{machine(32, grid(4, 8, false, false, 4)), []Mesh{mesh(32, grid(4, 8, true, true, 4))}, nil}, None, false},
		{"line in a grid", Problem{machine(32, grid(4, 8, false, false, 4)), []Mesh{mesh(32, grid(1, 32, false, false, 4))}, nil}, Found, true},
		{"too many chips", Problem{machine(4, grid(2, 2, false, false, 1)), []Mesh{mesh(3, nil), mesh(2, nil)}, nil}, None, false},
		{"too many cables", Problem{machine(8, grid(2, 4, false, false, 2)), []Mesh{mesh(2, grid(1, 2, false, false, 3))}, nil}, None, false},
		{"too many cables, relaxed", Problem{machine(8, grid(2, 4, false, false, 2)), []Mesh{mesh(8, relaxed(grid(2, 4, false, false, 3)))}, nil}, Found, false},
		{"one thin edge is avoided", Problem{thin, []Mesh{mesh(4, relaxed(grid(2, 2, false, false, 2)))}, nil}, Found, true},
		{"pinned", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{pinned}, nil}, Found, true},
		{"neighbours pinned apart", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{badly}, nil}, None, false},
		{"line on one host", Problem{split, []Mesh{oneHost}, nil}, Found, true},
		{"six chips on hosts of four", Problem{split, []Mesh{straddle}, nil}, None, false},
		{"two meshes side by side", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{mesh(4, grid(2, 2, false, false, 1)), mesh(4, grid(2, 2, false, false, 1))}, []Connection{{End{[]int{0}, AnyChip}, End{[]int{1}, AnyChip}, 2, false}}}, Found, true},
		{"three cables between them", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{mesh(4, grid(2, 2, false, false, 1)), mesh(4, grid(2, 2, false, false, 1))}, []Connection{{End{[]int{0}, AnyChip}, End{[]int{1}, AnyChip}, 3, false}}}, None, false},
		{"three cables, relaxed", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{mesh(4, grid(2, 2, false, false, 1)), mesh(4, grid(2, 2, false, false, 1))}, []Connection{{End{[]int{0}, AnyChip}, End{[]int{1}, AnyChip}, 3, true}}}, Found, false},
		{"named chips", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{mesh(4, grid(2, 2, false, false, 1)), mesh(4, grid(2, 2, false, false, 1))}, []Connection{ends(0, 0, 1, 0), ends(0, 1, 1, 1)}}, Found, true},
		{"opposite corners", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{mesh(4, grid(2, 2, false, false, 1)), mesh(4, grid(2, 2, false, false, 1))}, []Connection{ends(0, 0, 1, 0), ends(0, 3, 1, 3)}}, None, false},
		{"cables that only connections use", Problem{beside, []Mesh{mesh(2, grid(1, 2, false, false, 1)), mesh(2, grid(1, 2, false, false, 1))}, []Connection{{End{[]int{0}, AnyChip}, End{[]int{1}, AnyChip}, 1, false}}}, Found, true},
		{"cables that only connections use, in a mesh", Problem{beside, []Mesh{mesh(3, grid(1, 3, false, false, 1))}, nil}, None, false},
		{"groups", Problem{machine(8, grid(2, 4, false, false, 1)), []Mesh{mesh(4, nil), mesh(2, nil), mesh(2, nil)}, []Connection{{End{[]int{0}, AnyChip}, End{[]int{1, 2}, AnyChip}, 8, false}}}, Found, true},
	} {
		r := Solve(&c.p, Limit{})
		if r.Verdict != c.want || r.Verdict == Found && r.Full != c.full {
			t.Errorf("%s: %v, full %v after %d steps; want %v, full %v", c.name, r.Verdict, r.Full, r.Steps, c.want, c.full)
			continue
		}
		if r.Verdict == Found {
			if err := c.p.Verify(r.At, r.Full); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if again := Solve(&c.p, Limit{}); !reflect.DeepEqual(again, r) {
				t.Errorf("%s: a second search found another assignment", c.name)
			}
		}
	}
}

// TestLimits checks that a search ends at its limit of steps, and when Limit.Stop returns true.
func TestLimits(t *testing.T) {
	p := Problem{machine(64, grid(8, 8, false, false, 1)), []Mesh{mesh(63, grid(1, 63, false, true, 1))}, nil} // a ring of 63 chips has no place in a grid, which has only even rings
	r := Solve(&p, Limit{Steps: 500})
	if r.Verdict != GaveUp || r.Steps > 501 {
		t.Errorf("%v after %d steps", r.Verdict, r.Steps)
	}
	calls := 0
	if r := Solve(&p, Limit{Stop: func() bool { calls++; return calls > 3 }}); r.Verdict != GaveUp || r.Steps > 4*askStop+64 {
		t.Errorf("stopped: %v after %d steps", r.Verdict, r.Steps)
	}
}

func TestCheck(t *testing.T) {
	two := machine(2, grid(1, 2, false, false, 1))
	for name, p := range map[string]Problem{
		"cable to itself":       {Machine{Chips: 2, Cables: []Cable{{1, 1, 1, 0}}}, nil, nil},
		"cable twice":           {Machine{Chips: 2, Cables: []Cable{{0, 1, 1, 0}, {1, 0, 1, 0}}}, nil, nil},
		"host":                  {Machine{Chips: 1, Host: []int{4}}, nil, nil},
		"edge":                  {two, []Mesh{{Chips: 1, Edges: []Edge{{A: 0, B: 1, Count: 1}}}}, nil},
		"no chips":              {two, []Mesh{{}}, nil},
		"place":                 {two, []Mesh{{Chips: 1, May: map[int][]int{0: {2}}}}, nil},
		"block":                 {two, []Mesh{{Chips: 2, Blocks: []int{0}}}, nil},
		"connection to itself":  {two, []Mesh{{Chips: 1}}, []Connection{{End{[]int{0}, AnyChip}, End{[]int{0}, AnyChip}, 1, false}}},
		"connection to nowhere": {two, []Mesh{{Chips: 1}}, []Connection{{End{[]int{0}, AnyChip}, End{[]int{1}, AnyChip}, 1, false}}},
	} {
		if p.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// naive tries all assignments, and reports whether one is right.
func naive(p *Problem) bool {
	at, used := make([][]int, len(p.Meshes)), make([]bool, p.Machine.Chips)
	var try func(mesh, chip int) bool
	try = func(mesh, chip int) bool {
		if mesh == len(p.Meshes) {
			return p.Verify(at, false) == nil
		}
		if chip == p.Meshes[mesh].Chips {
			return try(mesh+1, 0)
		}
		if chip == 0 {
			at[mesh] = make([]int, p.Meshes[mesh].Chips)
		}
		for x := range used {
			if !used[x] {
				used[x], at[mesh][chip] = true, x
				if try(mesh, chip+1) {
					return true
				}
				used[x] = false
			}
		}
		return false
	}
	return try(0, 0)
}

// random returns a small problem.
func random(r *rand.Rand) *Problem {
	p := &Problem{Machine: Machine{Chips: 1 + r.IntN(6)}}
	for a := range p.Machine.Chips {
		for b := range a {
			if r.IntN(2) == 0 {
				p.Machine.Cables = append(p.Machine.Cables, Cable{A: a, B: b, Count: 1 + r.IntN(2), Beside: r.IntN(2)})
			}
		}
	}
	if r.IntN(2) == 0 {
		for range p.Machine.Chips {
			p.Machine.Host = append(p.Machine.Host, r.IntN(min(2, p.Machine.Chips)))
		}
	}
	for left := p.Machine.Chips; left > 0 && len(p.Meshes) < 3; {
		n := 1 + r.IntN(left)
		left -= n
		m := Mesh{Chips: n}
		for a := range n {
			for b := range a {
				if r.IntN(2) == 0 {
					m.Edges = append(m.Edges, Edge{A: a, B: b, Count: 1 + r.IntN(2), Relaxed: r.IntN(3) == 0})
				}
			}
			if r.IntN(4) == 0 {
				m.May = map[int][]int{a: {r.IntN(p.Machine.Chips), r.IntN(p.Machine.Chips)}}
			}
			if r.IntN(2) == 0 || m.Blocks != nil {
				for len(m.Blocks) < n {
					m.Blocks = append(m.Blocks, r.IntN(n))
				}
			}
		}
		p.Meshes = append(p.Meshes, m)
	}
	for a := range p.Meshes {
		for b := range a {
			c := Connection{End{[]int{a}, AnyChip}, End{[]int{b}, AnyChip}, 1 + r.IntN(3), r.IntN(3) == 0}
			switch r.IntN(4) {
			case 0:
				p.Connections = append(p.Connections, c)
			case 1:
				c.A.Chip, c.B.Chip = r.IntN(p.Meshes[a].Chips), r.IntN(p.Meshes[b].Chips)
				p.Connections = append(p.Connections, c)
			case 2:
				if len(p.Meshes) == 3 {
					c.B.Meshes = []int{b, 3 - a - b}
					p.Connections = append(p.Connections, c)
				}
			}
		}
	}
	return p
}

// FuzzSolve compares the results of Solve with a search that tries everything. A conflict of Explain must not
// fit, and must fit without any one of its chips.
func FuzzSolve(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		p := random(rand.New(rand.NewPCG(seed, 1)))
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		r, want := Solve(p, Limit{}), naive(p)
		if r.Verdict == GaveUp || want != (r.Verdict == Found) {
			t.Fatalf("%v, and a search that tries everything says %v: %+v", r.Verdict, want, p)
		}
		if want {
			if err := p.Verify(r.At, r.Full); err != nil {
				t.Fatalf("%v: %+v", err, p)
			}
			return
		}
		c, ok := Explain(p, Limit{})
		if !ok || c.Loose {
			t.Fatalf("no explanation of %+v: %+v", p, c)
		}
		if c.Total {
			return
		}
		e := &explainer{p: p}
		part := e.none()
		for _, x := range c.Chips {
			part.keep[x.Mesh][x.Chip] = true
		}
		for _, k := range c.Connections {
			part.connections[k] = true
		}
		if naive(e.problem(&part)) {
			t.Fatalf("the conflict %+v fits: %+v", c, p)
		}
		for _, x := range c.Chips {
			less := part.clone()
			if less.keep[x.Mesh][x.Chip] = false; less.size() > 0 && !naive(e.problem(&less)) {
				t.Fatalf("the conflict %+v does not need chip %v: %+v", c, x, p)
			}
		}
	})
}
