package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

func newValidate() *cobra.Command {
	var flags routeFlags
	c := &cobra.Command{
		Use:   "validate FILE|NAME",
		Short: "Check a topology and say what it is",
		Long: `validate reads a topology and says which meshes, planes and exits it has, which
cables carry no traffic and why, and how chips got their places where the file
doesn't say. It starts nothing. An invalid file ends it with exit code 3 and
the line at fault. It also routes the machine as 'ttfabric up' would and looks
for a cycle of channels that wait for each other, over all classes of messages,
multicast included; routes that can deadlock, or don't reach everything, end it
with exit code 3, too. Where a file says what carries the links and how chips
know each other (transport, auth), that is said as well.

FILE is a cluster descriptor of tt-umd, a mesh graph descriptor of tt-metal
(YAML or textproto), or what 'ttfabric generate' wrote; NAME is a built-in
(t3000, galaxy) or a generator (torus:4x8).`,
		Example: `  ttfabric validate cluster_desc.yaml
  ttfabric validate t3k_mesh_graph_descriptor.textproto
  ttfabric validate torus:4x8 -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopology,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			t, err := loadTopology(c.Context(), args[0])
			if err != nil {
				return err
			}
			var links secureFlags
			links.settle(t)
			if err := links.configure(&meshFile{}); err != nil {
				return coded(exitTopology, "%s: %w", t.Name, err)
			}
			v := viewTopology(t)
			v.Transport, v.Auth = links.transport, links.auth
			cfg, err := flags.config()
			if err != nil {
				return err
			}
			p, err := route.New(t, cfg)
			if err != nil {
				return coded(exitTopology, "%w", err)
			}
			found := p.Check(p.Multicasts())
			v.Routes = verdictOf(cfg, &found)
			if f == "json" {
				err = printJSON(c, v)
			} else {
				printTopology(c, t, v)
			}
			if err == nil && !found.OK() {
				err = coded(exitTopology, "%s: %s", t.Name, &found)
			}
			return err
		},
	}
	flags.add(c)
	return c
}

// completeTopology offers the built-in topologies, and files.
func completeTopology(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, b := range topo.Builders {
		names = append(names, b.Example+"\t"+b.Help)
	}
	return names, cobra.ShellCompDirectiveDefault
}

// topologyView is a topology as `validate -o json` prints it.
type topologyView struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Arch   string `json:"arch"`
	Hash   string `json:"hash"`
	Chips  int    `json:"chips"`
	Cables int    `json:"cables"`
	Planes int    `json:"planes"`
	Layout string `json:"layout,omitempty"`
	// Transport and Auth are those that the fabric has where no flag says otherwise.
	Transport string `json:"transport"`
	Auth      string `json:"auth"`

	Routes verdictView  `json:"routes"`
	Meshes []meshView   `json:"meshes"`
	Unused []unusedView `json:"unused"`
}

// verdictView is what the check of a machine's routes found.
type verdictView struct {
	Engine       string   `json:"engine"`
	Verdict      string   `json:"verdict"`
	Channels     int      `json:"channels"`
	Dependencies int      `json:"dependencies"`
	Cycle        []string `json:"cycle"`
	Longest      int      `json:"longest_way_hops"`
	Unreachable  int      `json:"pairs_without_a_way"`
}

func verdictOf(cfg route.Config, v *route.Verdict) verdictView {
	w := verdictView{Engine: fmt.Sprintf("%s, %s, %s", cmp.Or(cfg.Engine, route.Engines[0].Name), cfg.Order, cfg.Ring), Verdict: v.String(), Channels: v.Channels,
		Dependencies: v.Dependencies, Cycle: []string{}, Longest: v.Longest, Unreachable: v.Unreachable}
	for _, c := range v.Cycle {
		w.Cycle = append(w.Cycle, c.String())
	}
	return w
}

type meshView struct {
	Mesh   wire.MeshID `json:"mesh"`
	Rows   int         `json:"rows"`
	Cols   int         `json:"cols"`
	WrapX  bool        `json:"wrap_x"`
	WrapY  bool        `json:"wrap_y"`
	Planes int         `json:"planes"`
	Cables int         `json:"cables"`
	Peers  []peerView  `json:"peers"`
}

type peerView struct {
	Mesh  wire.MeshID `json:"mesh"`
	Ports int         `json:"ports"`
}

type unusedView struct {
	A      string `json:"a"`
	B      string `json:"b"`
	Dir    string `json:"dir"`
	Plane  int    `json:"plane"`
	Reason string `json:"reason"`
}

func viewTopology(t *topo.Topology) topologyView {
	v := topologyView{Name: t.Name, Source: t.Source, Arch: t.Arch.String(), Hash: fmt.Sprintf("%016x", t.Hash()), Chips: len(t.Chips), Cables: len(t.Cables),
		Planes: t.Planes(), Layout: t.Layout, Meshes: []meshView{}, Unused: []unusedView{}}
	within := map[wire.MeshID]int{}
	for _, c := range t.Cables {
		if !c.External() {
			within[c.A.Node.Mesh]++
		}
	}
	for _, m := range t.Meshes {
		mv := meshView{m.ID, m.Rows, m.Cols, m.WrapX, m.WrapY, t.MeshPlanes(m.ID), within[m.ID], []peerView{}}
		for _, p := range t.Exits(m.ID, m.ID) {
			if n := len(mv.Peers); n == 0 || mv.Peers[n-1].Mesh != p.Peer.Node.Mesh {
				mv.Peers = append(mv.Peers, peerView{Mesh: p.Peer.Node.Mesh})
			}
			mv.Peers[len(mv.Peers)-1].Ports++
		}
		v.Meshes = append(v.Meshes, mv)
	}
	v.Unused = unused(t)
	return v
}

// unused lists the cables that carry no traffic, with the edge that is why.
func unused(t *topo.Topology) []unusedView {
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
	out := []unusedView{}
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
		out = append(out, unusedView{portName(c.A), portName(c.B), c.Dir.String(), int(c.Plane),
			fmt.Sprintf("mesh %d has %s: its thinnest edge, %s–%s, has no more cables", id, counted(t.MeshPlanes(id), "plane"), e.a, e.b)})
	}
	return out
}

func portName(p wire.PortID) string { return fmt.Sprintf("%s/%d", p.Node, p.Channel) }

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func printTopology(c *cobra.Command, t *topo.Topology, v topologyView) {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s\n", t)
	tw := newTable(c, "Mesh", "Size", "Chips", "Cables", "Planes", "Exits")
	for i, m := range v.Meshes {
		var exits []string
		for _, p := range m.Peers {
			exits = append(exits, fmt.Sprintf("M%d ×%d", p.Mesh, p.Ports))
		}
		planes := fmt.Sprint(m.Planes)
		if m.Rows*m.Cols == 1 {
			planes = "-"
		}
		tw.AppendRow(table.Row{fmt.Sprintf("M%d", m.Mesh), t.Meshes[i].Shape(), m.Rows * m.Cols, m.Cables, planes, strings.Join(exits, ", ")})
	}
	tw.Render()
	if len(v.Unused) > 0 {
		fmt.Fprintf(out, "%s no traffic:\n", map[bool]string{true: "1 cable carries", false: counted(len(v.Unused), "cable") + " carry"}[len(v.Unused) == 1])
		tw := newTable(c, "From", "Dir", "To", "Plane", "Why")
		for _, u := range v.Unused {
			tw.AppendRow(table.Row{u.A, u.Dir, u.B, u.Plane, u.Reason})
		}
		tw.Render()
	}
	if v.Layout != "" {
		fmt.Fprintf(out, "Layout: %s.\n", v.Layout)
	}
	if t.Transport != "" || t.Auth != "" {
		fmt.Fprintf(out, "Links over %s with auth %s, as the file says.\n", v.Transport, v.Auth)
	}
	fmt.Fprintf(out, "Routes by %s: longest way %s; %s.\n", v.Routes.Engine, counted(v.Routes.Longest, "hop"), v.Routes.Verdict)
}
