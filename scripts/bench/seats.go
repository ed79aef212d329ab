package main

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// seat says on which cores the two ends of a round trip sit. By default, the kernel puts the ends
// on one core or on two cores, for seconds at a time. A round trip takes several times as long on
// two cores, since each message wakes up a sleeping core. The benchmark therefore measures each
// seat.
type seat struct {
	name      string
	near, far int // cores of the near and the far end; -1: any core
}

var anywhere = seat{near: -1, far: -1}

// sitting is the seat in force.
var sitting = anywhere

// seats returns the seat with both ends on one core. If this process may use two cores, seats also
// returns the seat with the ends on two cores. If the cores are not known, seats returns a seat
// with any core.
func seats() []seat {
	var all unix.CPUSet
	var cpus []int
	if unix.SchedGetaffinity(0, &all) == nil {
		for c := 0; len(cpus) < min(all.Count(), 2); c++ {
			if all.IsSet(c) {
				cpus = append(cpus, c)
			}
		}
	}
	if len(cpus) == 0 {
		return []seat{{"any core", -1, -1}}
	}
	s := []seat{{"one core", cpus[0], cpus[0]}}
	if len(cpus) > 1 {
		s = append(s, seat{"two cores", cpus[0], cpus[1]})
	}
	return s
}

// sit runs f with the two ends on the cores of the seat.
func (s seat) sit(f func() error) error {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("which cores are allowed: %w", err)
	}
	sitting = s
	defer func() { sitting = anywhere }()
	if s.near >= 0 {
		if err := pin(cpuSet(s.near)); err != nil {
			return err
		}
		defer pin(before)
	}
	return f()
}

func cpuSet(cpu int) (s unix.CPUSet) {
	s.Set(cpu)
	return s
}

// pin moves all threads of this process to the given cores. Later threads inherit these cores.
func pin(cpus unix.CPUSet) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(id, &cpus); err != nil && err != unix.ESRCH {
			return fmt.Errorf("pin thread %d: %w", id, err)
		}
	}
	return nil
}
