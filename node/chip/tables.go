package chip

import (
	"slices"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The cables to avoid are the cables out of service, and the silent cables. A chip plans new tables
// each time the control plane (router/control) reports a change of these cables. The chip first
// proves that packets of the old tables and packets of the new tables cannot close a cycle
// together. If only packets of the old tables on detours or to other meshes could close a cycle,
// these packets are outdated. Outdated packets keep their route, and the router parks outdated
// packets. The chip then puts the new tables in force. If the proof fails in any other way, the
// chip refuses the new tables. All chips compute the tables independently, from equal link states.
// Each packet carries the epoch of the tables that routed the packet. Within a mesh, new tables
// keep every route that crosses no fault. A flow whose route changes takes the new route once its
// open requests have ended, because the flow's packets must keep their order. A packet is caught if
// it waits to leave by a port that the tables avoid and whose link is down. The chip reroutes a
// caught packet by the new tables.
//
// A chip is silent if the tables in force have no route to the chip, but tables that also used the
// silent cables would have a route. A silent chip is perhaps only late. Requests to a silent chip
// wait at their source, and caught packets for the chip wait at the port. The wait ends when the
// link comes up, or when the last silent cable on the route goes out of service. Caught requests
// and replies of a silent port stay even if they have a route round the port. By the route round
// the port, the caught packets would overtake the packets that the silent link holds. A chip of
// another mesh is silent for a flow, too, if a silent cable in any mesh breaks the flow's whole
// route. Requests that are under way to the chip wait in its mesh.

// tables are the routing of a chip.
type tables struct {
	base     *route.Plan // plan of the fabric without faults
	*planned             // the tables in force
	ttl      uint16      // TTL of new packets: the hops of the longest route (Spec §7.2), by silent cables too
	spare    int         // hops that the TTL has more than the longest route; see [Behaviour.StrictTTL]
	former   former
	hope     *planned                  // tables that avoid only the cables out of service, and use the silent cables
	onward   map[wire.Channel]*planned // tables like hope that also avoid the cable of a port, see [machine.onwardFrom]; computed when needed
	lostAt   mono.Time                 // when cables last went out of service, or came back into service
	late     bool                      // a silent cable has an end that hope reaches, so that packets may wait at the cable
	entrants entrants

	silent      []wire.FabricNodeID // silent chips, see [machine.Silent]
	unreachable []wire.FabricNodeID // chips without a route, see [machine.Unreachable]
}

// planned is a plan, with what the chip has computed from it.
type planned struct {
	plan   *route.Plan
	epoch  uint32 // hash of plan
	routes routes // routes that the chip found in plan
}

// newPlanned returns a plan without any route that the chip has found in it.
func (c *machine) newPlanned(p *route.Plan) *planned {
	m, _ := c.cfg.Topology.Mesh(c.cfg.Node.Mesh)
	return &planned{p, p.Hash(), newRoutes(m.Rows*m.Cols, c.cfg.Topology.Planes(), p)}
}

// former is what a chip remembers about tables that were in force earlier.
type former struct {
	epochs  []uint32                     // epochs of former tables, the newest last
	plans   []*planned                   // the newest of the former tables, the newest last; only of a machine with several meshes
	strict  bool                         // the last proof found a conflict: packets of all other tables are outdated if they go round a fault or to another mesh
	refused uint64                       // number of times that the chip refused to put tables in force, because the proof failed
	checked map[[2]uint32]route.Conflict // results of proofs, by the hashes of the old and the new tables; a cable that fails again and again needs no further proof
}

// A chip remembers at most maxEpochs epochs of former tables, at most maxPlans of these tables, and
// at most maxChecked results of proofs.
const (
	maxEpochs  = 64
	maxPlans   = 8
	maxChecked = 64
)

// Tables describes tables that the chip put in force or refused.
type Tables struct {
	Epoch       uint32
	Out         []wire.PortID       // ports of the cables that these tables do not use, both ports of each cable
	Silent      []wire.FabricNodeID // silent chips of this mesh, to which requests wait; of another silent mesh, only its first chip; nil if Refused
	Unreachable []wire.FabricNodeID // chips of this mesh without a route from this chip; of another mesh without a route, only its first chip; nil if Refused
	Strict      bool                // packets of the old tables are outdated if they go round a fault or to another mesh, because they could close a cycle with packets of these tables; routers park them instead of letting them wait
	Refused     bool                // the chip did not put these tables in force, because the proof failed
}

// enforce puts a plan in force.
func (c *machine) enforce(p *route.Plan) {
	c.tables.planned = c.newPlanned(p)
}

// setTTL sets the TTL of new packets.
func (t *tables) setTTL() {
	t.ttl = uint16(max(t.plan.Longest(), t.hope.plan.Longest(), 1) + t.spare)
}

// install plans tables for the cables that are in service now. If the planned tables
// differ from the tables in force, install proves the planned tables and puts them in
// force. If the proof fails, install keeps the old tables and adds an event. install also finds
// out which chips are silent.
func (c *machine) install(now mono.Time) {
	t := &c.tables
	p := t.base.Around(c.control.Out())
	before := t.hope.epoch
	if hope := t.base.Around(c.control.Lost()); hope.Hash() != before {
		t.hope, t.lostAt, t.onward = c.newPlanned(hope), now, nil
	}
	if p.Hash() == t.epoch {
		if t.hope.epoch != before {
			c.apply(now)
		}
		return
	}
	conflict := c.replaces(p)
	if conflict == route.Unsound {
		t.former.refused++
		c.events.add(Event{At: now, Tables: &Tables{Epoch: p.Hash(), Out: c.outOf(p), Refused: true}})
		return
	}
	t.former.add(t.planned, p.Hash(), conflict == route.OldDetours)
	c.enforce(p)
	c.apply(now)
}

// apply informs ports, replies and flows of new tables, or of cables that have changed from silent
// to out of service. A link that is out of service discards its packets. Traffic takes other
// routes, so the link must not deliver its old packets later.
func (c *machine) apply(now mono.Time) {
	t := &c.tables
	t.setTTL()
	for i := range c.ports.list {
		q := &c.ports.list[i]
		c.router.SetOut(i, t.plan.Out(q.Local))
		if !q.up && t.hope.plan.Out(q.Local) {
			c.router.SetDead(now, i)
			c.reportUnacked(now, i)
			q.link.Forsake(now)
			c.linkEvents(now, i)
		}
	}
	c.firmware.Rerouted(now)
	c.findSilent()
	t.late = c.waitsSomewhere()
	c.redirectReplies(now)
	c.source.HandleTables(now)
	c.sink.HandleTables()
	c.events.add(Event{At: now, Tables: &Tables{Epoch: t.epoch, Out: c.outOf(t.plan), Silent: t.silent, Unreachable: t.unreachable, Strict: t.former.strict}})
	c.abandon(now)
	c.endLostJobs(now)
}

// add remembers the tables in force, before the tables of epoch "next" replace them.
func (f *former) add(last *planned, next uint32, strict bool) {
	f.epochs = slices.DeleteFunc(append(f.epochs, last.epoch), func(e uint32) bool { return e == next })
	if len(f.epochs) > maxEpochs {
		f.epochs = slices.Delete(f.epochs, 0, 1)
	}
	if len(last.plan.Topology().Meshes) > 1 {
		f.plans = slices.DeleteFunc(append(f.plans, last), func(p *planned) bool { return p.epoch == next })
		if len(f.plans) > maxPlans {
			f.plans = slices.Delete(f.plans, 0, 1)
		}
	}
	f.strict = strict
}

// find returns the former tables of an epoch, or nil if the chip does not remember them.
func (f *former) find(epoch uint32) *planned {
	for _, p := range f.plans {
		if p.epoch == epoch {
			return p
		}
	}
	return nil
}

// replaces proves whether the tables of plan p can safely replace the tables in force. If
// the chip remembers the result of an earlier proof, replaces returns the remembered
// result.
func (c *machine) replaces(p *route.Plan) route.Conflict {
	f, k := &c.tables.former, [2]uint32{c.tables.epoch, p.Hash()}
	found, ok := f.checked[k]
	if !ok {
		found = p.Replaces(c.tables.plan)
		if f.checked == nil || len(f.checked) == maxChecked {
			f.checked = map[[2]uint32]route.Conflict{}
		}
		f.checked[k] = found
	}
	return found
}

// ShareProofs makes the chip keep the results of its proofs in m, and use the results that m has. The
// result of a proof depends on the two tables alone. So chips of one fabric may share m, if one
// goroutine runs them. A call must come before the first Tick.
func (c *machine) ShareProofs(m map[[2]uint32]route.Conflict) { c.tables.former.checked = m }

// outdated reports whether a packet may close a cycle with packets of the tables in force. A packet
// is not outdated if the tables in force routed it, or if its route stays in one mesh without a
// detour. Any other packet is outdated if the last proof found a conflict, or if several tables
// routed the packet. A proof covers two tables: the tables in force and the previous tables.
// Therefore a packet of still older tables is outdated, and a packet of the previous tables is not.
// If the previous tables are those without faults, which have no detours, packets of unknown tables
// are not outdated either.
func (c *machine) outdated(v wire.PacketView) bool {
	e := v.Epoch()
	if e == c.tables.epoch || !v.Detour() && v.Src().Mesh == v.Dst().Mesh {
		return false
	}
	f := &c.tables.former
	if f.strict || e == wire.EpochMixed {
		return true
	}
	k, last := slices.Index(f.epochs, e), len(f.epochs)-1
	if k < 0 && (last < 0 || last == 0 && f.epochs[0] == c.tables.base.Hash()) {
		return false // the packet's tables are new, and this chip lets no packets of other tables with detours wait
	}
	return k != last
}

// outOf lists the ports of cables that a plan does not use, in the order of the
// topology's cables.
func (c *machine) outOf(p *route.Plan) (out []wire.PortID) {
	for _, k := range c.cfg.Topology.Cables {
		if p.Out(k.A) {
			out = append(out, k.A, k.B)
		}
	}
	return out
}

// reaches reports whether the tables in force have a route to another chip on any plane.
func (c *machine) reaches(n wire.FabricNodeID) bool {
	for pl := range max(c.cfg.Topology.Planes(), 1) {
		if c.whole(c.tables.planned, flow.Key{Node: n, Plane: wire.Plane(pl)}).OK {
			return true
		}
	}
	return false
}

// way returns the route of an answer, and the epoch for the answer's header. If the tables in force
// have no route, but a route by silent cables leads to the other chip, the answer takes that route,
// and waits at the silent port.
func (c *machine) way(to flow.Key, class wire.Class) (*flow.Route, uint32) {
	if w := c.route(to, class); w.OK {
		return w, c.tables.epoch
	}
	return c.routeBy(c.tables.hope, to, class), wire.EpochMixed
}

// findSilent finds the chips that this chip cannot reach on any plane, of another
// mesh only the first chip. A chip is silent if this chip would reach it by silent cables, and
// unreachable otherwise.
func (c *machine) findSilent() {
	t := &c.tables
	t.silent, t.unreachable = nil, nil
	for _, x := range c.cfg.Topology.Chips {
		if x.Node == c.cfg.Node || x.Node.Mesh != c.cfg.Node.Mesh && x.Node.Chip != 0 {
			continue
		}
		found, silent := false, false
		for pl := range max(c.cfg.Topology.Planes(), 1) {
			k := flow.Key{Node: x.Node, Plane: wire.Plane(pl)}
			found = found || c.route(k, wire.ClassRequest).OK
			silent = silent || !found && c.routeBy(t.hope, k, wire.ClassRequest).OK
		}
		switch {
		case found:
		case silent:
			t.silent = append(t.silent, x.Node)
		default:
			t.unreachable = append(t.unreachable, x.Node)
		}
	}
}

// waitsSomewhere reports whether packets may wait at a silent cable. Packets may wait if tables
// that use silent cables have a route from this chip to an end of the cable. If two chips die
// together, the cable between the two chips stays silent, because no chip reports the cable as out
// of service. No packet waits at such a cable.
func (c *machine) waitsSomewhere() bool {
	t := &c.tables
	for _, k := range c.cfg.Topology.Cables {
		if !t.plan.Out(k.A) || t.hope.plan.Out(k.A) {
			continue
		}
		for _, end := range []wire.PortID{k.A, k.B} {
			for pl := range max(c.cfg.Topology.Planes(), 1) {
				if end.Node == c.cfg.Node || c.whole(t.hope, flow.Key{Node: end.Node, Plane: wire.Plane(pl)}).OK {
					return true
				}
			}
		}
	}
	return false
}

// redirect reroutes the packets that are caught at ports that the tables avoid. A packet for a
// silent chip stays. redirect drops a caught packet if the packet's destination is unreachable, or
// if its header has no room for the route. redirect also drops an outdated packet if the packet's
// new route has no room. Copies of multicasts and packets for other meshes stay, and the router
// drops them when the port has been dead for the grace period.
func (c *machine) redirect() bool {
	moved := false
	c.router.Caught(func(k router.Caught) router.Verdict {
		v := wire.PacketView(c.pool.Bytes(k.Slot))
		if v.Trunk() != wire.TrunkNone || v.Dst().Mesh != c.cfg.Node.Mesh {
			return router.Stays
		}
		dead := c.tables.hope.plan.Out(c.ports.list[k.Port].Local)
		if !dead && v.VC().Class() != wire.ClassControl {
			return router.Stays
		}
		w := c.onward(v)
		switch {
		case w.OK && !c.router.CanRedirect(k, w.Port, w.VC):
			if !c.outdated(v) {
				return router.Waits // the port may come back before the new route has room
			}
			c.router.DropCaught(k, wire.DropTables)
			moved = true
			return router.Leaves
		case !w.OK && c.routeBy(c.tables.hope, destination(v), v.VC().Class()).OK:
			return router.Stays
		}
		moved = true
		if !w.OK || !v.Reroute(w.Actions, w.Up, w.Detour) {
			c.router.DropCaught(k, wire.DropUnreachable)
			return router.Leaves
		}
		v.SetEpoch(c.tables.epoch)
		if v.SetVC(w.VC); c.cfg.TTL == 0 {
			v.Extend(c.tables.ttl)
		}
		c.router.Redirect(k, w.Port, w.VC)
		return router.Leaves
	})
	return moved
}

// HandleLinkStates takes the link states of other chips' ports from gossip.
func (c *machine) HandleLinkStates(now mono.Time, words []wire.LinkState) {
	c.control.Hear(now, words, c.tables.plan.Has)
}

// hear hands the link states that a neighbour sent to the control plane.
func (c *machine) hear(now mono.Time, p *wire.Packet) {
	words, err := wire.DecodeLinkStates(p.Payload, nil)
	if err != nil {
		c.counters.Dropped[wire.DropMalformed]++
		return
	}
	c.control.Hear(now, words, c.tables.plan.Has)
}

// LinkState returns the link state that this chip sends about its own ports.
func (c *machine) LinkState() wire.LinkState { return c.control.Self() }

// Silent lists the silent chips of this mesh. The tables in force have no route to these chips
// from this chip, but silent cables lead there. Requests to silent chips wait. If another mesh is
// silent, Silent lists only the first chip of that mesh.
func (c *machine) Silent() []wire.FabricNodeID { return c.tables.silent }

// Unreachable lists the chips of this mesh to which the tables in force have no route
// from this chip, without the silent chips. If no route leads to another mesh, Unreachable lists
// only the first chip of that mesh.
func (c *machine) Unreachable() []wire.FabricNodeID { return c.tables.unreachable }

// Intact reports whether the tables in force are the tables of the fabric without
// faults.
func (c *machine) Intact() bool { return c.tables.epoch == c.tables.base.Hash() }

// Plan returns the routing plan in force.
func (c *machine) Plan() *route.Plan { return c.tables.plan }
