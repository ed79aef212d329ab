//go:build !linux

package node

import "time"

// clock wakes the goroutine that runs the chip at its deadlines.
type clock struct {
	times chan time.Duration
	done  chan struct{}
	timer *time.Timer
}

// newClock returns a clock that is not set.
func newClock() (*clock, error) {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &clock{times: make(chan time.Duration, 1), done: make(chan struct{}), timer: t}, nil
}

// set makes the next wait return after the time d, and replaces the time that was set before. One
// goroutine at a time may call set.
func (c *clock) set(d time.Duration) {
	select {
	case <-c.times:
	default:
	}
	c.times <- d
}

// wait waits until the time that was set has passed. After close, wait returns false.
func (c *clock) wait() bool {
	for {
		select {
		case <-c.done:
			return false
		case d := <-c.times:
			c.timer.Reset(d)
		case <-c.timer.C:
			return true
		}
	}
}

// close makes wait return. The caller calls close once.
func (c *clock) close() { close(c.done) }
