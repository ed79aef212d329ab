package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
)

func newSchema() *cobra.Command {
	return &cobra.Command{Use: "schema [COMMAND]", Short: "Print the JSON Schema of what a command prints with -o json",
		Long: `The command prints the JSON Schema (draft 2020-12) of the data that COMMAND prints with
-o json. Without COMMAND, the command lists the commands that have a schema.

The data is stable. Within one major version of the program, commands add fields, and
never remove a field or change the type, the unit or the meaning of a field. If a
text has one of several names, a later version may add further names. Programs must
therefore ignore fields and names that they do not know. Tables, and messages on
stderr, may change at any time.`,
		Example: "  ttfabric schema\n  ttfabric schema mem read\n  ttfabric schema inspect > inspect.schema.json",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return output.Commands(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			switch {
			case err != nil:
				return err
			case len(args) > 0:
				s, ok := output.Schema(strings.Join(args, " "))
				if !ok {
					return spec.Usagef("command %q has no schema; 'ttfabric schema' lists the commands that have a schema", strings.Join(args, " "))
				}
				return printJSON(c, s)
			case f == "json":
				return printJSON(c, output.Commands())
			}
			for _, name := range output.Commands() {
				fmt.Fprintln(c.OutOrStdout(), name)
			}
			return nil
		}}
}
