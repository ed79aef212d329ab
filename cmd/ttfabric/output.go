package main

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/node/output/fit"
	"ttfabric/node/output/screen"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// format returns the output format of --output: "table" or "json". For YAML, format also
// returns "json", because [printJSON] prints YAML too. For wide, format returns "table",
// because [newTable] knows wide tables. Another value of --output is an
// error.
func format(c *cobra.Command) (string, error) {
	f, err := c.Flags().GetString("output")
	if err != nil {
		return "", err
	}
	switch f {
	case "table", "json":
	case "wide":
		f = "table"
	case "yaml":
		f = "json"
	default:
		return "", spec.Usagef("--output %q: want table, wide, json or yaml", f)
	}
	return f, nil
}

// printJSON prints a value as JSON, or with --output yaml as YAML.
func printJSON(c *cobra.Command, v any) error {
	if f, _ := c.Flags().GetString("output"); f == "yaml" {
		return screen.YAML(c.OutOrStdout(), v)
	}
	return screen.JSON(c.OutOrStdout(), v)
}

// show prints v as JSON, or a table with a head and rows.
func show(c *cobra.Command, v any, head []any, rows [][]any) error {
	if f, err := format(c); err != nil {
		return err
	} else if f == "json" {
		return printJSON(c, v)
	}
	tw := newTable(c, head...)
	for _, r := range rows {
		tw.AppendRow(r)
	}
	tw.Render()
	return nil
}

// printLine prints v, one of many values, as a line of JSON. With --output yaml, the
// line is an item of a YAML list.
func printLine(c *cobra.Command, v any) error {
	if f, _ := c.Flags().GetString("output"); f == "yaml" {
		return screen.YAMLItem(c.OutOrStdout(), v)
	}
	return screen.JSONLine(c.OutOrStdout(), v)
}

// newTable returns a table with rounded borders that prints to stdout. If stdout is a terminal, the table
// fits the terminal's width, unless --output is wide.
func newTable(c *cobra.Command, header ...any) *fit.Table {
	width := screen.Width(c.OutOrStdout())
	if f, _ := c.Flags().GetString("output"); f == "wide" {
		width = 0
	}
	return fit.New(c.OutOrStdout(), c.ErrOrStderr(), width, header...)
}

// printUp prints a table of the fabric's chips, as 'inspect' does, and the time that
// bringing up the fabric took.
func printUp(c *cobra.Command, t *topo.Topology, views []api.ChipView, took time.Duration) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	if f == "json" {
		return printJSON(c, output.Up{Topology: t.Name, Seconds: took.Seconds(), Remarks: append([]string{}, t.Remarks(true)...), Chips: views})
	}
	printChips(c, views, nil, nil)
	fmt.Fprintf(c.ErrOrStderr(), "%s up in %.2f s\n", t, took.Seconds())
	for _, s := range t.Remarks(true) {
		fmt.Fprintln(c.ErrOrStderr(), s)
	}
	return nil
}

func printChips(c *cobra.Command, views []api.ChipView, missing, silent []wire.FabricNodeID) {
	tw := newTable(c, "Chip", "UMD", "Row,Col", "Links", "Members", "Gossip", "Ports", "Uptime")
	tw.Least("Gossip", "UMD", "Members", "Uptime", "Ports")
	for _, v := range views {
		umd := "-"
		if v.UMD >= 0 {
			umd = fmt.Sprint(v.UMD)
		}
		tw.AppendRow(table.Row{v.Chip, umd, fmt.Sprintf("%d,%d", v.Row, v.Col), fmt.Sprintf("%d/%d", v.LinksUp, len(v.Links)),
			v.Members, v.Gossip, addresses(v), time.Duration(v.UptimeS * float64(time.Second)).Round(time.Second)})
	}
	for _, m := range missing {
		tw.AppendRow(table.Row{m, "", "", "not running"})
	}
	for _, m := range silent {
		tw.AppendRow(table.Row{m, "", "", "no answer"})
	}
	tw.Render()
}

// addresses returns the first of a chip's UDP addresses, and the number of further
// addresses. If the chip has no link, addresses returns "-".
func addresses(v api.ChipView) string {
	if len(v.Links) == 0 {
		return "-"
	}
	first := v.Links[0].Address
	if len(v.Links) == 1 {
		return first
	}
	return fmt.Sprintf("%s +%d", first, len(v.Links)-1)
}

func sortedKeys(m map[string]uint64) []string {
	ks := make([]string, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	return ks
}

// seconds converts a number of seconds into a duration, rounded to whole seconds.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

// ago returns a text such as "5s ago" for the time s in seconds. If s is nil, ago
// returns "never".
func ago(s *float64) string {
	if s == nil {
		return "never"
	}
	return seconds(*s).String() + " ago"
}

// share returns the share s, from 0 to 1, as text in percent. If s is nil, share returns
// "".
func share(s *float64) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.3f", 100**s)
}

// training returns the phase of a link's training. If the training failed or the port is not
// connected, training adds this result.
func training(l *api.LinkView) string {
	if l.Train == "fail" || l.Train == "not connected" {
		return l.Phase + ", " + l.Train
	}
	return l.Phase
}

func percent(v float64) string { return fmt.Sprintf("%.1f", 100*v) }

func printEvent(c *cobra.Command, e api.EventView, asJSON bool) {
	if asJSON {
		printLine(c, e)
		return
	}
	keys := make([]string, 0, len(e.Detail))
	for k := range e.Detail {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for i, k := range keys {
		keys[i] = k + "=" + e.Detail[k]
	}
	fmt.Fprintf(c.OutOrStdout(), "%s %s %s %s %s (%s)\n", e.Time.Format("2006-01-02T15:04:05.000"), e.Chip, e.Type, e.Action, e.Actor, strings.Join(keys, ", "))
}

// writeResult writes text, the result of a command, to a file. If no file is named, writeResult
// writes the text to stdout. With the format "json", writeResult prints a JSON object to stdout
// instead: the fields of about, the length, and either the file's name or the text.
func writeResult(c *cobra.Command, as, file string, about output.Text, text []byte) error {
	if file != "" {
		if err := folder.WriteOut(file, text); err != nil {
			return fmt.Errorf("cannot write the file: %w", err)
		}
		about.File = file
		fmt.Fprintf(c.ErrOrStderr(), "Wrote %s.\n", file)
	} else {
		s := string(text)
		about.Text = &s
	}
	if as == "json" {
		about.Bytes = len(text)
		return printJSON(c, about)
	}
	if file == "" {
		_, err := c.OutOrStdout().Write(text)
		return err
	}
	return nil
}
