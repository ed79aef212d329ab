package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/model"
	"ttfabric/node/output"
)

func newModel() *cobra.Command {
	var o model.Options
	var from, file string
	c := &cobra.Command{Use: "model --from FILE", Short: "Load a snapshot into the simulator, and let it go on", Args: cobra.NoArgs,
		Long: `The command loads a snapshot into the simulator. The simulated fabric goes on from the
cut, in virtual time. No process starts. Kernels do not run. The command prints what the
chips hold at the end, and how the open requests of the snapshot ended.`,
		Example: "  ttfabric model --from now.json\n  ttfabric model --from now.json --for 50us --file later.json\n  ttfabric model --from now.json --drain",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := fabric.ReadSnapshot(from)
			if err != nil {
				return err
			}
			r, end, err := model.Run(s, o)
			if err != nil {
				return err
			}
			if err := fabric.WriteSnapshot(file, end); err != nil {
				return err
			}
			fmt.Fprintln(c.ErrOrStderr(), r.String())
			head, rows := output.SnapshotTable(r.Chips)
			return show(c, r, head, rows)
		}}
	c.Flags().StringVar(&from, "from", "", "file with the snapshot")
	c.Flags().DurationVar(&o.For, "for", 0, "let the fabric run for this virtual time")
	c.Flags().IntVar(&o.Events, "events", 0, "then, let the simulator carry out this number of events")
	c.Flags().BoolVar(&o.Drain, "drain", false, "then, let the fabric run until no request is open and no packet is under way")
	c.Flags().StringVarP(&file, "file", "f", "", "write a snapshot of the end into this file")
	_ = c.MarkFlagRequired("from")
	return c
}
