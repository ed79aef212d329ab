// Package route turns a machine's cabling into routes, and proves that no traffic on these routes
// can deadlock.
//
// A [Plan] is what all chips of a fabric agree on. A Plan contains the engine that routes within a
// mesh (L0, Spec §2.2.1.1), the choice of exit nodes between meshes (L1, §2.2.1.2), and the virtual
// channel that a packet takes at each hop. A Plan keeps no table of all pairs: a leg of a
// dimension-ordered route is arithmetic, and a mesh-level choice is one entry per pair of meshes.
// [Plan.Check] builds the channel dependency graph of everything that the plan allows (Dally and
// Seitz). Check reports that the graph is acyclic, or a cycle. Check also follows every route to
// its end. [Plan.CheckScheme] does the same packet by packet, with the plan's virtual channels or
// others.
//
// # Between meshes
//
// The meshes form a graph. Its root is the mesh with the lowest id. A mesh's rank is its place in a
// breadth-first walk from the root, which visits neighbours in the order of their ids. A crossing
// to a lower rank leads up, one to a higher rank leads down.
//
// A packet goes up as often as needed and then only down. So a mesh need not know where a packet
// came from. If down crossings alone lead to the destination, the packet takes the fewest of them.
// Otherwise the packet goes up, to the mesh from which the fewest crossings remain. The lower mesh
// id decides between equals. Within a mesh, the packet goes to the exit node that is the fewest
// hops away. The lower chip id, then the order East, West, North, South, decides between equals.
//
// # Virtual channels
//
// A packet with an up crossing ahead travels in channels of its own, see [wire.VCFor].
//
// By the scheme [Dateline], on an axis that wraps, the hop over the wrap cable and the hops after
// it use the dateline channel. A packet leaves that channel when it turns, leaves the mesh, or
// arrives. Keeping the channel over the turn would close a cycle on every torus from 4×4 up.
//
// By the scheme [Bubble] there is one channel. A packet enters a ring, from its chip or by a turn,
// only where two slots are free.
//
// Control messages use no cable that wraps, except on up*/down* routes.
//
// # Around faults
//
// [Plan.Around] is the plan while cables are out of service. A route that does not cross such a
// cable stays the same. A route that would cross one becomes a detour: within the mesh, an
// up*/down* route over the cables that are left, in virtual channels of its own.
//
// A packet may change from the other channels to those of detours when it is caught at a fault, but
// never back. So dimension order, a detour, and the two together close no cycle, whatever cables
// are missing, and tables can be replaced while packets are under way. Two sets of detours, before
// and after a further fault, may together close a cycle: [Plan.Replaces] finds out.
//
// # Ties
//
// Chips opposite each other on a ring of even length have two equally long routes. A plan has one
// of these routes. [Plan.Other] has the other one, for packets that ask for it. A source splits its
// load by setting that mark on some of its packets. Each direction round the ring is for a flow of
// its own. The proofs cover both plans together.
//
// # Multicasts
//
// A multicast's tree has its trunk along the dimension that requests use first, and its branches
// along the other dimension. So each route of the tree turns as a unicast does; see
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
// right, so that four routes close the circle of §6.1. NoOrder exists to show what happens then.
const (
	XY Order = iota
	YX
	NoOrder
)

var orderNames = []string{"xy", "yx", "none"}

// String returns "xy", "yx" or "none".
func (o Order) String() string { return orderNames[o] }

// Reverse is the order of replies and control messages. On a mesh, a route of YX from b to a passes
// the same chips as a route of XY from a to b. Answers to packets with NoOrder go Y first.
func (o Order) Reverse() Order {
	if o == YX {
		return XY
	}
	return YX
}

// ParseOrder reads what String writes.
func ParseOrder(s string) (Order, error) {
	for i, n := range orderNames {
		if s == n {
			return Order(i), nil
		}
	}
	return XY, fmt.Errorf("route order %q: want xy, yx or none", s)
}

// Ring is the scheme that keeps cycles on axes that wrap from closing.
type Ring uint8

// The schemes. Dateline is the specification's (§2.3.1); tt-metal replaced it by bubble flow
// control in November 2025. NoRing breaks no cycle; it exists to show what happens then.
const (
	Dateline Ring = iota
	Bubble
	NoRing
)

var ringNames = []string{"dateline", "bubble", "none"}

// String returns "dateline", "bubble" or "none".
func (r Ring) String() string { return ringNames[r] }

// ParseRing reads what String writes.
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
	Engine string // name of one of [Engines]; empty: the first
	Order  Order
	Ring   Ring
	OneWay bool                   // between chips opposite each other on an even ring, always go East or South, as textbooks do
	Lines  bool                   // 1D fabric: independent row and column lines, no turns (Spec §3)
	Failed func(wire.PortID) bool // reports cables that are missing, by either end; nil: none
}

// Plan is the routes of a machine. A Plan is read-only and safe for concurrent use.
type Plan struct {
	cfg     Config
	top     *topo.Topology
	grids   []*grid              // by mesh, as in the topology
	inter   []*interMesh         // by plane; nil for a single mesh
	out     map[wire.PortID]bool // ports of cables out of service; nil: none
	other   *Plan                // see [Plan.Other]; the plan itself if it has no opposite routes
	longest int                  // upper bound of the hops of the longest whole route
	leg     int                  // hops of the longest leg, including its exit
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

// Topology is the machine.
func (p *Plan) Topology() *topo.Topology { return p.top }

// Config is the configuration of the plan.
func (p *Plan) Config() Config { return p.cfg }

// Has reports whether n is a chip of the machine.
func (p *Plan) Has(n wire.FabricNodeID) bool { return p.grid(n) != nil }

// Longest returns the most hops that a route may have. Longest is the start value of a packet's TTL
// (Spec §7.2). Within one mesh it is exact.
func (p *Plan) Longest() int { return p.longest }

// LongestLeg returns the most hops within one mesh, including the hop out of it. A packet's header
// needs room for so many actions.
func (p *Plan) LongestLeg() int { return p.leg }

// Hash names the plan: two plans of the same hash have the same routes. Hash is the table epoch
// that packets carry.
func (p *Plan) Hash() uint32 { return p.hash }

// sum is a checksum of everything that determines the routes.
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
	first  int // index of its first chip among the topology's
	legs   legger
	usual  *grid // the grid of the plan of which this plan is [Plan.Other]; nil: not such a plan

	works   []uint8 // directions whose cables work, by plane and chip, a bit for each; nil: no cable has failed
	detours *upDown // detours while cables are out of service; nil: no cable is
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

// node is the address of a chip of the mesh.
func (g *grid) node(chip int) wire.FabricNodeID {
	return wire.FabricNodeID{Mesh: g.mesh.ID, Chip: wire.ChipID(chip)}
}

// beside is the next chip in a direction, by the grid and its wraps. Wrap tells whether the cable
// there wraps.
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

// longest is the most hops of a leg. A control message may have the longest leg, since it uses no
// cable that wraps.
func (g *grid) longest() int {
	if g.detours != nil {
		return max(g.detours.longest, g.plain())
	}
	return g.plain()
}

// plain is the most hops of a leg that is not a detour.
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
// false if there is no route, and if both are the same chip.
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

// detour is a leg in the detour channels.
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

// onward is the leg of a packet from the fault where the packet was caught. A packet that is
// already on a detour stays in the channels of detours, even if a route without a fault exists:
// packets change from plain channels to these, never back.
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
