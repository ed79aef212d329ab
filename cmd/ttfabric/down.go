package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newDown() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "down", Short: "Stop a fabric and remove everything of it", Args: cobra.NoArgs,
		Long:    "down stops the chips of a fabric and removes its run folder, also after a crash. The archive of its events goes with it, unless 'up --archive' put it elsewhere.",
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
				_, statErr := os.Stat(string(dir))
				if err := removeFabric(dir); err != nil {
					return fmt.Errorf("fabric %q: %w", name, err)
				}
				if statErr != nil {
					fmt.Fprintf(c.ErrOrStderr(), "No fabric named %q was running.\n", name)
				} else {
					fmt.Fprintf(c.ErrOrStderr(), "Fabric %q is down.\n", name)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all fabrics of this user")
	return c
}
