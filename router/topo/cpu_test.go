package topo

import (
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time that this process has used. What takes long is found
// by it and not by the clock, which runs on while a busy machine does other things.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
