package collective

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Messages are posted, so no chip answers. If a fault loses a message, nobody notices but the
// receiver, which waits. So the sender looks after the message if no acknowledgement has come for
// sureAfter: perhaps the message has come, and the receiver is late. The sender reads the headers of the packets
// of a long message at the receiving chip. The sender writes the packets again that have not come, this time with
// an answer.

const sureAfter = 200 * time.Millisecond

var errSilent = errors.New("no acknowledgement has come")

// tend starts the goroutine that looks after posted messages, if it does not run.
func (c *Comm) tend() {
	if c.tending.CompareAndSwap(false, true) && !c.spawn(c.lookAfterPosted) {
		c.tending.Store(false)
	}
}

// lookAfterPosted looks after the posted messages that nobody has acknowledged for sureAfter.
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

// repeatPosted starts to look after messages, and reports whether some posted messages have perhaps not
// come.
func (c *Comm) repeatPosted() (more bool) {
	for _, x := range c.outlets() {
		for i := range x.slots {
			due, wait := x.due(i)
			more = more || wait
			if due && c.hold(1) {
				go func() {
					defer c.calls.Done()
					for num := range pieces(x.slots[i].packets) {
						p := piece{out: x, slot: i, num: num}
						p.repeat(c, errSilent)
					}
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

// settlePosted waits until no posted message of the plane "first" and of later planes is under way any more. A ping
// comes after all earlier messages of its flow. A chip that does not answer within tellMost may still get a posted message.
func (c *Comm) settlePosted(first int) {
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
		if latest > x.acked.Load() && x.Lane/lanesOfPlane >= first {
			wg.Go(func() { _, _ = c.s.Ping(ctx, c.chips[x.To], x.plane()) })
		}
	}
	wg.Wait()
}

// due reports whether the sender must look after the message of a slot now, and whether it has perhaps not
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
	s.posted, s.open = time.Time{}, pieces(s.packets)
	return true, false
}
