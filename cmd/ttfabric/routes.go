package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/router/route"
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
			l0, l1 := routeTables(p, wire.Class(i), pl, chips)
			if format == "json" {
				return printJSON(c, output.Routes{Epoch: fmt.Sprintf("%08x", p.Hash()), L0: l0, L1: append([]output.L1Row{}, l1...)})
			}
			printRoutes(c, l0, l1)
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

func routeTables(p *route.Plan, class wire.Class, plane wire.Plane, chips []wire.FabricNodeID) (l0 []output.L0Row, l1 []output.L1Row) {
	t := p.Topology()
	for _, src := range chips {
		r := output.L0Row{Src: src}
		m, _ := t.Mesh(src.Mesh)
		for k := range m.Rows * m.Cols {
			dst := wire.FabricNodeID{Mesh: src.Mesh, Chip: wire.ChipID(k)}
			leg, ok := p.Leg(nil, class, plane, src, dst)
			s := "x"
			if src == dst {
				s = "-"
			} else if ok {
				s = directions(leg)
			}
			r.Dst, r.Routes = append(r.Dst, dst), append(r.Routes, s)
		}
		l0 = append(l0, r)
		if len(t.Meshes) == 1 {
			continue
		}
		e := output.L1Row{Src: src}
		for _, to := range t.Meshes {
			exit, port := "x", ""
			if to.ID == src.Mesh {
				exit = "-"
			} else if x, up, ok := p.Exit(class, plane, src, to.ID); ok {
				exit, port = fmt.Sprint(x.Local.Node.Chip), x.Dir.String()+map[bool]string{true: " up", false: " down"}[up]
			}
			e.To, e.Exits, e.Ports = append(e.To, to.ID), append(e.Exits, exit), append(e.Ports, port)
		}
		l1 = append(l1, e)
	}
	return l0, l1
}

func directions(ds []wire.Direction) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String())
	}
	return b.String()
}

func printRoutes(c *cobra.Command, l0 []output.L0Row, l1 []output.L1Row) {
	out := c.OutOrStdout()
	for _, g := range alike(l0) {
		var head []any
		for _, d := range g.rows[0].Dst {
			head = append(head, d.Chip)
		}
		fmt.Fprintf(out, "L0, %s\n", ofMeshes(g.meshes))
		tw := newTable(c, append([]any{"Src\\Dst"}, head...)...)
		for _, r := range g.rows {
			tw.AppendRow(cells([]any{r.Src.Chip}, r.Routes))
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
		tw.AppendRow(cells([]any{r.Src.Mesh, r.Src.Chip}, r.Exits))
	}
	fmt.Fprintf(out, "L1, exit nodes of %s\n", ofMeshes(meshes))
	tw.Render()
}

// cells appends texts to the first cells of a row.
func cells(row table.Row, texts []string) table.Row {
	for _, s := range texts {
		row = append(row, s)
	}
	return row
}

// l0Group is an L0 table, and the meshes that have this table.
type l0Group struct {
	meshes []wire.MeshID
	rows   []output.L0Row // rows of the first mesh
}

// alike returns groups of meshes with equal tables. In l0, the rows of each mesh stand
// together. The groups are in the order of their first meshes.
func alike(l0 []output.L0Row) (groups []l0Group) {
	same := map[string]int{} // index of a group in groups, by the text of all routes
	for len(l0) > 0 {
		n := slices.IndexFunc(l0, func(r output.L0Row) bool { return r.Src.Mesh != l0[0].Src.Mesh })
		if n < 0 {
			n = len(l0)
		}
		var text strings.Builder
		for _, r := range l0[:n] {
			fmt.Fprintln(&text, r.Src.Chip, r.Routes)
		}
		i, ok := same[text.String()]
		if !ok {
			i = len(groups)
			same[text.String()] = i
			groups = append(groups, l0Group{rows: l0[:n]})
		}
		groups[i].meshes = append(groups[i].meshes, l0[0].Src.Mesh)
		l0 = l0[n:]
	}
	return groups
}

// ofMeshes returns the words for meshes, such as "mesh 3" or "meshes 0, 1 and 2".
func ofMeshes(ids []wire.MeshID) string {
	var names []string
	for _, id := range ids {
		names = append(names, fmt.Sprint(id))
	}
	if len(names) == 1 {
		return "mesh " + names[0]
	}
	return "meshes " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
