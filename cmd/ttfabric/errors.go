package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// Exit codes of the program. `ttfabric --help` lists the exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitTopology = 3
	exitNotReady = 4
	exitAssert   = 5
	exitSignal   = 130
)

// assertionError is the error of a command that found a failure of the fabric, such as a
// lost ping.
type assertionError struct{ error }

// Unwrap returns the wrapped error, which holds the text.
func (e *assertionError) Unwrap() error { return e.error }

func assertf(format string, a ...any) error { return &assertionError{fmt.Errorf(format, a...)} }

// rankError is the error of a job in which a rank or chip failed.
type rankError struct {
	why  string
	code int
}

// Error returns why the job failed.
func (e *rankError) Error() string { return e.why }

// exitCode returns the exit code of an error. No other function maps kinds of errors
// to exit codes.
func exitCode(err error, interrupted bool) int {
	var assertion *assertionError
	var of *spec.Error
	var bad *topo.Error
	var none *fabric.NoRouteError
	var failed *rankError
	switch {
	case err == nil:
		return exitOK
	case interrupted && errors.Is(err, context.Canceled):
		return exitSignal
	case errors.As(err, &failed):
		return failed.code
	case errors.As(err, &assertion), errors.As(err, &none):
		return exitAssert
	case errors.As(err, &of):
		return map[spec.Kind]int{spec.Usage: exitUsage, spec.Topology: exitTopology, spec.NotReady: exitNotReady}[of.Kind]
	case errors.As(err, &bad):
		return exitTopology
	}
	return exitFailed
}

// report returns the exit code of an error, and prints the error on stderr. If err is
// nil, or if a signal ended the command, report prints nothing.
func report(err error, interrupted bool) int {
	code := exitCode(err, interrupted)
	if code != exitOK && code != exitSignal {
		fmt.Fprintln(os.Stderr, "ttfabric:", err)
	}
	return code
}

// cutShort reports whether Ctrl-C ended a command that has results so far. If so, cutShort says on
// stderr how many results there are. The argument "of" is the number of results of the whole command.
// The command then prints the results, and returns the error of its context.
func cutShort(c *cobra.Command, done, of int, what string) bool {
	if c.Context().Err() == nil || done == 0 {
		return false
	}
	fmt.Fprintf(c.ErrOrStderr(), "Interrupted after %d of %s.\n", done, topo.Count(of, what))
	return true
}

// patience is the time for which an interrupted command ignores further signals
// while the command cleans up. A signal within this time may be a copy of the first
// signal, because 'timeout' and some shells send each signal twice.
const patience = time.Second

// insist waits until ctx ends. Then insist calls the function "end" at the first signal
// that comes at least [patience] later. The function "end" ends the process, because a user
// who presses Ctrl-C again does not want to wait for the command's cleanup. If the channel
// "signals" is closed, insist returns.
func insist(ctx context.Context, signals <-chan os.Signal, end func()) {
	<-ctx.Done()
	for first := time.Now(); ; {
		if _, ok := <-signals; !ok {
			return
		}
		if time.Since(first) >= patience {
			end()
			return
		}
	}
}
