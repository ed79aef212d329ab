package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

func newChip() *cobra.Command {
	c := &cobra.Command{Use: "chip", Short: "Stop, start, remove, pause and restart chips"}
	c.AddCommand(
		newChipStart(&cobra.Command{Use: "start CHIP...", Short: "Start chips that are not running",
			Example: "  ttfabric chip start M0D3\n  ttfabric chip start all"}, false, (*fabric.Fabric).StartChip),
		newChipDo(&cobra.Command{Use: "kill CHIP...", Short: "Kill the processes of chips at once (kill -9)",
			Example: "  ttfabric chip kill M0D3\n  ttfabric chip kill 'M0D[4-7]'\n  ttfabric chip kill all --random 2 --seed 7"}, "killed", (*fabric.Fabric).KillChip),
		newChipStart(&cobra.Command{Use: "restart CHIP...", Short: "Kill the processes of chips at once (kill -9) and start the chips again",
			Long: `The command kills a chip's process (kill -9) and starts the chip again, with empty
memory. The chip impairs its cables as 'up --netem' says. The chip forgets the cuts
and impairments that other commands set. The command restarts several chips one after
another.`,
			Example: "  ttfabric chip restart M0D3\n  ttfabric chip restart M0D3 --record /tmp/calls"}, true, (*fabric.Fabric).RestartChip),
		newChipRemove(),
		newChipDo(&cobra.Command{Use: "pause CHIP...", Short: "Freeze the processes of chips (SIGSTOP)",
			Long: `A paused chip sends nothing and keeps its memory and state. The chip's neighbours
take their links to the chip down, and list the chip as silent. Requests to a silent
chip wait. After 20 s, the chip is unreachable. After 'chip resume', the links
continue their sessions.`,
			Example: "  ttfabric chip pause M0D3\n  ttfabric chip pause 'M0D*' --random 1"}, "paused", (*fabric.Fabric).PauseChip),
		newChipDo(&cobra.Command{Use: "resume CHIP...", Short: "Let paused chips run again (SIGCONT)",
			Example: "  ttfabric chip resume M0D3\n  ttfabric chip resume all"}, "resumed", (*fabric.Fabric).ResumeChip))
	for _, sub := range c.Commands() {
		sub.Args = cobra.MinimumNArgs(1)
		sub.Long = strings.TrimPrefix(sub.Long+"\n\n"+chipsHelp, "\n\n")
		addRandom(sub, "chips")
	}
	return c
}

// newChipDo makes c call the function "do" for the chips that c's arguments name, and returns c.
func newChipDo(c *cobra.Command, done string, do func(*fabric.Fabric, context.Context, wire.FabricNodeID) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		f, chips, named, err := chipArgs(c, args, true)
		if err != nil {
			return err
		}
		did, err := eachChip(c, chips, func(ctx context.Context, n wire.FabricNodeID) error { return do(f, ctx, n) })
		if !named {
			fmt.Fprintf(c.ErrOrStderr(), "%s %s: %s\n", topo.Count(len(did), "chip"), done, strings.Join(nodeNames(did), ", "))
		}
		return err
	}
	return c
}

// eachChip calls the function "do" for the chips, one after another, and returns the chips for which "do"
// returned no error. If "do" fails for a chip, eachChip goes on with the next chip. If the command is interrupted, eachChip stops.
func eachChip(c *cobra.Command, chips []wire.FabricNodeID, do func(context.Context, wire.FabricNodeID) error) (did []wire.FabricNodeID, err error) {
	var errs []error
	for _, n := range chips {
		if err := c.Context().Err(); err != nil {
			return did, errors.Join(append(errs, err)...)
		}
		if err := do(c.Context(), n); err != nil {
			errs = append(errs, err)
			continue
		}
		did = append(did, n)
	}
	if len(errs) == 1 {
		return did, errs[0]
	}
	return did, errors.Join(errs...)
}

// newChipStart makes c call the function "start" for the chips that c's arguments name, and returns
// c. Flags of c may ask for recordings of the chips. If the argument "run" is true, a pattern stands
// for chips that run. If "run" is false, a pattern stands for chips that do not run.
func newChipStart(c *cobra.Command, run bool, start func(*fabric.Fabric, context.Context, wire.FabricNodeID, spec.Records) error) *cobra.Command {
	s := spec.Default()
	addOptions(c, &s, spec.RecordOptions...)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := s.CheckRecording(); err != nil {
			return err
		}
		f, chips, _, err := chipArgs(c, args, run)
		if err != nil {
			return err
		}
		rec := spec.Records{}
		if s.Record != "" {
			rec = s.Records
		}
		_, err = eachChip(c, chips, func(ctx context.Context, n wire.FabricNodeID) error {
			if err := start(f, ctx, n, rec); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "chip %s runs, and the chip's links train; 'ttfabric inspect --diff' lists the cables that are not up yet\n", n)
			return nil
		})
		return err
	}
	return c
}

func newChipRemove() *cobra.Command {
	var drain time.Duration
	c := &cobra.Command{Use: "remove CHIP...", Short: "Stop chips in good order",
		Long: `Unlike 'chip kill', the command stops a chip in good order. The chip takes no new
work. The chip waits until none of its own requests is under way and its sender and
receiver channels are empty, but at most for the time of --drain. Then the chip closes
its links, leaves the gossip and ends. The chip's neighbours know at once that the
chip has ended. The command stops several chips one after another.

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
			fab, chips, _, err := chipArgs(c, args, true)
			if err != nil {
				return err
			}
			var removed []output.RemovedChip
			_, err = eachChip(c, chips, func(ctx context.Context, n wire.FabricNodeID) error {
				drained, err := fab.RemoveChip(ctx, n, drain)
				if err != nil {
					return err
				}
				removed = append(removed, output.RemovedChip{Chip: n, Drained: drained})
				if f == "json" {
					return nil
				}
				if !drained && drain > 0 {
					fmt.Fprintf(c.ErrOrStderr(), "chip %s still had packets or requests under way after %v\n", n, drain)
				}
				fmt.Fprintf(c.ErrOrStderr(), "chip %s has left; 'ttfabric chip start %s' starts the chip again\n", n, n)
				return nil
			})
			if f == "json" && len(removed) > 0 {
				one := removed[0]
				err = errors.Join(printJSON(c, output.Removed{Chip: one.Chip, Drained: one.Drained, Others: removed[1:]}), err)
			}
			return err
		}}
	c.Flags().DurationVar(&drain, "drain", 5*time.Second, "longest time to wait for packets and requests under way; 0: do not wait")
	return c
}
