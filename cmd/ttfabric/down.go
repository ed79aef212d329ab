package main

import (
	"context"
	"fmt"
	"os"

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
				there, err := removeFabric(dir, discard, strange)
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
	c.Flags().BoolVar(&discard, "discard-recordings", false, "don't copy what containers have recorded or logged")
	c.Flags().StringVar(&strange, "recordings", "", "folder for recordings of containers of which nothing says any more where they belong")
	c.Flags().BoolVar(&all, "all", false, "all fabrics of this user: those that have a run folder")
	return c
}

// removeFabric stops the chips of a fabric and removes what there is of it,
// with discard what its containers have recorded too; see containers for
// strange. It reports whether there was any.
func removeFabric(dir runDir, discard bool, strange string) (bool, error) {
	h := dir.host()
	if _, err := os.Stat(string(dir)); err != nil { // no command has asked its containers yet, if there are any
		ctx, cancel := context.WithTimeout(context.Background(), engineTime)
		defer cancel()
		cs, err := findContainers(ctx, dir.name())
		if err == nil && len(cs) == 0 {
			if err := (containers{dir: dir, discard: discard, strange: strange}).rescue(ctx, nil); err != nil {
				return true, err
			}
		}
		if err != nil || len(cs) == 0 {
			n, err := removeLabelled(context.Background(), dir.name())
			if engineAbsent(err) {
				err = nil
			}
			return n > 0, err
		}
		m := spec.Spec{Runtime: spec.Docker, Project: cs[0].project}
		if err := m.composed(ctx, cs[0].id); err != nil {
			return true, err
		}
		h = containers{dir: dir, m: m}
	}
	if c, ok := h.(containers); ok {
		c.discard, c.strange = discard, strange
		h = c
	}
	return true, h.remove()
}
