package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/wire"
)

func newChip() *cobra.Command {
	c := &cobra.Command{Use: "chip", Short: "Stop, start, remove, pause and restart single chips"}
	c.AddCommand(
		newChipStart(&cobra.Command{Use: "start CHIP", Short: "Start a chip that is not running", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip start M0D3"}, (*fabric.Fabric).StartChip),
		newChipDo(&cobra.Command{Use: "kill CHIP", Short: "Kill a chip's process at once (kill -9)", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip kill M0D3"}, (*fabric.Fabric).KillChip),
		newChipStart(&cobra.Command{Use: "restart CHIP", Short: "Kill a chip's process at once (kill -9) and start the chip again", Args: cobra.ExactArgs(1),
			Long: `The command kills a chip's process (kill -9) and starts the chip again, with empty
memory. The chip impairs its cables as 'up --netem' says. The chip forgets the cuts
and impairments that other commands set.`,
			Example: "  ttfabric chip restart M0D3\n  ttfabric chip restart M0D3 --record /tmp/calls"}, (*fabric.Fabric).RestartChip),
		newChipRemove(),
		newChipDo(&cobra.Command{Use: "pause CHIP", Short: "Freeze a chip's process (SIGSTOP)", Args: cobra.ExactArgs(1),
			Long: `A paused chip sends nothing and keeps its memory and state. The chip's neighbours
take their links to the chip down, and list the chip as silent. Requests to a silent
chip wait. After 20 s, the chip is unreachable. After 'chip resume', the links
continue their sessions.`,
			Example: "  ttfabric chip pause M0D3"}, (*fabric.Fabric).PauseChip),
		newChipDo(&cobra.Command{Use: "resume CHIP", Short: "Let a paused chip run again (SIGCONT)", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip resume M0D3"}, (*fabric.Fabric).ResumeChip))
	return c
}

// newChipDo makes c call the function "do" for the chip that c's argument names, and returns c.
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

// newChipStart makes c call the function "start" for the chip that c's argument names, and returns
// c. Flags of c may ask for a recording of the chip.
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
		fmt.Fprintf(c.ErrOrStderr(), "chip %s runs, and the chip's links train; 'ttfabric inspect --diff' lists the cables that are not up yet\n", n)
		return nil
	}
	return c
}

func newChipRemove() *cobra.Command {
	var drain time.Duration
	c := &cobra.Command{Use: "remove CHIP", Short: "Stop a chip in good order", Args: cobra.ExactArgs(1),
		Long: `Unlike 'chip kill', the command stops a chip in good order. The chip takes no new
work. The chip waits until none of its own requests is under way and its sender and
receiver channels are empty, but at most for the time of --drain. Then the chip closes
its links, leaves the gossip and ends. The chip's neighbours know at once that the
chip has ended.

Programs that still send to the chip learn that the chip is unreachable. A
traffic run on the chip continues until the chip ends. 'chip start' starts the chip
again, with empty memory.`,
		Example: "  ttfabric chip remove M0D3\n  ttfabric chip remove M0D3 --drain 30s\n  ttfabric chip start M0D3",
		RunE: func(c *cobra.Command, args []string) error {
			if drain < 0 {
				return spec.Usagef("--drain %v: want a positive time, or 0 to stop the chip without waiting", drain)
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
				return printJSON(c, output.Removed{Chip: n, Drained: drained})
			}
			if !drained && drain > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "chip %s still had packets or requests under way after %v\n", n, drain)
			}
			fmt.Fprintf(c.ErrOrStderr(), "chip %s has left; 'ttfabric chip start %s' starts the chip again\n", n, n)
			return nil
		}}
	c.Flags().DurationVar(&drain, "drain", 5*time.Second, "longest time to wait for packets and requests under way; 0: do not wait")
	return c
}
