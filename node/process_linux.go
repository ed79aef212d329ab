package node

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxPasses is how often setPolicy goes through the threads. A new thread begins with the policy of
// the thread that made the new thread.
const maxPasses = 8

// Policies of threads, see sched(7).
const (
	policyNormal = unix.SCHED_NORMAL
	policyBatch  = unix.SCHED_BATCH
)

// setPolicy sets the policy "to" on all threads of the process that have the policy "from".
// setPolicy reports whether any thread has changed.
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
