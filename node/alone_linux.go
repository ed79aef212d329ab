package node

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxPasses is how often the threads are gone through for new ones, which
// begin with the policy of those that make them.
const maxPasses = 8

// The policies of threads, as sched(7) has them.
const (
	usual   = unix.SCHED_NORMAL
	patient = unix.SCHED_BATCH
)

// setPolicy gives the threads of the process that have one policy another, and reports whether any has changed.
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
