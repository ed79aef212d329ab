package picture

import (
	"ttfabric/router/route"
	"ttfabric/wire"
)

// Route is the route of packets from one chip to another, by the present tables.
type Route struct {
	Src   string `json:"src"`
	Dst   string `json:"dst"`
	Plane int    `json:"plane"`
	All   bool   `json:"all,omitempty"` // the hops are the tree of a multicast, see [Machine.Tree]
	Hops  []Hop  `json:"hops"`
	None  string `json:"none,omitempty"` // why there is no route; then there are no hops
}

// Hop is one hop of a route.
type Hop struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Dir    string `json:"direction"`
	VC     string `json:"vc"`
	Cable  int    `json:"cable"`
	FromA  bool   `json:"from_a"`           // the hop leads from end a of the cable to end b
	Detour bool   `json:"detour,omitempty"` // the virtual channel is one for detours
	Member bool   `json:"member,omitempty"` // the chip To gets the multicast
}

// Route returns the route of requests from src to dst on a plane of plan.
func (m *Machine) Route(plan *route.Plan, src, dst wire.FabricNodeID, plane wire.Plane) Route {
	r := Route{Src: src.String(), Dst: dst.String(), Plane: int(plane), Hops: []Hop{}}
	if src == dst {
		r.None = "source and destination are the same chip"
		return r
	}
	walk, ok := plan.Walk(wire.ClassRequest, plane, src, dst)
	if !ok {
		r.None = "the tables have no route between these chips on this plane"
		return r
	}
	for _, h := range walk {
		r.Hops = append(r.Hops, m.hop(plan, &h, plane))
	}
	return r
}

// hop describes one hop of a route in plan.
func (m *Machine) hop(plan *route.Plan, h *route.Hop, plane wire.Plane) Hop {
	hop := Hop{From: h.At.String(), To: h.To.String(), Dir: h.Dir.String(), VC: h.VC.String(), Cable: -1, Detour: h.VC.Detour()}
	if q, ok := plan.Port(h.At, h.Dir, plane); ok {
		hop.Cable = m.Cable(q)
		hop.FromA = hop.Cable >= 0 && m.topo.Cables[hop.Cable].A == q
	}
	return hop
}

// Tree returns the tree of a multicast from src to all chips of a rectangle, on a plane of plan. Two opposite
// corners of the rectangle are the chips src and dst. The chip src does not get the multicast. If dst is in
// another mesh, the members are all chips of that mesh.
func (m *Machine) Tree(plan *route.Plan, src, dst wire.FabricNodeID, plane wire.Plane) Route {
	r := Route{Src: src.String(), Dst: dst.String(), Plane: int(plane), All: true, Hops: []Hop{}}
	a, _ := m.topo.Chip(src)
	b, _ := m.topo.Chip(dst)
	var members wire.Members
	for _, c := range m.topo.Chips {
		inside := c.Row >= min(a.Row, b.Row) && c.Row <= max(a.Row, b.Row) && c.Col >= min(a.Col, b.Col) && c.Col <= max(a.Col, b.Col)
		if c.Node.Mesh == dst.Mesh && c.Node != src && (inside || src.Mesh != dst.Mesh) {
			members.Add(c.Node.Chip)
		}
	}
	if src == dst {
		r.None = "source and destination are the same chip"
		return r
	}
	tree, err := plan.Tree(plane, src, dst.Mesh, members)
	if err != nil {
		r.None = err.Error()
		return r
	}
	for i := range tree {
		h := m.hop(plan, &tree[i].Hop, plane)
		h.Member = tree[i].Member
		r.Hops = append(r.Hops, h)
	}
	return r
}

// OutOfService returns one end of each cable that at least one chip reports as out of service, in
// the latest answers.
func (p *Picture) OutOfService() (out []wire.PortID) {
	for i := range p.m.topo.Cables {
		c := &p.m.topo.Cables[i]
		for _, port := range []wire.PortID{c.A, c.B} {
			if l := p.links[port]; l != nil && l.Out {
				out = append(out, c.A)
				break
			}
		}
	}
	return out
}
