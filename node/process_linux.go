package node

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxPasses is the largest number of times that setPolicy goes through the list of threads. A
// thread may start another thread, with the old policy, after setPolicy has read the list.
const maxPasses = 8

// Scheduling policies of threads; see sched(7).
const (
	policyNormal = unix.SCHED_NORMAL
	policyBatch  = unix.SCHED_BATCH
)

// setPolicy gives the policy "to" to all threads of the process that have the policy "from".
// setPolicy reports whether it has changed any thread.
func setPolicy(from, to uint32) (changed bool) {
	for range maxPasses {
		tasks, err := os.ReadDir("/proc/self/task")
		more := false
		for _, t := range tasks {
			id, _ := strconv.Atoi(t.Name())
			a, err := unix.SchedGetAttr(id, 0)
			if err != nil || a.Policy != from {
				continue
			}
			more = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: to, Flags: a.Flags, Nice: a.Nice}, 0) == nil || more
		}
		changed = changed || more
		if err != nil || !more {
			break
		}
	}
	return changed
}

// processorTime returns the processor time that the process has taken.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
