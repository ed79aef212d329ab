package node

import (
	"os"
	"runtime"
)

// ConfigureProcess sets up a process that only runs one chip. ConfigureProcess returns a function
// that undoes the setup.
//
// A chip has one lock. A second processor of the Go runtime would therefore only add wake-ups on
// other cores. Unless the environment variable GOMAXPROCS says otherwise, the process uses one
// processor. With one processor, all-to-all on a T3000 runs at 1.5 times the speed.
//
// The process's threads get the batch policy (SCHED_BATCH, sched(7)). When datagrams arrive for a
// thread with the batch policy, that thread does not interrupt the running thread. The thread waits
// for its turn, within a slice of the kernel's scheduler, a few milliseconds. If there are more
// chips than cores, each chip then finds more work to do at once. scripts/bench/README.md states
// the gain and the cost. A process that was started with another policy keeps that policy. If the
// kernel refuses the batch policy, the process keeps its old policy.
func ConfigureProcess() (undo func()) {
	procs := 0
	if os.Getenv("GOMAXPROCS") == "" {
		procs = runtime.GOMAXPROCS(1)
	}
	changed := setPolicy(policyNormal, policyBatch)
	return func() {
		if changed {
			setPolicy(policyBatch, policyNormal)
		}
		if procs > 0 {
			runtime.GOMAXPROCS(procs)
		}
	}
}
