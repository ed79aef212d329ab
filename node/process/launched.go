package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"ttfabric/node"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/kernel"
	"ttfabric/node/rank"
	"ttfabric/node/rank/launched"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// runLaunched runs the chip of a process that 'ttfabric run --as-chip' started, until ctx ends or the
// launcher closes the line l. The program begins when all chips run. The chip's messages go to its log,
// because stdout and stderr belong to the rank.
func runLaunched(ctx context.Context, l *launched.Process, program Program, kernels []kernel.Table) error {
	id, err := wire.ParseFabricNodeID(os.Getenv(rank.EnvChip))
	if err != nil {
		return fmt.Errorf("the environment variable %s: %w", rank.EnvChip, err)
	}
	node.ConfigureProcess()
	dir := folder.Dir(os.Getenv(rank.EnvDir))
	c, err := FromFolder(dir, id)
	if err != nil {
		return fmt.Errorf("chip %s: %w", id, err)
	}
	file, err := os.OpenFile(dir.ChipPath(id, ".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("chip %s: cannot open the chip's log file: %w", id, err)
	}
	defer file.Close()
	c.Log = slog.New(slog.NewTextHandler(file, nil)).With("chip", id.String())
	c.Kernels, c.Program = tableOf(kernels), asRank(l, program)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.Gone():
			cancel()
		case <-ctx.Done():
		}
	}()
	err = Run(ctx, c)
	if err != nil {
		fmt.Fprintln(file, "ttfabric:", err)
	}
	return err
}

// asRank returns a program for the process of a rank. The returned program waits until all chips
// run, sets the variables of the rank, and runs the user's program. If the user's program returns
// nil, the returned program tells the launcher.
func asRank(l *launched.Process, program Program) Program {
	return func(ctx context.Context, s *session.Session) error {
		variables, err := l.Begin(ctx)
		if err != nil {
			return err
		}
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		if program != nil {
			if err := program(ctx, s); err != nil {
				return err
			}
		}
		return l.Return()
	}
}
