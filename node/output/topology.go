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
	Name      string          `json:"name"`             // name of the topology
	Source    string          `json:"source"`           // file that the topology comes from, or built-in
	Arch      string          `json:"arch"`             // architecture of the chips
	Hash      string          `json:"hash"`             // hash of the topology, 16 hexadecimal digits
	Chips     int             `json:"chips"`            // number of chips
	Cables    int             `json:"cables"`           // number of cables
	Planes    int             `json:"planes"`           // number of routing planes
	Layout    string          `json:"layout,omitempty"` // what the program chose itself, such as rows and columns, for people; absent if it chose nothing
	LeftOut   []topo.LeftOut  `json:"left_out"`         // parts of the file that the topology does not have
	Missing   []topo.Edge     `json:"missing"`          // neighbours in the grid of a mesh without a cable
	Parts     [][]wire.MeshID `json:"parts"`            // parts of the machine that no cable joins: the meshes of each part
	Apart     int             `json:"pairs_apart"`      // number of ordered pairs of chips in two parts; no route leads from one to the other
	Transport string          `json:"transport"`        // transport, if 'up' starts the fabric without --transport
	Auth      string          `json:"auth"`             // authentication, if 'up' starts the fabric without --auth

	Routes Verdict  `json:"routes"` // result of the check of the routes
	Meshes []Mesh   `json:"meshes"` // the meshes
	Unused []Unused `json:"unused"` // cables that carry no traffic
}

// Verdict is the result of the check of a topology's routes.
type Verdict struct {
	Engine       string   `json:"engine"`                          // routing engine, order of the axes, and rule for rings
	Verdict      string   `json:"verdict"`                         // the result, for people
	Channels     int      `json:"channels"`                        // number of channels that wait for another channel
	Dependencies int      `json:"dependencies"`                    // number of dependencies between the channels
	Cycle        []string `json:"cycle"`                           // channels of which each waits for the next, and the last for the first; empty if no traffic can deadlock
	Longest      int      `json:"longest_way_hops"`                // number of hops of the longest route; with several meshes, an upper bound
	Unreachable  int      `json:"pairs_without_a_way"`             // number of ordered pairs without a route, added up over all planes
	Thin         int      `json:"pairs_of_meshes_on_fewer_planes"` // number of ordered pairs of meshes with a route on plane 0, but not on all planes
	Astray       int      `json:"ways_that_lead_astray"`           // number of routes that do not end at their destination, or pass a chip or mesh twice
	Long         int      `json:"ways_beyond_the_bound"`           // number of routes that are longer than the plan says
}

// VerdictOf returns the result of a check of routes as the command prints it.
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

// Thin returns a sentence about ordered pairs of meshes between which some routing planes have no
// route. If there is no such pair, Thin returns "".
func Thin(t *topo.Topology, v *route.Verdict) string {
	if v.Thin == 0 {
		return ""
	}
	return fmt.Sprintf("Fewer than %s lead between %s of meshes, such as from M%d to M%d with %d. The reason is that too few cables join meshes on the route. Traffic uses only planes with a route.\n",
		topo.Count(t.Planes(), "plane"), topo.Count(v.Thin, "ordered pair"), v.ThinPair[0], v.ThinPair[1], v.ThinPlanes)
}

// Mesh is a mesh of a topology.
type Mesh struct {
	Mesh   wire.MeshID `json:"mesh"`   // number of the mesh
	Rows   int         `json:"rows"`   // number of rows
	Cols   int         `json:"cols"`   // number of columns
	WrapX  bool        `json:"wrap_x"` // whether each row is a ring
	WrapY  bool        `json:"wrap_y"` // whether each column is a ring
	Planes int         `json:"planes"` // number of routing planes
	Cables int         `json:"cables"` // number of cables within the mesh
	Peers  []Peer      `json:"peers"`  // meshes to which cables lead
}

// Peer is another mesh to which cables of a mesh lead.
type Peer struct {
	Mesh  wire.MeshID `json:"mesh"`  // number of the mesh
	Ports int         `json:"ports"` // number of ports that lead to the mesh
}

// Unused is a cable that carries no traffic.
type Unused struct {
	A      string `json:"a"`      // port at one end
	B      string `json:"b"`      // port at the other end
	Dir    string `json:"dir"`    // direction from the first end to the other
	Plane  int    `json:"plane"`  // routing plane that the cable would have
	Reason string `json:"reason"` // why the cable carries no traffic
}

// TopologyOf returns a topology as the command prints it.
func TopologyOf(t *topo.Topology) Topology {
	v := Topology{Name: t.Name, Source: t.Source, Arch: t.Arch.String(), Hash: fmt.Sprintf("%016x", t.Hash()), Chips: len(t.Chips), Cables: len(t.Cables),
		Planes: t.Planes(), Layout: t.Layout, LeftOut: append([]topo.LeftOut{}, t.LeftOut...), Missing: append([]topo.Edge{}, t.Missing...), Parts: t.Parts(), Apart: t.Apart(), Meshes: []Mesh{}, Unused: []Unused{}}
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
// neighbours of a mesh with the fewest cables between them. These cables limit the planes of the
// mesh.
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
		if !c.External() && t.Idle(c) == "" && (!ok || cables[e] < cables[was]) {
			thinnest[c.A.Node.Mesh] = e
		}
	}
	out := []Unused{}
	for _, c := range t.Cables {
		if !c.Unused {
			continue
		}
		if why := t.Idle(c); why != "" {
			out = append(out, Unused{c.A.Short(), c.B.Short(), c.Dir.String(), int(c.Plane), why})
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
