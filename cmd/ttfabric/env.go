package main

import (
	"os"
	"strings"

	"ttfabric/node/fabric/spec"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the name of each environment variable that stands for a flag.
const envPrefix = "TTFABRIC_"

// envName returns the name of the environment variable of a flag. If all commands
// have the flag, the variable has a name such as TTFABRIC_NAME. If one command has
// the flag, the variable's name contains that command, such as TTFABRIC_UP_PROFILE
// for 'ttfabric up --profile'.
func envName(c *cobra.Command, f *pflag.Flag) string {
	var path []string
	if c.InheritedFlags().Lookup(f.Name) != f {
		path = strings.Fields(c.CommandPath())[1:]
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(strings.Join(append(path, f.Name), "_"), "-", "_"))
}

// fromEnvironment sets flags from environment variables. If the command line does
// not name a flag and the flag's environment variable is set, the variable gives the
// value.
func fromEnvironment(c *cobra.Command, _ []string) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := envName(c, f)
		v, ok := os.LookupEnv(name)
		if !ok || f.Changed || err != nil || f.Name == "help" || f.Name == "version" {
			return
		}
		if e := c.Flags().Set(f.Name, v); e != nil {
			err = spec.Usagef("the environment variable %s: %w", name, plainFlagError(e))
		}
	})
	return err
}
