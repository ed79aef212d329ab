package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/router/route"
	"ttfabric/router/topo"
)

func newValidate() *cobra.Command {
	proof := proofFlags{spec: spec.Default()}
	c := &cobra.Command{
		Use:   "validate FILE|NAME",
		Short: "Check and describe a topology",
		Long: `The command reads a topology. The command prints the meshes with their planes and exit
nodes, and the cables that carry no traffic, with the reason. If the file gives no row
and column for a chip, the command prints how it placed the chips. The command also
prints the keys "transport" and "auth" of the file. If two meshes are joined by fewer
cables than the fabric has planes, some planes have no route between the two meshes.
The command prints the number of such pairs of meshes. The command also prints what
it left out of the file, which neighbours have no cable, and which parts of the
machine no cable joins. A machine in several parts is valid. No chip needs to run.

The command also plans the routes as 'ttfabric up' would. Then the command looks for
a cycle of channels that wait for each other. Such a cycle means a possible deadlock.
The check covers all classes of messages, multicast, and both directions round rings.
With --vcs the check uses virtual channels from the literature instead of ours, for
comparison.

FILE is a cluster descriptor of tt-umd, a mesh graph descriptor of tt-metal (YAML or
textproto), or a file that 'ttfabric generate' wrote. NAME is a built-in topology
(t3000, galaxy) or a generated topology (torus:4x8).

Exit code 3 if the file is invalid (the error names the line), or if the routes can
deadlock or do not reach every chip.`,
		Example: `  ttfabric validate cluster_desc.yaml
  ttfabric validate t3k_mesh_graph_descriptor.textproto
  ttfabric validate torus:4x8 -o json
  ttfabric validate mesh:2x2 --order none
  ttfabric validate torus:4x4 --vcs kept`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopology,
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			t, err := folder.LoadTopology(c.Context(), args[0])
			if err != nil {
				return err
			}
			var links spec.Security
			links.Settle(t)
			if err := links.Check(); err != nil {
				return spec.Topologyf("%s: %w", t.Name, err)
			}
			v := output.TopologyOf(t)
			v.Transport, v.Auth = links.Transport, links.Auth
			found, err := proof.find(t, &v)
			if err != nil {
				return err
			}
			if f == "json" {
				err = printJSON(c, v)
			} else {
				printTopology(c, t, v)
				fmt.Fprint(c.OutOrStdout(), output.Thin(t, found))
			}
			if err == nil && !found.OK() {
				err = spec.Topologyf("%s: %s", t.Name, found)
			}
			return err
		},
	}
	proof.add(c)
	return c
}

// proofFlags are the flags that say which routes to prove free of deadlock, and with
// which virtual channels.
type proofFlags struct {
	spec    spec.Spec
	vcs     string
	unicast bool
}

func (f *proofFlags) add(c *cobra.Command) {
	addOptions(c, &f.spec, spec.RoutingOptions...)
	var schemes []string
	for _, s := range route.Schemes {
		schemes = append(schemes, s.Name+" ("+s.Help+")")
	}
	c.Flags().StringVar(&f.vcs, "vcs", route.Schemes[0].Name, "virtual channels for the proof of the routes: "+strings.Join(schemes, ", "))
	c.Flags().BoolVar(&f.unicast, "unicast", false, "leave multicast out of the proof")
}

// find plans the routes of topology t, checks the routes, and adds the verdict to view v.
// A verdict against the routes is not an error of find.
func (f *proofFlags) find(t *topo.Topology, v *output.Topology) (*route.Verdict, error) {
	cfg, err := f.spec.Route()
	if err != nil {
		return nil, err
	}
	s, err := route.SchemeByName(f.vcs)
	if err != nil {
		return nil, spec.Usagef("--vcs: %w", err)
	}
	p, err := route.New(t, cfg)
	if err != nil {
		return nil, spec.Topologyf("%w", err)
	}
	mc := p.Multicasts()
	mc.Any = mc.Any && !f.unicast
	check := p.Check
	if s.Name != route.Schemes[0].Name {
		check = func(mc route.Multicasts) route.Verdict { return p.CheckScheme(s, mc) }
	}
	found := check(mc)
	v.Routes = output.VerdictOf(cfg, s, &found)
	return &found, nil
}

func printTopology(c *cobra.Command, t *topo.Topology, v output.Topology) {
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
		fmt.Fprintf(out, "%s no traffic:\n", map[bool]string{true: "1 cable carries", false: topo.Count(len(v.Unused), "cable") + " carry"}[len(v.Unused) == 1])
		tw := newTable(c, "From", "Dir", "To", "Plane", "Why")
		tw.Least("Dir", "Plane")
		for _, u := range v.Unused {
			tw.AppendRow(table.Row{u.A, u.Dir, u.B, u.Plane, u.Reason})
		}
		tw.Render()
	}
	for _, s := range t.Remarks(false) {
		fmt.Fprintln(out, s)
	}
	if t.Transport != "" || t.Auth != "" {
		fmt.Fprintf(out, "The file sets links over %s with auth %s.\n", v.Transport, v.Auth)
	}
	most := ""
	if len(t.Meshes) > 1 {
		most = "at most "
	}
	fmt.Fprintf(out, "Routes by %s: longest route %s%s; %s.\n", v.Routes.Engine, most, topo.Count(v.Routes.Longest, "hop"), v.Routes.Verdict)
}
