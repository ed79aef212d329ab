package route

import "ttfabric/wire"

// TreeHop is one hop of a multicast's tree, with its virtual channel.
type TreeHop struct {
	Hop
	Member bool // the chip To is a member of the multicast
}

// Tree lists the hops of a multicast of class [wire.ClassRequest] from chip src to a set of members of a
// mesh. The first hops lead from src to the mesh, if src is in another mesh. [Plan.Sparse] lists the other
// hops. The error says why the plan cannot reach all members.
func (p *Plan) Tree(pl wire.Plane, src wire.FabricNodeID, mesh wire.MeshID, m wire.Members) (hops []TreeHop, err error) {
	branches, err := p.Sparse(pl, src, mesh, m)
	if err != nil {
		return nil, err
	}
	if src.Mesh != mesh {
		way, _ := p.Walk(wire.ClassRequest, pl, src, wire.FabricNodeID{Mesh: mesh})
		for _, h := range way {
			hops = append(hops, TreeHop{Hop: h, Member: h.To.Mesh == mesh && m.Has(h.To.Chip)})
			if h.To.Mesh == mesh {
				break
			}
		}
	}
	steps := map[wire.FabricNodeID]Steps{} // the state of the copy that came to a chip
	for _, b := range branches {
		s := steps[b.From]
		h, ok := p.step(&s, wire.ClassRequest, false, pl, b.From, b.Dir)
		if !ok {
			continue // Sparse has found a cable for this hop, so step finds the cable too
		}
		steps[b.To] = s
		hops = append(hops, TreeHop{Hop: h, Member: b.Member})
	}
	return hops, nil
}
