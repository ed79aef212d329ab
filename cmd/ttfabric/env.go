package main

import (
	"os"
	"strings"

	"ttfabric/node/fabric/spec"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the name of each environment variable that gives the value of a flag.
const envPrefix = "TTFABRIC_"

// envName returns the name of the environment variable that gives the value of flag f
// of command c. If f is a flag of all commands, the name contains only the flag, such
// as TTFABRIC_NAME. If f belongs to c, the name also contains the command, such as
// TTFABRIC_UP_PROFILE for 'ttfabric up --profile'.
func envName(c *cobra.Command, f *pflag.Flag) string {
	var path []string
	if c.InheritedFlags().Lookup(f.Name) != f {
		path = strings.Fields(c.CommandPath())[1:]
	}
	return envPrefix + strings.ToUpper(strings.ReplaceAll(strings.Join(append(path, f.Name), "_"), "-", "_"))
}

// fromEnvironment sets each flag that the command line does not name and whose
// environment variable exists. The value may be empty. The flags --help and --version
// have no variables. If a value is invalid, fromEnvironment returns an error.
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
	if err == nil && c.Flags().Lookup("output") != nil {
		_, err = format(c) // before the command changes anything
	}
	return err
}
