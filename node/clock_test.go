package node

import (
	"testing"
	"time"
)

// TestClock sets a clock, sets it again to an earlier time and to a time that has passed, and closes
// it while somebody waits.
func TestClock(t *testing.T) {
	t.Parallel()
	c, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	c.set(time.Hour)
	c.set(20 * time.Millisecond)
	if !c.wait() {
		t.Fatal("the clock is closed")
	}
	if took := time.Since(begin); took < 20*time.Millisecond || took > time.Minute {
		t.Errorf("woken after %v, want 20ms", took)
	}
	c.set(-time.Second)
	if !c.wait() {
		t.Fatal("the clock is closed")
	}
	ended := make(chan bool)
	go func() { ended <- c.wait() }()
	c.close()
	if <-ended {
		t.Error("a closed clock wakes its waiter as if a time had come")
	}
}
