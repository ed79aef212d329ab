// Package route plans the routes of a machine from the machine's cabling. The package also proves
// that no traffic on these routes can deadlock.
//
// All chips of a fabric agree on one [Plan]. A Plan has an engine that finds routes within a mesh
// (L0, Spec §2.2.1.1). Between meshes, a Plan chooses exit nodes (L1, Spec §2.2.1.2). A Plan also
// chooses the virtual channel of each hop. On each plane, a Plan has a table with one entry per
// pair of meshes, but no table of all pairs of chips. A Plan computes a route within a mesh when a
// caller asks for it.
//
// A leg is the part of a route that lies within one mesh, with the hop out of the mesh if the route
// leaves it.
//
// [Plan.Check] builds the channel dependency graph of all traffic that the plan allows (Dally and
// Seitz). Check reports a cycle of this graph, or that the graph has no cycle. In this graph, a
// channel is the receiver channel of one virtual channel, see [Channel]. Check also follows every
// route to its end. [Plan.CheckScheme] looks for such a cycle packet by packet, with the plan's
// choice of virtual channels or with another choice.
//
// # Between meshes
//
// The meshes form a graph. The graph's root is the mesh with the lowest id. A breadth-first walk
// from the root ranks the meshes, and visits the neighbours of a mesh in the order of their ids. A
// crossing is a hop from one mesh to another. A crossing to a mesh of lower rank leads up, a
// crossing to a mesh of higher rank leads down.
//
// A packet makes all its up crossings before its down crossings. After a down crossing, down
// crossings alone lead to the destination. A mesh can therefore choose the next crossing without
// knowing where the packet came from. If down crossings alone lead to the destination, the packet
// takes a route with the fewest down crossings. Otherwise the packet goes up to the neighbour from
// which the fewest crossings remain. Between equal choices, the packet takes the mesh with the
// lower id. [PrintedExits] restricts the up crossings. Within a mesh, the packet goes to the exit
// node that is the fewest hops away. Between equally distant exits, the packet takes the exit node
// with the lower chip id. Between exits of one chip, the packet takes the first in the order East,
// West, North, South, Z.
//
// # Virtual channels
//
// Packets with an up crossing ahead of them travel in virtual channels of their own, see
// [wire.VCFor].
//
// The scheme [Dateline] is for axes that wrap. A packet that crosses the cable that wraps uses a
// virtual channel behind the dateline, from that hop on. The packet leaves this virtual channel
// when it turns, leaves the mesh, or arrives. If packets kept the virtual channel after a turn, a
// cycle would close on every torus of 4×4 chips or more.
//
// The scheme [Bubble] has no virtual channels behind the dateline. A packet enters a ring with its
// first hop along the axis of the ring. The packet may enter only if the next chip has two free
// slots.
//
// Control packets on dimension-ordered routes use no cable that wraps.
//
// # Around faults
//
// [Plan.Around] returns the plan that holds while cables are out of service. Within a mesh, a route
// that does not cross such a cable stays unchanged. Routes between meshes are planned again, and
// any of them may change. A route that would cross such a cable becomes a detour. A detour is an
// up*/down* route within the mesh over the remaining cables, in virtual channels for detours.
//
// A packet that is caught at a fault may change from other virtual channels to the virtual channels
// for detours. A packet on a detour stays in the virtual channels for detours. Therefore
// dimension-ordered routes and detours together close no cycle, whichever cables are missing.
// Tables can thus be replaced while packets are under way. There are two exceptions after a further
// fault. Old and new detours may together close a cycle. Old and new routes between meshes may also
// close a cycle. [Plan.Replaces] checks for such a cycle.
//
// Neighbours in the grid may have no cable at all ([topo.Topology].Missing). The dimension-ordered
// engine then plans detours from the start.
//
// # Ties
//
// Two chips opposite each other on a ring of even length have two equally long routes. A plan uses
// one of these routes. The plan that [Plan.Other] returns has the opposite route, for packets that
// carry the mark OTHER. A source splits its load by setting this mark on some of its packets. The
// packets with the mark form a flow of their own. The proofs cover both plans together.
//
// # Multicasts
//
// A multicast's tree has its trunk along the dimension that requests use first, and its branches
// along the other dimension. Each route of the tree therefore turns as a unicast route does, see
// [Plan.Multicast]. A multicast to a set of chips, of any mesh, has a tree of the same form, see
// [Plan.Sparse]. [Plan.Check] proves unicast and multicast together.
package route

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Order is the order in which a route uses the two dimensions of a mesh.
type Order uint8

// The orders that exist. XY is the specification's order (§2.2.1.1.1: "Packets go X dimension first
// then Y"). YX is tt-metal's order. NoOrder exists to show the deadlock of Spec §6.1. With NoOrder,
// every route of a request that turns makes a right turn, so that four routes can form the cycle of
// that section.
const (
	XY Order = iota
	YX
	NoOrder
)

var orderNames = []string{"xy", "yx", "none"}

// String returns "xy", "yx" or "none".
func (o Order) String() string { return orderNames[o] }

// Reverse returns the order of replies and control packets for requests with order o. On a mesh, a
// YX route from b to a passes the same chips as an XY route from a to b. For NoOrder, Reverse
// returns YX.
func (o Order) Reverse() Order {
	if o == YX {
		return XY
	}
	return YX
}

// ParseOrder reads the name of an order, as [Order.String] returns it.
func ParseOrder(s string) (Order, error) {
	for i, n := range orderNames {
		if s == n {
			return Order(i), nil
		}
	}
	return XY, fmt.Errorf("route order %q: want xy, yx or none", s)
}

// Ring is a scheme that prevents cycles of waiting packets on axes that wrap.
type Ring uint8

// The schemes that exist. Dateline is the specification's scheme (§2.3.1). Bubble is bubble flow
// control, with which tt-metal replaced the dateline in November 2025. NoRing prevents no cycle,
// and exists to show the deadlock that follows.
const (
	Dateline Ring = iota
	Bubble
	NoRing
)

var ringNames = []string{"dateline", "bubble", "none"}

// String returns "dateline", "bubble" or "none".
func (r Ring) String() string { return ringNames[r] }

// ParseRing reads the name of a scheme, as [Ring.String] returns it.
func ParseRing(s string) (Ring, error) {
	for i, n := range ringNames {
		if s == n {
			return Ring(i), nil
		}
	}
	return 0, fmt.Errorf("ring scheme %q: want dateline, bubble or none", s)
}

// Config says how to plan routes.
type Config struct {
	Engine string // name of one of [Engines]; empty: the first engine of the list
	Order  Order
	Ring   Ring
	Exits  Exits                  // by which crossings packets may go up between meshes
	OneWay bool                   // between chips opposite each other on an even ring, always go East or South, as textbooks do
	Lines  bool                   // 1D fabric: each row and each column is a line of its own, and routes do not turn (Spec §3); [New] sets Lines if the topology uses only one axis
	Failed func(wire.PortID) bool // reports whether the cable at a port is missing; the port may be either end of the cable; nil: no cable is missing
}

// Plan holds the routes of a machine. A Plan is read-only and safe for concurrent use.
type Plan struct {
	cfg     Config
	top     *topo.Topology
	grids   []*grid              // by mesh, in the order of the topology's meshes
	inter   []*interMesh         // routing between meshes, by plane; nil: the machine has a single mesh
	out     map[wire.PortID]bool // ports of cables out of service; nil: none
	other   *Plan                // see [Plan.Other]; the plan itself if Other would have the same routes
	longest int                  // upper bound of the number of hops of any whole route
	leg     int                  // number of hops of the longest leg, including the hop out of the mesh
	hash    uint32
}

// Engine is an algorithm that finds routes within one mesh.
type Engine struct {
	Name string
	Help string
	make func(g *grid) (legger, error)
}

// legger finds the directions of the hops between two chips of a mesh, and appends them to buf. A
// legger reports false if there is no route.
type legger interface {
	leg(buf []wire.Direction, p wire.Plane, o Order, wraps bool, src, dst int) ([]wire.Direction, bool)
}

// Engines are the routing engines. The first engine is the default.
var Engines = []Engine{
	{"dor", "dimension-ordered, on full meshes and tori", newDOR},
	{"updown", "shortest up*/down* routes, over any cables that work", newUpDown},
}

// New plans the routes of a machine. New returns an error if the engine does not exist or a route
// is too long for a packet's header.
func New(t *topo.Topology, cfg Config) (*Plan, error) {
	e, err := engine(cfg.Engine)
	if err != nil {
		return nil, err
	}
	for _, m := range t.Meshes {
		cfg.Lines = cfg.Lines || m.Axes != topo.BothAxes
	}
	p := &Plan{cfg: cfg, top: t}
	first := 0
	for _, m := range t.Meshes {
		g := &grid{plan: p, mesh: m, planes: t.MeshPlanes(m.ID), first: first}
		if cfg.Failed != nil {
			g.survey()
		}
		if g.legs, err = e.make(g); err != nil {
			return nil, fmt.Errorf("topology %s: %w", t.Name, err)
		}
		g.round()
		first += m.Rows * m.Cols
		p.grids = append(p.grids, g)
	}
	p.finish()
	if n := p.leg; n > wire.MaxHops {
		return nil, fmt.Errorf("topology %s: a route has %d hops, but the largest packet header has room for %d", t.Name, n, wire.MaxHops)
	}
	return p, nil
}

// finish plans the routes between meshes, and computes the values that depend on all routes. The
// routes within the meshes must be planned already.
func (p *Plan) finish() {
	for _, g := range p.grids {
		p.leg = max(p.leg, g.longest())
	}
	p.longest = p.leg
	if len(p.grids) > 1 {
		p.inter = nil
		for pl := range p.top.Planes() {
			p.inter = append(p.inter, newInterMesh(p, wire.Plane(pl)))
		}
		p.leg++
		most := 0
		for _, im := range p.inter {
			most = max(most, im.most)
		}
		p.longest = (most + 1) * p.leg
	}
	p.hash = p.sum()
	p.other = p.turn()
}

func engine(name string) (Engine, error) {
	if name == "" {
		return Engines[0], nil
	}
	var names []string
	for _, e := range Engines {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Engine{}, fmt.Errorf("routing engine %q: want one of %v", name, names)
}

// Topology returns the machine whose routes the plan holds.
func (p *Plan) Topology() *topo.Topology { return p.top }

// Config returns the configuration of the plan.
func (p *Plan) Config() Config { return p.cfg }

// Has reports whether n is a chip of the machine.
func (p *Plan) Has(n wire.FabricNodeID) bool { return p.grid(n) != nil }

// Longest returns the largest number of hops of any route. A packet's TTL starts at this number
// (Spec §7.2). For a single mesh without faults, the number is exact. For several meshes, or with
// cables missing or out of service, the number is an upper bound.
func (p *Plan) Longest() int { return p.longest }

// LongestLeg returns the largest number of hops within one mesh. If the machine has several meshes,
// the number includes the hop out of the mesh. With cables missing or out of service, the number is
// an upper bound. A packet's header needs room for this number of route bytes.
func (p *Plan) LongestLeg() int { return p.leg }

// Hash returns a checksum of the machine, and of the cables that are missing or out of service. The
// fields Engine, Order, Ring, Exits and Lines of the configuration also enter the checksum. Packets carry
// the hash as their table epoch.
func (p *Plan) Hash() uint32 { return p.hash }

// sum computes the value that Hash returns.
func (p *Plan) sum() uint32 {
	h := p.top.Hash()
	b := []byte{byte(p.cfg.Order), byte(p.cfg.Ring), 0}
	if p.cfg.Lines {
		b[2] = 1
	}
	b[2] |= byte(p.cfg.Exits) << 1
	b = append(b, p.cfg.Engine...)
	for k := range 8 {
		b = append(b, byte(h>>(8*k)))
	}
	if p.out == nil && p.cfg.Failed == nil {
		return wire.Checksum(b)
	}
	for _, c := range p.top.Cables {
		if p.down(c.A) || p.down(c.B) {
			b = append(b, byte(c.A.Node.Mesh), byte(c.A.Node.Mesh>>8), byte(c.A.Node.Chip), byte(c.A.Channel))
		}
	}
	return wire.Checksum(b)
}

// The method "down" reports whether the cable at port q is missing or out of service.
func (p *Plan) down(q wire.PortID) bool { return p.out[q] || p.cfg.Failed != nil && p.cfg.Failed(q) }

// grid is one mesh of the plan.
type grid struct {
	plan   *Plan
	mesh   topo.Mesh
	planes int // number of routing planes of the mesh
	first  int // index of the mesh's first chip among all chips of the topology
	legs   legger
	usual  *grid // if this plan is the Other of a second plan: the grid of the second plan; else nil

	works   []uint8 // directions of working cables, by plane and chip, one bit for each direction; nil: not recorded
	detours *upDown // detours while cables are out of service; nil: no cable is out of service
}

func (p *Plan) grid(n wire.FabricNodeID) *grid {
	lo, hi := 0, len(p.grids)
	for lo < hi {
		mid := (lo + hi) / 2
		switch g := p.grids[mid]; {
		case g.mesh.ID == n.Mesh:
			if int(n.Chip) >= g.chips() {
				return nil
			}
			return g
		case g.mesh.ID < n.Mesh:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return nil
}

func (g *grid) chips() int { return g.mesh.Rows * g.mesh.Cols }

// node returns the address of a chip of the mesh.
func (g *grid) node(chip int) wire.FabricNodeID {
	return wire.FabricNodeID{Mesh: g.mesh.ID, Chip: wire.ChipID(chip)}
}

// The method "beside" returns the neighbour of a chip in direction d, by the shape of the mesh
// alone. The result "wrap" is true if the cable to the neighbour wraps. The result ok is false if
// the mesh ends at the chip, or if the fabric does not use the axis.
func (g *grid) beside(chip int, d wire.Direction) (next int, wrap, ok bool) {
	row, col := chip/g.mesh.Cols, chip%g.mesh.Cols
	if !g.mesh.Axes.Has(d) {
		return 0, false, false
	}
	switch d {
	case wire.East:
		if col++; col == g.mesh.Cols {
			col, wrap = 0, true
		}
	case wire.West:
		if col--; col < 0 {
			col, wrap = g.mesh.Cols-1, true
		}
	case wire.South:
		if row++; row == g.mesh.Rows {
			row, wrap = 0, true
		}
	case wire.North:
		if row--; row < 0 {
			row, wrap = g.mesh.Rows-1, true
		}
	}
	if wrap && !g.wraps(d) {
		return 0, false, false
	}
	return row*g.mesh.Cols + col, wrap, true
}

// wraps reports whether the axis of direction d wraps.
func (g *grid) wraps(d wire.Direction) bool {
	if d == wire.East || d == wire.West {
		return g.mesh.WrapX
	}
	return g.mesh.WrapY
}

// longest returns the number of hops of the longest leg, detours included. The hop out of the mesh
// does not count.
func (g *grid) longest() int {
	if g.detours != nil {
		return max(g.detours.longest, g.plain())
	}
	return g.plain()
}

// Ring reports whether a port's cable is part of an axis that wraps. Ring also reports whether the
// cable itself wraps from the last chip of the axis to the first.
func (p *Plan) Ring(q topo.Port) (ring, wrap bool) {
	g := p.grid(q.Local.Node)
	if g == nil || q.Peer.Node.Mesh != q.Local.Node.Mesh {
		return false, false
	}
	_, wrap, _ = g.beside(int(q.Local.Node.Chip), q.Dir)
	return g.wraps(q.Dir), wrap
}

// Leg appends the directions of the hops from src to dst, two chips of one mesh, for packets of
// class c. Leg reports false if there is no route or if both chips are the same.
func (p *Plan) Leg(buf []wire.Direction, c wire.Class, pl wire.Plane, src, dst wire.FabricNodeID) ([]wire.Direction, bool) {
	g := p.grid(src)
	if g == nil || src.Mesh != dst.Mesh || src == dst || int(dst.Chip) >= g.chips() {
		return buf, false
	}
	leg, _, ok := g.leg(buf, c, pl, int(src.Chip), int(dst.Chip))
	return leg, ok
}

func (g *grid) leg(buf []wire.Direction, c wire.Class, pl wire.Plane, src, dst int) (leg []wire.Direction, detour, ok bool) {
	if int(pl) >= g.planes {
		return buf, false, false
	}
	o := g.plan.cfg.Order
	if c != wire.ClassRequest {
		o = o.Reverse()
	}
	if g.apart(src, dst) {
		return buf, false, false
	}
	from := len(buf)
	leg, ok = g.legs.leg(buf, pl, o, c != wire.ClassControl, src, dst)
	switch {
	case ok && (g.detours == nil || g.intact(leg[from:], pl, src)):
		return leg, false, true
	case g.usual != nil:
		return g.usual.leg(leg[:from], c, pl, src, dst)
	case g.detours == nil:
		return leg, false, false
	}
	leg, ok = g.detour(leg[:from], c, pl, src, dst)
	return leg, ok, ok
}

// detour appends the directions of a detour from src to dst. detour reports false if there is no
// detour, or if the detour has more than [wire.MaxHops] hops.
func (g *grid) detour(buf []wire.Direction, c wire.Class, pl wire.Plane, src, dst int) ([]wire.Direction, bool) {
	if g.detours == nil || g.plan.cfg.Lines || int(pl) >= g.planes {
		return buf, false // a detour can turn, and a 1D fabric allows no turns
	}
	o := g.plan.cfg.Order
	if c != wire.ClassRequest {
		o = o.Reverse()
	}
	leg, ok := g.detours.leg(buf, pl, o, true, src, dst)
	if len(leg)-len(buf) > wire.MaxHops {
		return buf, false
	}
	return leg, ok
}

// onward appends the leg of a packet that was caught at a fault at chip "at". The result "still" is
// true if the leg is a detour. If the packet is already on a detour, the leg is a detour too, even
// if a route without a fault exists. A packet on a detour must stay in the virtual channels for
// detours.
func (g *grid) onward(buf []wire.Direction, c wire.Class, pl wire.Plane, at, dst int, detour bool) (leg []wire.Direction, still, ok bool) {
	if !detour {
		return g.leg(buf, c, pl, at, dst)
	}
	leg, ok = g.detour(buf, c, pl, at, dst)
	return leg, ok, ok
}

// VCs reports for each virtual channel whether packets of the plan may use it, now or around a
// later fault.
func (p *Plan) VCs() (used [wire.NumVCs]bool) {
	wraps := false
	for _, g := range p.grids {
		wraps = wraps || g.mesh.WrapX || g.mesh.WrapY
	}
	detours := p.detours()
	for v := range wire.VC(wire.NumVCs) {
		used[v] = (!v.Up() || len(p.grids) > 1) && (!v.Dateline() || (wraps && p.cfg.Ring == Dateline)) && (!v.Detour() || detours)
	}
	return used
}
