// Package mapped prints which chips of a machine take the places of a mesh graph descriptor.
package mapped

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"ttfabric/node/output/fit"
	"ttfabric/router/topo"
	"ttfabric/router/topo/mapping"
)

// Show prints a mapping as tables and sentences. The function newTable returns a table with the given
// columns.
func Show(w io.Writer, m *mapping.Mapping, newTable func(header ...any) *fit.Table) {
	tw := newTable("Chip", "Host", "UMD", "Tray,location", "Unique id", "Pinned")
	tw.Least("Unique id", "Pinned", "Host", "Tray,location")
	for _, p := range m.Chips {
		place := ""
		if p.Tray > 0 {
			place = fmt.Sprintf("%d,%d", p.Tray, p.Location)
		}
		tw.AppendRow(table.Row{p.Chip, p.Host, p.UMD, place, p.Unique, map[bool]string{true: "yes"}[p.Pinned]})
	}
	tw.Render()
	if len(m.Connections) > 0 {
		tw := newTable("From", "To", "Wanted", "Given", "Policy")
		for _, c := range m.Connections {
			tw.AppendRow(table.Row{c.A, c.B, c.Wanted, c.Given, map[bool]string{false: "STRICT", true: "RELAXED"}[c.Relaxed]})
		}
		tw.Render()
	}
	if len(m.Short) > 0 {
		worst := slices.MinFunc(m.Short, func(a, b mapping.Short) int { return cmp.Compare(a.Given, b.Given) })
		fmt.Fprintf(w, "%s of neighbours with fewer cables than wanted, which the policy RELAXED allows; %s–%s has the fewest: %d of %d.\n", topo.Count(len(m.Short), "pair"), worst.A, worst.B, worst.Given, worst.Wanted)
	}
	for _, l := range m.LeftOut {
		fmt.Fprintf(w, "Left out: %s.\n", l)
	}
	for _, s := range m.Notes {
		fmt.Fprintf(w, "Note: %s.\n", s)
	}
	fmt.Fprintf(w, "%s of %s on %s; %s to spare; %d steps.\n", topo.Count(len(m.Chips), "chip"), m.Graph, m.Machine, topo.Count(m.Spare, "chip"), m.Steps)
}
