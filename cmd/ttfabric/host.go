package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/scripts/shim"
	"ttfabric/wire"
)

func newHost() *cobra.Command {
	c := &cobra.Command{Use: "host", Short: "Use the chips as a host does: the firmware's queues, and libraries for Tenstorrent's drivers"}
	c.AddCommand(newHostShim(), newHostQueues(), newHostRead(), newHostWrite())
	return c
}

func newHostShim() *cobra.Command {
	var dir string
	var mesh uint16
	c := &cobra.Command{Use: "shim", Short: "Build the libraries that tt-umd loads, and say how to use them", Args: cobra.NoArgs,
		Long: `The command builds two libraries with the C++ compiler of this machine, for the
running fabric. tt-umd loads libtt_umd_jtag.so in place of the library for JTAG probes,
and libttsim.so in place of the simulator ttsim. With either library, tt-umd reaches the
chips that a real host reaches over PCIe. The command also writes the fabric's
descriptors into the folder of libttsim.so, where tt-umd looks for them. The libraries
and the descriptors are for one mesh of the fabric.`,
		Example: "  ttfabric host shim\n  ttfabric host shim --dir umd",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := openFabric(c)
			if err != nil {
				return err
			}
			to := dir
			if to == "" {
				to = f.Dir.Path("host")
			}
			if to, err = filepath.Abs(to); err != nil {
				return err
			}
			if !c.Flags().Changed("mesh") {
				mesh = uint16(f.Topology.Meshes[0].ID)
			}
			if _, ok := f.Topology.Mesh(wire.MeshID(mesh)); !ok {
				return spec.Usagef("--mesh %d: topology %s has no such mesh", mesh, f.Topology)
			}
			if err := shim.Make(c.Context(), to, f.Topology, wire.MeshID(mesh)); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), `Run programs of tt-umd with this environment:
  export TTFABRIC_NAME=%s TTFABRIC_MESH=%d
For JTAG, run the program in the folder %s,
because tt-umd loads ./%s. Choose JTAG as the I/O device type.
For the simulation device, name the library as the simulator, for example:
  export TT_UMD_SIMULATOR=%s
`, f.Name(), mesh, to, shim.JTAG, filepath.Join(to, shim.TTSim))
			return nil
		}}
	c.Flags().StringVar(&dir, "dir", "", "folder for the libraries and the descriptors (default: the folder host in the fabric's run folder)")
	c.Flags().Uint16Var(&mesh, "mesh", 0, "number of the mesh (default: the smallest of the fabric)")
	return c
}
