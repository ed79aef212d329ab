package route

import (
	"fmt"
	"iter"
	"slices"

	"ttfabric/wire"
)

// Scheme is a rule that chooses the virtual channel of each hop of a packet. A Scheme is the plan's
// own rule, or a rule from the literature for comparison. [Plan.CheckScheme] finds out whether the
// plan's routes could deadlock with the scheme.
type Scheme struct {
	Name, Help string
	vc         func(route []Hop, i int) int // returns the number of the virtual channel for the i-th hop of a whole route; nil: use the plan's virtual channels
}

// Schemes lists the schemes. The first scheme is the plan's own. The schemes "one", "entry" and
// "kept" are for rings and tori. The schemes "apart" and "crossings" are for several meshes.
var Schemes = []Scheme{
	{"own", "the virtual channels that the routers use", nil},
	{"one", "one channel for all hops", func([]Hop, int) int { return 0 }},
	{"entry", "the dateline channel from the first hop along an axis on, if the packet will cross the dateline of that axis", entry},
	{"kept", "the dateline channel from the dateline to the end of the route, also after a turn", kept},
	{"apart", "one channel for packets that stay in their mesh, another channel for packets that leave it", apart},
	{"crossings", "a new channel after each crossing from one mesh to another", crossings},
}

// SchemeByName returns the scheme with the given name. If no scheme has the name, the error lists
// all names.
func SchemeByName(name string) (Scheme, error) {
	var names []string
	for _, s := range Schemes {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scheme{}, fmt.Errorf("scheme of virtual channels %q: want one of %v", name, names)
}

// entry is BookSim's scheme. When a packet enters an axis, entry chooses the virtual channel for
// all hops along that axis. The choice depends on whether the packet will cross the axis's
// dateline.
func entry(route []Hop, i int) int {
	first := i
	for first > 0 && axis(route[first-1].Dir) == axis(route[i].Dir) && !route[first-1].external() {
		first--
	}
	for _, h := range route[first:] {
		if axis(h.Dir) != axis(route[i].Dir) || h.external() {
			break
		}
		if h.Wrap {
			return 1
		}
	}
	return 0
}

func kept(route []Hop, i int) int {
	for ; i >= 0; i-- {
		if route[i].Wrap {
			return 1
		}
	}
	return 0
}

func apart(route []Hop, _ int) int {
	if route[0].At.Mesh != route[len(route)-1].To.Mesh {
		return 1
	}
	return 0
}

func crossings(route []Hop, i int) (n int) {
	for _, h := range route[:i] {
		if h.external() {
			n++
		}
	}
	return n
}

// external reports whether the hop leads to another mesh.
func (h Hop) external() bool { return h.At.Mesh != h.To.Mesh }

// CheckScheme looks for a cycle as [Plan.Check] does, but with the virtual channels of scheme s.
// CheckScheme follows every packet hop by hop from its source to its destination, and counts the
// routes that pass a chip twice as Astray. CheckScheme does not look for pairs without a route.
// Check and CheckScheme share the code of the graph, of the routes within a mesh, and of the plan's
// virtual channels. CheckScheme is fast enough for machines of up to a few hundred chips.
func (p *Plan) CheckScheme(s Scheme, mc Multicasts) Verdict {
	v := Verdict{}
	for pl := range max(p.top.Planes(), 1) {
		for c := range wire.Class(wire.NumClasses) {
			one := prove(c, s, p.Ways(c, wire.Plane(pl), mc))
			v.Channels += one.Channels
			v.Dependencies += one.Dependencies
			v.Longest = max(v.Longest, one.Longest)
			if one.Cycle != nil && v.Cycle == nil {
				v.Cycle, v.Plane = one.Cycle, wire.Plane(pl)
			}
			if v.Astray == 0 {
				v.Stray = one.Stray
			}
			v.Astray += one.Astray
		}
	}
	return v
}

// Ways yields the whole routes of packets of class c on plane pl. The routes are the unicast routes
// of all pairs of chips, and the second route of a pair if [Plan.Other] has one. For requests, Ways
// also yields the routes along the longest multicast trees of each source, if mc.Any is true. A
// yielded route is valid until Ways yields the next route.
func (p *Plan) Ways(c wire.Class, pl wire.Plane, mc Multicasts) iter.Seq[[]Hop] {
	return func(yield func([]Hop) bool) {
		for _, a := range p.top.Chips {
			for _, b := range p.top.Chips {
				if a.Node == b.Node {
					continue
				}
				usual, ok := p.Walk(c, pl, a.Node, b.Node)
				if ok && !yield(usual) {
					return
				}
				if p.other == p {
					continue
				}
				if w, has := p.other.Walk(c, pl, a.Node, b.Node); has && !(ok && slices.Equal(w, usual)) && !yield(w) {
					return
				}
			}
		}
		if !mc.Any || c != wire.ClassRequest {
			return
		}
		for _, g := range p.grids {
			for src := range g.chips() {
				for leg := range g.trees(src, mc.Trunk) {
					var s Steps
					var route []Hop
					for at := g.node(src); len(route) < len(leg); at = route[len(route)-1].To {
						h, ok := p.step(&s, c, false, pl, at, leg[len(route)])
						if !ok {
							break // the plane has no cable here
						}
						route = append(route, h)
					}
					if len(route) > 0 && !yield(route) {
						return
					}
				}
			}
		}
	}
}

// prove builds the dependency graph of whole routes, and looks for a cycle and for routes that pass
// a chip twice.
func prove(c wire.Class, s Scheme, routes iter.Seq[[]Hop]) Verdict {
	var v Verdict
	var channels []Channel
	ids := map[Channel]int32{}
	g := newGraph(0)
	for w := range routes {
		held := int32(-1)
		for i, h := range w {
			x := Channel{From: h.At, Dir: h.Dir, VC: h.VC}
			if s.vc != nil {
				x.VC, x.N = wire.VCFor(c, false, false), s.vc(w, i)
			}
			n, ok := ids[x]
			if !ok {
				n = int32(len(channels))
				ids[x] = n
				channels = append(channels, x)
				g.grow()
			}
			if held >= 0 {
				g.add(held, n)
			}
			held = n
		}
		v.Longest = max(v.Longest, len(w))
		if twice(w) {
			v.Astray++
			v.Stray = [2]wire.FabricNodeID{w[0].At, w[len(w)-1].To}
		}
	}
	v.Channels, v.Dependencies = g.used(), g.edges()
	for _, n := range g.cycle() {
		v.Cycle = append(v.Cycle, channels[n])
	}
	return v
}

// twice reports whether a route passes a chip twice.
func twice(route []Hop) bool {
	seen := map[wire.FabricNodeID]bool{route[0].At: true}
	for _, h := range route {
		if seen[h.To] {
			return true
		}
		seen[h.To] = true
	}
	return false
}
