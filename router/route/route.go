// Package route turns a machine's cabling into routes, and proves of them that
// no traffic can deadlock.
//
// A [Plan] is what all chips of a fabric agree on: the engine that routes
// within a mesh (L0, Spec §2.2.1.1), the choice of exit nodes between meshes
// (L1, §2.2.1.2), and which virtual channel a packet takes at each hop. It
// keeps no table of all pairs: a leg of a dimension-ordered route is
// arithmetic, and a mesh-level choice is one entry per pair of meshes.
// [Plan.Check] builds the channel dependency graph of everything that the plan
// allows (Dally and Seitz) and reports it acyclic, or a cycle, and follows every
// way to its end. [Plan.CheckScheme] does the same packet by packet, with the
// plan's virtual channels or others.
//
// # Between meshes
//
// The meshes form a graph; its root is the mesh with the lowest id, and a
// mesh's rank is its place in a breadth-first walk from there, neighbours by
// id. A crossing to a lower rank leads up, one to a higher rank down. A packet
// goes up as often as it must and then only down, so that a mesh needs to know
// nothing of where it came from: if down crossings alone lead to the
// destination it takes the fewest of them, otherwise it goes up, to where the
// fewest crossings remain; the lower mesh id decides between equals. In the
// mesh, it goes to the exit node that is fewest hops away; the lower chip id,
// then the order East, West, North, South, decides between equals.
//
// # Virtual channels
//
// A packet with an up crossing before it travels in channels of its own, see
// [wire.VCFor]. On an axis that wraps, by the scheme [Dateline], the hop over
// the wrap cable and those behind it are in the dateline channel, until the
// packet turns, leaves the mesh, or arrives; keeping the channel over the turn
// is a cycle on every torus from 4×4 up. By the scheme [Bubble] there is one
// channel, and a packet enters a ring, from its chip or by a turn, only where
// two slots are free. Control messages use no cable that wraps, except on up*/down* routes.
//
// # Around faults
//
// [Plan.Around] is the plan while cables are out of service. What doesn't cross
// one of them keeps its way. What does takes a detour: within the mesh, an
// up*/down* route over whatever is left, in virtual channels of its own. A
// packet may go over from the others to these, where it is caught at a fault,
// and never back, so that dimension order, a detour, and the two together
// close no cycle whatever is missing, and the tables can be replaced while
// packets are under way. Two sets of detours, before and after another fault,
// may close one between them: [Plan.Replaces] finds out.
//
// # Ties
//
// Chips opposite each other on a ring of even length are as far both ways round.
// A plan has one way for them, and [Plan.Other] the other one, by which a packet
// goes that asks for it; a source that lets its packets ask in turn splits its
// load. Each way round is for a flow of its own. What is proved, is proved of both together.
//
// # Multicasts
//
// A multicast's tree has its trunk along the dimension that requests use first,
// and its branches along the other, so that each of its ways turns as a unicast
// does; see [Plan.Multicast]. [Plan.Check] proves both together.
package route

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Order is the order in which a route uses the two dimensions.
type Order uint8

// The orders. XY is the specification's (§2.2.1.1.1: "Packets go X dimension
// first then Y"), YX is tt-metal's. NoOrder is neither: a route takes first
// whichever dimension makes its turn one to the right, so that four of them
// close the circle of §6.1; it is for showing what happens then.
const (
	XY Order = iota
	YX
	NoOrder
)

var orderNames = []string{"xy", "yx", "none"}

// String returns "xy", "yx" or "none".
func (o Order) String() string { return orderNames[o] }

// Reverse is the order of what goes back. On a mesh, a route of YX from b to a
// passes the same chips as one of XY from a to b. Answers to what has no order go Y first.
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

// Ring is how cycles on axes that wrap are kept from closing.
type Ring uint8

// The schemes. Dateline is the specification's (§2.3.1); tt-metal replaced it
// by bubble flow control in November 2025. NoRing breaks no cycle: it is for
// showing what happens then.
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

// Config says how a machine is routed.
type Config struct {
	Engine string // name of one of [Engines]; empty: the first
	Order  Order
	Ring   Ring
	OneWay bool                   // between chips opposite each other on an even ring always East or South, as textbooks have it
	Lines  bool                   // 1D fabric: independent row and column lines, no turns (Spec §3)
	Failed func(wire.PortID) bool // cables that are not there, by either end; nil: none
}

// Plan is how a machine is routed. It is read-only and safe for concurrent use.
type Plan struct {
	cfg     Config
	top     *topo.Topology
	grids   []*grid              // by mesh, as in the topology
	inter   []*interMesh         // by plane; nil for a single mesh
	out     map[wire.PortID]bool // ports of cables out of service; nil: none
	other   *Plan                // see [Plan.Other]; itself where it has no other ways
	longest int                  // hops of the longest whole route, at most
	leg     int                  // hops of the longest leg, its exit included
	hash    uint32
}

// Engine routes within one mesh.
type Engine struct {
	Name string
	Help string
	make func(g *grid) (legger, error)
}

// legger finds the hops between two chips of a mesh; false where there is no way.
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

// finish plans between the meshes, once it is known how to route within them.
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

// Config is how it is routed.
func (p *Plan) Config() Config { return p.cfg }

// Has reports whether n is a chip of the machine.
func (p *Plan) Has(n wire.FabricNodeID) bool { return p.grid(n) != nil }

// Longest returns the most hops that a route may have; it is the start value
// of a packet's TTL (Spec §7.2). Within one mesh it is exact.
func (p *Plan) Longest() int { return p.longest }

// LongestLeg returns the most hops within one mesh, the one out of it
// included: so many actions must find room in a packet's header.
func (p *Plan) LongestLeg() int { return p.leg }

// Hash names the plan: two of the same hash route alike. It is the epoch that packets carry.
func (p *Plan) Hash() uint32 { return p.hash }

// sum is a checksum of what determines the routes.
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
	usual  *grid // of the plan that this one is [Plan.Other] of; nil: of none

	works   []uint8 // directions whose cables work, by plane and chip, a bit for each; nil: not needed, as none has failed
	detours *upDown // while cables are out of service; nil: none are
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

// beside is the chip in a direction, by the grid and its wraps; wrap tells whether the cable there wraps.
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

// longest is the most hops of a leg: of a control message, which uses no cable that wraps.
func (g *grid) longest() int {
	if g.detours != nil {
		return max(g.detours.longest, g.plain())
	}
	return g.plain()
}

// plain is the most hops of a leg that is no detour.
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

// Ring reports whether a port's cable is part of an axis that wraps, and whether it crosses its dateline.
func (p *Plan) Ring(q topo.Port) (ring, wrap bool) {
	g := p.grid(q.Local.Node)
	if g == nil || q.Peer.Node.Mesh != q.Local.Node.Mesh {
		return false, false
	}
	_, wrap, _ = g.beside(int(q.Local.Node.Chip), q.Dir)
	return g.wraps(q.Dir), wrap
}

// Leg appends the hops of a class's packets from one chip to another of the
// same mesh. It reports false where there is no way, and where both are one chip.
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
		return buf, false // it turns, and lines have no turns
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

// onward is the leg of a packet that is caught at a fault, from there on. One
// that is on a detour already stays in its channels, even where there is a
// route without a fault: packets go over from plain channels to these, never back.
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
