package nexthop

import (
	"fmt"
	"math/bits"

	"ttfabric/wire"
)

// Failure is one faulty link or node. The zero value is no failure.
type Failure struct {
	Node bool
	Link bool
	At   Place          // the node, or one end of the link
	Dir  wire.Direction // direction of the link from At
}

func (f Failure) String() string {
	switch {
	case f.Node:
		return fmt.Sprintf("node %v", f.At)
	case f.Link:
		return fmt.Sprintf("link %v–%v", f.At, f.At.Step(f.Dir))
	}
	return "no failure"
}

// Failures returns every failure of one link or one node of a mesh.
func Failures(m Mesh) (out []Failure) {
	for i := range m.Nodes() {
		at := m.Place(i)
		out = append(out, Failure{Node: true, At: at})
		for _, d := range []wire.Direction{wire.East, wire.South} {
			if m.Has(at.Step(d)) {
				out = append(out, Failure{Link: true, At: at, Dir: d})
			}
		}
	}
	return out
}

// Up returns the working links of a node.
func (f Failure) Up(m Mesh, at Place) (s Dirs) {
	for d := range wire.Direction(wire.NumDirections) {
		to := at.Step(d)
		if !m.Has(to) || f.Node && (at == f.At || to == f.At) {
			continue
		}
		if f.Link && (at == f.At && d == f.Dir || to == f.At && d.Opposite() == f.Dir) {
			continue
		}
		s = s.With(d)
	}
	return s
}

// Joined reports whether working links join two nodes while several failures last.
func Joined(m Mesh, fs []Failure, a, b Place) bool {
	seen := map[Place]bool{a: true}
	for queue := []Place{a}; len(queue) > 0; queue = queue[1:] {
		up := Dirs(0xf)
		for _, f := range append(fs, Failure{}) {
			up &= f.Up(m, queue[0])
		}
		for d := range up.All() {
			if to := queue[0].Step(d); !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen[b]
}

// Verdict is the result of [Prove].
type Verdict struct {
	Direct      []string // a cycle of channels in the direct dependency graph, or nil
	Extended    []string // a cycle with the dependencies through adaptive channels (Duato), or nil
	Unreachable int      // pairs of living nodes without a route by the escape channels alone
	Livelock    bool     // some packet can hop for ever
	Longest     int      // hops of the longest route to a living node, over all choices
	Extra       int      // most hops more than the distance, to a living node
	LongestDead int      // hops of the longest route of a packet to the dead node, until it is dropped
}

// OK reports whether the network cannot deadlock, no packet hops for ever, and all living nodes reach
// each other.
func (v *Verdict) OK() bool {
	return v.Direct == nil && v.Extended == nil && v.Unreachable == 0 && !v.Livelock
}

// MaxProof is the largest side of a mesh that [Prove] takes, in nodes.
const MaxProof = 8

// Numbers of vertices and states of the largest mesh. An escape channel is a dimension-ordered or
// fault-handling channel of a link.
const (
	proofNodes    = MaxProof * MaxProof
	escapePerNode = 2 * wire.NumDirections
	proofChannels = proofNodes * escapePerNode
	proofStates   = proofNodes * (wire.NumDirections + 1) * 3
)

// channels is a set of escape channels. Channel number n is bit n%64 of word n/64.
type channels [proofChannels / 64]uint64

func (c *channels) add(n int) { c[n/64] |= 1 << (n % 64) }

// addAll adds the channels of another set.
func (c *channels) addAll(o *channels) {
	for i := range c {
		c[i] |= o[i]
	}
}

// prover holds the graphs of one failure, and what is known about the packets to one destination.
type prover struct {
	m                Mesh
	rule             Rule
	f                Failure
	ban              bool
	v                Verdict
	direct, extended [proofChannels]channels // successors of each channel

	dst     Place
	seen    [proofStates]progress
	longest [proofStates]int16
	first   [proofStates]channels // escape channels of a state
	later   [proofStates]channels // those and the escape channels after any adaptive hops
}

// progress is how far the search of a state has come.
type progress uint8

const (
	unseen progress = iota
	searching
	searched
)

// Prove follows every packet from every node to every node through every choice that the rule
// leaves, while one failure lasts. The vertices of the dependency graphs are the dimension-ordered
// and the fault-handling channels of each link. All priorities share the vertices. A cycle of the
// channels of some priorities is therefore a cycle of these vertices, too.
//
// Packets that were under way when the failure came need no proof of their own. Such a packet holds
// channels that a packet from the node behind them may hold now. The packet may also hold channels of
// a dead link, for which nobody waits. A side of the mesh beyond [MaxProof] is an error.
func Prove(m Mesh, r Rule, f Failure) (Verdict, error) { return prove(m, r, f, true) }

// prove is Prove with or without the ban that keeps a packet from going back after a side step.
func prove(m Mesh, r Rule, f Failure, ban bool) (Verdict, error) {
	if m.W < 1 || m.H < 1 || m.W > MaxProof || m.H > MaxProof {
		return Verdict{}, fmt.Errorf("a proof for %v; each side is 1 to %d nodes", m, MaxProof)
	}
	p := &prover{m: m, rule: r, f: f, ban: ban}
	for i := range m.Nodes() {
		p.toward(m.Place(i))
	}
	p.v.Direct, p.v.Extended = p.cycle(&p.direct), p.cycle(&p.extended)
	return p.v, nil
}

// toward follows the packets to one destination.
func (p *prover) toward(dst Place) {
	p.dst = dst
	clear(p.seen[:])
	dead := p.f.Node && dst == p.f.At
	for i := range p.m.Nodes() {
		src := p.m.Place(i)
		if src == dst || p.f.Node && src == p.f.At {
			continue
		}
		s := p.state(&Problem{At: src})
		p.search(s)
		hops := int(p.longest[s])
		switch {
		case dead:
			p.v.LongestDead = max(p.v.LongestDead, hops)
		case hops >= astray:
			p.v.Unreachable++
		default:
			p.v.Longest = max(p.v.Longest, hops)
			p.v.Extra = max(p.v.Extra, hops-Distance(src, dst))
		}
	}
}

// astray is the length of a route that ends before its destination.
const astray = 1 << 12

// Distance returns the hops of a shortest route without failures.
func Distance(a, b Place) int { return max(a.X-b.X, b.X-a.X) + max(a.Y-b.Y, b.Y-a.Y) }

// state returns the number of a packet's state at a node. Only Strict looks at the port by which a
// packet came, except to ban the way back.
func (p *prover) state(pr *Problem) int {
	from, mode := wire.Direction(wire.NumDirections), 0
	if pr.Came && (pr.Ban || p.rule == Strict) {
		from = pr.From
	}
	if pr.Ban {
		mode = 1
	}
	if pr.Stays {
		mode = 2
	}
	return (p.m.Index(pr.At)*(wire.NumDirections+1)+int(from))*3 + mode
}

// problem returns the routing problem of a state.
func (p *prover) problem(s int) Problem {
	node := s / 3 / (wire.NumDirections + 1)
	from := wire.Direction(s / 3 % (wire.NumDirections + 1))
	pr := Problem{At: p.m.Place(node), Dst: p.dst, Stays: s%3 == 2, Ban: s%3 == 1, Came: from < wire.NumDirections, From: from}
	pr.Up = p.f.Up(p.m, pr.At)
	return pr
}

// search follows a packet from a state through all choices. The result is in the arrays of the
// prover.
func (p *prover) search(s int) {
	p.seen[s], p.longest[s] = searching, 0
	p.first[s], p.later[s] = channels{}, channels{}
	pr := p.problem(s)
	if pr.At == p.dst {
		p.seen[s] = searched
		return
	}
	productive := pr.Productive()
	hops, n := p.rule.Escape(p.m, &pr)
	if n == 0 && productive == 0 && !(p.f.Node && p.dst == p.f.At) {
		p.longest[s] = astray
	}
	for d := range productive.All() {
		next := p.follow(s, &pr, Hop{Dir: d, Class: ClassAdaptive})
		p.later[s].addAll(&p.later[next])
	}
	node := p.m.Index(pr.At)
	for _, h := range hops[:n] {
		c := node*escapePerNode + int(h.Dir)*2 + int(h.Class-ClassOrdered)
		p.first[s].add(c)
		next := p.follow(s, &pr, h)
		p.direct[c].addAll(&p.first[next])
		p.extended[c].addAll(&p.later[next])
	}
	p.later[s].addAll(&p.first[s])
	p.seen[s] = searched
}

// follow takes one hop from state s, and returns the next state.
func (p *prover) follow(s int, pr *Problem, h Hop) int {
	next := p.state(&Problem{
		At: pr.At.Step(h.Dir), Came: true, From: h.Dir.Opposite(),
		Stays: h.Stays, Ban: p.ban && h.Class == ClassFault && !h.Stays,
	})
	switch p.seen[next] {
	case unseen:
		p.search(next)
	case searching:
		p.v.Livelock = true
		return next
	}
	p.longest[s] = max(p.longest[s], min(p.longest[next]+1, astray))
	if p.longest[next] >= astray {
		p.longest[s] = astray
	}
	return next
}

// cycle returns the channels of a cycle of a graph, or nil.
func (p *prover) cycle(next *[proofChannels]channels) []string {
	var seen [proofChannels]progress
	var path []int
	var visit func(c int) []int
	visit = func(c int) []int {
		seen[c] = searching
		path = append(path, c)
		for i, w := range next[c] {
			for ; w != 0; w &= w - 1 {
				switch k := i*64 + bits.TrailingZeros64(w); seen[k] {
				case searching:
					for path[0] != k {
						path = path[1:]
					}
					return path
				case unseen:
					if found := visit(k); found != nil {
						return found
					}
				}
			}
		}
		path = path[:len(path)-1]
		seen[c] = searched
		return nil
	}
	for c := range p.m.Nodes() * escapePerNode {
		if seen[c] != unseen {
			continue
		}
		if found := visit(c); found != nil {
			var out []string
			for _, c := range found {
				class := "D"
				if c%2 == 1 {
					class = "F"
				}
				out = append(out, fmt.Sprintf("%s%s%v", class, wire.Direction(c%escapePerNode/2), p.m.Place(c/escapePerNode)))
			}
			return out
		}
	}
	return nil
}
