package node

import (
	"os"
	"runtime"
)

// Alone sets up a process that does nothing but run one chip, and returns the
// way back.
//
// A chip has one lock, so a second processor of the Go runtime would only add
// wake-ups on other cores: it has one, unless the environment variable
// GOMAXPROCS says otherwise. All-to-all on a T3000 is half as fast again with one.
//
// Its threads do not interrupt whoever runs when datagrams come for them, but
// wait for their turn, within a slice of the kernel's scheduler, a few
// milliseconds (SCHED_BATCH, sched(7)). With more chips than cores each then finds
// more to do at once; scripts/bench/README.md has what that gives and costs. A
// process that was given another policy keeps it, and where the kernel refuses, nothing changes.
func Alone() (undo func()) {
	procs := 0
	if os.Getenv("GOMAXPROCS") == "" {
		procs = runtime.GOMAXPROCS(1)
	}
	changed := setPolicy(usual, patient)
	return func() {
		if changed {
			setPolicy(patient, usual)
		}
		if procs > 0 {
			runtime.GOMAXPROCS(procs)
		}
	}
}
