package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
)

// maxLateLines is the largest number of starved chips, and the largest number of silent chips, that
// a command names.
const maxLateLines = 8

// tellStarved prints on stderr the chips that were starved during runs, the most starved chips
// first. The function "of" returns the starved chips of one run.
func tellStarved[T any](c *cobra.Command, runs []T, of func(T) []traffic.Starved) {
	var all [][]traffic.Starved
	for _, r := range runs {
		all = append(all, of(r))
	}
	list := fabric.StarvedInAny(all...)
	slices.SortStableFunc(list, func(a, b traffic.Starved) int { return cmp.Compare(b.TotalS, a.TotalS) })
	var lines []string
	for _, s := range list {
		lines = append(lines, s.String())
	}
	tellLines(c, lines)
}

// tellLate prints on stderr the silent chips, and the chips that were starved lately.
func tellLate(c *cobra.Command, views []api.ChipView) {
	tellLines(c, fabric.SilentLines(views))
	tellLines(c, fabric.StarvedLines(views))
}

// tellLines prints the first lines about chips on stderr, and the number of further chips.
func tellLines(c *cobra.Command, lines []string) {
	for _, l := range lines[:min(len(lines), maxLateLines)] {
		fmt.Fprintln(c.ErrOrStderr(), l)
	}
	if n := len(lines) - maxLateLines; n > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "The same holds for %s.\n", topo.Count(n, "further chip"))
	}
}
