package collective

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// A small message is posted, so no chip answers. If a fault loses the message, nobody notices but the
// receiver, which waits. So the sender writes the message again, this time with an answer, if no
// acknowledgement has come for sureAfter.

const sureAfter = 200 * time.Millisecond

var errSilent = errors.New("no acknowledgement has come")

// tend starts the goroutine that looks after posted messages, if it does not run.
func (c *Comm) tend() {
	if c.tending.CompareAndSwap(false, true) && !c.spawn(c.lookAfterPosted) {
		c.tending.Store(false)
	}
}

// lookAfterPosted writes posted messages again that nobody has acknowledged for sureAfter.
// lookAfterPosted returns when all posted messages have come.
func (c *Comm) lookAfterPosted() {
	for pause(c.ctx, sureAfter/2) == nil {
		if c.repeatPosted() {
			continue
		}
		c.tending.Store(false)
		if !c.repeatPosted() || !c.tending.CompareAndSwap(false, true) {
			return
		}
	}
}

// repeatPosted starts to write messages again, and reports whether some posted messages have perhaps not
// come.
func (c *Comm) repeatPosted() (more bool) {
	for _, x := range c.outlets() {
		for i := range x.slots {
			due, wait := x.due(i)
			more = more || wait
			if due && c.hold(1) {
				go func() {
					defer c.calls.Done()
					p := piece{out: x, slot: i}
					p.repeat(c, errSilent)
				}()
			}
		}
	}
	return more
}

// outlets returns the sending sides of all FIFOs.
func (c *Comm) outlets() []*outlet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.out))
}

// settlePosted waits until no posted message is under way any more. A ping comes after all earlier
// messages of its flow. A chip that does not answer within tellMost may still get a posted message.
func (c *Comm) settlePosted() {
	ctx, cancel := context.WithTimeout(context.Background(), tellMost)
	defer cancel()
	var wg sync.WaitGroup
	for _, x := range c.outlets() {
		x.mu.Lock()
		latest := uint32(0)
		for i := range x.slots {
			latest = max(latest, x.slots[i].number)
		}
		x.mu.Unlock()
		if latest > x.acked.Load() {
			wg.Go(func() { _, _ = c.s.Ping(ctx, c.chips[x.To]) })
		}
	}
	wg.Wait()
}

// due reports whether the message of a slot must be written again now, and whether it has perhaps not
// come.
func (x *outlet) due(i int) (due, wait bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &x.slots[i]
	switch {
	case s.posted.IsZero():
		return false, false
	case s.number <= x.acked.Load():
		s.posted = time.Time{}
		return false, false
	case s.open > 0 || time.Since(s.posted) < sureAfter:
		return false, true
	}
	s.posted, s.open = time.Time{}, 1
	return true, false
}
