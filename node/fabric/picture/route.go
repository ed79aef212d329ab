package picture

import (
	"ttfabric/router/route"
	"ttfabric/wire"
)

// Route is the way of packets from one chip to another, by the present tables.
type Route struct {
	Src   string `json:"src"`
	Dst   string `json:"dst"`
	Plane int    `json:"plane"`
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
}

// Route returns the way of requests from src to dst on a plane of plan.
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
		hop := Hop{From: h.At.String(), To: h.To.String(), Dir: h.Dir.String(), VC: h.VC.String(), Cable: -1, Detour: h.VC.Detour()}
		if q, ok := plan.Port(h.At, h.Dir, plane); ok {
			hop.Cable = m.Cable(q)
			hop.FromA = hop.Cable >= 0 && m.topo.Cables[hop.Cable].A == q
		}
		r.Hops = append(r.Hops, hop)
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
