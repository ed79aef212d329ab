package chip

import (
	"errors"
	"slices"

	"ttfabric/node/flow"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// HandleRequest starts a request.
func (c *machine) HandleRequest(now mono.Time, r flow.Request) flow.Admission {
	c.host.now = now
	c.router.SetTime(now)
	return c.start(now, &r, flow.Outside)
}

// PollResult returns the result of an ended request, oldest first.
func (c *machine) PollResult() (flow.Result, bool) { return c.source.PollResult() }

// HandleLives takes news of the present lives of some chips, as gossip knows them.
func (c *machine) HandleLives(now mono.Time, news []flow.Life) { c.source.HandleLives(now, news) }

// start hands a request to the flow source, or carries out a request of the chip to
// itself. The parameter "by" says who made the request.
func (c *machine) start(now mono.Time, r *flow.Request, by flow.Owner) flow.Admission {
	many := r.Many()
	if !many && !c.tables.plan.Has(r.Dst) {
		return flow.NoSuchChip
	}
	if a := c.source.Admits(r); a != flow.Accepted {
		return a
	}
	if !r.Probe && r.Command.CheckRect() != nil { // no packet can carry the address
		c.source.Finish(now, r, by, flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeBadAddress})
		return flow.Accepted
	}
	switch {
	case many:
	case r.Dst == c.cfg.Node && len(r.Via) == 0:
		return c.here(now, r, by)
	case len(r.Via) > 0 && !c.leads(r):
		return flow.BadVia
	}
	return c.source.HandleRequest(now, r, by)
}

// leads reports whether the hops of a request exist, stay in this mesh and end at the
// request's destination. leads returns false for more than wire.MaxHops hops, and for a
// request with Other. leads also returns false if a hop leads straight back to the
// previous chip, because in a route a hop back means "deliver here".
func (c *machine) leads(r *flow.Request) bool {
	at := c.cfg.Node
	if r.Other {
		return false
	}
	for i, d := range r.Via {
		if i > 0 && d == r.Via[i-1].Opposite() {
			return false
		}
		var ok bool
		if at, ok = c.cfg.Topology.Neighbour(at, d, r.Plane); !ok || at.Mesh != c.cfg.Node.Mesh {
			return false
		}
	}
	return len(r.Via) <= wire.MaxHops && at == r.Dst
}

// CheckMulticast returns an error if the chip cannot send a request as a multicast to the
// request's ranges or members.
func (c *machine) CheckMulticast(r *flow.Request) error {
	switch {
	case r.Command.Type == wire.NocRead && !r.Probe:
		return errors.New("a read cannot be multicast")
	case len(r.Via) > 0:
		return errors.New("a multicast cannot take hops: its ranges or members name its route")
	case r.Other:
		return errors.New("a multicast cannot take the other direction round a ring: its ranges or members name its directions")
	case r.Ranges.Any() && r.Members.Any():
		return errors.New("a multicast goes to ranges or to members, not to both")
	}
	_, err := c.branches(r.Tree())
	return err
}

// branches returns the hops of a multicast's tree, by the tables of the fabric without faults.
func (c *machine) branches(t flow.Tree) ([]route.Branch, error) {
	if t.Members.Any() {
		return c.tables.base.Sparse(t.Plane, c.cfg.Node, t.Mesh, t.Members)
	}
	return c.tables.base.Multicast(t.Plane, c.cfg.Node, t.Ranges)
}

// network implements [flow.Network] for the chip's flow source.
type network machine

// Route returns the route of a flow's requests: by the hops of via, or by the tables in
// force if via is empty.
func (n *network) Route(to flow.Key, via []wire.Direction) *flow.Route {
	c := (*machine)(n)
	if len(via) == 0 {
		return c.whole(c.tables.planned, to)
	}
	port, ok := c.router.Port(via[0], to.Plane)
	w := &flow.Route{OK: ok, Port: port, First: via[0], TTL: uint16(len(via) + c.tables.spare), Actions: wire.AppendRoute(nil, via)}
	if ok {
		w.VC = c.router.First(port, wire.ClassRequest, false, false)
	}
	return w
}

// Reachable reports whether the tables of the fabric without faults have a route to a
// flow's destination.
func (n *network) Reachable(to flow.Key) bool {
	_, ok := n.tables.base.Route(nil, wire.ClassRequest, to.Plane, n.cfg.Node, to.Node)
	return ok
}

// Late reports whether a flow's destination would have a route if the silent cables worked.
func (n *network) Late(to flow.Key) bool {
	c := (*machine)(n)
	return c.tables.hope.epoch != c.tables.epoch && c.whole(c.tables.hope, to).OK
}

// Crosses reports whether a flow's packets may wait at a silent cable, and whether the flow's route
// crosses a cable that is out of service.
func (n *network) Crosses(to flow.Key, r *flow.Route) (silent, dead bool) {
	crosses := func(p *route.Plan) bool {
		return p.Crosses(n.cfg.Node, to.Plane, r.First, r.Actions) || slices.ContainsFunc(r.Beyond, p.Out)
	}
	dead = crosses(n.tables.hope.plan)
	return !dead && (crosses(n.tables.plan) || n.silentBeyond(r)), dead
}

// silentBeyond reports whether a cable of another mesh on a route is silent, even if the route does
// not cross this cable. An entry node that was late may have sent packets of the route to that
// cable, before it knew that the cable is silent.
func (n *network) silentBeyond(r *flow.Route) bool {
	return len(r.Beyond) > 0 && slices.ContainsFunc(n.cfg.Topology.Cables, func(k topo.Cable) bool {
		return n.tables.plan.Out(k.A) && !n.tables.hope.plan.Out(k.A) &&
			slices.ContainsFunc(r.Beyond, func(q wire.PortID) bool { return q.Node.Mesh == k.A.Node.Mesh || q.Node.Mesh == k.B.Node.Mesh })
	})
}

// Answers reports whether packets may wait at any silent cable. If the fault-free route of the
// flow's replies crosses a cable that is out of service now, Answers also returns the instant at
// which the set of cables out of service last changed.
func (n *network) Answers(to flow.Key) (silent bool, dead mono.Time) {
	t := &n.tables
	if t.hope.epoch == t.base.Hash() {
		return t.late, 0
	}
	p := t.base
	if to.Other {
		p = p.Other()
	}
	hops, _ := p.Walk(wire.ClassReply, to.Plane, to.Node, n.cfg.Node)
	for _, h := range hops {
		if q, _ := p.Port(h.At, h.Dir, to.Plane); t.hope.plan.Out(q) {
			return t.late, t.lostAt
		}
	}
	return t.late, 0
}

// Tree returns the members of a multicast and the route of the multicast's packets.
// Faults do not change multicast trees. A router drops a copy that meets a fault. From
// the router's drop report, the source learns or computes the members behind the fault.
// The packets of a multicast to another mesh follow the tables in force, like a unicast, as
// far as that mesh.
func (n *network) Tree(t flow.Tree) ([]wire.FabricNodeID, *flow.Route, bool) {
	c := (*machine)(n)
	tree, err := c.branches(t)
	if err != nil {
		return nil, nil, false
	}
	var members []wire.FabricNodeID
	if t.Members.Any() { // the tree's root in another mesh may be a member, too
		for m := range t.Members.All() {
			members = append(members, wire.FabricNodeID{Mesh: t.Mesh, Chip: m})
		}
	} else {
		for _, b := range tree {
			if b.Member {
				members = append(members, b.To)
			}
		}
	}
	if t.Members.Any() && t.Mesh != n.cfg.Node.Mesh {
		w := *c.toMesh(members, t.Plane)
		w.Beyond = slices.DeleteFunc(slices.Clone(w.Beyond), func(q wire.PortID) bool { return q.Node.Mesh == t.Mesh }) // in the members' mesh, the route is the tree
		for _, b := range c.tables.plan.Branches(t.Plane, n.cfg.Node, t.Mesh, t.Members) {
			q, _ := c.tables.plan.Port(b.From, b.Dir, t.Plane)
			w.Beyond = append(w.Beyond, q)
		}
		return members, &w, true
	}
	return members, &flow.Route{OK: true, Port: noPort, VC: wire.VCFor(wire.ClassRequest, false, false), Plane: t.Plane, TTL: depth(tree)}, true
}

// toMesh returns the whole route to the first member that has a route. All members are chips of one
// other mesh. As far as that mesh, the routes to all members lead through the same chips. If no
// member has a route, OK of the result is false.
func (c *machine) toMesh(members []wire.FabricNodeID, plane wire.Plane) (w *flow.Route) {
	for _, m := range members {
		if w = c.whole(c.tables.planned, flow.Key{Node: m, Plane: plane}); w.OK {
			break
		}
	}
	return w
}

// depth returns the number of hops from the root of a multicast's tree to its farthest chip.
func depth(tree []route.Branch) (most uint16) {
	at := map[wire.FabricNodeID]uint16{}
	for _, b := range tree {
		at[b.To] = at[b.From] + 1
		most = max(most, at[b.To])
	}
	return most
}

// noPort stands for the port in the route of a multicast. The copies of a multicast leave
// by several ports.
const noPort = -1

// Room returns false if Launch has no room for a request on a route. If Room returns true,
// Launch may still find no room.
func (n *network) Room(w *flow.Route) bool {
	if w.Port == noPort {
		return n.router.CanMulticast(w.Plane)
	}
	return n.router.CanInject(w.Port, w.VC)
}

// Launch gives a request its route and sends the request. Launch returns false while
// there is no room.
func (n *network) Launch(now mono.Time, w *flow.Route, p wire.Packet) bool {
	c := (*machine)(n)
	p.Epoch = c.tables.epoch
	if w.Port == noPort {
		p.VC, p.TTL, p.Trunk = w.VC, w.TTL, c.tables.plan.Trunk()
		return c.injectTree(&p)
	}
	ttl := max(c.tables.ttl, w.TTL)
	if p.Members.Any() {
		ttl = max(ttl, uint16(c.tables.base.Longest()+c.tables.spare)) // faults do not change the tree in the members' mesh
	}
	address(w, &p, ttl)
	if c.cfg.TTL > 0 {
		p.TTL = c.cfg.TTL - 1
	}
	return c.launch(now, w.Port, &p)
}
