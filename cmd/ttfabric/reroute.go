package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

const rerouteHelp = `The chips tell each other which cables are out of service. All chips then compute
the same tables, which avoid these cables. If a packet's route crosses no such cable,
the packet keeps this route. Other packets take a detour, in virtual channels that only
detours use. Packets already under way may still use a cable out of service that
works. So no packet is lost. 'ttfabric routes' shows the routes, and 'ttfabric
events' shows when chips install tables.`

func newReroute() *cobra.Command {
	back := false
	c := &cobra.Command{Use: "reroute LINK...", Short: "Take cables out of service, so that packets take other routes", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long:    "The command takes working cables out of service. Routes then avoid these cables, as\nroutes avoid cables that have failed. --back puts the cables back in service.\n\n" + rerouteHelp + "\n\n" + linkHelp,
		Example: "  ttfabric reroute M0D0-M0D1\n  ttfabric reroute M0D5            # take all cables of a chip out of service\n  ttfabric reroute --back all",
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := format(c); err != nil {
				return err
			}
			links, chips, err := linkArgs(c, args)
			if err != nil {
				return err
			}
			return setService(c, chips, links, !back)
		}}
	c.Flags().BoolVar(&back, "back", false, "put the cables back in service")
	return c
}

func newRemove() *cobra.Command {
	return lineCommand("remove", true, "Take a row or column of chips out of service",
		"The command takes all cables of the chips of a row or column out of service. No packet\ngoes to or through these chips until 'ttfabric restore'. The chips keep running.",
		"  ttfabric remove row 3\n  ttfabric remove column 0 --mesh 1")
}

func newRestore() *cobra.Command {
	return lineCommand("restore", false, "Put a row or column of chips back in service", "The command undoes 'ttfabric remove'.", "  ttfabric restore row 3")
}

func lineCommand(name string, out bool, short, long, example string) *cobra.Command {
	mesh := 0
	c := &cobra.Command{Use: name + " row|column N", Short: short, Args: cobra.ExactArgs(2), ValidArgs: []string{"row", "column"},
		Long: long + "\n\n" + rerouteHelp, Example: example,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := format(c); err != nil {
				return err
			}
			f, err := openFabric(c)
			if err != nil {
				return err
			}
			links, err := lineOf(f.Topology, mesh, args[0], args[1])
			if err != nil {
				return err
			}
			chips, err := f.Chips()
			if err != nil {
				return err
			}
			return setService(c, chips, links, out)
		}}
	c.Flags().IntVar(&mesh, "mesh", 0, "mesh that has the row or column")
	return c
}

// lineOf returns the cables with at least one end at a chip of the row or column. lineOf
// leaves out cables that carry no traffic. If no cable remains, lineOf returns an error.
func lineOf(t *topo.Topology, mesh int, kind, number string) ([]topo.Link, error) {
	m, ok := t.Mesh(wire.MeshID(max(mesh, 0)))
	if !ok || mesh < 0 || mesh >= wire.MaxMeshes {
		return nil, spec.Usagef("--mesh %d: topology %s has no such mesh", mesh, t)
	}
	lines := map[string]int{"row": m.Rows, "column": m.Cols, "col": m.Cols}[kind]
	if lines == 0 {
		return nil, spec.Usagef("%q: want row or column", kind)
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= lines {
		return nil, spec.Usagef("%s %q: want 0 to %d, the %ss of mesh %d", kind, number, lines-1, kind, mesh)
	}
	in := func(p wire.FabricNodeID) bool {
		c, _ := t.Chip(p)
		return p.Mesh == m.ID && (kind == "row" && c.Row == n || kind != "row" && c.Col == n)
	}
	var out []topo.Link
	for _, c := range t.Cables {
		if !c.Unused && (in(c.A.Node) || in(c.B.Node)) {
			out = append(out, topo.Link{A: c.A, B: c.B, Plane: c.Plane})
		}
	}
	if len(out) == 0 {
		return nil, spec.Usagef("%s %d of mesh %d has no cables to take out of service or put back", kind, n, mesh)
	}
	return out, nil
}

// setService takes cables out of service. If out is false, setService puts the cables
// back in service.
func setService(c *cobra.Command, chips *fabric.Chips, links []topo.Link, out bool) error {
	absent, err := chips.SetService(c.Context(), links, out)
	tellAbsent(c, absent)
	if err != nil {
		return err
	}
	done := "out of service"
	if !out {
		done = "put back in service"
	}
	return toldLinks(c, done, links)
}
