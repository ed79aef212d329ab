// Package nexthop decides where the Reliable Router sends a packet next (Dally and others,
// "Architecture and Implementation of the Reliable Router", RR §4), and proves properties of the
// rule under every single failure. The chip of the paper (node/sim/reliable) and the engine for
// packets (router/reliable) both use the rule.
package nexthop

import (
	"fmt"
	"iter"

	"ttfabric/wire"
)

// Place is a node of the mesh. X grows to the east, Y grows to the south; (0, 0) is the north-western
// corner.
type Place struct{ X, Y int }

func (p Place) String() string { return fmt.Sprintf("(%d,%d)", p.X, p.Y) }

// Step returns the neighbour in direction d.
func (p Place) Step(d wire.Direction) Place {
	switch d {
	case wire.East:
		return Place{p.X + 1, p.Y}
	case wire.West:
		return Place{p.X - 1, p.Y}
	case wire.North:
		return Place{p.X, p.Y - 1}
	}
	return Place{p.X, p.Y + 1}
}

// Mesh is the size of the mesh in nodes. Fault tolerance needs at least two rows and two columns.
type Mesh struct{ W, H int }

func (m Mesh) String() string { return fmt.Sprintf("mesh:%dx%d", m.H, m.W) }

// Nodes returns the number of nodes.
func (m Mesh) Nodes() int { return m.W * m.H }

// Has reports whether the place is a node of the mesh.
func (m Mesh) Has(p Place) bool { return p.X >= 0 && p.X < m.W && p.Y >= 0 && p.Y < m.H }

// Index returns the number of a node in row-major order.
func (m Mesh) Index(p Place) int { return p.Y*m.W + p.X }

// Place returns the node with a number.
func (m Mesh) Place(i int) Place { return Place{i % m.W, i / m.W} }

// Dirs is a set of directions within the mesh; bit d is direction d.
type Dirs uint8

// Has reports whether the set has direction d.
func (s Dirs) Has(d wire.Direction) bool { return s>>d&1 == 1 }

// With returns the set with direction d added.
func (s Dirs) With(d wire.Direction) Dirs { return s | 1<<d }

// All yields the directions of the set.
func (s Dirs) All() iter.Seq[wire.Direction] {
	return func(yield func(wire.Direction) bool) {
		for d := range wire.Direction(wire.NumDirections) {
			if s.Has(d) && !yield(d) {
				return
			}
		}
	}
}

// Rule is the fault-handling computation (RR §4): where a packet goes whose dimension-ordered
// channel is faulty.
type Rule uint8

const (
	// RuleA makes one choice. Blocked in x, a packet goes north; in the top row, south. Blocked in
	// y, a packet goes west; in the first column, east. Both routers use RuleA.
	RuleA Rule = iota
	// Literal leaves the choice that the paper's sentence leaves: "This can be any channel, productive
	// or unproductive". The side step goes along the other dimension, to either side. Literal reads
	// "except for a channel that will cause the message to make a 180-degree turn" as the ban that
	// RuleA has, too: a packet does not return from a side step in y at once. [Prove] shows cycles.
	Literal
	// Strict is Literal without any 180-degree turn: a side step never leaves by the port by which the
	// packet came. A packet that came to the edge column westward and is blocked in y then has no side
	// to step to. [Prove] shows cycles, and nodes that cannot be reached.
	Strict
)

var ruleNames = [...]string{"A", "literal", "strict"}

func (r Rule) String() string { return ruleNames[r] }

// Class is a virtual network of RR §4.
type Class uint8

const (
	ClassAdaptive Class = iota
	ClassOrdered
	ClassFault
)

// Problem is the routing problem of a packet at a node (RR §2.3.1): the offset of the destination,
// and the local state that restricts the next hop.
type Problem struct {
	At, Dst Place
	Up      Dirs           // links of this node that are not faulty
	Stays   bool           // the packet stays on fault-handling channels until its destination
	Came    bool           // the packet came by a link, by port From
	From    wire.Direction // port by which the packet came
	Ban     bool           // the packet came by a side step in y, and must not go back by From at once
}

// Hop is a next hop: a direction, the class of virtual channel, and whether the packet stays on
// fault-handling channels afterwards.
type Hop struct {
	Dir   wire.Direction
	Class Class
	Stays bool
}

// Toward returns the directions along x and y that bring a packet nearer to its destination.
func (p *Problem) Toward() (x wire.Direction, inX bool, y wire.Direction, inY bool) {
	x, y = wire.East, wire.South
	if p.Dst.X < p.At.X {
		x = wire.West
	}
	if p.Dst.Y < p.At.Y {
		y = wire.North
	}
	return x, p.Dst.X != p.At.X, y, p.Dst.Y != p.At.Y
}

// may reports whether a packet that is not on its way along fault-handling channels may leave by d.
func (p *Problem) may(d wire.Direction) bool { return p.Up.Has(d) && !(p.Ban && d == p.From) }

// Productive returns the directions of the adaptive computation (RR §4, "Adaptive Computation").
func (p *Problem) Productive() (s Dirs) {
	if p.Stays {
		return 0
	}
	x, inX, y, inY := p.Toward()
	if inX && p.may(x) {
		s = s.With(x)
	}
	if inY && p.may(y) {
		s = s.With(y)
	}
	return s
}

// Escape returns the hops of the dimension-ordered and of the fault-handling computation (RR §4). At
// most one hop is dimension-ordered. RuleA returns at most one hop. No hop means that the destination
// cannot be reached, and the router drops the packet. The packet must not be at its destination.
func (r Rule) Escape(m Mesh, p *Problem) (hops [2]Hop, n int) {
	x, inX, y, inY := p.Toward()
	if p.Stays { // along y first, then the reversed side step
		d := y
		if !inY {
			d = x
		}
		if p.Up.Has(d) {
			return [2]Hop{{d, ClassFault, true}}, 1
		}
		return hops, 0
	}
	d := x
	if !inX {
		d = y
	}
	if p.may(d) {
		return [2]Hop{{d, ClassOrdered, false}}, 1
	}
	sides := [2]wire.Direction{wire.North, wire.South}
	if !inX {
		sides = [2]wire.Direction{wire.West, wire.East}
	}
	for _, d := range sides {
		if !p.Up.Has(d) || r == Strict && p.Came && d == p.From {
			continue
		}
		if r == RuleA && d != sides[0] && m.Has(p.At.Step(sides[0])) && inX {
			continue // south only in the top row
		}
		hops[n] = Hop{d, ClassFault, !inX}
		n++
		if r == RuleA {
			break
		}
	}
	return hops, n
}
