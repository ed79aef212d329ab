package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newDown() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "down", Short: "Stop a fabric and remove everything of it", Args: cobra.NoArgs,
		Long:    "down stops the chips of a fabric and removes its run folder, also after a crash. Of one of containers it removes these, their network and their volume, whoever started them. The archive of its events goes with it, unless 'up --archive' put it elsewhere.",
		Example: "  ttfabric down\n  ttfabric down --name lab\n  ttfabric down --all",
		RunE: func(c *cobra.Command, _ []string) error {
			name, _ := c.Flags().GetString("name")
			names := []string{name}
			if all {
				names = nil
				ents, _ := os.ReadDir(runRoot())
				for _, e := range ents {
					names = append(names, e.Name())
				}
			}
			for _, name := range names {
				dir, err := dirFor(name)
				if err != nil {
					return err
				}
				_, elsewhere := dir.host().(elsewhere)
				there, err := removeFabric(dir)
				if err != nil && !there {
					fmt.Fprintf(c.ErrOrStderr(), "No fabric named %q ran as processes; whether as containers is not known: %v\n", name, err)
					continue
				}
				if err != nil {
					return fmt.Errorf("fabric %q: %w", name, err)
				}
				if !there {
					fmt.Fprintf(c.ErrOrStderr(), "No fabric named %q was running.\n", name)
				} else if elsewhere {
					fmt.Fprintf(c.ErrOrStderr(), "Fabric %q is forgotten here; its chips run on.\n", name)
				} else {
					fmt.Fprintf(c.ErrOrStderr(), "Fabric %q is down.\n", name)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all fabrics of this user: those that have a run folder")
	return c
}

// removeFabric stops the chips of a fabric and removes what there is of it. It reports whether there was any.
func removeFabric(dir runDir) (bool, error) {
	if _, err := os.Stat(string(dir)); err == nil {
		return true, dir.host().remove()
	}
	n, err := removeLabelled(context.Background(), dir.name())
	if engineAbsent(err) {
		return false, nil
	}
	return n > 0, err
}
