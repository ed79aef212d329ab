package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/ranks"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

type runFlags struct {
	up      string
	job     ranks.Job
	timeout time.Duration
}

func newRun() *cobra.Command {
	var f runFlags
	c := &cobra.Command{Use: "run PROGRAM [ARG...]", Short: "Run a program once for each chip, like mpirun", Args: cobra.MinimumNArgs(1),
		Long: `The command starts PROGRAM once for each chip of the fabric. Each of these processes is a
rank. A rank reads and writes the memory of all chips through its own chip. Ranks reach
their chips over Unix sockets in the run folder, or else over the chips' APIs. The
command prints which of the two they use.

Go programs attach by the package node/rank, and Python programs by the module in
scripts/python. The documentation of node/rank lists the environment variables that
programs in other languages need, such as RANK, WORLD_SIZE and TTFABRIC_SOCKET.

Each line of output begins with the number of its rank. Ranks have no input. If a rank
fails, the command names the rank, and ends the other ranks: first by SIGTERM, and
5 seconds later by SIGKILL. Ctrl-C ends all ranks in the same way. With --restart, all
ranks start again after the loss of a rank or of a chip. The command then also starts
the missing chips. The variable TTFABRIC_ATTEMPT counts the attempts.

With --checkpoints, ranks make checkpoints of the job in a folder, by the method Save of
package node/rank or of the Python module. Each attempt begins with the memory of all
chips as in the latest checkpoint, and each rank gets the state that it saved. Before a
restart, the command waits until the requests of the earlier attempt have ended, and
prints what the chips have lost since the checkpoint.

With --keep-ranks, the loss of a chip ends only the rank of this chip, as '--with-ft
ulfm' of mpirun and --no-kill of srun do. The command names the chip and its rank, and
the other ranks go on. Programs then call Shrink of package node/session/collective. A
rank that fails although its chip lives still ends the other ranks. With --as-chip, a
rank that fails counts as a lost chip. --keep-ranks and --restart exclude each other.

Without --up, the fabric must run already. With --up, the command starts a fabric for
this run, and removes the fabric at the end. A chip runs until all ranks have ended.
All chips must run on this machine. Flags of the command come before PROGRAM.

With --as-chip, PROGRAM is a Go program whose function main calls process.Main. Each
rank is then its own chip, in place of 'ttfabric node', and may start kernels of
PROGRAM. The program's function begins when all links are up. A rank has succeeded
when its function has returned nil; its chip continues to run. Messages of the chips go to the
logs in the run folder. --as-chip needs --up. A restart starts all chips anew.

The exit code is that of the first rank that failed. If a signal ended this rank, the
exit code is 128 plus the number of the signal. A rank whose chip is lost counts as
failed with exit code 1, also if --keep-ranks lets all other ranks succeed. With -o json,
the ranks' output goes to stderr, and a report to stdout. The report lists the lost
chips, and the ranks that succeeded without them.`,
		Example: `  ttfabric run ./shift
  ttfabric run --up ring:4 python3 shift.py
  ttfabric run --up t3000 --restart 3 --checkpoints saved ./train --steps 100
  ttfabric run --up ring:4 --as-chip ./kernels
  ttfabric run --up mesh:2x2 --keep-ranks ./allreduce`,
		RunE: func(c *cobra.Command, args []string) error { return runRanks(c, args, &f) }}
	fl := c.Flags()
	fl.SetInterspersed(false) // flags after PROGRAM belong to the program
	fl.StringVar(&f.up, "up", "", "topology of a fabric that the command starts for this run, and then removes; 'ttfabric up --help' describes topologies")
	fl.BoolVar(&f.job.AsChip, "as-chip", false, "PROGRAM is a Go program that calls process.Main, and each rank is a chip itself; needs --up")
	fl.BoolVar(&f.job.Keep, "keep-ranks", false, "if a chip is lost, end only the rank of this chip; the other ranks go on")
	fl.IntVar(&f.job.Restarts, "restart", 0, "start all ranks again after the loss of a rank or chip, at most this many times")
	fl.StringVar(&f.job.Checkpoints, "checkpoints", "", "folder of the job's checkpoints; the ranks begin with the memory of the latest checkpoint")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "give up if the chips that the command starts are not up after this time")
	_ = c.RegisterFlagCompletionFunc("up", completeTopology)
	return c
}

func runRanks(c *cobra.Command, args []string, f *runFlags) (err error) {
	out, err := format(c)
	switch {
	case err != nil:
		return err
	case f.job.AsChip && f.up == "":
		return spec.Usagef("--as-chip: each rank is a chip, so the fabric must not run already; name the topology of the fabric with --up")
	}
	j := &f.job
	j.Args, j.Out, j.Err, j.Tell = args[1:], c.OutOrStdout(), c.ErrOrStderr(), func(text string) { fmt.Fprintln(c.ErrOrStderr(), text) }
	if j.Program, err = ranks.Find(args[0]); err == nil {
		err = j.Check()
	}
	if err != nil {
		return err
	}
	fab, done, err := f.fabric(c, j.Program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	j.Fabric = fab
	j.Bring = func(ctx context.Context, exits fabric.Exits) error { return f.bring(c, ctx, fab, exits) }
	if out == "json" {
		j.Out = c.ErrOrStderr()
	}
	rep, why, err := j.NewReport()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s of %s on fabric %q, %s%s.\n", topo.Count(rep.Ranks, "rank"), args[0], fab.Name(), rep.Door.Words(), why)
	if err := j.Run(c.Context(), rep); err != nil {
		return err
	}
	if out == "json" {
		if err := printJSON(c, rep); err != nil {
			return err
		}
	}
	if rep.ExitCode != 0 {
		return &rankError{rep.Attempts[len(rep.Attempts)-1].Why, rep.ExitCode}
	}
	return nil
}

// fabric returns the fabric of the run. With --as-chip, the chips do not run yet. If the command
// made the fabric, the function "done" removes the fabric.
func (f *runFlags) fabric(c *cobra.Command, program string) (fab *fabric.Fabric, done func() error, err error) {
	if f.up == "" {
		fab, err = openFabric(c)
		return fab, func() error { return nil }, err
	}
	name, _ := c.Flags().GetString("name")
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	up := upFlags{spec: spec.Default(), container: container.DefaultOptions()}
	if f.job.AsChip {
		up.spec.Program = program
	}
	fab, fresh, err := prepare(c, ctx, []string{f.up}, &up)
	if err == nil && !fresh {
		wayOut := "leave out --up to use this fabric, or choose another --name"
		if f.job.AsChip {
			wayOut = "choose another --name"
		}
		err = spec.Usagef("--up %s: there is a fabric %q already; %s", f.up, name, wayOut)
	}
	if err != nil {
		return nil, nil, err
	}
	if !f.job.AsChip {
		if err := f.bring(c, c.Context(), fab, make(fabric.Exits, len(fab.Topology.Chips))); err != nil {
			return nil, nil, errors.Join(err, fab.Remove())
		}
	}
	return fab, fab.Remove, nil
}

// bring starts the chips that do not run, and waits until all links are up.
func (f *runFlags) bring(c *cobra.Command, ctx context.Context, fab *fabric.Fabric, exits fabric.Exits) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	_, err := bringUp(c, ctx, fab, exits)
	if c.Context().Err() != nil {
		return context.Canceled
	}
	return err
}
