package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

func newChip() *cobra.Command {
	c := &cobra.Command{Use: "chip", Short: "Stop, start, remove, pause and restart single chips"}
	c.AddCommand(
		newChipStart(&cobra.Command{Use: "start CHIP", Short: "Start a chip that is not running", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip start M0D3"}, (*fabric.Fabric).StartChip),
		newChipDo(&cobra.Command{Use: "kill CHIP", Short: "Kill a chip's process without a goodbye (kill -9)", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip kill M0D3"}, (*fabric.Fabric).KillChip),
		newChipStart(&cobra.Command{Use: "restart CHIP", Short: "Kill a chip without a goodbye and start it again", Args: cobra.ExactArgs(1),
			Long:    "restart kills a chip's process (kill -9) and starts it again: its memory is empty, and of what was done to its cables only what 'up --netem' declared is left.",
			Example: "  ttfabric chip restart M0D3\n  ttfabric chip restart M0D3 --record /tmp/calls"}, (*fabric.Fabric).RestartChip),
		newChipRemove(),
		newChipDo(&cobra.Command{Use: "pause CHIP", Short: "Stop a chip's process where it is (SIGSTOP)", Args: cobra.ExactArgs(1),
			Long:    "A paused chip is silent and forgets nothing: its neighbours take its links down, and resume the same sessions after 'chip resume'.",
			Example: "  ttfabric chip pause M0D3"}, (*fabric.Fabric).PauseChip),
		newChipDo(&cobra.Command{Use: "resume CHIP", Short: "Let a paused chip go on (SIGCONT)", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip resume M0D3"}, (*fabric.Fabric).ResumeChip))
	return c
}

// newChipDo completes a command that does something to one chip.
func newChipDo(c *cobra.Command, do func(*fabric.Fabric, context.Context, wire.FabricNodeID) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		f, n, err := chipArg(c, args[0])
		if err != nil {
			return err
		}
		return do(f, c.Context(), n)
	}
	return c
}

// newChipStart completes a command that starts a chip, which may be recorded.
func newChipStart(c *cobra.Command, start func(*fabric.Fabric, context.Context, wire.FabricNodeID, spec.Records) error) *cobra.Command {
	s := spec.Default()
	addOptions(c, &s, spec.RecordOptions...)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.CheckRecording(); err != nil {
			return err
		}
		f, n, err := chipArg(c, args[0])
		if err != nil {
			return err
		}
		rec := spec.Records{}
		if s.Record != "" {
			rec = s.Records
		}
		if err := start(f, c.Context(), n, rec); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "chip %s runs, and its links train; 'ttfabric inspect --diff' lists those that are not up yet\n", n)
		return nil
	}
	return c
}

func newChipRemove() *cobra.Command {
	var drain time.Duration
	c := &cobra.Command{Use: "remove CHIP", Short: "Let a chip say goodbye and stop", Args: cobra.ExactArgs(1),
		Long: `remove stops a chip in order, as against 'chip kill': it takes no new work
then, until nothing of its own is under way and no packet is in its channels,
for at most --drain; it closes its links, leaves the gossip and ends. Its
neighbours know at once, and nobody has to find out by silence. Programs that
still send to it hear that it is unreachable; a traffic run goes on until it ends. 'chip start' brings it back,
with empty memory.`,
		Example: "  ttfabric chip remove M0D3\n  ttfabric chip remove M0D3 --drain 30s\n  ttfabric chip start M0D3",
		RunE: func(c *cobra.Command, args []string) error {
			if drain < 0 {
				return spec.Usagef("--drain %v: want 0, not to wait, or more", drain)
			}
			f, err := format(c)
			if err != nil {
				return err
			}
			fab, n, err := chipArg(c, args[0])
			if err != nil {
				return err
			}
			drained, err := fab.RemoveChip(c.Context(), n, drain)
			if err != nil {
				return err
			}
			if f == "json" {
				return printJSON(c, map[string]any{"chip": n, "drained": drained})
			}
			if !drained && drain > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "chip %s still had something under way after %v\n", n, drain)
			}
			fmt.Fprintf(c.ErrOrStderr(), "chip %s has left; 'ttfabric chip start %s' brings it back\n", n, n)
			return nil
		}}
	c.Flags().DurationVar(&drain, "drain", 5*time.Second, "wait so long at most for what is under way; 0: not at all")
	return c
}
