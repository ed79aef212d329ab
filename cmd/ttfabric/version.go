package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/output"
)

func newVersion() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  ttfabric version\n  ttfabric version -o json", RunE: func(c *cobra.Command, _ []string) error {
		if f, err := format(c); err != nil {
			return err
		} else if f == "json" {
			return printJSON(c, output.Version{Version: version()})
		}
		fmt.Fprintln(c.OutOrStdout(), version())
		return nil
	}}
}
