package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// transfer is one call that moves data in packets of up to 4 KiB. A transfer hands
// packets to the fabric in batches, keeps up to InFlight packets under way, and collects
// how the packets end.
type transfer struct {
	ctx   context.Context
	n     int                                   // length of the transfer, in bytes
	build func(off, n int) flow.Request         // makes the request for n bytes from offset off on
	took  func(off, n int, r flow.Result) error // takes the data of a performed read; nil for writes

	first, repeat submit // hand packets to the fabric for the first time, and again
	lastAlone     bool   // the last packet must not be performed before all others: the transfer sends the last packet when the others have ended as done

	next  int            // number of packets handed to the fabric so far
	batch []flow.Request // memory for the packets of one submit

	mu    sync.Mutex
	open  int           // number of packets under way
	err   error         // the first error
	wake  chan struct{} // receives a value when a packet has ended
	ended bool          // the call has returned to the caller
	done  bool          // the destination performed a packet
	anew  bool          // the destination restarted before it performed a packet; all packets go to the present incarnation of the destination
}

// batchMin is the smallest number of packets in a batch, except for the last batch.
const batchMin = InFlight / 4

// pieces moves n bytes, waits until all packets have ended, and returns the first error.
// If ctx ends first, pieces stops waiting.
func (s *Session) pieces(ctx context.Context, n int, build func(off, n int) flow.Request, took func(off, n int, r flow.Result) error) error {
	t := s.transfer(ctx, n, build, took)
	return t.run(t.submit())
}

func (s *Session) transfer(ctx context.Context, n int, build func(off, n int) flow.Request, took func(off, n int, r flow.Result) error) *transfer {
	return &transfer{ctx: ctx, n: n, build: build, took: took, first: s.submit, repeat: s.submit, wake: make(chan struct{}, 1)}
}

// submit hands as many further packets to the fabric as may be under way. submit returns false
// if no packet is left, or if the transfer has failed.
func (t *transfer) submit() (more bool) {
	t.mu.Lock()
	k := t.room()
	if t.err != nil || k == 0 {
		t.mu.Unlock()
		return false
	}
	base := t.next
	t.open += k
	t.next += k
	t.mu.Unlock()
	t.batch = t.batch[:0]
	for i := range k {
		t.batch = append(t.batch, t.request(base+i))
	}
	started, err := t.first(t.ctx, t.batch, func(i int, r flow.Result) { t.end(base+i, 0, r) })
	if err != nil {
		t.mu.Lock()
		t.open -= k - started
		t.fail(err)
		t.mu.Unlock()
	}
	return t.next < t.packets()
}

// run hands the remaining packets to the fabric, waits until all packets have ended, and
// returns the transfer's error. The argument "more" is the last result of submit.
func (t *transfer) run(more bool) error {
	for more {
		if !t.wait(func() bool { return t.err != nil || t.room() >= min(batchMin, t.left()) }) {
			return t.leave()
		}
		more = t.submit()
	}
	if !t.wait(func() bool { return t.open == 0 }) {
		return t.leave()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return stopped(t.ctx, t.err)
}

// room returns the number of further packets that may be under way now.
func (t *transfer) room() int {
	if t.lastAlone && t.next == t.packets()-1 && t.open > 0 {
		return 0
	}
	return min(InFlight-t.open, t.left())
}

// left returns the number of packets that the transfer has not handed to the fabric. If lastAlone
// is set and several packets are left, left does not count the last one.
func (t *transfer) left() int {
	n := t.packets() - t.next
	if t.lastAlone && n > 1 {
		n--
	}
	return n
}

func (t *transfer) packets() int { return (t.n + wire.MaxPayload - 1) / wire.MaxPayload }

func (t *transfer) request(i int) flow.Request {
	off := i * wire.MaxPayload
	return t.build(off, min(wire.MaxPayload, t.n-off))
}

// wait blocks until the function "ready" returns true. wait holds the lock when it
// calls "ready". If the context ends first, wait returns false.
func (t *transfer) wait(ready func() bool) bool {
	for {
		t.mu.Lock()
		ok := ready()
		t.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-t.wake:
		case <-t.ctx.Done():
			return false
		}
	}
}

// leave ends the call while packets are still under way, and returns the call's error.
func (t *transfer) leave() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	unknown := &OutcomeUnknownError{Dst: t.build(0, 0).Dst, Reason: "the caller stopped waiting"}
	return errors.Join(t.err, unknown, t.ctx.Err())
}

func (t *transfer) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// end handles the result of packet i, after "try" repetitions of the packet.
func (t *transfer) end(i, try int, r flow.Result) {
	q := t.request(i)
	again, torn := t.again(&q, try, &r)
	if again {
		t.repeatLater(i, try, r)
		return
	}
	t.mu.Lock()
	if torn {
		t.fail(&OutcomeUnknownError{Dst: q.Dst, Reason: "the destination restarted during the transfer"})
	} else if r.Fate != flow.FateDone {
		t.fail(failure(&q, &r))
	} else if t.took != nil && !t.ended {
		t.fail(t.took(i*wire.MaxPayload, min(wire.MaxPayload, t.n-i*wire.MaxPayload), r))
	}
	t.settled()
}

// repeatLater sends packet i again after a while. The argument r is the packet's result after "try"
// repetitions. repeatLater is a function of its own, so that packets without repetition allocate
// nothing.
func (t *transfer) repeatLater(i, try int, r flow.Result) {
	time.AfterFunc(againAfter(try), func() {
		t.mu.Lock()
		if t.ended {
			t.mu.Unlock()
			return
		}
		q := t.request(i)
		q.Payload = slices.Clone(q.Payload) // after the answer, the caller may reuse the buffer
		t.mu.Unlock()
		_, err := t.repeat(t.ctx, []flow.Request{q}, func(_ int, r flow.Result) { t.end(i, try+1, r) })
		if err != nil {
			if err == errLater {
				err = failure(&q, &r)
			}
			t.mu.Lock()
			t.fail(err)
			t.settled()
		}
	})
}

// The method "again" notes how a packet ended, and reports whether the transfer repeats the packet.
// If the destination restarted after it performed some packets, the transfer is torn. A torn
// transfer does not send its other packets to the present incarnation of the destination.
func (t *transfer) again(q *flow.Request, try int, r *flow.Result) (again, torn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.Fate == flow.FateDone:
		t.done = true
		return false, false
	case r.Outcome == wire.OutcomeUnknownFlow && r.Fate == flow.FateRefused && !t.anew:
		if t.done {
			return false, true
		}
		t.anew = true
	}
	return t.ctx.Err() == nil && repeats(q, r, try), false
}

// settled notes that a packet has ended, and unlocks the transfer's lock.
func (t *transfer) settled() {
	t.open--
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
