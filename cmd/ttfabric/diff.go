package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// showDiff prints the result of 'inspect --diff'.
func showDiff(c *cobra.Command, t *topo.Topology, format, file string, views []api.ChipView, missing, silent []wire.FabricNodeID) error {
	expected, err := expectedOf(c, t, file)
	if err != nil {
		return err
	}
	d := fabric.DiffLinks(t, expected, views, fabric.Quiet(missing, silent))
	if format == "json" {
		return printJSON(c, d)
	}
	printDiff(c, d)
	return nil
}

// expectedOf returns the topology that --expected names, or t without --expected.
func expectedOf(c *cobra.Command, t *topo.Topology, file string) (*topo.Topology, error) {
	if file == "" {
		return t, nil
	}
	return folder.LoadTopology(c.Context(), file)
}

func printDiff(c *cobra.Command, d fabric.LinkDiff) {
	if len(d.Downed)+len(d.Unused) == 0 {
		fmt.Fprintf(c.OutOrStdout(), "all %d cables are up\n", d.Declared)
		return
	}
	tw := newTable(c, "From", "Ch", "To", "Ch", "Dir", "Plane", "Scope", "Reason", "For", "Carried by", "Retrains", "Down s")
	tw.Least("Retrains", "Down s", "Scope", "Dir", "For", "Carried by", "Plane")
	for i, l := range append(slices.Clone(d.Downed), d.Unused...) {
		since, by, reason := "", "none", l.Reason
		if l.SinceS != nil {
			since = time.Duration(*l.SinceS * float64(time.Second)).Round(time.Second).String()
		}
		if l.By != nil {
			by = fmt.Sprintf("channel %d", *l.By)
		}
		if i >= len(d.Downed) {
			reason = "unused: " + reason
		}
		tw.AppendRow(table.Row{l.Src, l.SrcChannel, l.Dst, l.DstChannel, l.Direction, l.Plane, l.Scope, reason, since, by, l.Retrains, fmt.Sprintf("%.1f", l.DowntimeS)})
	}
	tw.Render()
	planes := newTable(c, "Chip", "Dir", "To", "Declared", "Expected", "Live", "Planes", "Downed", "Unused downed")
	planes.Least("Unused downed", "Declared", "Downed")
	for _, p := range d.Planes {
		if p.Down+p.Unused > 0 || p.Usable < p.Declared && !p.External {
			planes.AppendRow(table.Row{p.Chip, p.Direction, p.Peer, p.Declared, p.Expected, p.Live, p.Usable, p.Down, p.Unused})
		}
	}
	planes.Render()
	fmt.Fprintf(c.OutOrStdout(), "%d of %d cables are up", d.Up, d.Declared)
	if n := len(d.Unused) / 2; n > 0 {
		fmt.Fprintf(c.OutOrStdout(), "; %d of the cables that no route needs are not up", n)
	}
	fmt.Fprintln(c.OutOrStdout())
}
