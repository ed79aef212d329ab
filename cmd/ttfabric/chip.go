package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

func newChip() *cobra.Command {
	c := &cobra.Command{Use: "chip", Short: "Stop, start, remove, pause and restart single chips"}
	var rec, recAgain recordFlags
	c.AddCommand(
		rec.on(&cobra.Command{Use: "start CHIP", Short: "Start a chip that is not running", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip start M0D3",
			RunE: func(c *cobra.Command, args []string) error {
				dir, n, err := chipArg(c, args[0])
				if err != nil {
					return err
				}
				return tellStarted(c, n, startChip(c, dir, n, false, rec))
			}}),
		&cobra.Command{Use: "kill CHIP", Short: "Kill a chip's process without a goodbye (kill -9)", Args: cobra.ExactArgs(1),
			Example: "  ttfabric chip kill M0D3",
			RunE: func(c *cobra.Command, args []string) error {
				dir, n, err := chipArg(c, args[0])
				if err != nil {
					return err
				}
				tellFault(c.Context(), dir, fault.KindKilled, n)
				return killChip(c.Context(), dir, n)
			}},
		recAgain.on(&cobra.Command{Use: "restart CHIP", Short: "Kill a chip without a goodbye and start it again", Args: cobra.ExactArgs(1),
			Long:    "restart kills a chip's process (kill -9) and starts it again: its memory is empty, and of what was done to its cables only what 'up --netem' declared is left.",
			Example: "  ttfabric chip restart M0D3\n  ttfabric chip restart M0D3 --record /tmp/calls",
			RunE: func(c *cobra.Command, args []string) error {
				dir, n, err := chipArg(c, args[0])
				if err != nil {
					return err
				}
				tellFault(c.Context(), dir, fault.KindRestarted, n)
				return tellStarted(c, n, startChip(c, dir, n, true, recAgain))
			}}),
		newChipRemove(),
		newSignal("pause", "Stop a chip's process where it is (SIGSTOP)", "A paused chip is silent and forgets nothing: its neighbours take its links down, and resume the same sessions after 'chip resume'.",
			fault.KindPaused),
		newSignal("resume", "Let a paused chip go on (SIGCONT)", "", fault.KindResumed))
	return c
}

func newSignal(name, short, long string, k fault.Kind) *cobra.Command {
	return &cobra.Command{Use: name + " CHIP", Short: short, Long: long, Args: cobra.ExactArgs(1),
		Example: "  ttfabric chip " + name + " M0D3",
		RunE: func(c *cobra.Command, args []string) error {
			dir, n, err := chipArg(c, args[0])
			if err != nil {
				return err
			}
			return signalChip(c.Context(), dir, n, k)
		}}
}

// signalChip pauses a chip or lets it go on, and lets another chip tell of it.
func signalChip(ctx context.Context, dir runDir, n wire.FabricNodeID, k fault.Kind) error {
	f, ok := dir.chip(n)
	if !ok {
		return fmt.Errorf("chip %s is not running", n)
	}
	tellFault(ctx, dir, k, n)
	return dir.host().do(ctx, f, k)
}

// startChip starts a chip, having killed it first where it is to be started again.
func startChip(c *cobra.Command, dir runDir, n wire.FabricNodeID, again bool, rec recordFlags) error {
	ctx, cancel := context.WithTimeout(c.Context(), startTime)
	defer cancel()
	unlock, err := lockFolder(ctx, string(dir))
	if err != nil {
		return err
	}
	defer unlock()
	if again {
		if h, ok := dir.host().(containers); ok {
			if err := h.recordable(ctx, n, rec); err != nil {
				return err
			}
		}
		if err := killChip(ctx, dir, n); err != nil {
			return err
		}
	} else if f, ok := dir.chip(n); ok {
		return fmt.Errorf("chip %s is running already, as %s", n, f.where())
	}
	s := &supervisor{dir: dir, out: c.ErrOrStderr(), exits: make(chan exit, 1), rec: rec}
	if err := s.launch(ctx, []wire.FabricNodeID{n}); err != nil {
		return err
	}
	return s.waitRunning(ctx, n)
}

// tellStarted says that a chip runs, and that this is not all that was to happen.
func tellStarted(c *cobra.Command, n wire.FabricNodeID, err error) error {
	if err == nil {
		fmt.Fprintf(c.ErrOrStderr(), "chip %s runs, and its links train; 'ttfabric inspect --diff' lists those that are not up yet\n", n)
	}
	return err
}

// killChip kills a chip and waits until it has ended, so that it can be started again at once.
func killChip(ctx context.Context, dir runDir, n wire.FabricNodeID) error {
	f, ok := dir.chip(n)
	if !ok {
		return fmt.Errorf("chip %s is not running; 'ttfabric chip start %s' starts it", n, n)
	}
	return dir.host().do(ctx, f, fault.KindKilled)
}

// tellTime is how long a chip gets to take note of a fault in another's process.
const tellTime = time.Second

// tellFault lets one chip tell of a fault in another's process, as that cannot:
// a neighbour if one runs, else any. Where none answers nobody is told.
func tellFault(ctx context.Context, dir runDir, k fault.Kind, n wire.FabricNodeID) {
	if _, ok := dir.host().(elsewhere); ok {
		return // which refuses to do it
	}
	cs, _, t, err := dir.clients()
	if err != nil {
		return
	}
	near := map[wire.FabricNodeID]bool{}
	for _, p := range t.Ports(n) {
		near[p.Peer.Node] = true
	}
	for _, neighbours := range []bool{true, false} {
		for _, c := range slices.Clone(cs) {
			if c.Self() == n || near[c.Self()] != neighbours {
				continue
			}
			one, cancel := context.WithTimeout(ctx, tellTime)
			err := c.TellFault(one, k, n)
			cancel()
			if err == nil {
				return
			}
		}
	}
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
