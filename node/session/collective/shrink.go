package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"ttfabric/wire"
)

// Shrink makes a communicator of the ranks whose chips live. All living ranks call Shrink, and get the
// same ranks in the same order. The communicator c fails for all its ranks, if it has not failed before,
// and cannot be used any more. If a further chip dies later, the new communicator fails, and can be shrunk
// again.
//
// The ranks agree in rounds. In each round, a rank sends all living ranks the set of the ranks that it
// counts as dead, and waits for their sets. When all sets of a round are equal, the set is the rank's
// decision, and the rank tells the others. A rank that has been told a decision takes this decision. Ranks
// without a route to each other count each other as dead, and each part of the fabric continues by itself.
func (c *Comm) Shrink(ctx context.Context) (*Comm, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.turn }()
	if c.generation >= MaxGeneration {
		return nil, fmt.Errorf("a communicator of generation %d, the largest one: open a new communicator", MaxGeneration)
	}
	c.fail(&AbandonedError{c.rank, c.s.Self(), errShrinks}, true)
	c.mu.Lock()
	why := c.err
	again := c.shrunk
	c.over, c.shrunk = true, true
	c.mu.Unlock()
	if why == ErrClosed || again {
		return nil, ErrClosed
	}
	c.calls.Wait()    // no write of this rank that has an answer is under way any more
	c.settlePosted(1) // posted messages on plane 0 come before the writes of Shrink, which use plane 0
	a := &agreement{c: c, changed: make(chan struct{}, 1)}
	var dead *DeadError
	if errors.As(why, &dead) {
		a.dead = 1 << dead.Rank
	}
	next, err := a.prepare(ctx)
	if err != nil {
		return nil, err
	}
	decided, err := a.agree(ctx)
	if err != nil {
		return nil, err
	}
	return a.build(next, decided)
}

var errShrinks = errors.New("the rank shrinks the communicator")

// agreement is a Shrink under way.
type agreement struct {
	c       *Comm
	changed chan struct{} // gets a value when a further chip counts as dead

	mu   sync.Mutex
	dead uint64 // bit r: the chip of rank r counts as dead
}

func (a *agreement) set() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dead
}

// bury counts further ranks as dead.
func (a *agreement) bury(ranks uint64) {
	a.mu.Lock()
	a.dead |= ranks
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// prepare clears the memory of the next generation, before another rank can write there. The ranks of
// the result are not known yet.
func (a *agreement) prepare(ctx context.Context) (*Comm, error) {
	next, err := newComm(a.c.s, a.c.chips, a.c.links, a.c.area, a.c.generation+1)
	if err != nil {
		return nil, err
	}
	return next, next.clear(ctx)
}

// entry is what a rank tells another rank in a round. The first word of an entry in memory holds the
// generation and the round. So an entry of an earlier generation, which comes late, is less than all
// entries of this generation.
type entry struct {
	round   uint32 // at most maxRounds
	decided bool
	dead    uint64
}

const (
	roundBits = 12
	maxRounds = 1<<roundBits - 2 // largest round in which ranks agree; a decision has the next round
)

// stamp returns the first word of an entry.
func (a *agreement) stamp(round uint32) uint32 { return a.c.generation<<roundBits | round }

func (e entry) append(b []byte, stamp uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, stamp)
	d := uint32(0)
	if e.decided {
		d = 1
	}
	b = binary.LittleEndian.AppendUint32(b, d)
	return binary.LittleEndian.AppendUint64(b, e.dead)
}

// agree returns the set of dead ranks that all living ranks take. A chip that dies later is not in the
// set, also if this rank knows of the death already.
func (a *agreement) agree(ctx context.Context) (decided uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		a.c.watch(ctx, func(e *DeadError) { a.bury(1 << e.Rank) })
	})
	for round := uint32(1); round <= maxRounds; round++ {
		sent := a.set()
		if sent>>a.c.rank&1 != 0 {
			return 0, fmt.Errorf("the other ranks count chip %s of rank %d, this program's chip, as dead", a.c.s.Self(), a.c.rank)
		}
		if err := a.tell(ctx, entry{round: round, dead: sent}); err != nil {
			return 0, err
		}
		equal := true
		for r := range a.c.chips {
			if r == a.c.rank {
				continue
			}
			e, ok, err := a.hear(ctx, r, round)
			switch {
			case err != nil:
				return 0, err
			case !ok: // the rank has died
			case e.decided:
				a.mu.Lock()
				a.dead = e.dead
				a.mu.Unlock()
				if e.dead>>a.c.rank&1 != 0 {
					continue // the next round reports this
				}
				return e.dead, a.tell(ctx, entry{round + 1, true, e.dead})
			default:
				equal = equal && e.dead == sent
				a.bury(e.dead)
			}
		}
		if equal && a.set() == sent {
			return sent, a.tell(ctx, entry{round + 1, true, sent})
		}
	}
	return 0, fmt.Errorf("the ranks did not agree on the dead ranks in %d rounds", maxRounds)
}

// tell writes an entry to all ranks that do not count as dead.
func (a *agreement) tell(ctx context.Context, e entry) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	b := e.append(nil, a.stamp(e.round))
	for r := range a.c.chips {
		if r == a.c.rank || e.dead>>r&1 != 0 {
			continue
		}
		wg.Go(func() {
			err := a.write(ctx, r, b)
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return first
}

// write writes this rank's entry to a rank. If the rank's chip is gone, write buries the rank.
func (a *agreement) write(ctx context.Context, r int, b []byte) error {
	for {
		err := a.c.s.Write(ctx, a.c.chips[r], a.c.board(a.c.rank), b)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var dead *DeadError
		switch gone := a.c.gone(ctx, r, err); {
		case errors.As(gone, &dead):
			a.bury(1 << r)
			return nil
		case gone != nil:
			return gone
		case pause(ctx, repeatAfter) != nil:
			return ctx.Err()
		}
	}
}

// hear waits for the entry of a rank in a round. If the rank counts as dead, ok is false.
func (a *agreement) hear(ctx context.Context, r int, round uint32) (e entry, ok bool, err error) {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		word uint32
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		w, err := a.c.s.WaitCounter(wait, a.c.board(r), a.stamp(round))
		got <- answer{w, err}
	}()
	for {
		if a.set()>>r&1 != 0 {
			cancel()
			<-got
			return entry{}, false, nil
		}
		select {
		case <-a.changed:
		case x := <-got:
			if x.err != nil {
				return entry{}, false, x.err
			}
			var b [boardSize]byte
			if err := a.c.s.Read(ctx, a.c.s.Self(), a.c.board(r), b[:]); err != nil {
				return entry{}, false, err
			}
			le := binary.LittleEndian
			return entry{le.Uint32(b[:]) & (1<<roundBits - 1), le.Uint32(b[4:]) != 0, le.Uint64(b[8:])}, true, nil
		}
	}
}

// build returns the communicator of the ranks that do not count as dead.
func (a *agreement) build(next *Comm, dead uint64) (*Comm, error) {
	var chips []wire.FabricNodeID
	var lives []wire.Incarnation
	for r, n := range a.c.chips {
		if dead>>r&1 == 0 {
			chips, lives = append(chips, n), append(lives, a.c.lives[r])
		}
	}
	if bits.OnesCount64(dead) != len(a.c.chips)-len(chips) {
		return nil, fmt.Errorf("the ranks have agreed on dead ranks %#x, beyond the %d ranks", dead, len(a.c.chips))
	}
	next, err := newComm(a.c.s, chips, a.c.links, a.c.area, next.generation)
	if err != nil {
		return nil, err
	}
	next.lives, next.means = lives, a.c.means
	if f := a.c.orphan(); f != nil {
		f.pass(a.c, next)
	}
	next.begin()
	return next, nil
}
