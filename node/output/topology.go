package output

import (
	"cmp"
	"fmt"

	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Topology is a topology in the form that `validate -o json` prints.
type Topology struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Arch   string `json:"arch"`
	Hash   string `json:"hash"`
	Chips  int    `json:"chips"`
	Cables int    `json:"cables"`
	Planes int    `json:"planes"`
	Layout string `json:"layout,omitempty"`
	// Transport and Auth are the values of a fabric that 'up' starts without --transport and --auth.
	Transport string `json:"transport"`
	Auth      string `json:"auth"`

	Routes Verdict  `json:"routes"`
	Meshes []Mesh   `json:"meshes"`
	Unused []Unused `json:"unused"`
}

// Verdict is the result of the check of a topology's routes.
type Verdict struct {
	Engine       string   `json:"engine"`
	Verdict      string   `json:"verdict"`
	Channels     int      `json:"channels"`
	Dependencies int      `json:"dependencies"`
	Cycle        []string `json:"cycle"`
	Longest      int      `json:"longest_way_hops"`
	Unreachable  int      `json:"pairs_without_a_way"`
	Thin         int      `json:"pairs_of_meshes_on_fewer_planes"`
	Astray       int      `json:"ways_that_lead_astray"`
	Long         int      `json:"ways_beyond_the_bound"`
}

func VerdictOf(cfg route.Config, s route.Scheme, v *route.Verdict) Verdict {
	w := Verdict{Thin: v.Thin, Astray: v.Astray, Long: v.Long, Engine: fmt.Sprintf("%s, %s, %s", cmp.Or(cfg.Engine, route.Engines[0].Name), cfg.Order, cfg.Ring), Verdict: v.String(), Channels: v.Channels,
		Dependencies: v.Dependencies, Cycle: []string{}, Longest: v.Longest, Unreachable: v.Unreachable}
	if s.Name != route.Schemes[0].Name {
		w.Engine += ", channels " + s.Name
	}
	for _, c := range v.Cycle {
		w.Cycle = append(w.Cycle, c.String())
	}
	return w
}

type Mesh struct {
	Mesh   wire.MeshID `json:"mesh"`
	Rows   int         `json:"rows"`
	Cols   int         `json:"cols"`
	WrapX  bool        `json:"wrap_x"`
	WrapY  bool        `json:"wrap_y"`
	Planes int         `json:"planes"`
	Cables int         `json:"cables"`
	Peers  []Peer      `json:"peers"`
}

type Peer struct {
	Mesh  wire.MeshID `json:"mesh"`
	Ports int         `json:"ports"`
}

type Unused struct {
	A      string `json:"a"`
	B      string `json:"b"`
	Dir    string `json:"dir"`
	Plane  int    `json:"plane"`
	Reason string `json:"reason"`
}

func TopologyOf(t *topo.Topology) Topology {
	v := Topology{Name: t.Name, Source: t.Source, Arch: t.Arch.String(), Hash: fmt.Sprintf("%016x", t.Hash()), Chips: len(t.Chips), Cables: len(t.Cables),
		Planes: t.Planes(), Layout: t.Layout, Meshes: []Mesh{}, Unused: []Unused{}}
	within := map[wire.MeshID]int{}
	for _, c := range t.Cables {
		if !c.External() {
			within[c.A.Node.Mesh]++
		}
	}
	for _, m := range t.Meshes {
		mv := Mesh{m.ID, m.Rows, m.Cols, m.WrapX, m.WrapY, t.MeshPlanes(m.ID), within[m.ID], []Peer{}}
		for _, p := range t.Exits(m.ID, m.ID) {
			if n := len(mv.Peers); n == 0 || mv.Peers[n-1].Mesh != p.Peer.Node.Mesh {
				mv.Peers = append(mv.Peers, Peer{Mesh: p.Peer.Node.Mesh})
			}
			mv.Peers[len(mv.Peers)-1].Ports++
		}
		v.Meshes = append(v.Meshes, mv)
	}
	v.Unused = unused(t)
	return v
}

// unused returns the cables that carry no traffic. The reason of each cable names the two
// neighbours of a mesh with the fewest cables between them, because these cables limit
// the planes of the mesh.
func unused(t *topo.Topology) []Unused {
	type edge struct {
		a, b wire.FabricNodeID
		dir  wire.Direction
	}
	cables, thinnest := map[edge]int{}, map[wire.MeshID]edge{}
	for _, c := range t.Cables {
		cables[edge{c.A.Node, c.B.Node, c.Dir}]++
	}
	for _, c := range t.Cables {
		e := edge{c.A.Node, c.B.Node, c.Dir}
		was, ok := thinnest[c.A.Node.Mesh]
		if !c.External() && (!ok || cables[e] < cables[was]) {
			thinnest[c.A.Node.Mesh] = e
		}
	}
	out := []Unused{}
	for _, c := range t.Cables {
		if !c.Unused {
			continue
		}
		id := c.A.Node.Mesh
		if c.External() {
			p, q := t.MeshPlanes(c.A.Node.Mesh), t.MeshPlanes(c.B.Node.Mesh)
			if p == 0 || q != 0 && q < p {
				id = c.B.Node.Mesh
			}
		}
		e := thinnest[id]
		out = append(out, Unused{c.A.Short(), c.B.Short(), c.Dir.String(), int(c.Plane),
			fmt.Sprintf("mesh %d has %s, because its edge %s–%s has no more cables", id, topo.Count(t.MeshPlanes(id), "plane"), e.a, e.b)})
	}
	return out
}
