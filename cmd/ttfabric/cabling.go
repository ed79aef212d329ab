package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/wire"
)

// cablingFlags are the flags of 'cabling'.
type cablingFlags struct {
	missing, found bool
	mesh           int
	expected, file string
}

func newCabling() *cobra.Command {
	var f cablingFlags
	c := &cobra.Command{Use: "cabling", Short: "Write the live cabling as a cluster descriptor of tt-umd", Args: cobra.NoArgs,
		Long: `The command asks all chips which cables the training of their links found, and writes
these cables as a cluster descriptor of tt-umd. 'generate --format umd' writes the
declared cables in the same form. A cable is live if both ends report that the link is
up by its own cable. A cable is also live if a port hears the hello of a port that the
topology does not expect there.

--missing writes the declared cables that are not live, and --found the live cables that
are not declared. Each of the two outputs is a cluster descriptor. With --missing, a
comment on each cable says why the cable is not live.

A cluster descriptor describes one mesh. A cable to another mesh is one of its
ethernet_connections_to_remote_devices. With -o json, the command prints all three lists
of cables, of all meshes.`,
		Example: "  ttfabric cabling > live.yaml\n  ttfabric cabling --missing\n  ttfabric cabling --found --expected factory.yaml -f found.yaml\n  ttfabric cabling --mesh 1",
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c) }}
	fl := c.Flags()
	fl.BoolVar(&f.missing, "missing", false, "write the declared cables that are not live")
	fl.BoolVar(&f.found, "found", false, "write the live cables that are not declared")
	fl.IntVar(&f.mesh, "mesh", 0, "mesh of the descriptor (default: the only mesh of the fabric)")
	fl.StringVar(&f.expected, "expected", "", "topology with the cables that should exist: a file or a built-in name (default: the fabric's topology)")
	fl.StringVarP(&f.file, "file", "f", "", "file to write (default: standard output)")
	return c
}

func (f *cablingFlags) run(c *cobra.Command) error {
	as, err := format(c)
	switch {
	case err != nil:
		return err
	case f.mesh < 0 || f.mesh >= wire.MaxMeshes:
		return spec.Usagef("--mesh %d: want 0 to %d", f.mesh, wire.MaxMeshes-1)
	case f.missing && f.found:
		return spec.Usagef("--missing and --found each write a file of their own; choose one")
	}
	fab, cs, absent, err := clientsOf(c, nil)
	if err != nil {
		return err
	}
	declared, err := expectedOf(c, fab.Topology, f.expected)
	if err != nil {
		return err
	}
	views, silent := fabric.Ask(c.Context(), cs)
	cab := fabric.CablingOf(fab.Topology, declared, views, absent, silent)
	if as == "json" && f.file == "" {
		return printJSON(c, cab)
	}
	id := wire.MeshID(f.mesh)
	if !c.Flags().Changed("mesh") {
		if n := len(fab.Topology.Meshes); n > 1 {
			return spec.Usagef("fabric %q has %d meshes, and a cluster descriptor describes one; choose the mesh with --mesh", fab.Name(), n)
		}
		id = fab.Topology.Meshes[0].ID
	}
	part := fabric.LiveCables
	switch {
	case f.missing:
		part = fabric.MissingCables
	case f.found:
		part = fabric.FoundCables
	}
	text, err := cab.Encode(part, id)
	if err != nil {
		return spec.Usagef("--mesh %d: %w", id, err)
	}
	if err := writeResult(c, "table", f.file, output.Text{}, text); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s.\n", cab)
	tellQuiet(c, absent, silent)
	if as == "json" {
		return printJSON(c, cab)
	}
	return nil
}
