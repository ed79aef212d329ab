package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"ttfabric/wire"
)

func newDown() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "down", Short: "Stop a fabric and remove everything of it", Args: cobra.NoArgs,
		Long:    "down stops the chips of a fabric and removes its run folder, also after a crash.",
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

func newChip() *cobra.Command {
	c := &cobra.Command{Use: "chip", Short: "Stop and start single chips"}
	c.AddCommand(
		&cobra.Command{Use: "start CHIP", Short: "Start a chip that is not running", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip start M0D3",
			RunE: func(c *cobra.Command, args []string) error {
				dir, n, err := chipArg(c, args[0])
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(c.Context(), startTime)
				defer cancel()
				unlock, err := lockFolder(ctx, string(dir))
				if err != nil {
					return err
				}
				defer unlock()
				if f, ok := dir.chip(n); ok {
					return fmt.Errorf("chip %s is running already, as process %d", n, f.PID)
				}
				s := &supervisor{dir: dir, out: c.ErrOrStderr(), exits: make(chan exit, 1)}
				if err := s.spawn(n); err != nil {
					return err
				}
				return s.waitRunning(ctx, n)
			}},
		&cobra.Command{Use: "kill CHIP", Short: "Kill a chip's process without a goodbye (kill -9)", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip kill M0D3",
			RunE: func(c *cobra.Command, args []string) error {
				dir, n, err := chipArg(c, args[0])
				if err != nil {
					return err
				}
				f, ok := dir.chip(n)
				if !ok {
					return fmt.Errorf("chip %s is not running", n)
				}
				p, err := os.FindProcess(f.PID)
				if err != nil {
					return err
				}
				return p.Kill()
			}})
	return c
}

// chipArg reads a chip of the fabric that the command is about.
func chipArg(c *cobra.Command, arg string) (runDir, wire.FabricNodeID, error) {
	dir, err := dirOf(c)
	if err != nil {
		return "", wire.FabricNodeID{}, err
	}
	_, t, _, err := dir.mesh()
	if err != nil {
		return "", wire.FabricNodeID{}, err
	}
	n, err := wire.ParseFabricNodeID(arg)
	if err != nil {
		return "", n, coded(exitUsage, "%w", err)
	}
	if _, ok := t.Chip(n); !ok {
		return "", n, coded(exitUsage, "chip %s is not in %s", n, t)
	}
	return dir, n, nil
}
