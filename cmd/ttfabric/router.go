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
		Long: `The commands below router give orders to the routers of ports. LINK names cables,
and the order goes to the ports at both ends of the cables. --chip names chips, and
the order goes to all ports of the chips. The word 'all' stands for all ports of the
fabric. To cut cables or kill chips, see 'link' and 'chip'.`}
	c.AddCommand(
		newRouterAction("pause", "paused", "Stop the packets at ports, without loss",
			`The command stops the packets at ports in both directions. The links stay up. The
packets wait at the port. When the credits run out, further packets wait at the chips
before the port, back to the sources.

A chip with a paused port drops no waiting packet, in spite of the grace period
and of 'up --stuck'. At other chips, --stuck also applies to packets that wait because
of the pause. If a source gets no answer to a request for 2 minutes, the source reports
the request's outcome as unknown. The destination still performs the request after
'router resume'.`, "M0D0:8"),
		newRouterAction("drain", "draining", "Let ports drop outgoing requests, and report each drop to the source",
			`The command lets ports drop the requests that would leave by these ports. A port
counts each dropped request, and reports the request to its source as "drained".
Probes (as 'ping' sends), read data, completions and reports still pass. So every
source learns what became of its requests. The chip handles packets that come in by
the port as usual.`, "M0D0:8"),
		newRouterAction("resume", "running", "Let paused or draining ports work again",
			"The command ends 'router pause' and 'router drain'. The ports pass all packets again.", "M0D0:8"),
		newRouterAction("flush", "flushed", "Drop the packets that wait in the sender channels of ports, once",
			`The command drops the packets that wait in the sender channels of ports. A port
counts each dropped packet, and reports a dropped request to its source as
"flushed". The port also drops waiting answers. If a port drops the data of a read,
the read ends with an unknown outcome. If a packet has left its sender channel, the
link still delivers the packet. The command does not affect later packets.`, "M0D0:8"),
		newRouterAction("retrain", "ordered to train again", "Take links down and train them again at once",
			`The command takes links down and trains them again at once, in the same session. No
packet is lost, doubled or reordered, and no other link is affected. If a chip holds
a cable down because the cable failed too often, the command ends the hold. The
cable's count of failures then starts from zero. A paused or draining port stays
paused or draining.`, "M0D0:8"),
		newRouterAction("raw", "in compliance mode", "Put ports into compliance mode, without TT-link",
			`The command puts ports into compliance mode. Such a port carries no packets of the
fabric, and the routing tables avoid its cable. The port sends and receives payloads
of up to 1500 bytes, without training, acknowledgement or retransmission. A program
sends a payload by a store of 1 to the register CMD of the port's ethernet tile. The
port stores received payloads in a buffer in the L1 of this tile. The registers of the
receive queue name the buffer. Give the command to both ends of a cable. 'router
ttlink' ends the mode.`, "M0D0:8"),
		newRouterAction("ttlink", "in TT-link mode", "End the compliance mode of ports",
			"The command ends 'router raw'. The links of the ports train again, and carry packets.", "M0D0:8"))
	return c
}

func newRouterAction(action, done, short, long, example string) *cobra.Command {
	var chips string
	c := &cobra.Command{Use: action + " [LINK...]", Short: short, Long: long + "\n\n" + linkHelp, ValidArgsFunction: completeLinks,
		Example: fmt.Sprintf("  ttfabric router %s %s\n  ttfabric router %s M0D0-M0D1/p1\n  ttfabric router %s --chip 'M0D3,M0D[5-7]'\n  ttfabric router %s all", action, example, action, action, action),
		RunE: func(c *cobra.Command, args []string) error {
			if (len(args) == 0) == (chips == "") {
				return spec.Usagef("router %s: want either cables, or chips with --chip; 'all' stands for every cable", action)
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

// routerPorts returns the ports that an order goes to. The order goes to both ends of the cables in
// args, or to all ports of the chips that the argument "chips" names. For the order 'retrain' of
// cables, routerPorts returns only the ends that need the order.
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
	named, err := spec.Chips(f.Topology, []string{chips})
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
