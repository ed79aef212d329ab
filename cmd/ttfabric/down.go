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
		Use: "down", Short: "Stop a fabric and remove its run folder or containers", Args: cobra.NoArgs,
		Long: `The command stops the chips of a fabric and removes the fabric's run folder. The
command also works after a crash. If the chips are containers, the command copies
recordings to the folder of --record, and logged secrets to the folder of --keylog.
Then the command removes the containers, their network and their volume, whoever
started the containers.

An attached fabric has its chips on other machines. For an attached fabric, the command
removes only the run folder on this machine, and the chips continue to run.

The command also removes the archive of the fabric's events, unless 'up --archive'
named another folder for the archive.`,
		Example: "  ttfabric down\n  ttfabric down --name lab\n  ttfabric down --all",
		RunE: func(c *cobra.Command, _ []string) error {
			name, _ := c.Flags().GetString("name")
			names := []string{name}
			if all {
				names = nil
				dirs, err := folder.All()
				if err != nil {
					return err
				}
				for _, d := range dirs {
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
					fmt.Fprintf(c.ErrOrStderr(), "No fabric named %q ran as processes. The command cannot find out whether a fabric of this name runs as containers: %v\n", name, err)
				case err != nil:
					return fmt.Errorf("fabric %q: %w", name, err)
				default:
					fmt.Fprintf(c.ErrOrStderr(), map[fabric.Removed]string{
						fabric.Nothing:   "No fabric named %q was running.\n",
						fabric.Forgotten: "The run folder of fabric %q is removed; the fabric's chips continue to run.\n",
						fabric.Stopped:   "Fabric %q is down.\n",
					}[found], name)
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&discard, "discard-recordings", false, "do not copy the recordings and logged secrets of containers")
	c.Flags().StringVar(&strange, "recordings", "", "folder for recordings of containers; needed if the command cannot find out which folder --record named")
	c.Flags().BoolVar(&all, "all", false, "do the same for all fabrics of this user that have a run folder")
	return c
}
