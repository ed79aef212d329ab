package collective

import (
	"context"
	"errors"
	"sync"
	"time"

	"ttfabric/node/session"
)

// Times of the watch over chips.
const (
	LookEvery  = 200 * time.Millisecond // time of an operation after which a rank looks at the chips that it waits for, and time between two looks at a chip
	lookAhead  = 8                      // if a rank waits for more chips than this, the looks at one chip are further apart
	CheckAfter = 500 * time.Millisecond // time of an operation after which a rank looks at the chips of all others
	CheckEvery = time.Second            // time between two looks at these chips
	tellMost   = 2 * time.Second        // longest time for which a rank tells the others of a failure
)

// failure returns the error that has ended the communicator.
func (c *Comm) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return ErrClosed
	}
	return c.err
}

// left returns the error of a rank that leaves an operation because of err.
func (c *Comm) left(err error) error { return &AbandonedError{c.rank, c.s.Self(), err} }

// own returns the error of a command to this rank's own chip.
func (c *Comm) own(err error) error {
	if c.ctx.Err() != nil {
		return c.failure()
	}
	return c.left(err)
}

// fail ends the communicator with an error. If "tell" is set, fail tells the other ranks.
func (c *Comm) fail(err error, tell bool) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
		if tell && !c.over {
			c.calls.Go(func() { c.tell(err) })
		}
	}
	c.mu.Unlock()
	if first {
		c.stop()
	}
}

// word returns the abort word for a failure.
func (c *Comm) word(err error) uint32 {
	var dead *DeadError
	w := c.generation << abortShift
	if errors.As(err, &dead) {
		return w | uint32(dead.Rank+1)
	}
	return w | abortLeft | uint32(c.rank+1)
}

// tell writes the abort word of every other rank whose chip may live.
func (c *Comm) tell(err error) {
	ctx, cancel := context.WithTimeout(context.Background(), tellMost)
	defer cancel()
	var dead *DeadError
	errors.As(err, &dead)
	var wg sync.WaitGroup
	for r := range c.chips {
		if r == c.rank || dead != nil && dead.Rank == r {
			continue
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				e := c.s.InlineWrite(ctx, c.chips[r], c.ctl, c.word(err))
				if e == nil || errors.Is(e, session.ErrUnreachable) {
					return // a rank that cannot be reached finds the failure itself
				}
				select {
				case <-time.After(repeatAfter):
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
}

// listen waits until another rank reports a failure.
func (c *Comm) listen() {
	w, err := c.s.WaitCounter(c.ctx, c.ctl, c.generation<<abortShift|1)
	if c.ctx.Err() != nil {
		return
	}
	r := int(w&abortRank) - 1
	switch {
	case err != nil:
		c.fail(c.left(err), true)
	case w>>abortShift != c.generation || r < 0 || r >= len(c.chips):
		c.fail(c.left(errWord), true)
	case w&abortLeft != 0:
		c.fail(&AbandonedError{r, c.chips[r], nil}, false)
	default:
		c.fail(&DeadError{r, c.chips[r], nil}, false)
	}
}

var errWord = errors.New("the memory of the communicator holds a word that no rank writes; does another program use this memory?")

// look looks at the chip of a rank. If the chip is dead, look returns the error.
func (c *Comm) look(ctx context.Context, r int) *DeadError {
	life, err := c.lifeOf(ctx, r)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, session.ErrUnreachable):
		return &DeadError{r, c.chips[r], err}
	case err == nil && life != c.lives[r]:
		return &DeadError{r, c.chips[r], errRestarted}
	}
	return nil
}

// watch looks at the chips of all other ranks until ctx ends, and hands the error of each dead chip to
// the function "dead". watch returns when all looks have ended.
func (c *Comm) watch(ctx context.Context, dead func(*DeadError)) {
	var wg sync.WaitGroup
	for r := range c.chips {
		if r == c.rank {
			continue
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				if e := c.look(ctx, r); e != nil {
					dead(e)
					return
				}
				_ = pause(ctx, CheckEvery)
			}
		})
	}
	wg.Wait()
}

// watchPeers looks at the chips of some ranks in turn, until ctx ends, and hands the error of a dead chip to the
// function "dead". A look that was sent before the chips know of a death waits for the grace period. Later looks
// end at once, so watchPeers does not wait for the end of a look.
func (c *Comm) watchPeers(ctx context.Context, peers func() []int, dead func(*DeadError)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for turn := c.rank; ctx.Err() == nil; turn++ {
		ps := peers()
		if len(ps) > 0 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, LookEvery)
				defer cancel()
				if e := c.look(ctx, ps[turn%len(ps)]); e != nil {
					dead(e)
				}
			})
		}
		_ = pause(ctx, LookEvery/time.Duration(max(1, min(len(ps), lookAhead))))
	}
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
