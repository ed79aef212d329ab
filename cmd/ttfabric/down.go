package main

import (
	"fmt"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"

	"github.com/spf13/cobra"
)

func newDown() *cobra.Command {
	var all, discard bool
	var strange string
	c := &cobra.Command{
		Use: "down", Short: "Stop a fabric and remove everything of it", Args: cobra.NoArgs,
		Long:    "down stops the chips of a fabric and removes its run folder, also after a crash. Of one of containers it removes these, their network and their volume, whoever started them. The archive of its events goes with it, unless 'up --archive' put it elsewhere. What containers have recorded and logged is copied to the folders of --record and --keylog before.",
		Example: "  ttfabric down\n  ttfabric down --name lab\n  ttfabric down --all",
		RunE: func(c *cobra.Command, _ []string) error {
			name, _ := c.Flags().GetString("name")
			names := []string{name}
			if all {
				names = nil
				for _, d := range folder.All() {
					names = append(names, d.Name())
				}
			}
			for _, name := range names {
				dir, err := folder.For(name)
				if err != nil {
					return err
				}
				found, err := fabric.Remove(dir, discard, strange)
				switch {
				case err != nil && found == fabric.Nothing:
					fmt.Fprintf(c.ErrOrStderr(), "No fabric named %q ran as processes; whether as containers is not known: %v\n", name, err)
				case err != nil:
					return fmt.Errorf("fabric %q: %w", name, err)
				default:
					fmt.Fprintf(c.ErrOrStderr(), map[fabric.Removed]string{
						fabric.Nothing:   "No fabric named %q was running.\n",
						fabric.Forgotten: "Fabric %q is forgotten here; its chips run on.\n",
						fabric.Stopped:   "Fabric %q is down.\n",
					}[found], name)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&discard, "discard-recordings", false, "don't copy what containers have recorded or logged")
	c.Flags().StringVar(&strange, "recordings", "", "folder for recordings of containers of which nothing says any more where they belong")
	c.Flags().BoolVar(&all, "all", false, "all fabrics of this user: those that have a run folder")
	return c
}
