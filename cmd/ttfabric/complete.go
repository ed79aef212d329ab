package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/route"
)

// flagValues maps the name of a flag to the words that are values of the flag, for shell
// completion. Every command with the flag takes these words.
func flagValues() map[string][]string {
	var schemes []string
	for _, s := range route.Schemes {
		schemes = append(schemes, s.Name)
	}
	values := map[string][]string{
		"runtime":   {spec.Process, spec.Docker},
		"direction": spec.Directions,
		"log-level": {"debug", "info", "warn", "error"},
		"kind":      api.ProfileKinds,
		"vcs":       schemes,
	}
	for _, o := range spec.Options {
		if o.Words != nil {
			values[o.Name] = o.Words
		}
	}
	return values
}

// completeValues lets the shell complete the values of flags, for c and all commands
// below c. The map "values" holds the values by the flag's name. completeValues leaves out
// flags that are not strings, and flags that have a completion function already.
func completeValues(c *cobra.Command, values map[string][]string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		words, ok := values[f.Name]
		if _, done := c.GetFlagCompletionFunc(f.Name); ok && !done && f.Value.Type() == "string" {
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, sub := range c.Commands() {
		completeValues(sub, values)
	}
}

func completeFormat(c *cobra.Command, formats ...string) {
	c.RegisterFlagCompletionFunc("format", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return formats, cobra.ShellCompDirectiveNoFileComp
	})
}
