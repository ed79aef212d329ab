package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

func newRouter() *cobra.Command {
	c := &cobra.Command{Use: "router", Short: "Pause, drain, flush and retrain the routers of ports",
		Long: `router gives orders to the routers of ports. LINK names cables: the order goes to
the ports at both ends. --chip names chips: the order goes to all their ports. 'all'
stands for all ports of the fabric. To cut cables or kill chips, see 'link' and
'chip'.`}
	c.AddCommand(
		newRouterAction("pause", "paused", "Stop the packets at ports, without loss",
			`pause stops the packets at ports in both directions. The links stay up. The
packets wait at the port, and credits hold back the packets behind them, up to the
sources.

A chip with a paused port drops no waiting packet, in spite of the grace period
and of 'up --stuck'. At other chips, packets that wait because of the pause count
for --stuck as usual. A source that hears nothing of a request for 10 s reports
its outcome as unknown. The request is performed after the port is resumed.`, "M0D0:8"),
		newRouterAction("drain", "draining", "Let ports drop outgoing requests, and tell the sources",
			`drain lets ports drop the requests that would leave by them. A port counts each
dropped request, and reports the request to its source as "drained". Probes (as
'ping' sends), read data, completions and reports still pass. So every source
learns what became of its requests. Packets that come in by the port are handled
as usual.`, "M0D0:8"),
		newRouterAction("resume", "running", "Let paused or draining ports work again",
			"resume ends 'router pause' and 'router drain': the ports pass all packets again.", "all"),
		newRouterAction("flush", "flushed", "Drop the packets that wait in the sender channels of ports, once",
			`flush drops the packets that wait in the sender channels of ports. A port counts
each dropped packet, and reports a dropped request to its source as "flushed". It
drops waiting answers too: a read whose data was flushed ends with an unknown
outcome. Links still deliver the packets that they have taken. The order does not
affect later packets.`, "M0D0:8"),
		newRouterAction("retrain", "told to train anew", "Take links down and train them again at once",
			`retrain takes links down and trains them again at once, in the same session. No
packet is lost, doubled or reordered, and no other link is affected. A cable that
was held down because it failed too often is released, and its count of failures
starts from zero. A paused or draining port stays paused or draining.`, "M0D0:8"))
	return c
}

func newRouterAction(action, done, short, long, example string) *cobra.Command {
	var chips string
	c := &cobra.Command{Use: action + " [LINK...]", Short: short, Long: long + "\n\n" + linkHelp, ValidArgsFunction: completeLinks,
		Example: fmt.Sprintf("  ttfabric router %s %s\n  ttfabric router %s M0D0-M0D1/p1\n  ttfabric router %s --chip 'M0D3,M0D[5-7]'\n  ttfabric router %s all", action, example, action, action, action),
		RunE: func(c *cobra.Command, args []string) error {
			if (len(args) == 0) == (chips == "") {
				return spec.Usagef("router %s: want cables, or chips with --chip, but not both; 'all' is every cable", action)
			}
			f, err := format(c)
			if err != nil {
				return err
			}
			set, where, err := routerPorts(c, args, chips, action)
			if err != nil {
				return err
			}
			views, absent, err := set.CommandRouters(c.Context(), where, action)
			tellAbsent(c, absent)
			if err != nil {
				return err
			}
			if len(views) == 0 {
				return fmt.Errorf("router %s: none of the named chips is running; 'ttfabric inspect' lists the running chips", action)
			}
			return showRouters(c, f, done, views)
		}}
	c.Flags().StringVar(&chips, "chip", "", "give the order to all ports of these chips: a list such as M0D3,M0D4, or patterns such as 'M0D[0-3]'")
	return c
}

// routerPorts finds the ports that an order goes to: both ends of the cables in
// args, or all ports of chips. For 'retrain' it finds the ends that must be told.
func routerPorts(c *cobra.Command, args []string, chips, action string) (*fabric.Chips, fabric.Where, error) {
	if chips == "" {
		links, set, err := linkArgs(c, args)
		if err == nil && action == "retrain" {
			return set, set.RetrainPorts(c.Context(), links), nil
		}
		where, _ := spec.Ends(links, "both")
		return set, where, err
	}
	f, err := openFabric(c)
	if err != nil {
		return nil, nil, err
	}
	named, err := chipList(f.Topology, []string{chips})
	if err != nil {
		return nil, nil, err
	}
	set, err := f.Chips()
	return set, fabric.PortsOf(f.Topology, named), err
}

func showRouters(c *cobra.Command, format, done string, views []api.RouterView) error {
	if format == "json" {
		return printJSON(c, append([]api.RouterView{}, views...))
	}
	tw := newTable(c, "Chip", "Ch", "Peer", "Plane", "Router", "Waiting", "Flushed")
	for _, v := range views {
		tw.AppendRow(table.Row{v.Chip, v.Channel, fmt.Sprintf("%s/%d", v.Peer, v.PeerChan), v.Plane, v.State, v.Waiting, v.Flushed})
	}
	tw.Render()
	fmt.Fprintf(c.ErrOrStderr(), "%s %s\n", topo.Count(len(views), "port"), done)
	return nil
}
