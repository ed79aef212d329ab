package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
)

// addOptions adds the named options of a fabric to a command as flags. Without
// names, addOptions adds all options except port-base, because the meaning of
// port-base differs by command. The flags write their values to s. The values that s
// has at the call are the defaults.
func addOptions(c *cobra.Command, s *spec.Spec, names ...string) {
	if len(names) == 0 {
		for _, o := range spec.Options {
			if o.Name != "port-base" {
				names = append(names, o.Name)
			}
		}
	}
	fl := c.Flags()
	for _, name := range names {
		o := spec.OptionByName(name)
		switch p := o.Value(s).(type) {
		case *string:
			fl.StringVar(p, name, *p, o.Usage)
		case *int:
			fl.IntVar(p, name, *p, o.Usage)
		case *bool:
			fl.BoolVar(p, name, *p, o.Usage)
		case *time.Duration:
			fl.DurationVar(p, name, *p, o.Usage)
		case *[]string:
			fl.StringArrayVar(p, name, *p, o.Usage)
		default:
			panic(fmt.Sprintf("option %s: a flag of type %T", name, p))
		}
	}
}

// refuseRunning returns an error if the running fabric refuses an option of the command
// line, see [spec.Option.RefuseRunning]. An option with the value of the running fabric
// is usually allowed.
func refuseRunning(c *cobra.Command, running, want *spec.Spec) error {
	for i := range spec.Options {
		o := &spec.Options[i]
		if fl := c.Flags().Lookup(o.Name); fl == nil || !fl.Changed {
			continue
		}
		if err := o.RefuseRunning(running, want); err != nil {
			return err
		}
	}
	return nil
}
