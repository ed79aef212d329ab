package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/doctor"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
)

func newUp() *cobra.Command {
	f := upFlags{spec: spec.Default(), container: container.DefaultOptions()}
	c := &cobra.Command{
		Use:   "up [TOPOLOGY]",
		Short: "Bring up a fabric: one process per chip",
		Long: `The command starts one process per chip. Each ethernet port of a chip has a socket of
its own. The command waits until every declared link is up, and prints a table of
the chips. With -d, the command then returns. Without -d, the command stays in the
foreground until Ctrl-C, and then stops the fabric. If the fabric runs already, the
command starts the missing chips.

TOPOLOGY is a built-in topology (t3000, galaxy, 2xt3000), a generated topology
(mesh:4x8, ring:6, torus:4x4), or a file (default: t3000). A file is a cluster
descriptor of tt-umd, a mesh graph descriptor of tt-metal, or a file that 'ttfabric
generate' wrote. 'ttfabric validate' describes the content of a file. A name such as
torus:4x4@mesh or FILE@x,planes=1 brings up a fabric that does not use all cables:
mesh or line (no axis wraps), open-x or open-y (rows or columns do not wrap), x or y
(only rows or columns), planes=N (at most N routing planes).

With --runtime docker each chip is a container. The command then writes a compose
file to the run folder, as 'ttfabric compose' does. --image, --memory and --mtu are
options of the containers. Containers mount keys and certificates from the run
folder. 'record stop' and 'down' copy recordings to the folder of --record. 'up',
'capture' and 'down' copy logged secrets to the folder of --keylog.

A topology file may say what carries the links and how chips authenticate each
other, such as "transport: quic" or "auth: psk". The flags --transport and --auth
overrule the topology file.

With --dry-run, the command checks the options and the routes, prints which chips would
start, and starts nothing.

The command proves the routes free of deadlock before any chip starts. 'ttfabric
routes' shows the routes. --stuck says what chips do when a packet has been blocked
for the time of --stuck-after: report an event, or also drop packets.`,
		Example: `  ttfabric up
  ttfabric up mesh:4x8 -d
  ttfabric up torus:4x4 --ring bubble
  ttfabric up galaxy@x,planes=1
  ttfabric up cluster_desc.yaml --dry-run
  ttfabric up --netem 'M0D0-M0D1,delay=1ms,loss=1%'
  ttfabric up --record /tmp/calls
  ttfabric up --gossip-key generate --auth psk
  ttfabric up --transport quic
  ttfabric up galaxy --runtime docker
  ttfabric up --runtime docker --auth psk --gossip-key generate
  ttfabric up cluster_desc.yaml --name lab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		RunE:              func(c *cobra.Command, args []string) error { return runUp(c, args, f) },
	}
	fl := c.Flags()
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when the fabric is up, and leave the fabric running")
	fl.BoolVar(&f.dryRun, "dry-run", false, "check all options, print which chips would start and on which ports, and start nothing")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "give up if not all links are up after this time")
	addOptions(c, &f.spec, "port-base")
	addOptions(c, &f.spec)
	fl.StringVar(&f.gossipKey, "gossip-key", "", "file with the key that encrypts gossip ('ttfabric gossip keygen' writes one), or generate to make a new key")
	fl.StringVar(&f.spec.Runtime, "runtime", spec.Process, "how chips run: process (each chip is a process of this machine), docker (each chip is a container of a compose file) or model (one process simulates all chips in virtual time; see 'ttfabric model')")
	fl.StringVar(&f.spec.Program, "program", "", "executable for each chip's process, instead of ttfabric; for example a Go program that calls process.Main")
	addContainerOptions(c, &f.container)
	return c
}

func runUp(c *cobra.Command, args []string, f upFlags) error {
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	fab, fresh, err := prepare(c, ctx, args, &f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return printDryRun(c, f.plan)
	}
	exits := make(fabric.Exits, len(fab.Topology.Chips))
	begin := time.Now()
	views, err := bringUp(c, ctx, fab, exits)
	if err != nil {
		if fresh {
			fab.Remove()
		}
		if c.Context().Err() != nil {
			return context.Canceled
		}
		return err
	}
	took := time.Since(begin)
	if err := fab.KeyLog(ctx); err != nil {
		return err
	}
	if err := printUp(c, fab.Topology, views, took); err != nil {
		return err
	}
	if text := doctor.Unsealed(doctor.OtherUsers()); text != "" && fab.Spec.Auth == spec.None && fab.Spec.Runtime != spec.Docker {
		fmt.Fprintf(c.ErrOrStderr(), "Note: %s. --auth psk prevents this.\n", text)
	}
	if fab.Spec.Program != "" {
		fmt.Fprintf(c.ErrOrStderr(), "The chips' programs print to %s.\n", fab.Dir.Path("chip-CHIP.log"))
	}
	if f.detach {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "Fabric %q is up. Ctrl-C stops it.\n", fab.Name())
	return fab.Hold(c.Context(), c.ErrOrStderr(), exits)
}

func printDryRun(c *cobra.Command, d *spec.DryRun) error {
	f, err := format(c)
	if err != nil || f == "json" {
		return errors.Join(err, printJSON(c, output.Up{Topology: d.Topology, Remarks: d.Remarks, Chips: []api.ChipView{}, DryRun: d}))
	}
	tw := newTable(c, "Chip", "Row,Col", "Links", "UDP ports", "Runs")
	tw.Least("Runs", "Row,Col")
	runs := cmp.Or(d.Program, d.Image)
	for _, x := range d.Chips {
		tw.AppendRow(table.Row{x.Chip, fmt.Sprintf("%d,%d", x.Row, x.Col), x.Links, x.PortWords(), runs})
	}
	tw.Render()
	fmt.Fprintln(c.ErrOrStderr(), d)
	for _, s := range d.Remarks {
		fmt.Fprintln(c.ErrOrStderr(), s)
	}
	return nil
}
