// Command lab runs an n300: two chips with two cables, each chip in its own network namespace. A
// veth pair joins the namespaces, and carries both cables. The command degrades one cable, and
// checks the effect on the link. The command also checks that every packet still arrives exactly
// once, whole and in order. TTFABRIC is the path of the program ttfabric.
//
//	lab loss TTFABRIC        on this machine: nftables and token buckets (scripts/prove-loss)
//	/init                    as the first process of a virtual machine: netem (scripts/netem-vm)
//
// The command needs root. If all checks pass, the command ends with exit code 0.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if os.Getpid() == 1 {
		runVM()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "snmp" {
		printChecksumErrors()
		return
	}
	if len(os.Args) != 3 || os.Args[1] != "loss" {
		fmt.Fprintln(os.Stderr, "usage: lab loss PATH-OF-TTFABRIC")
		os.Exit(2)
	}
	l, err := newLab(os.Args[2], fmt.Sprintf("ttlab%d", os.Getpid()))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	if err == nil {
		done := make(chan error, 1)
		go func() { done <- l.loss() }()
		select {
		case err = <-done:
		case s := <-stop:
			err = fmt.Errorf("ended by %v", s)
		}
	}
	l.close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// begun is the time at which the program started. Each printed line begins with the time since then.
var begun = time.Now()

func say(format string, a ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, a...))
}
