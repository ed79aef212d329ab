package node

import (
	"os"
	"runtime"
)

// ConfigureProcess sets up a process that does nothing but run one chip. ConfigureProcess returns a
// function that undoes the setup.
//
// A chip has one lock, so a second processor of the Go runtime would only add wake-ups on other
// cores. The process therefore uses one processor, unless the environment variable GOMAXPROCS says
// otherwise. With one processor, all-to-all on a T3000 is half as fast again.
//
// The process's threads get the batch policy (SCHED_BATCH, sched(7)). When datagrams come for such
// a thread, it does not interrupt the running thread. It waits for its turn, within a slice of the
// kernel's scheduler, a few milliseconds. With more chips than cores, each chip then finds more to
// do at once. scripts/bench/README.md has the gain and the cost. A process that was started with
// another policy keeps it. If the kernel refuses the policy, nothing changes.
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
