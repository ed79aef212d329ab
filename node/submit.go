package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ttfabric/node/claim"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// waiter is an open request: the function to call when the request ends, the request's index, the
// request's destination, and the request's token.
type waiter struct {
	done  func(int, flow.Result) // nil: the waiter's place is free
	i     int
	dst   wire.FabricNodeID
	token uint64
}

// waiters holds the waiters of all open requests, the awaited words, and the claims. A token consists of two
// numbers of 32 bits: the count of tokens so far, which wraps, and the waiter's index in "at".
type waiters struct {
	at   []waiter
	free []uint32 // indexes in "at" that are free
	n    uint64   // number of tokens given out so far

	words []*awaited // words of the memory that programs wait on

	claims claim.Table // parts of the chip that programs use alone
}

// placeBits is the number of bits of a token that hold the waiter's index. A chip always has fewer
// open requests than these bits can count.
const placeBits = 32

// add adds a waiter, and returns the waiter's token.
func (w *waiters) add(done func(int, flow.Result), i int, dst wire.FabricNodeID) uint64 {
	if len(w.free) == 0 {
		w.free = append(w.free, uint32(len(w.at)))
		w.at = append(w.at, waiter{})
	}
	place := w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	w.n++
	token := w.n<<placeBits | uint64(place)
	w.at[place] = waiter{done, i, dst, token}
	return token
}

// take returns the waiter that has the token, and removes the waiter. If no waiter has the token,
// take returns false.
func (w *waiters) take(token uint64) (waiter, bool) {
	place := token & (1<<placeBits - 1)
	if place >= uint64(len(w.at)) || w.at[place].done == nil || w.at[place].token != token {
		return waiter{}, false
	}
	got := w.at[place]
	w.at[place] = waiter{}
	w.free = append(w.free, uint32(place))
	return got, true
}

// end ends all open requests with an unknown outcome, because the node closes. The error of each
// result is ErrClosed.
func (w *waiters) end(now mono.Time) {
	for _, one := range w.at {
		if one.done != nil {
			one.done(one.i, flow.Result{Token: one.token, Dst: one.dst, Fate: flow.FateUnknown, Err: ErrClosed, Done: now})
		}
	}
	w.at, w.free = nil, nil
}

// submission is a list of requests that a program has submitted. While the chip has no room for the
// next request, the submission waits in Node.pending. Each step of the node starts more of the
// waiting requests if the chip has room. The node wakes the caller of Submit once, when the
// submission has ended.
type submission struct {
	rs      []flow.Request
	started int
	done    func(int, flow.Result)
	ended   chan error // gets one value: nil if the chip has started all requests, otherwise the error
}

// Submit starts the requests of rs in order. When a request ends, perhaps before Submit returns,
// the node calls done with the request's index and result. done must not block. If the chip has no
// room for a request, Submit waits for room until ctx ends. A request to an unreachable chip counts
// as started, and ends at once as lost. Submit returns how many requests were started. If not all
// requests were started, Submit also returns an error.
func (n *Node) Submit(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	s := &submission{rs: rs, done: done}
	closed, waits := true, false
	var err error
	n.step(submitted, func(now mono.Time) {
		closed = false
		if err = n.takesWork(); err != nil {
			return
		}
		if waits, err = n.begin(now, s); waits {
			s.ended = make(chan error, 1)
			n.pending = append(n.pending, s)
		}
	})
	switch {
	case closed:
		return 0, ErrClosed
	case !waits:
		return s.started, err
	}
	select {
	case err = <-s.ended:
		return s.started, err
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case err = <-s.ended: // the submission ended at the same moment as ctx
		return s.started, err
	default:
	}
	n.pending = slices.DeleteFunc(n.pending, func(p *submission) bool { return p == s })
	return s.started, ctx.Err()
}

// TrySubmit does what [Node.Submit] does, but never waits. If the chip has no room for the next
// request, TrySubmit returns the number of started requests, and busy is true.
func (n *Node) TrySubmit(rs []flow.Request, done func(i int, r flow.Result)) (started int, busy bool, err error) {
	s := submission{rs: rs, done: done}
	err = ErrClosed
	n.step(submitted, func(now mono.Time) {
		if err = n.takesWork(); err == nil {
			busy, err = n.begin(now, &s)
		}
	})
	return s.started, busy, err
}

// feed starts requests of the waiting submissions, as many as the chip has room for. feed reports
// whether it started any request.
func (n *Node) feed(now mono.Time) bool {
	moved := false
	kept := n.pending[:0]
	for _, s := range n.pending {
		before := s.started
		waits, err := n.begin(now, s)
		moved = moved || s.started > before
		if waits {
			kept = append(kept, s)
		} else {
			s.ended <- err
		}
	}
	clear(n.pending[len(kept):])
	n.pending = kept
	return moved
}

// begin starts the next requests of a submission, as many as the chip has room for. waits is true
// if more requests wait for room. If a request cannot be started at all, begin returns an error.
func (n *Node) begin(now mono.Time, s *submission) (waits bool, err error) {
	for ; s.started < len(s.rs); s.started++ {
		r := &s.rs[s.started]
		r.Token = n.waiting.add(s.done, s.started, r.Dst)
		got := n.chip.HandleRequest(now, *r)
		if got == flow.Accepted {
			continue
		}
		n.waiting.take(r.Token)
		switch got {
		case flow.Busy:
			return true, nil
		case flow.NoSuchChip:
			return false, fmt.Errorf("chip %s is not in topology %s", r.Dst, n.cfg.Topology)
		case flow.Unreachable:
			s.done(s.started, r.Unreachable(n.cfg.Node, now))
			continue
		case flow.NoSuchPlane:
			if int(r.Plane) < n.cfg.Topology.Planes() {
				return false, &session.NoRouteError{Src: n.cfg.Node, Dst: r.Dst, Plane: r.Plane}
			}
			return false, fmt.Errorf("plane %d: topology %s has planes 0 to %d", r.Plane, n.cfg.Topology.Name, max(n.cfg.Topology.Planes(), 1)-1)
		case flow.BadRanges:
			return false, n.chip.CheckMulticast(r)
		case flow.BadPosted:
			return false, errors.New("reads and probes need an answer, so they cannot be posted")
		case flow.BadVia:
			return false, fmt.Errorf("the hops %v cannot be used: the hops do not lead from %s to %s on plane %d, or turn back at once, or the request also asks for the other route round a ring, or the hops are more than %d", r.Via, n.cfg.Node, r.Dst, r.Plane, wire.MaxHops)
		default:
			return false, fmt.Errorf("payload of %d bytes: a packet carries at most %d", max(len(r.Payload), int(r.Command.Size)), wire.MaxPayload)
		}
	}
	return false, nil
}
