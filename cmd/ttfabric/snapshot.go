package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/output"
)

func newSnapshot() *cobra.Command {
	var file string
	var payload, memory bool
	c := &cobra.Command{Use: "snapshot", Short: "Write the state of the running fabric into a file", Args: cobra.NoArgs,
		Long: `The command takes a consistent cut through the running fabric, and writes ports, tables,
the packets of all channels, packets in flight, credits, and open requests of each chip
into the file that --file names. The command prints how much the snapshot holds.
'go doc ttfabric/node/snapshot' describes the format. 'ttfabric model --from FILE' loads
the file into the simulator. The command names the chips that do not answer.`,
		Example: "  ttfabric snapshot --file now.json\n  ttfabric snapshot --payload --memory --file all.json\n  ttfabric snapshot diff before.json after.json",
		RunE: func(c *cobra.Command, _ []string) error {
			fab, err := openFabric(c)
			if err != nil {
				return err
			}
			s, err := fab.Snapshot(c.Context(), payload, memory)
			if err != nil {
				return err
			}
			if err := fabric.WriteSnapshot(file, s); err != nil {
				return err
			}
			if len(s.NoAnswer) > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "ttfabric: no state of the chips %v, which do not run or do not answer\n", s.NoAnswer)
			}
			v := output.SnapshotOf(s, file)
			head, rows := output.SnapshotTable(v.Chips)
			return cmp.Or(show(c, v, head, rows), s.Check())
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file for the snapshot, in JSON; only the owner can read a new file")
	c.Flags().BoolVar(&payload, "payload", false, "write packets with their payloads")
	c.Flags().BoolVar(&memory, "memory", false, "write the memory of the tiles")
	c.AddCommand(&cobra.Command{Use: "diff FILE FILE", Short: "Compare two snapshots", Args: cobra.ExactArgs(2), Example: "  ttfabric snapshot diff before.json after.json",
		RunE: func(c *cobra.Command, args []string) error {
			ds, err := fabric.DiffSnapshots(args[0], args[1])
			if err != nil {
				return err
			}
			if len(ds) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "The snapshots have no difference.")
			}
			head, rows := output.DifferenceTable(ds)
			return show(c, ds, head, rows)
		}})
	return c
}
