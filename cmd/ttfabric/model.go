package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/model"
	"ttfabric/node/model/control"
	"ttfabric/node/output"
)

func newModel() *cobra.Command {
	var o model.Options
	var from, file string
	var detach bool
	want := spec.Default()
	c := &cobra.Command{Use: "model [TOPOLOGY]", Short: "Simulate a fabric in virtual time: run, step, stop at a condition, go back", Args: cobra.MaximumNArgs(1),
		Long: `The command starts a model: one process simulates all chips of TOPOLOGY in virtual time, with
the options of 'up'. All commands for a fabric work on a model. Without -d, the command
stays in the foreground until Ctrl-C, and then removes the model. With --from and -d, the
model has the topology and options of a snapshot, and goes on from its state.

With --from and without -d, the command loads the snapshot, lets the fabric go on, prints
what the chips hold at the end, and exits. Kernels of the snapshot do not run.`,
		Example: "  ttfabric model t3000 -d\n  ttfabric model mesh:2x2 -d --order none --allow-deadlock --local-first\n  ttfabric model --from now.json -d\n  ttfabric model --from now.json --for 50us --file later.json\n  ttfabric model --from now.json --drain",
		RunE: func(c *cobra.Command, args []string) error {
			if from == "" || detach {
				return runModel(c, strings.Join(args, ""), from, want, detach)
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
	c.Flags().BoolVarP(&detach, "detach", "d", false, "return when the model runs, and leave it running")
	c.Flags().DurationVar(&o.For, "for", 0, "let the fabric run for this virtual time")
	c.Flags().IntVar(&o.Events, "events", 0, "then, let the simulator carry out this number of events")
	c.Flags().BoolVar(&o.Drain, "drain", false, "then, let the fabric run until no request is open and no packet is under way")
	c.Flags().StringVarP(&file, "file", "f", "", "write a snapshot of the end into this file")
	addOptions(c, &want)
	for _, v := range control.Verbs {
		c.AddCommand(&cobra.Command{Use: v.Use, Short: v.Short, Long: v.Long, Example: v.Example, RunE: func(c *cobra.Command, args []string) error {
			fab, err := openFabric(c)
			if err != nil {
				return err
			}
			r, err := fab.Model(c.Context(), append([]string{c.Name()}, args...)...)
			return printModel(c, &r, err)
		}})
	}
	return c
}

func printModel(c *cobra.Command, r *control.Reply, err error) error {
	if err != nil {
		return err
	}
	if f, err := format(c); err != nil || f == "json" {
		return cmp.Or(err, printJSON(c, r))
	}
	fmt.Fprintln(c.OutOrStdout(), r)
	return nil
}

func runModel(c *cobra.Command, arg, from string, want spec.Spec, detach bool) error {
	name, _ := c.Flags().GetString("name")
	fab, err := fabric.CreateModel(c.Context(), name, arg, from, want)
	if err != nil {
		return err
	}
	exits, begin := make(fabric.Exits, len(fab.Topology.Chips)), time.Now()
	if _, err := fab.Up(c.Context(), nil, exits); err != nil {
		fab.Remove()
		return err
	}
	r, err := fab.Model(c.Context(), "status")
	if err := printModel(c, &r, err); err != nil || detach {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "The model %q of %s is up in %.2f s. Ctrl-C removes it.\n", name, fab.Topology, time.Since(begin).Seconds())
	return fab.Hold(c.Context(), c.ErrOrStderr(), exits)
}
