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
		Long: `router tells the routers of ports what to do. LINK names cables, whose ports at
both ends are told; --chip names chips, all of whose ports are told; 'all' is
the fabric. Nothing is cut or killed: for that, see 'link' and 'chip'.`}
	c.AddCommand(
		newRouterAction("pause", "paused", "Let ports stand still; nothing is lost",
			`pause lets ports stand still in both directions. The links stay up. Packets wait
where they are, and credits hold back what is behind them, up to the sources.
Nothing is dropped while it waits at a chip that has a paused port, whatever the
grace period or 'up --stuck' says; at other chips, what is held back by it counts
for --stuck as ever. A source that hears nothing of its requests for 10 s reports
them as of unknown outcome; they are performed when the port goes on.`, "M0D0:8"),
		newRouterAction("drain", "draining", "Let ports take requests and drop them",
			`drain lets ports take the requests that are to leave by them and drop them, each
counted and reported to its source as "drained". Probes, such as 'ping', read data,
completions and reports pass, so that every source learns what became of its requests. What
comes in by the port is handled as ever.`, "M0D0:8"),
		newRouterAction("resume", "running", "Let ports go on that were paused or drained",
			"resume lets ports go on that 'router pause' or 'router drain' told otherwise.", "all"),
		newRouterAction("flush", "flushed", "Drop what waits to be sent by ports, once",
			`flush drops the packets that wait in the sender channels of ports, each counted
and, if it is a request, reported to its source as "flushed". Answers that wait
there go too: a read whose data was flushed ends as of unknown outcome. What the
links have taken already is delivered; what comes later waits or goes as before.`, "M0D0:8"),
		newRouterAction("retrain", "told to train anew", "Take links down and train them anew at once",
			`retrain takes links down and trains them anew at once, in the same session:
nothing is lost, doubled or reordered, and no other link knows of it. A cable
that is held down because it failed too often is let go, with its failures
forgotten. A port that is paused or drained stays so.`, "M0D0:8"))
	return c
}

func newRouterAction(action, done, short, long, example string) *cobra.Command {
	var chips string
	c := &cobra.Command{Use: action + " [LINK...]", Short: short, Long: long + "\n\n" + linkHelp, ValidArgsFunction: completeLinks,
		Example: fmt.Sprintf("  ttfabric router %s %s\n  ttfabric router %s M0D0-M0D1/p1\n  ttfabric router %s --chip 'M0D3,M0D[5-7]'\n  ttfabric router %s all", action, example, action, action, action),
		RunE: func(c *cobra.Command, args []string) error {
			if (len(args) == 0) == (chips == "") {
				return spec.Usagef("router %s: name cables or, with --chip, chips; 'all' is every cable", action)
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
				return fmt.Errorf("router %s: none of the chips named runs; 'ttfabric inspect' lists those that do", action)
			}
			return showRouters(c, f, done, views)
		}}
	c.Flags().StringVar(&chips, "chip", "", "all ports of these chips: a list such as M0D3,M0D4, or patterns")
	return c
}

// routerPorts finds the ports that a command is about: both ends of cables, all
// ports of chips, or, to train links anew, the ends that have to be told.
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
