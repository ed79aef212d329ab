package node

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxPasses is how often the threads are gone through for new ones, which
// begin with the policy of those that make them.
const maxPasses = 8

// patient gives all threads of the process the policy SCHED_BATCH in place of
// the usual one, or the usual one in its place.
func patient(on bool) {
	from, to := uint32(unix.SCHED_NORMAL), uint32(unix.SCHED_BATCH)
	if !on {
		from, to = to, from
	}
	for range maxPasses {
		tasks, err := os.ReadDir("/proc/self/task")
		changed := false
		for _, t := range tasks {
			id, _ := strconv.Atoi(t.Name())
			a, err := unix.SchedGetAttr(id, 0)
			if err != nil || a.Policy != from {
				continue
			}
			changed = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: to, Flags: a.Flags, Nice: a.Nice}, 0) == nil || changed
		}
		if err != nil || !changed {
			return
		}
	}
}
