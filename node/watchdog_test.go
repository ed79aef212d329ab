package node

import (
	"context"
	"testing"
	"time"

	"ttfabric/node/kernel"
)

// TestWatchdogSleeps checks that the watchdog has a timer only while kernels have turns, and that a
// later turn starts the timer again.
func TestWatchdogSleeps(t *testing.T) {
	t.Parallel()
	w := &watchdog{wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.watch(ctx, func(kernel string, _ []byte) { t.Errorf("kernel %s hangs", kernel) })
	}()
	until := func(looks bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); w.looks.Load() != looks; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the watchdog has a timer: %v, want %v", !looks, looks)
			}
		}
	}
	until(false)
	for range 2 {
		w.running(kernel.Tile{X: 1, Y: 1})
		until(true)
		w.running(nil)
		until(false)
	}
	cancel()
	<-ended
}
