package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/model"
	"ttfabric/node/model/control"
	"ttfabric/node/model/serve"
	"ttfabric/node/output"
	"ttfabric/node/sim/reliable/curves"
)

func newModel() *cobra.Command {
	var from, file string
	var detach bool
	o, rr, want := model.Options{}, curves.Command{}, spec.Default()
	c := &cobra.Command{Use: "model [TOPOLOGY]", Short: "Simulate a fabric in virtual time: run, step, stop at a condition, go back", Args: cobra.MaximumNArgs(1),
		Long: `The command starts a model: one process simulates all chips of TOPOLOGY in virtual time, with
the options of 'up'. All commands for a fabric work on a model. Without -d, the command
stays in the foreground until Ctrl-C, and then removes the model. With --from and -d, the
model has the topology and options of a snapshot, and goes on from the snapshot's state.

With --from and without -d, the command loads the snapshot, lets the fabric go on, prints
what the chips hold at the end, and exits. Kernels of the snapshot do not run.

` + curves.Help,
		Example: "  ttfabric model t3000 -d\n  ttfabric model mesh:2x2 -d --order none --allow-deadlock --local-first\n  ttfabric model --from now.json -d\n  ttfabric model --from now.json --for 50us --file later.json\n  ttfabric model --from now.json --drain\n  ttfabric model mesh:8x8 --router reliable\n  ttfabric model mesh:4x4 --router reliable --curves --loads 0.05,0.2",
		RunE: func(c *cobra.Command, args []string) error {
			if rr.Router != "" {
				data, head, rows, err := rr.Run(c.Context(), args, c.ErrOrStderr())
				if data == nil {
					return err
				}
				return cmp.Or(show(c, data, head, rows), err)
			}
			if from == "" || detach {
				name, _ := c.Flags().GetString("name")
				hold, err := fabric.StartModel(c.Context(), name, strings.Join(args, ""), from, want, func(f *fabric.Fabric, exits fabric.Exits) ([]api.ChipView, error) {
					return bringUp(c, c.Context(), f, exits)
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(c.ErrOrStderr(), "The model %q runs. 'ttfabric down --name %s' removes the model.\n", name, name)
				if detach {
					return nil
				}
				return hold(c.ErrOrStderr())
			}
			r, err := serve.RunSnapshot(from, file, o)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.ErrOrStderr(), r.String())
			head, rows := output.SnapshotTable(r.Chips)
			return show(c, r, head, rows)
		}}
	c.Flags().StringVar(&from, "from", "", "file with the snapshot")
	c.Flags().BoolVarP(&detach, "detach", "d", false, "return when the model runs, and leave it running")
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
	c.MarkFlagsMutuallyExclusive("from", "router")
	addOptions(c, &want)
	for _, v := range control.Verbs {
		c.AddCommand(&cobra.Command{Use: v.Use, Short: v.Short, Long: v.Long, Example: v.Example, RunE: func(c *cobra.Command, args []string) error {
			return tellModel(c, append([]string{c.Name()}, args...)...)
		}})
	}
	return c
}

// tellModel sends words to the model, and prints the reply.
func tellModel(c *cobra.Command, words ...string) error {
	fab, err := openFabric(c)
	if err != nil {
		return err
	}
	r, err := fab.Model(c.Context(), words...)
	if err != nil {
		return err
	}
	if f, err := format(c); err != nil || f == "json" {
		return cmp.Or(err, printJSON(c, r.Reply))
	}
	fmt.Fprintln(c.OutOrStdout(), &r.Reply)
	return nil
}
