package main

import (
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// planOf is how the running fabric is routed, or how the named machine would be.
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
			return nil, spec.Usagef("--%s goes with --topology; the routes of a running fabric are settled", name)
		}
	}
	fab, err := openFabric(c)
	if err != nil {
		return nil, err
	}
	return fab.PlanNow(c.Context())
}

// routeChips are the chips whose tables are asked for.
func routeChips(t *topo.Topology, args []string, mesh int) (chips []wire.FabricNodeID, err error) {
	if len(args) == 1 {
		n, err := wire.ParseFabricNodeID(args[0])
		if err != nil {
			return nil, spec.Usagef("%w", err)
		}
		if _, ok := t.Chip(n); !ok {
			return nil, spec.Usagef("chip %s is not in %s", n, t)
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
		return nil, spec.Usagef("--mesh %d: %s", mesh, t)
	case len(chips) > maxRouteChips:
		return nil, spec.Usagef("the tables of %d chips are too many to print; name a chip, or a mesh with --mesh", len(chips))
	}
	return chips, nil
}

// maxRouteChips is how many chips' tables are printed at once.
const maxRouteChips = 4096
