package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/dashboard"
	"ttfabric/node/fabric/picture/live"
)

func newDashboard() *cobra.Command {
	var listen string
	var control bool
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the running fabric on a web page",
		Args:  cobra.NoArgs,
		Long: `The command serves a web page on this machine, and prints the page's address. The page
shows the links by state and load, the routers of a chip, routes, events and losses.
The command ends with Ctrl-C, or when the fabric is taken down.

The address holds a key. Whoever has the key sees the fabric. With --control, the
address holds a second key, and the page can cut and impair cables, and pause, kill
and start chips. The page listens on loopback only. From another machine, forward the
port: 'ssh -L 8480:127.0.0.1:8480 HOST'.`,
		Example: `  ttfabric dashboard
  ttfabric dashboard --control
  ttfabric dashboard --listen 127.0.0.1:8480`,
		RunE: func(c *cobra.Command, _ []string) error {
			col, err := live.New(func() (*fabric.Fabric, error) { return openFabric(c) })
			if err != nil {
				return err
			}
			l, err := dashboard.Listen(listen)
			if err != nil {
				return err
			}
			keys := dashboard.NewKeys(control)
			fmt.Fprintf(c.OutOrStdout(), "http://%s/%s\n", l.Addr(), keys.Fragment())
			fmt.Fprintln(c.ErrOrStderr(), "Open this address in a browser. Ctrl-C ends the dashboard.")
			return dashboard.Run(c.Context(), l, col, keys, func(format string, a ...any) { fmt.Fprintf(c.ErrOrStderr(), "ttfabric: "+format+"\n", a...) })
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address of the page, on loopback; port 0: a free port")
	c.Flags().BoolVar(&control, "control", false, "let the page inject faults, with a second key")
	return c
}
