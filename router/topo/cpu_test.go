package topo

import (
	"syscall"
	"testing"
	"time"
)

// cpu returns the processor time that this process has used. Tests compare processor time with
// limits, because elapsed time is longer on a busy machine.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
