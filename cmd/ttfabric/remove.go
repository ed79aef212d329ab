package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// quietPolls is how many times in a row a chip has to have nothing under way to count as drained.
const quietPolls = 3

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
				return coded(exitUsage, "--drain %v: want 0, not to wait, or more", drain)
			}
			f, err := format(c)
			if err != nil {
				return err
			}
			dir, n, err := chipArg(c, args[0])
			if err != nil {
				return err
			}
			drained, err := removeChip(c.Context(), dir, n, drain)
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

// removeChip stops a chip in order. It reports whether nothing was under way any more.
func removeChip(ctx context.Context, dir runDir, n wire.FabricNodeID, drain time.Duration) (drained bool, err error) {
	if e, ok := dir.host().(elsewhere); ok {
		return false, e.notHere(n, "removed") // before it takes no new work
	}
	unlock, err := lockFolder(ctx, string(dir))
	if err != nil {
		return false, err
	}
	defer unlock()
	f, ok := dir.chip(n)
	if !ok {
		return false, fmt.Errorf("chip %s is not running; 'ttfabric chip start %s' starts it", n, n)
	}
	if drained, err = drainChip(ctx, dir, n, drain); err != nil {
		return false, err
	}
	tellFault(ctx, dir, fault.KindRemoved, n)
	return drained, dir.host().do(ctx, f, fault.KindRemoved)
}

// drainChip waits until nothing is under way in a chip.
func drainChip(ctx context.Context, dir runDir, n wire.FabricNodeID, most time.Duration) (bool, error) {
	cl, err := dir.client(n)
	if err != nil {
		return false, err
	}
	if most == 0 {
		return false, nil
	}
	end := time.Now().Add(most)
	one, cancel := context.WithDeadline(ctx, end)
	err = cl.Drain(one, true)
	cancel()
	if ctx.Err() != nil {
		return false, ctx.Err()
	} else if err != nil {
		return false, nil // it does not answer, as one that is paused
	}
	for quiet := 0; time.Now().Before(end); {
		one, cancel := context.WithDeadline(ctx, end)
		v, err := cl.Chip(one)
		cancel()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == nil && v.OpenOps == 0 && v.InFlight == 0:
			quiet++
		default:
			quiet = 0
		}
		if quiet == quietPolls {
			return true, nil
		}
		time.Sleep(pollInterval)
	}
	return false, nil
}
