package main

import (
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// planOf returns the present routes of the running fabric. If machine, the value of
// --topology, is not empty, planOf returns the routes of this topology with the routing
// options in f. A running fabric takes no routing options.
func planOf(c *cobra.Command, machine string, f *spec.Spec) (*route.Plan, error) {
	if machine != "" {
		t, err := folder.LoadTopology(c.Context(), machine)
		if err != nil {
			return nil, err
		}
		return f.Plan(t)
	}
	for _, name := range spec.RoutingOptions {
		if c.Flags().Changed(name) {
			return nil, spec.Usagef("--%s: a running fabric keeps its routing options; name a topology with --topology, or leave out --%s", name, name)
		}
	}
	fab, err := openFabric(c)
	if err != nil {
		return nil, err
	}
	return fab.PlanNow(c.Context())
}

// routeChips returns the chip in args. If args is empty, routeChips returns all chips of
// a mesh. A negative mesh stands for all meshes. The errors are a chip or mesh that the
// topology lacks, and more than [maxRouteChips] chips.
func routeChips(t *topo.Topology, args []string, mesh int) (chips []wire.FabricNodeID, err error) {
	if len(args) == 1 {
		n, err := wire.ParseFabricNodeID(args[0])
		if err != nil {
			return nil, spec.Usagef("%w", err)
		}
		if _, ok := t.Chip(n); !ok {
			return nil, spec.Usagef("chip %s is not in topology %s", n, t)
		}
		return []wire.FabricNodeID{n}, nil
	}
	for _, c := range t.Chips {
		if mesh < 0 || int(c.Node.Mesh) == mesh {
			chips = append(chips, c.Node)
		}
	}
	switch {
	case len(chips) == 0:
		return nil, spec.Usagef("--mesh %d: topology %s has no such mesh", mesh, t)
	case len(chips) > maxRouteChips:
		return nil, spec.Usagef("%d chips have too many tables; the command prints the tables of at most %d chips; name a chip, or a mesh with --mesh", len(chips), maxRouteChips)
	}
	return chips, nil
}

// maxRouteChips is the largest number of chips whose tables one command prints.
const maxRouteChips = 4096
