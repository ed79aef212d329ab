package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/model"
	"ttfabric/node/output"
	"ttfabric/node/output/screen"
	"ttfabric/node/sim/reliable/curves"
)

func newModel() *cobra.Command {
	var o model.Options
	var from, file string
	var rr curves.Command
	c := &cobra.Command{Use: "model --from FILE | TOPOLOGY --router reliable", Short: "Load a snapshot into the simulator, or model another router", Args: cobra.MaximumNArgs(1),
		Long: `The command loads a snapshot into the simulator. The simulated fabric goes on from the
cut, in virtual time. No process starts. Kernels do not run. The command prints what the
chips hold at the end, and how the open requests of the snapshot ended.

With --router reliable, the command models the Reliable Router of Dally and others, flit by
flit, on a mesh. The command prints the figures of the paper beside those of the model. With
--curves, the command prints latency by load instead: adaptive and dimension-ordered routes,
with and without tokens, with and without a failed link, and BookSim's results on mesh:8x8.
All curves of mesh:8x8 take minutes.`,
		Example: "  ttfabric model --from now.json\n  ttfabric model --from now.json --for 50us --file later.json\n  ttfabric model --from now.json --drain\n  ttfabric model mesh:8x8 --router reliable\n  ttfabric model mesh:4x4 --router reliable --curves --loads 0.05,0.2",
		RunE: func(c *cobra.Command, args []string) error {
			if rr.Router != "" {
				bar := screen.NewProgress(c.ErrOrStderr(), "", 0)
				data, head, rows, err := rr.Run(c.Context(), args, bar)
				if bar.Stop(); data == nil {
					return err
				}
				return cmp.Or(show(c, data, head, rows), err)
			}
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
	c.Flags().StringVar(&rr.Router, "router", "", "model this router on a topology, not a snapshot: reliable")
	c.Flags().BoolVar(&rr.Curves, "curves", false, "with --router, measure latency by load")
	c.Flags().StringVar(&rr.Folder, "charts", "", "with --curves, also write curves.csv and charts (SVG) into this folder")
	c.Flags().StringSliceVar(&rr.Patterns, "pattern", nil, "with --curves, patterns of 'ttfabric traffic' (default uniform, and transpose on a square)")
	c.Flags().Float64SliceVar(&rr.Loads, "loads", nil, "with --curves, offered loads in flits per node and flit time (default 0.02 to 0.4)")
	c.Flags().Uint64Var(&rr.Seed, "seed", 1, "with --router, seed of the model")
	c.MarkFlagsOneRequired("from", "router")
	c.MarkFlagsMutuallyExclusive("from", "router")
	return c
}
