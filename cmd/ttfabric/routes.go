package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/wire"
)

func newRoutes() *cobra.Command {
	f := spec.Default()
	var machine, class string
	var plane, mesh int
	var other bool
	c := &cobra.Command{Use: "routes [CHIP]", Short: "Print the routing tables, L0 and L1", Args: cobra.MaximumNArgs(1),
		Long: `The command prints the routing tables in the form of TT-Fabric's specification.
Table L0 holds the source route from each chip of a mesh to each other chip
(§2.2.1.1). If there are several meshes, table L1 holds the exit node towards each
other mesh (§2.2.1.2).

The command prints the tables of all chips, of one mesh with --mesh, or of one CHIP.
Meshes with equal L0 tables share a table. The tables are the tables of the running
fabric. With --topology they are the tables of a topology that need not run.

Requests follow the tables of --class request. Replies cross the dimensions in the
other order, and control packets avoid cables that wrap. Two chips opposite each
other on a ring of even length have two routes of equal length, one in each
direction. The tables show one of the two routes. With --other-way they show the
other route.`,
		Example: "  ttfabric routes\n  ttfabric routes M0D3\n  ttfabric routes --topology spec-l1\n  ttfabric routes --topology 2xt3000 --mesh 1\n  ttfabric routes --topology torus:4x4 --order yx -o json",
		RunE: func(c *cobra.Command, args []string) error {
			format, err := format(c)
			if err != nil {
				return err
			}
			p, err := planOf(c, machine, &f)
			if err != nil {
				return err
			}
			i := slices.Index([]string{"request", "reply", "control"}, class)
			if i < 0 {
				return spec.Usagef("--class %q: want request, reply or control", class)
			}
			pl, err := spec.Plane(p.Topology(), plane)
			if err != nil {
				return err
			}
			chips, err := routeChips(p.Topology(), args, mesh)
			if err != nil {
				return err
			}
			if other {
				p = p.Other()
			}
			r := output.RoutesOf(p, wire.Class(i), pl, chips)
			if format == "json" {
				return printJSON(c, r)
			}
			printRoutes(c, r.L0, r.L1)
			return nil
		}}
	addOptions(c, &f, spec.RoutingOptions...)
	c.Flags().Lookup("allow-deadlock").Hidden = true
	c.Flags().StringVarP(&machine, "topology", "t", "", "print the tables of this topology, a file or a name, instead of the running fabric's")
	c.Flags().IntVar(&plane, "plane", 0, "routing plane")
	c.Flags().IntVar(&mesh, "mesh", -1, "print only the tables of this mesh's chips (default: of all meshes)")
	c.Flags().BoolVar(&other, "other-way", false, "if two routes round a ring are equally long, show the other route")
	c.Flags().StringVar(&class, "class", "request", "class of packets: request, reply or control")
	c.RegisterFlagCompletionFunc("topology", completeTopology)
	return c
}

func printRoutes(c *cobra.Command, l0 []output.L0Row, l1 []output.L1Row) {
	out := c.OutOrStdout()
	for _, g := range output.Alike(l0) {
		var head []any
		for _, d := range g.Rows[0].Dst {
			head = append(head, d.Chip)
		}
		fmt.Fprintf(out, "L0, %s\n", output.OfMeshes(g.Meshes))
		tw := newTable(c, append([]any{"Src\\Dst"}, head...)...)
		for _, r := range g.Rows {
			tw.AppendRow(output.Cells([]any{r.Src.Chip}, r.Routes))
		}
		tw.Render()
	}
	if len(l1) == 0 {
		return
	}
	var meshes []wire.MeshID
	head := []any{"Src Mesh", "Node"}
	for _, m := range l1[0].To {
		head = append(head, fmt.Sprintf("Mesh%d", m))
	}
	tw := newTable(c, head...)
	for _, r := range l1 {
		if n := len(meshes); n == 0 || meshes[n-1] != r.Src.Mesh {
			meshes = append(meshes, r.Src.Mesh)
		}
		tw.AppendRow(output.Cells([]any{r.Src.Mesh, r.Src.Chip}, r.Exits))
	}
	fmt.Fprintf(out, "L1, exit nodes of %s\n", output.OfMeshes(meshes))
	tw.Render()
}
