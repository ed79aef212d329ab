package main

import (
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/fault"
)

// impairFlags are the flags that say which impairment of cables or of gossip a
// command sets.
type impairFlags struct {
	values   []string // values of the flags, in the order of fault.Knobs
	seed     uint64
	duration time.Duration
}

// add registers a flag for each impairment, and the flags --seed and --duration. The parameter
// "dice" is a text for the help of --seed. The text names the parts that have a random sequence of
// their own, for example "each chip".
func (f *impairFlags) add(c *cobra.Command, dice string) {
	f.values = make([]string, len(fault.Knobs))
	for i, k := range fault.Knobs {
		c.Flags().StringVar(&f.values[i], k.Name, "", k.Help)
	}
	c.Flags().Uint64Var(&f.seed, "seed", 0, "start the random numbers again from this seed; "+dice+" has its own random sequence")
	c.Flags().DurationVar(&f.duration, "duration", 0, "restore the previous values after this time; 0: never")
}

// read returns the impairments that the command line sets. If the command line does
// not set --seed, the result "seed" is nil. If a value is invalid, or neither an
// impairment nor a seed is set, read returns an error.
func (f *impairFlags) read(c *cobra.Command) (change fault.Change, seed *uint64, err error) {
	change = fault.Change{}
	for i, k := range fault.Knobs {
		if c.Flags().Changed(k.Name) {
			change[k.Name] = f.values[i]
		}
	}
	if c.Flags().Changed("seed") {
		seed = &f.seed
	}
	if _, err := change.Apply(fault.Options{}); err != nil {
		return nil, nil, spec.Usagef("--%w", err)
	}
	if len(change) == 0 && seed == nil {
		return nil, nil, spec.Usagef("no impairment is named; want one or more flags such as --delay 10ms or --loss 1%%; see '%s --help'", c.CommandPath())
	}
	return change, seed, faultTime("--duration", f.duration)
}
