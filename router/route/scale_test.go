package route

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// spent runs f and returns the processor time and the memory that f used. Other programs disturb
// processor time less than elapsed time.
func spent(t *testing.T, f func()) (cpu time.Duration, bytes uint64) {
	t.Helper()
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := used()
	f()
	cpu = used() - began
	runtime.ReadMemStats(&after)
	return cpu, after.TotalAlloc - before.TotalAlloc
}

// TestGrowth plans and checks fabrics of 4 to 1024 meshes of 256 chips, and compares the memory
// with upper bounds. With -route.all, TestGrowth also compares the processor time: 50 ms for one
// chip's tables, one minute for the check. The scripts soak and check set -route.all.
func TestGrowth(t *testing.T) {
	sides := []int{2, 4, 8, 16, 32}
	switch {
	case testing.Short():
		sides = sides[:3]
	case !*all:
		sides = sides[:4]
	}
	for _, side := range sides {
		m := manyMeshes(t, side, 16, 16)
		n := side * side
		var p *Plan
		plan, planBytes := time.Hour, uint64(0)
		for range 20 {
			cpu, bytes := spent(t, func() {
				var err error
				if p, err = New(m, Config{}); err != nil {
					t.Fatal(err)
				}
			})
			plan, planBytes = min(plan, cpu), bytes
		}
		var v Verdict
		check, checkBytes := spent(t, func() { v = p.Check(p.Multicasts()) })
		t.Logf("%4d meshes, %6d chips: tables of one chip %v, %.1f MB; everything checked in %v, %.1f MB", n, 256*n, plan, float64(planBytes)/1e6, check, float64(checkBytes)/1e6)
		if want := n*(n-1) + n*256*255; !v.OK() || v.Pairs != want {
			t.Errorf("%d meshes: %s; %d pairs, want %d", n, &v, v.Pairs, want)
		}
		if *all && plan > 50*time.Millisecond || planBytes > 8e6 {
			t.Errorf("%d meshes: the tables of one chip took %v and %d bytes", n, plan, planBytes)
		}
		if *all && check > time.Minute || checkBytes > 400e6 {
			t.Errorf("%d meshes: the check took %v and %d bytes", n, check, checkBytes)
		}
	}
}
