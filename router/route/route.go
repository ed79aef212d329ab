// Package route turns a machine's cabling into routes, and proves that no traffic on these routes
// can deadlock.
//
// All chips of a fabric agree on one [Plan]. A Plan contains the engine that routes within a mesh
// (L0, Spec §2.2.1.1), and the choice of exit nodes between meshes (L1, Spec §2.2.1.2). A Plan also
// contains the rule for the virtual channel of each hop. A Plan keeps no table of all pairs of
// chips. The Plan computes the legs of dimension-ordered routes, and has one entry for each pair of
// meshes. [Plan.Check] builds the channel dependency graph of everything that the plan allows
// (Dally and Seitz). Check reports either that the graph is acyclic or a cycle of the graph. Check
// also follows every route to its end. [Plan.CheckScheme] makes the same checks packet by packet,
// with the plan's virtual channels or with others.
//
// # Between meshes
//
// The meshes form a graph. Its root is the mesh with the lowest id. A mesh's rank is its place in a
// breadth-first walk from the root, which visits neighbours in the order of their ids. A crossing
// to a lower rank leads up, a crossing to a higher rank leads down.
//
// A packet goes up as often as needed and then only down. A mesh therefore need not know where a
// packet came from. If down crossings alone lead to the destination, the packet takes a route with
// the fewest of these crossings. Otherwise the packet goes up, to the mesh from which the fewest
// crossings remain. Between equal choices, the lower mesh id decides. Within a mesh, the packet
// goes to the exit node that is the fewest hops away. Between equal choices, first the lower chip
// id decides, then the order East, West, North, South.
//
// # Virtual channels
//
// Packets with an up crossing ahead of them travel in channels of their own, see [wire.VCFor].
//
// By the scheme [Dateline], on an axis that wraps, the hop over the wrap cable and the hops after
// it use the dateline channel. A packet leaves that channel when it turns, leaves the mesh, or
// arrives. If a packet kept the channel over the turn, a cycle would close on every torus of 4×4
// chips or more.
//
// By the scheme [Bubble], there is only one channel. A packet enters a ring from its chip or by a
// turn. The packet may do so only if two slots are free.
//
// Control messages use no cable that wraps, except on up*/down* routes.
//
// # Around faults
//
// [Plan.Around] returns the plan that holds while cables are out of service. A route that does not
// cross such a cable stays the same. A route that would cross such a cable becomes a detour. A
// detour is an up*/down* route within the mesh over the remaining cables, in virtual channels of
// its own.
//
// A packet may change from the other channels to those of detours when it is caught at a fault, but
// never back. Therefore dimension order, detours, and both together close no cycle, whatever cables
// are missing. Tables can thus be replaced while packets are under way. The detours before and the
// detours after a further fault may together close a cycle. [Plan.Replaces] checks this.
//
// # Ties
//
// Chips opposite each other on a ring of even length have two equally long routes. A plan has one
// of these routes. [Plan.Other] has the other route, for packets that ask for the other route. A
// source splits its load by setting that mark on some of its packets. Each direction round the ring
// is for a flow of its own. The proofs cover both plans together.
//
// # Multicasts
//
// A multicast's tree has its trunk along the dimension that requests use first, and its branches
// along the other dimension. Each route of the tree therefore turns as a unicast does, see
// [Plan.Multicast]. [Plan.Check] proves unicast and multicast together.
package route

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Order is the order in which a route uses the two dimensions.
type Order uint8

// The orders. XY is the specification's (§2.2.1.1.1: "Packets go X dimension first then Y"), YX is
// tt-metal's. With NoOrder, a route takes first the dimension that makes its turn a turn to the
// right, so that four routes close the circle of Spec §6.1. NoOrder exists to show the deadlock
// that follows.
const (
	XY Order = iota
	YX
	NoOrder
)

var orderNames = []string{"xy", "yx", "none"}

// String returns "xy", "yx" or "none".
func (o Order) String() string { return orderNames[o] }

// Reverse returns the order of replies and control messages. On a mesh, a route of YX from b to a
// passes the same chips as a route of XY from a to b. Answers to packets with NoOrder go Y first.
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

// Ring is a scheme that keeps cycles from closing on axes that wrap.
type Ring uint8

// The schemes. Dateline is the specification's (§2.3.1); tt-metal replaced it by bubble flow
// control in November 2025. NoRing breaks no cycle. NoRing exists to show the deadlock that
// follows.
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

// Config says how routes are planned.
type Config struct {
	Engine string // name of one of [Engines]; empty: the first of the list
	Order  Order
	Ring   Ring
	OneWay bool                   // between chips opposite each other on an even ring, always go East or South, as textbooks do
	Lines  bool                   // 1D fabric: independent row and column lines, no turns (Spec §3)
	Failed func(wire.PortID) bool // reports whether the cable at a port, which may be either end, is missing; nil: no cable is missing
}

// Plan is the routes of a machine. A Plan is read-only and safe for concurrent use.
type Plan struct {
	cfg     Config
	top     *topo.Topology
	grids   []*grid              // by mesh, as in the topology
	inter   []*interMesh         // by plane; nil for a single mesh
	out     map[wire.PortID]bool // ports of cables out of service; nil: none
	other   *Plan                // see [Plan.Other]; the plan itself if it has no opposite routes
	longest int                  // upper bound of the number of hops of the longest whole route
	leg     int                  // number of hops of the longest leg, including the hop out of the mesh
	hash    uint32
}

// Engine routes within one mesh.
type Engine struct {
	Name string
	Help string
	make func(g *grid) (legger, error)
}

// legger finds the hops between two chips of a mesh. A legger reports false if there is no route.
type legger interface {
	leg(buf []wire.Direction, p wire.Plane, o Order, wraps bool, src, dst int) ([]wire.Direction, bool)
}

// Engines are the routing engines; the first is the default.
var Engines = []Engine{
	{"dor", "dimension-ordered, on full meshes and tori", newDOR},
	{"updown", "shortest up*/down* routes, on whatever is connected", newUpDown},
}

// New plans the routes of a machine. The error names what cannot be routed.
func New(t *topo.Topology, cfg Config) (*Plan, error) {
	e, err := engine(cfg.Engine)
	if err != nil {
		return nil, err
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
		first += m.Rows * m.Cols
		p.grids = append(p.grids, g)
	}
	p.finish()
	if n := p.leg; n > wire.MaxHops {
		return nil, fmt.Errorf("topology %s: a route of %d hops: the largest packet header has room for %d", t.Name, n, wire.MaxHops)
	}
	return p, nil
}

// finish plans the routes between the meshes, after those within the meshes.
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

// Topology returns the topology that the plan routes.
func (p *Plan) Topology() *topo.Topology { return p.top }

// Config returns the configuration of the plan.
func (p *Plan) Config() Config { return p.cfg }

// Has reports whether n is a chip of the machine.
func (p *Plan) Has(n wire.FabricNodeID) bool { return p.grid(n) != nil }

// Longest returns the most hops that a route may have. Longest is the start value of a packet's TTL
// (Spec §7.2). For a single mesh, the number is exact. For several meshes, the number is an upper
// bound.
func (p *Plan) Longest() int { return p.longest }

// LongestLeg returns the most hops within one mesh, including the hop out of it. A packet's header
// needs room for this number of actions.
func (p *Plan) LongestLeg() int { return p.leg }

// Hash returns a number that identifies the plan. Two plans with the same hash have the same
// routes. Hash is the table epoch that packets carry.
func (p *Plan) Hash() uint32 { return p.hash }

// sum returns a checksum of everything that determines the routes.
func (p *Plan) sum() uint32 {
	h := p.top.Hash()
	b := []byte{byte(p.cfg.Order), byte(p.cfg.Ring), 0}
	if p.cfg.Lines {
		b[2] = 1
	}
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

// down reports whether the cable at a port has failed or is out of service.
func (p *Plan) down(q wire.PortID) bool { return p.out[q] || p.cfg.Failed != nil && p.cfg.Failed(q) }

// grid is one mesh of the plan.
type grid struct {
	plan   *Plan
	mesh   topo.Mesh
	planes int // routing planes of the mesh
	first  int // index of the mesh's first chip among the chips of the topology
	legs   legger
	usual  *grid // set if this plan is the [Plan.Other] of another plan: that plan's grid; else nil

	works   []uint8 // set of directions whose cables work, by plane and chip, one bit for each direction; nil: no cable has failed
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

// beside returns the next chip in a direction, by the grid and its wraps. The result wrap tells
// whether the cable to this chip wraps.
func (g *grid) beside(chip int, d wire.Direction) (next int, wrap, ok bool) {
	row, col := chip/g.mesh.Cols, chip%g.mesh.Cols
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

// wraps reports whether the axis of a direction wraps.
func (g *grid) wraps(d wire.Direction) bool {
	if d == wire.East || d == wire.West {
		return g.mesh.WrapX
	}
	return g.mesh.WrapY
}

// longest returns the number of hops of the longest leg. A control message may have the longest
// leg, since control messages use no cable that wraps.
func (g *grid) longest() int {
	if g.detours != nil {
		return max(g.detours.longest, g.plain())
	}
	return g.plain()
}

// plain returns the number of hops of the longest leg that is not a detour.
func (g *grid) plain() int {
	if u, ok := g.legs.(*upDown); ok {
		return u.longest
	}
	x, y := g.mesh.Cols-1, g.mesh.Rows-1
	if g.plan.cfg.Lines {
		return max(x, y)
	}
	return x + y
}

// Ring reports whether a port's cable is part of an axis that wraps, and whether the cable crosses
// the axis's dateline.
func (p *Plan) Ring(q topo.Port) (ring, wrap bool) {
	g := p.grid(q.Local.Node)
	if g == nil || q.Peer.Node.Mesh != q.Local.Node.Mesh {
		return false, false
	}
	_, wrap, _ = g.beside(int(q.Local.Node.Chip), q.Dir)
	return g.wraps(q.Dir), wrap
}

// Leg appends the hops of a class's packets from one chip to another of the same mesh. Leg reports
// false if there is no route or if both chips are the same.
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
	if g.plan.cfg.Lines && src/g.mesh.Cols != dst/g.mesh.Cols && src%g.mesh.Cols != dst%g.mesh.Cols {
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

// detour appends the hops of a leg in the detour channels.
func (g *grid) detour(buf []wire.Direction, c wire.Class, pl wire.Plane, src, dst int) ([]wire.Direction, bool) {
	if g.detours == nil || g.plan.cfg.Lines || int(pl) >= g.planes {
		return buf, false // the detour turns, and lines have no turns
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

// onward appends the leg of a packet from the fault where the packet was caught. A packet that is
// already on a detour stays in the detour channels, even if a route without a fault exists. Packets
// change from plain channels to detour channels, but never back.
func (g *grid) onward(buf []wire.Direction, c wire.Class, pl wire.Plane, at, dst int, detour bool) (leg []wire.Direction, still, ok bool) {
	if !detour {
		return g.leg(buf, c, pl, at, dst)
	}
	leg, ok = g.detour(buf, c, pl, at, dst)
	return leg, ok, ok
}

// VCs reports which virtual channels the plan's packets use.
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
