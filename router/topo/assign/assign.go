// Package assign finds a physical chip of a machine for each logical chip of some meshes, so that
// the cables between the physical chips are those that the meshes ask for. The problem is subgraph
// matching with numbers of cables.
//
// The search has two levels. The first level finds the places of one mesh as a whole: the ways to
// put the chips of the mesh on chips of the machine, as if no other mesh existed. Two ways that no
// other mesh can tell apart count as one place. The second level chooses one place for each mesh, so
// that no two meshes share a chip, and so that enough cables join the meshes. Both levels keep for
// each variable the set of values that are still possible, remove values without a partner, and
// branch on the variable with the fewest values.
//
// All work has a limit, which counts steps and not time. So equal problems have equal results on
// every machine.
package assign

import "fmt"

// Limits of a search.
const (
	MaxSteps  = 400_000 // largest number of steps of one call of [Solve], if the caller gives no limit; a step is a choice of one value
	MaxPlaces = 1 << 14 // largest number of places of one mesh that the search keeps
	rounds    = 6       // number of rounds; each round looks for more places of each mesh than the round before
	perAnchor = 8       // in the first round: largest number of places with the same physical chip for the anchor; the anchor is the logical chip that may be the fewest physical chips
	growth    = 8       // factor from round to round
)

// AnyChip says that an end of a connection may be at any chip of its meshes.
const AnyChip = -1

// Machine is the physical chips, numbered from 0, and the cables between them.
type Machine struct {
	Chips  int
	Cables []Cable // each pair of chips at most once
	Host   []int   // number of the host of each chip, from 0; nil: all chips are on one host
}

// Cable is a number of cables between two chips. Only connections between meshes can use the cables that
// Beside counts.
type Cable struct{ A, B, Count, Beside int }

// Mesh is some logical chips, numbered from 0, and the cables that the mesh asks for.
type Mesh struct {
	Chips  int
	Edges  []Edge
	May    map[int][]int // physical chips that a logical chip may be; a chip that is not in the map may be any chip
	Blocks []int         // for each chip: number of its block, from 0; the chips of one block are on one host; nil: chips may be on any hosts
}

// Edge asks for cables between two chips of a mesh. If Relaxed is true, one cable is enough, but
// the search prefers Count cables.
type Edge struct {
	A, B, Count int
	Relaxed     bool
}

// Connection asks for cables between two meshes. If Relaxed is true, one cable is enough, but the
// search prefers Count cables.
type Connection struct {
	A, B    End
	Count   int
	Relaxed bool
}

// End is one end of a connection: a chip of one mesh, or any chips of one or more meshes.
type End struct {
	Meshes []int
	Chip   int // number of a chip of the only mesh, or AnyChip
}

// Problem is the whole problem.
type Problem struct {
	Machine     Machine
	Meshes      []Mesh
	Connections []Connection
}

// Limit ends a search early. After Steps steps, or when Stop returns true, the search gives up. The search
// calls Stop every few steps; nil: the search does not ask. Steps 0 stands for the limit of the function.
type Limit struct {
	Steps int
	Stop  func() bool
}

// Verdict says how a search ended.
type Verdict byte

// The verdicts.
const (
	GaveUp Verdict = iota // the search reached its limit; nobody knows whether there is an assignment
	Found
	None // there is no assignment
)

// String returns the verdict in words.
func (v Verdict) String() string {
	switch v {
	case Found:
		return "found"
	case None:
		return "there is no assignment"
	}
	return "gave up"
}

// Result is the result of a search.
type Result struct {
	Verdict Verdict
	At      [][]int // for each mesh and each of its chips: the physical chip; nil without an assignment
	Full    bool    // the assignment has Count cables also for each edge and connection that is relaxed
	Steps   int     // number of steps that the search took
}

// Check returns an error that names the first part of the problem that makes no sense.
func (p *Problem) Check() error {
	m := &p.Machine
	seen := map[[2]int]bool{}
	for _, c := range m.Cables {
		low, high := min(c.A, c.B), max(c.A, c.B)
		if low < 0 || high >= m.Chips || low == high || c.Count < 0 || c.Beside < 0 || c.Count+c.Beside < 1 || seen[[2]int{low, high}] {
			return fmt.Errorf("assign: cable %v of a machine of %d chips", c, m.Chips)
		}
		seen[[2]int{low, high}] = true
	}
	if m.Host != nil && len(m.Host) != m.Chips {
		return fmt.Errorf("assign: hosts of %d chips in a machine of %d", len(m.Host), m.Chips)
	}
	for _, h := range m.Host {
		if h < 0 || h >= m.Chips {
			return fmt.Errorf("assign: host %d", h)
		}
	}
	for i := range p.Meshes {
		if err := p.checkMesh(&p.Meshes[i]); err != nil {
			return fmt.Errorf("assign: mesh %d: %w", i, err)
		}
	}
	for i, c := range p.Connections {
		self := len(c.A.Meshes) == 1 && len(c.B.Meshes) == 1 && c.A.Meshes[0] == c.B.Meshes[0]
		if c.Count < 1 || self || (c.A.Chip == AnyChip) != (c.B.Chip == AnyChip) {
			return fmt.Errorf("assign: connection %d: %v", i, c)
		}
		for _, e := range []End{c.A, c.B} {
			if len(e.Meshes) == 0 || e.Chip != AnyChip && len(e.Meshes) != 1 {
				return fmt.Errorf("assign: connection %d: end %v", i, e)
			}
			for _, k := range e.Meshes {
				if k < 0 || k >= len(p.Meshes) || e.Chip >= p.Meshes[k].Chips || e.Chip < AnyChip {
					return fmt.Errorf("assign: connection %d: end %v", i, e)
				}
			}
		}
	}
	return nil
}

func (p *Problem) checkMesh(m *Mesh) error {
	if m.Chips < 1 {
		return fmt.Errorf("%d chips", m.Chips)
	}
	for _, e := range m.Edges {
		if e.A < 0 || e.B < 0 || e.A >= m.Chips || e.B >= m.Chips || e.A == e.B || e.Count < 1 {
			return fmt.Errorf("edge %v of %d chips", e, m.Chips)
		}
	}
	for c, list := range m.May {
		if c < 0 || c >= m.Chips {
			return fmt.Errorf("places of chip %d of %d", c, m.Chips)
		}
		for _, x := range list {
			if x < 0 || x >= p.Machine.Chips {
				return fmt.Errorf("chip %d may be %d", c, x)
			}
		}
	}
	if m.Blocks != nil && len(m.Blocks) != m.Chips {
		return fmt.Errorf("blocks of %d chips", len(m.Blocks))
	}
	for _, b := range m.Blocks {
		if b < 0 || b >= m.Chips {
			return fmt.Errorf("block %d", b)
		}
	}
	return nil
}

// wants returns the number of cables that an edge or a connection needs. If "full" is true, the
// search wants Count cables also where one is enough.
func wants(count int, relaxed, full bool) int {
	if relaxed && !full {
		return 1
	}
	return count
}

// Verify returns an error that names the first broken rule of an assignment: each physical chip is used
// at most once, and all demands of the problem are met. If "full" is true, edges and connections that are
// relaxed must have Count cables too.
func (p *Problem) Verify(at [][]int, full bool) error {
	count := map[[2]int]int{}
	for _, c := range p.Machine.Cables {
		count[[2]int{c.A, c.B}], count[[2]int{c.B, c.A}] = c.Count, c.Count
	}
	used, of := map[int]bool{}, map[int]int{} // of: mesh of each used physical chip
	if len(at) != len(p.Meshes) {
		return fmt.Errorf("%d meshes instead of %d", len(at), len(p.Meshes))
	}
	for i := range p.Meshes {
		m, host := &p.Meshes[i], map[int]int{}
		if len(at[i]) != m.Chips {
			return fmt.Errorf("mesh %d has %d chips instead of %d", i, len(at[i]), m.Chips)
		}
		for c, x := range at[i] {
			if x < 0 || x >= p.Machine.Chips || used[x] {
				return fmt.Errorf("mesh %d chip %d is at chip %d, which is used or does not exist", i, c, x)
			}
			used[x], of[x] = true, i
			if list, ok := m.May[c]; ok && !contains(list, x) {
				return fmt.Errorf("mesh %d chip %d may not be at chip %d", i, c, x)
			}
			if m.Blocks != nil && p.Machine.Host != nil {
				if h, ok := host[m.Blocks[c]]; ok && h != p.Machine.Host[x] {
					return fmt.Errorf("mesh %d: block %d is on two hosts", i, m.Blocks[c])
				}
				host[m.Blocks[c]] = p.Machine.Host[x]
			}
		}
		for _, e := range m.Edges {
			if n := count[[2]int{at[i][e.A], at[i][e.B]}]; n < wants(e.Count, e.Relaxed, full) {
				return fmt.Errorf("mesh %d: %d cables between chips %d and %d", i, n, e.A, e.B)
			}
		}
	}
	return p.verifyConnections(at, of, full)
}

// verifyConnections checks the connections between meshes. Connections that name their chips use the
// cables between these chips. The other connections of the same meshes use other cables.
func (p *Problem) verifyConnections(at [][]int, of map[int]int, full bool) error {
	count, between, named, spent := map[[2]int]int{}, map[[2]int]int{}, map[[2]int]int{}, map[[2]int]int{}
	for _, c := range p.Machine.Cables {
		n := c.Count + c.Beside
		count[[2]int{min(c.A, c.B), max(c.A, c.B)}] = n
		a, okA := of[c.A]
		b, okB := of[c.B]
		if okA && okB && a != b {
			between[[2]int{a, b}] += n
			between[[2]int{b, a}] += n
		}
	}
	for i, c := range p.Connections {
		n := wants(c.Count, c.Relaxed, full)
		if len(c.A.Meshes) > 1 || len(c.B.Meshes) > 1 {
			continue
		}
		a, b := c.A.Meshes[0], c.B.Meshes[0]
		if c.A.Chip != AnyChip {
			x, y := at[a][c.A.Chip], at[b][c.B.Chip]
			pair := [2]int{min(x, y), max(x, y)}
			if named[pair] += n; named[pair] > count[pair] {
				return fmt.Errorf("connection %d: %d cables between physical chips %v instead of %d", i, count[pair], pair, named[pair])
			}
		}
		pair := [2]int{min(a, b), max(a, b)}
		if spent[pair] += n; spent[pair] > between[pair] {
			return fmt.Errorf("connection %d: %d cables between meshes %v instead of %d", i, between[pair], pair, spent[pair])
		}
	}
	for i, c := range p.Connections {
		if len(c.A.Meshes) == 1 && len(c.B.Meshes) == 1 {
			continue
		}
		if n := groupCables(&c, func(a, b int) int { return between[[2]int{a, b}] }); n < wants(c.Count, c.Relaxed, full) {
			return fmt.Errorf("connection %d: %d cables between the groups of meshes", i, n)
		}
	}
	return nil
}

// groupCables returns the number of cables between the meshes at the two ends of a connection.
func groupCables(c *Connection, between func(a, b int) int) (n int) {
	for _, a := range c.A.Meshes {
		for _, b := range c.B.Meshes {
			if a != b {
				n += between(a, b)
			}
		}
	}
	return n
}

func contains(list []int, x int) bool {
	for _, v := range list {
		if v == x {
			return true
		}
	}
	return false
}
