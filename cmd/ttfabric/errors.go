package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// Exit codes, as `ttfabric --help` lists them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitTopology = 3
	exitNotReady = 4
	exitAssert   = 5
	exitSignal   = 130
)

// assertionError says that a command ran and found what it was asked to rule out.
type assertionError struct{ error }

// Unwrap returns the error that the text comes from.
func (e *assertionError) Unwrap() error { return e.error }

func assertf(format string, a ...any) error { return &assertionError{fmt.Errorf(format, a...)} }

// exitCode returns the exit code of an error. Only this function knows which kind of error has which exit code.
func exitCode(err error, interrupted bool) int {
	var assertion *assertionError
	var of *spec.Error
	var bad *topo.Error
	var none *fabric.NoRouteError
	switch {
	case err == nil:
		return exitOK
	case interrupted && errors.Is(err, context.Canceled):
		return exitSignal
	case errors.As(err, &assertion), errors.As(err, &none):
		return exitAssert
	case errors.As(err, &of):
		return map[spec.Kind]int{spec.Usage: exitUsage, spec.Topology: exitTopology, spec.NotReady: exitNotReady}[of.Kind]
	case errors.As(err, &bad):
		return exitTopology
	}
	return exitFailed
}

// report prints the error and returns the exit code.
func report(err error, interrupted bool) int {
	code := exitCode(err, interrupted)
	if code != exitOK && code != exitSignal {
		fmt.Fprintln(os.Stderr, "ttfabric:", err)
	}
	return code
}

// patience is how long an interrupted command ignores further signals while the
// command cleans up. 'timeout' and some shells send each signal twice.
const patience = time.Second

// insist calls end, which ends the process, at the first signal that comes at
// least [patience] after ctx ended. A user who presses Ctrl-C again does not want to wait.
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
