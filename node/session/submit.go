package session

import (
	"context"

	"ttfabric/node/flow"
)

// SubmitEach starts requests of several flows in one step of the chip, in order, and does not wait for
// their ends. SubmitEach waits until the chip has copied all payloads, or until ctx ends. SubmitEach
// returns how many requests the chip has started, and an error if some were not started. For each
// started request, the session calls the function "done" once, with the request's index. A nil error
// means that the destination has performed the request. The session never repeats these requests. The
// function must not block, and must not call the session.
func (s *Session) SubmitEach(ctx context.Context, rs []flow.Request, done func(i int, err error)) (started int, err error) {
	ended := func(i int, r flow.Result) { done(i, failure(&flow.Request{Dst: r.Dst}, &r)) }
	if !s.lined() {
		return s.f.Submit(ctx, rs, ended)
	}
	for started < len(rs) && err == nil { // open Calls note the order of their flows
		base := started
		var n int
		n, err = s.submit(ctx, rs[base:base+1], func(_ int, r flow.Result) { ended(base, r) })
		started += n
	}
	return started, err
}
