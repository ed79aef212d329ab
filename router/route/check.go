package route

import (
	"fmt"
	"math"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Channel is the receiver channel of one virtual channel at the end of a cable. From and Dir name
// the cable by the port that sends. With bubble flow control, one Channel stands for all receiver
// channels of a ring in one direction. From and Dir then name one of the ring's cables.
type Channel struct {
	From wire.FabricNodeID
	Dir  wire.Direction
	VC   wire.VC
	N    int  // number that a [Scheme] gives the channel; 0 with the plan's own virtual channels
	Ring bool // the Channel stands for a whole ring
}

// String renders the channel with its port and virtual channel, such as "M0D3 E data". If the field
// N is above 0, the suffix N+1 follows. A Channel that stands for a ring has the suffix "ring".
func (c Channel) String() string {
	s := fmt.Sprintf("%s %s %s", c.From, c.Dir, c.VC)
	if c.N > 0 {
		s += fmt.Sprintf(" %d", c.N+1)
	}
	if c.Ring {
		s += " ring"
	}
	return s
}

// Verdict holds the results of a check of a plan.
type Verdict struct {
	Channels     int                  // number of channels that wait for another channel, over all classes and planes
	Dependencies int                  // number of dependencies between the channels
	Cycle        []Channel            // cycle in which each channel waits for the next, and the last channel for the first; nil: no traffic can deadlock
	Plane        wire.Plane           // plane of the cycle
	Pairs        int                  // number of ordered pairs with a route, added up over all planes; the pairs are pairs of chips of one mesh and pairs of meshes
	Unreachable  int                  // number of ordered pairs without a route, added up over all planes; see [checker.reach]
	Example      [2]wire.FabricNodeID // one pair without a route
	Longest      int                  // number of hops of the longest route between two chips; with several meshes: an upper bound
	Astray       int                  // number of routes that do not end at their destination, or pass a chip twice (within a mesh) or a mesh twice (between meshes)
	Long         int                  // number of routes within a mesh with more hops, or between meshes with more crossings, than the plan says
	Stray        [2]wire.FabricNodeID // first and last chip of one route that Astray or Long counts; for a route between meshes: the first chips of the two meshes

	// Thin counts ordered pairs of meshes with a route on plane 0, but not on all planes of the
	// machine. ThinPair is one such pair. The first ThinPlanes planes lead from the first mesh of
	// ThinPair to the second, and the next plane does not. Traffic from the first mesh of a thin
	// pair to the second uses only these planes.
	Thin       int
	ThinPair   [2]wire.MeshID
	ThinPlanes int
}

// Sound returns true if no traffic can deadlock and every packet that has a route arrives before
// its TTL runs out.
func (v *Verdict) Sound() bool { return v.Cycle == nil && v.Astray == 0 && v.Long == 0 }

// OK returns true if the plan is sound and Unreachable is 0.
func (v *Verdict) OK() bool { return v.Sound() && v.Unreachable == 0 }

// String describes the verdict in one sentence.
func (v *Verdict) String() string {
	var b strings.Builder
	if v.Cycle == nil {
		fmt.Fprintf(&b, "free of deadlock: %d dependencies between %d channels, no cycle", v.Dependencies, v.Channels)
	} else {
		fmt.Fprintf(&b, "can deadlock: on plane %d, %s", v.Plane, v.Cycle[0])
		for _, c := range v.Cycle[1:] {
			fmt.Fprintf(&b, " waits for %s", c)
		}
		fmt.Fprintf(&b, ", which waits for the first")
	}
	if v.Astray > 0 || v.Long > 0 {
		fmt.Fprintf(&b, "; %d routes go in circles or end elsewhere, %d are longer than allowed, such as %s to %s", v.Astray, v.Long, v.Stray[0], v.Stray[1])
	}
	if v.Unreachable > 0 {
		fmt.Fprintf(&b, "; %d of %d pairs have no route, such as %s to %s", v.Unreachable, v.Pairs+v.Unreachable, v.Example[0], v.Example[1])
	}
	return b.String()
}

// Multicasts says which multicast trees a check includes, besides unicast routes.
type Multicasts struct {
	Any   bool
	Trunk Order // the trunks lie along the dimension that this order uses first
}

// Check builds the channel dependency graph of all traffic that the plan allows, and looks for a
// cycle. The graph includes the routes of [Plan.Other]. Check also follows all routes to their
// ends, and looks for pairs without a route. Check makes a graph for each class of messages on each
// plane. Separate graphs are enough, because each class has virtual channels of its own, and no
// packet waits for a packet of another class. In particular, a chip takes a request even if it has
// no room for an answer.
func (p *Plan) Check(mc Multicasts) Verdict { return p.CheckAfter(nil, mc) }

// CheckAfter does what [Plan.Check] does, for a plan that replaces plan "old" while packets of old
// are still under way. The graph holds the traffic of both plans together. Plan p and plan "old"
// must be plans of the same machine, with the same ring scheme.
func (p *Plan) CheckAfter(old *Plan, mc Multicasts) Verdict {
	v, g := Verdict{}, p.graph()
	for pl := range max(p.top.Planes(), 1) {
		least := (*checker)(nil) // checker of the class of messages with the most pairs without a route
		for c := range wire.Class(wire.NumClasses) {
			g.reset()
			k := newChecker(p, wire.Plane(pl), c, g)
			k.all(mc)
			k.stray(&v)
			if p.other != p {
				o := newChecker(p.other, wire.Plane(pl), c, g)
				o.all(Multicasts{}) // without multicasts, because checker k has included them already
				o.stray(&v)
				k.longest = max(k.longest, o.longest)
			}
			if old != nil {
				k.after(old, mc)
			}
			v.Channels += g.used()
			v.Dependencies += g.edges()
			if cycle := g.cycle(); cycle != nil && v.Cycle == nil {
				v.Plane = wire.Plane(pl)
				for _, n := range cycle {
					v.Cycle = append(v.Cycle, k.channel(n))
				}
			}
			if least == nil || k.lost > least.lost {
				least = k
			}
			v.Longest = max(v.Longest, k.longest)
		}
		least.reach(&v)
	}
	p.thin(&v)
	if len(p.grids) > 1 {
		v.Longest = p.longest
	}
	return v
}

// The method "after" adds the routes of packets of plan "old". For packets of old that are caught
// at a fault, after also adds the routes by the new plan.
func (k *checker) after(old *Plan, mc Multicasts) {
	newChecker(old, k.pl, k.c, k.g).all(mc)
	k.caught(old)
	if old.other != old {
		newChecker(old.other, k.pl, k.c, k.g).all(Multicasts{})
		newChecker(k.p.other, k.pl, k.c, k.g).caught(old.other)
	}
}

// checker builds the channel dependency graph of one class of messages on one plane.
type checker struct {
	p       *Plan
	pl      wire.Plane
	c       wire.Class
	g       *graph
	buf     [wire.MaxHops + 1]wire.Direction
	longest int
	lost    int // number of pairs of chips of one mesh without a route
	found   int
	example [2]wire.FabricNodeID

	astray, long int // the counts for the fields Astray and Long of [Verdict]
	stranger     [2]wire.FabricNodeID
	seen         []int32 // for each chip: number of the last route that passed the chip
	routes       int32   // number of routes followed so far
}

// all adds the dependencies of all traffic that the plan allows.
func (k *checker) all(mc Multicasts) {
	k.within(mc)
	if len(k.p.grids) > 1 {
		k.between(mc)
	}
}

// perPort is the number of channel numbers in the graph for one port and one class of messages.
// Three bits tell the channels of a port apart: up, detour, and behind the dateline.
const perPort = 8

func newChecker(p *Plan, pl wire.Plane, c wire.Class, g *graph) *checker {
	return &checker{p: p, pl: pl, c: c, g: g}
}

// graph returns a graph with room for all channels of one class on one plane.
func (p *Plan) graph() *graph {
	n := 0
	for _, g := range p.grids {
		n += g.chips()
	}
	return newGraph(n * wire.NumSides * perPort)
}

// id returns the number of a channel in the graph. With bubble flow control, channels of a ring
// with the same direction and the same up bit have one number (see bubbles). One number is enough
// because a ring always keeps a free slot. Packets in the ring therefore never wait for each other
// for ever.
func (k *checker) id(g *grid, chip int, d wire.Direction, v wire.VC, external bool) int32 {
	if !external && k.bubbles(g, d, v) {
		if axis(d) == 0 {
			chip -= chip % g.mesh.Cols
		} else {
			chip %= g.mesh.Cols
		}
	}
	n := (g.first+chip)*wire.NumSides + int(d)
	n *= perPort
	if v.Up() {
		n += 4
	}
	if v.Detour() {
		n += 2
	}
	if v.Dateline() {
		n++
	}
	return int32(n)
}

// bubbles reports whether the channels of a cable's ring in one direction have one number in the
// graph for each value of the up bit. The condition is bubble flow control, an axis that wraps, and
// dimension-ordered routes. Channels of detours and control packets have separate numbers. Channels
// of up*/down* routes have separate numbers too, because up*/down* routes close no cycle by
// themselves. An up*/down* packet may still wait for two free slots to enter a ring. In a graph
// without a cycle, the packets that occupy these slots do not wait for this packet. These packets
// therefore leave, and two slots become free.
func (k *checker) bubbles(g *grid, d wire.Direction, v wire.VC) bool {
	return k.p.cfg.Ring == Bubble && k.p.dor() && k.c != wire.ClassControl && g.wraps(d) && !v.Detour()
}

func (k *checker) channel(n int32) Channel {
	v := wire.VCFor(k.c, n&4 != 0, n&1 != 0)
	if n&2 != 0 {
		v = wire.DetourVC(k.c, n&4 != 0)
	}
	port := int(n) / perPort
	d, chip := wire.Direction(port%wire.NumSides), port/wire.NumSides
	for i := len(k.p.grids) - 1; ; i-- {
		if g := k.p.grids[i]; g.first <= chip {
			return Channel{From: g.node(chip - g.first), Dir: d, VC: v, Ring: k.bubbles(g, d, v)}
		}
	}
}

// path adds the dependencies of the hops of a leg that begins at the given chip, and returns the
// number of the last channel. The argument "held" is the channel from which the packet comes, or -1
// if the packet starts at the given chip. The argument "leaves" is true if the last hop leaves the
// mesh. The argument "detour" is true if the leg is a detour.
func (k *checker) path(g *grid, chip int, leg []wire.Direction, up, leaves, detour bool, held int32) int32 {
	s := Steps{detour: detour}
	for i, d := range leg {
		external := leaves && i == len(leg)-1
		next, wrap, _ := g.beside(chip, d)
		n := k.id(g, chip, d, s.next(k.p.cfg.Ring, k.c, up, d, wrap && !external, external), external)
		if held >= 0 {
			k.g.add(held, n)
		}
		held, chip = n, next
	}
	return held
}

// shape holds all properties of a mesh that determine the routes within the mesh. Meshes of the
// same shape have the same routes.
type shape struct {
	rows, cols, planes int
	wrapX, wrapY       bool
	axes               topo.Axes
	works              string // working cables: the field works of the grid
	own                int    // 0, or 1 + index of the mesh's first chip if the mesh has detours: each mesh with detours has a shape of its own
}

func (g *grid) shape() shape {
	s := shape{g.mesh.Rows, g.mesh.Cols, g.plan.top.MeshPlanes(g.mesh.ID), g.mesh.WrapX, g.mesh.WrapY, g.mesh.Axes, string(g.works), 0}
	if g.detours != nil {
		s.own = 1 + g.first
	}
	return s
}

// The method "within" adds the traffic within each mesh. within builds the graph only once for all
// meshes of one shape.
func (k *checker) within(mc Multicasts) {
	seen := map[shape]*checker{}
	for _, g := range k.p.grids {
		s := g.shape()
		one := seen[s]
		if one == nil {
			one = &checker{p: k.p, pl: k.pl, c: k.c, g: newGraph(g.chips() * wire.NumSides * perPort)}
			one.mesh(g, mc)
			seen[s] = one
		}
		k.g.join(one.g, int32(g.first*wire.NumSides*perPort))
		k.longest = max(k.longest, one.longest)
		k.found += one.found
		if one.lost > 0 {
			k.lost, k.example = k.lost+one.lost, one.example
		}
		if one.astray+one.long > 0 {
			k.astray, k.long, k.stranger = k.astray+one.astray, k.long+one.long, one.stranger
		}
	}
}

// mesh adds the traffic within one mesh: unicast between all pairs of chips, and multicasts. The
// channels are numbered as if the mesh were the first.
func (k *checker) mesh(of *grid, mc Multicasts) {
	alone := *of
	alone.first = 0
	g := &alone
	for src := range g.chips() {
		for dst := range g.chips() {
			if src == dst {
				continue
			}
			leg, detour, ok := g.leg(k.buf[:0], k.c, k.pl, src, dst)
			if ok {
				k.found++
				k.follow(g, src, dst, leg)
			} else if g.apart(src, dst) {
				continue
			} else if int(k.pl) < k.p.top.MeshPlanes(g.mesh.ID) {
				k.lost++
				k.example = [2]wire.FabricNodeID{g.node(src), g.node(dst)}
			}
			k.longest = max(k.longest, len(leg))
			k.path(g, src, leg, false, false, detour, -1)
		}
		if mc.Any && k.c == wire.ClassRequest {
			k.multicast(g, src, mc.Trunk)
		}
	}
}

// multicast adds the longest multicast trees of a chip. A chip keeps a packet until the packet's
// last branch has left. The packet therefore waits for each branch.
func (k *checker) multicast(g *grid, src int, o Order) {
	for leg := range g.trees(src, o) {
		k.path(g, src, leg, false, false, false, -1)
	}
}

// The method "between" adds the traffic between meshes. Each chip of a mesh can be the source of
// this traffic. In the next mesh, the traffic goes on from the end of each cable between the
// meshes. From there, the traffic goes to any chip of that mesh, or to a further mesh.
func (k *checker) between(mc Multicasts) {
	if int(k.pl) >= len(k.p.inter) {
		return
	}
	im := k.p.inter[k.pl]
	k.followMeshes(im)
	for i, g := range k.p.grids {
		for _, j := range im.peers[i] {
			if !k.used(i, int(j)) {
				continue
			}
			for src := range g.chips() {
				k.out(g, src, i, int(j), -1)
			}
			for _, q := range im.exits[[2]int32{int32(i), j}] {
				up := im.up(i, int(j))
				held := k.id(g, int(q.Local.Node.Chip), q.Dir, wire.VCFor(k.c, up, false), true)
				k.enter(int(j), i, int(q.Peer.Node.Chip), held)
				if mc.Any && k.c == wire.ClassRequest && k.ends(i, int(j)) {
					k.members(k.p.grids[j], int(q.Peer.Node.Chip), held)
				}
			}
		}
	}
}

// used reports whether any route leads from mesh "from" directly to its neighbour mesh "to".
func (k *checker) used(from, to int) bool {
	im := k.p.inter[k.pl]
	for d := range im.meshes {
		if d != from && int(im.next[from*im.meshes+d]) == to {
			return true
		}
	}
	return false
}

// ends reports whether the route from mesh "from" to its neighbour mesh "to" leads directly there.
func (k *checker) ends(from, to int) bool {
	im := k.p.inter[k.pl]
	return int(im.next[from*im.meshes+to]) == to
}

// The method "out" adds the dependencies of the route from chip src to the exit of the chip's mesh.
// The method also adds the hop from this exit to the next mesh.
func (k *checker) out(g *grid, src, from, to int, held int32) {
	im := k.p.inter[k.pl]
	best, chip, dir := math.MaxInt, 0, wire.Direction(0)
	for _, q := range im.exits[[2]int32{int32(from), int32(to)}] { // in the order in which Topology.Exits lists the exits
		leg, hops := k.buf[:0], 0
		if x := int(q.Local.Node.Chip); x != src {
			var ok bool
			if leg, _, ok = g.leg(leg, k.c, k.pl, src, x); !ok {
				continue
			}
			hops = len(leg)
		}
		if hops < best || hops == best && (int(q.Local.Node.Chip) < chip || int(q.Local.Node.Chip) == chip && q.Dir < dir) {
			best, chip, dir = hops, int(q.Local.Node.Chip), q.Dir
		}
	}
	if best == math.MaxInt {
		return
	}
	leg, detour := k.buf[:0], false
	if chip != src {
		leg, detour, _ = g.leg(leg, k.c, k.pl, src, chip)
	}
	k.path(g, src, append(leg, dir), im.up(from, to), true, detour, held)
}

// enter adds the dependencies of the traffic that comes into a mesh by one cable.
func (k *checker) enter(mesh, from, chip int, held int32) {
	im, g := k.p.inter[k.pl], k.p.grids[mesh]
	onward := map[uint16]bool{}
	for d := range im.meshes {
		if d == from || int(im.next[from*im.meshes+d]) != mesh {
			continue
		}
		if d != mesh {
			onward[im.next[mesh*im.meshes+d]] = true
			continue
		}
		for dst := range g.chips() {
			if dst != chip {
				leg, detour, _ := g.leg(k.buf[:0], k.c, k.pl, chip, dst)
				k.path(g, chip, leg, false, false, detour, held)
			}
		}
	}
	for _, j := range im.peers[mesh] {
		if onward[uint16(j)] {
			k.out(g, chip, mesh, int(j), held)
		}
	}
}

// thin counts the pairs of meshes with a route on plane 0, but not on all planes.
func (p *Plan) thin(v *Verdict) {
	for i := range p.grids {
		for j := range p.grids {
			n := 0
			for n < len(p.inter) && p.inter[n].next[i*len(p.grids)+j] != none {
				n++
			}
			if i == j || n == 0 || n == len(p.inter) {
				continue
			}
			if v.Thin == 0 {
				v.ThinPair, v.ThinPlanes = [2]wire.MeshID{p.grids[i].mesh.ID, p.grids[j].mesh.ID}, n
			}
			v.Thin++
		}
	}
}

// reach adds the numbers of pairs with and without a route on one plane to verdict v. The checker k is
// for the class of messages with the most pairs without a route. A mesh without the plane adds no
// pairs of chips. Chips of a 1D fabric or mesh without a common line are not a pair either. Pairs of
// meshes without a route count on plane 0 only, and only if cables in use join the two meshes.
func (k *checker) reach(v *Verdict) {
	found, lost, example := k.found, k.lost, k.example
	if len(k.p.grids) > 1 && int(k.pl) < len(k.p.inter) {
		im, part := k.p.inter[k.pl], map[wire.MeshID]int{}
		for i, ids := range k.p.top.Parts() {
			for _, id := range ids {
				part[id] = i
			}
		}
		for i, g := range k.p.grids {
			for j, h := range k.p.grids {
				switch {
				case i == j:
				case im.next[i*im.meshes+j] == none:
					if k.pl == 0 && part[g.mesh.ID] == part[h.mesh.ID] { // each mesh must reach each other mesh of its part, on plane 0 only
						lost++
						example = [2]wire.FabricNodeID{g.node(0), h.node(0)}
					}
				default:
					found++
				}
			}
		}
	}
	if lost > 0 && v.Unreachable == 0 {
		v.Example = example
	}
	v.Pairs += found
	v.Unreachable += lost
}
