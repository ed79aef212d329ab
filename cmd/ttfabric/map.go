package main

import (
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/output"
	"ttfabric/node/output/fit"
	"ttfabric/node/output/mapped"
	"ttfabric/router/topo/assign"
	"ttfabric/router/topo/mapping"
)

func newMap() *cobra.Command {
	var o mapping.Options
	var file string
	c := &cobra.Command{Use: "map GRAPH CLUSTER...", Short: "Put the chips of a mesh graph descriptor on a machine", Args: cobra.MinimumNArgs(2),
		Long: `The command finds a physical chip of a machine for each logical chip of a mesh graph
descriptor, so that cables join the physical chips as the descriptor asks. Between two
neighbours, there are as many cables as the field channels says. With the policy
RELAXED, fewer cables are enough, but the command prefers all. The command honours
pinnings, and host_topology: the chips of one host are on one host of the machine.

CLUSTER is the cluster descriptor of a host, a file that 'ttfabric generate' wrote, or a
built-in topology. CLUSTER may also be a file with the key
rank_to_cluster_mock_cluster_desc, which names the cluster descriptors of several hosts.
The command joins several hosts to one machine, by the unique ids of their chips.

With -f, the command writes a topology in which the logical chips have the channels and
cables of their physical chips. 'ttfabric up' reads this file. 'ttfabric up
GRAPH@map=CLUSTER' does both at once. Each command that takes a topology also takes this
form. Write plus signs between the names of several files: GRAPH@map=HOST0+HOST1.

If the descriptor does not fit, the command names a smallest set of chips that do not fit
together, and exits with code 3.`,
		Example: "  ttfabric map t3k_mesh_graph_descriptor.textproto t3k_cluster_desc.yaml\n  ttfabric map quad.textproto host0.yaml host1.yaml host2.yaml host3.yaml -f quad.yaml\n  ttfabric up lab.textproto@map=cluster_desc.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			as, err := format(c)
			if err != nil {
				return err
			}
			m, err := folder.Map(c.Context(), args[0], args[1:], o)
			if err != nil {
				return err
			}
			if file != "" {
				if err := writeResult(c, "table", file, output.Text{}, m.Topology.Encode()); err != nil {
					return err
				}
			}
			if as == "json" {
				return printJSON(c, m)
			}
			mapped.Show(c.OutOrStdout(), m, func(header ...any) *fit.Table { return newTable(c, header...) })
			return nil
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "write the topology of the mapping to this file")
	c.Flags().BoolVar(&o.AnyHost, "any-host", false, "do not honour host_topology: chips of one host may be on several hosts of the machine")
	c.Flags().IntVar(&o.Limit.Steps, "steps", assign.MaxSteps, "largest number of steps of the search")
	return c
}
