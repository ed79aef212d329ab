package node

import (
	"os"
	"runtime"
)

// ConfigureProcess sets up the Go runtime and the threads of a process that only runs one chip.
// ConfigureProcess returns a function that undoes the setup.
//
// ConfigureProcess sets GOMAXPROCS to 1, if the environment does not set GOMAXPROCS. A chip has one
// lock. A second processor of the Go runtime would therefore only add wake-ups on other cores. With
// one processor, all-to-all traffic on a T3000 is 1.5 times as fast.
//
// ConfigureProcess gives the process's threads the batch policy (SCHED_BATCH, sched(7)). When
// datagrams arrive, a thread with the batch policy does not interrupt the running thread. The woken
// thread waits until the running thread's time slice of a few milliseconds ends. If chips share a
// core, more datagrams then wait for each chip when the chip runs. scripts/bench/README.md states
// the gain and the cost. A thread with another policy than the normal policy keeps its policy. If
// the kernel refuses the batch policy, the threads keep their old policy.
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
