package chip

import (
	"errors"

	"ttfabric/node/flow"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// HandleRequest starts a request.
func (c *machine) HandleRequest(now mono.Time, r flow.Request) flow.Admission {
	return c.start(now, &r, false)
}

// PollResult returns the result of an ended request, oldest first.
func (c *machine) PollResult() (flow.Result, bool) { return c.source.PollResult() }

// start hands a request to the flow source, or carries out a request of the chip to
// itself. The parameter "inside" is true if the request comes from the program inside
// the chip.
func (c *machine) start(now mono.Time, r *flow.Request, inside bool) flow.Admission {
	many := r.Ranges.Any()
	if !many && !c.tables.plan.Has(r.Dst) {
		return flow.NoSuchChip
	}
	if a := c.source.Admits(r); a != flow.Accepted {
		return a
	}
	switch {
	case many:
	case r.Dst == c.cfg.Node && len(r.Via) == 0:
		c.performHere(now, *r, inside)
		return flow.Accepted
	case len(r.Via) > 0 && !c.leads(r):
		return flow.BadVia
	}
	return c.source.HandleRequest(now, r, inside)
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
// request's ranges.
func (c *machine) CheckMulticast(r *flow.Request) error {
	switch {
	case r.Command.Type == wire.NocRead && !r.Probe:
		return errors.New("a read cannot be multicast")
	case len(r.Via) > 0:
		return errors.New("a multicast cannot take hops: its ranges name its route")
	case r.Other:
		return errors.New("a multicast cannot take the other direction round a ring: its ranges name its directions")
	}
	_, err := c.tables.base.Multicast(r.Plane, c.cfg.Node, r.Ranges)
	return err
}

// network implements [flow.Network] for the chip's flow source.
type network machine

// Route returns the route of a flow's requests: by the hops of via, or by the tables in
// force if via is empty.
func (n *network) Route(to flow.Key, via []wire.Direction) *flow.Route {
	c := (*machine)(n)
	if len(via) == 0 {
		return c.route(to, wire.ClassRequest)
	}
	port, ok := c.router.Port(via[0], to.Plane)
	w := &flow.Route{OK: ok, Port: port, First: via[0], TTL: uint16(len(via)), Actions: wire.AppendRoute(nil, via)}
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

// Tree returns the members of a multicast and the route of the multicast's packets.
// Faults do not change multicast trees. A router drops a copy that meets a fault. From
// the router's drop report, the source computes the members behind the fault.
func (n *network) Tree(plane wire.Plane, ranges wire.Ranges) ([]wire.FabricNodeID, *flow.Route, bool) {
	tree, err := n.tables.base.Multicast(plane, n.cfg.Node, ranges)
	if err != nil {
		return nil, nil, false
	}
	var members []wire.FabricNodeID
	for _, b := range tree {
		if b.Member {
			members = append(members, b.To)
		}
	}
	h := &ranges.Hops
	return members, &flow.Route{OK: true, Port: noPort, VC: wire.VCFor(wire.ClassRequest, false, false), Plane: plane,
		TTL: uint16(max(h[wire.East], h[wire.West])) + uint16(max(h[wire.North], h[wire.South]))}, true
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
	address(w, &p, max(c.tables.ttl, w.TTL))
	if c.cfg.TTL > 0 {
		p.TTL = c.cfg.TTL - 1
	}
	return c.launch(now, w.Port, &p)
}
