package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/picture/live"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/fabric/top"
)

func newTop() *cobra.Command {
	o := top.Options{}
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the links of the running fabric on the terminal, every second",
		Args:  cobra.NoArgs,
		Long: `The command shows the same picture as 'ttfabric dashboard' on the terminal: totals, the
cables with states, rates and retransmissions, and the latest events. Ctrl-C ends the
command. If the output is no terminal, the command prints one screen and ends.`,
		Example: "  ttfabric top\n  ttfabric top --sort load\n  ttfabric top --once",
		RunE: func(c *cobra.Command, _ []string) error {
			if !slices.Contains(top.Orders, o.Order) {
				return spec.Usagef("--sort %q: want one of %s", o.Order, strings.Join(top.Orders, ", "))
			}
			col, err := live.New(func() (*fabric.Fabric, error) { return openFabric(c) })
			if err != nil {
				return err
			}
			o.Out, o.Warn = c.OutOrStdout(), func(format string, a ...any) { fmt.Fprintf(c.ErrOrStderr(), "ttfabric: "+format+"\n", a...) }
			return top.Run(c.Context(), col, o)
		},
	}
	c.Flags().StringVar(&o.Order, "sort", "state", "order of the cables: "+strings.Join(top.Orders, ", "))
	c.Flags().BoolVar(&o.Once, "once", false, "show one screen, and end")
	return c
}
