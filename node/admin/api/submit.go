package api

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// Limits of a batch of requests.
const (
	MaxBatch     = session.InFlight // largest number of requests in one batch
	MaxBatchBody = 2 << 20          // largest size of a batch in JSON, in bytes; even MaxBatch requests with the largest payload are smaller
	MaxBatchLine = 64 << 10         // largest length of one line of the answer, in bytes; even the result of the largest multicast is shorter
	MaxID        = 64               // largest length of the id that a client gives a batch or a capture, in bytes
)

// Times of a batch.
const (
	stopPatience = 200 * time.Millisecond // longest time that Submit waits after it has asked the chip to stop a batch; Submit then closes the connection
	fullPause    = 50 * time.Millisecond  // time until Submit sends a batch again, if the chip had no place for the batch
	stopAgain    = 10 * time.Millisecond  // time between two calls that ask the chip to stop a batch; Submit repeats the call because the batch may not have reached the chip yet
)

// Submit starts requests on the chip, in order; see [session.Fabric]. Submit sends the requests in
// batches of up to [MaxBatch], and returns how many requests the chip has started. If ctx ends
// first, Submit asks the chip to start no further requests. If the client or the chip has as many
// batches under way as it may have, Submit waits before it sends another batch. Submit calls "done"
// once for each started request, also after Submit has returned. If the connection breaks, all open
// requests that the chip may have started end with the fate unknown.
func (c *Client) Submit(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	for from := 0; from < len(rs); from += MaxBatch {
		part := rs[from:min(from+MaxBatch, len(rs))]
		n, err := c.submit(ctx, part, func(i int, r flow.Result) { done(from+i, r) })
		if n < len(part) {
			return from + n, err
		}
	}
	return len(rs), nil
}

// batch is one batch whose answer is not complete yet.
type batch struct {
	c      *Client
	id     string
	open   []pending // requests of the batch, by index
	done   func(int, flow.Result)
	begun  chan begun  // gets one value, when the chip has reported how many requests it started
	told   bool        // whether begun has got its value
	conn   atomic.Bool // whether the batch has a connection; if true, the chip may have received the batch
	cancel context.CancelCauseFunc
	leave  func() // frees the places of the batch
}

// pending is a request of a batch.
type pending struct {
	token uint64
	dst   wire.FabricNodeID
	plane wire.Plane
	ended bool
}

// begun holds the number of requests of a batch that the chip started.
type begun struct {
	n   int
	err error // why the chip did not start all requests; nil: the chip started all
}

// submit sends one batch, and waits until the chip has reported how many requests it started. If the
// chip has no place for the batch, submit waits and sends the batch again, until ctx ends.
func (c *Client) submit(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	to := targetOf(rs)
	for {
		n, err := c.submitOnce(ctx, to, rs, done)
		var full *StatusError
		if n > 0 || !errors.As(err, &full) || full.Code != http.StatusServiceUnavailable {
			return n, err
		}
		select {
		case <-time.After(fullPause):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// submitOnce sends a batch that goes to the target "to". See submit.
func (c *Client) submitOnce(ctx context.Context, to target, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	leave, err := c.batches.take(ctx, to)
	if err != nil {
		return 0, err
	}
	b := &batch{c: c, id: rand.Text(), open: make([]pending, len(rs)), done: done, begun: make(chan begun, 1), leave: leave}
	bodies := make([]RequestBody, len(rs))
	for i := range rs {
		r := &rs[i]
		b.open[i], bodies[i] = pending{token: r.Token, dst: r.Dst, plane: r.Plane}, NewRequest(r)
	}
	// The batch does not end with ctx, because the results of its requests arrive after Submit has
	// returned.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	b.cancel = cancel
	go b.run(httptrace.WithClientTrace(own, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { b.conn.Store(true) }}), bodies)
	select {
	case got := <-b.begun:
		return got.n, got.err
	case <-ctx.Done():
		return b.stop(ctx)
	}
}

// run sends the batch, and reads the answer to its end.
func (b *batch) run(ctx context.Context, bodies []RequestBody) {
	defer b.leave()
	defer b.cancel(nil)
	resp, err := b.c.open(ctx, "POST", "/v1/requests?batch="+url.QueryEscape(b.id), bodies)
	if err != nil {
		b.fail(why(ctx, err))
		return
	}
	defer resp.Body.Close()
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, MaxBatchLine)
	for sc.Scan() {
		if err := b.line(sc.Bytes()); err != nil {
			b.lose(fmt.Errorf("%s answered a batch of requests with unexpected content: %w", b.c.who(), err))
			return
		}
	}
	err = sc.Err()
	if err == nil {
		err = errors.New("the answer ended")
	}
	b.lose(why(ctx, fmt.Errorf("the connection to %s broke: %w", b.c.who(), err)))
}

// The function "why" returns the reason for which stop has closed the connection. If stop has not
// closed the connection, why returns err.
func why(ctx context.Context, err error) error {
	var silent *silentError
	if errors.As(context.Cause(ctx), &silent) {
		return silent
	}
	return err
}

// silentError says that the caller stopped waiting, and that the chip did not answer in time which
// requests it had started.
type silentError struct{ who string }

// Error names the chip.
func (e *silentError) Error() string {
	return fmt.Sprintf("the caller stopped waiting, and %s did not say within %v which requests it had started", e.who, stopPatience)
}

// line handles one line of the answer.
func (b *batch) line(text []byte) error {
	var l struct {
		Started *int
		Problem *Problem
		Index   *int
		ResultBody
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case l.Started != nil:
		return b.start(*l.Started, l.Problem)
	case l.Index == nil || *l.Index < 0 || *l.Index >= len(b.open) || b.open[*l.Index].ended:
		return fmt.Errorf("%.100q is the end of no open request", text)
	}
	p := &b.open[*l.Index]
	p.ended = true
	b.done(*l.Index, l.ResultBody.result(p.token, p.dst))
	return nil
}

// start records that the chip started the first n requests of the batch. The remaining requests get
// no result.
func (b *batch) start(n int, why *Problem) error {
	if b.told || n < 0 || n > len(b.open) || (n < len(b.open)) != (why != nil) {
		return fmt.Errorf("%d of %d requests started", n, len(b.open))
	}
	var err error
	if why != nil {
		err = b.refusal(n, &StatusError{why.Status, b.c.who(), why.Detail, why.Type})
	}
	b.open = b.open[:n]
	b.tell(begun{n, err})
	return nil
}

// refusal returns the error for request i of the batch, which the chip did not start.
func (b *batch) refusal(i int, e *StatusError) error {
	if e.kind == NoWayType && i < len(b.open) {
		return &session.NoRouteError{Src: b.c.self, Dst: b.open[i].dst, Plane: b.open[i].plane}
	}
	return e
}

// fail ends a batch without an answer. If the chip refused the batch with a status 4xx or 503, the
// chip started no request. If the client had no connection to the chip, the chip did not start a
// request either. In all other cases, fail calls lose.
func (b *batch) fail(err error) {
	var refused *StatusError
	switch {
	case errors.As(err, &refused) && (refused.Code/100 == http.StatusBadRequest/100 || refused.Code == http.StatusServiceUnavailable):
		b.tell(begun{0, b.refusal(0, refused)})
	case !b.conn.Load():
		b.tell(begun{0, err})
	default:
		b.lose(err)
	}
}

// lose ends all open requests of the batch with the fate unknown. If the chip has not reported how
// many requests it started, all requests count as started.
func (b *batch) lose(why error) {
	b.tell(begun{len(b.open), nil})
	for i := range b.open {
		if p := &b.open[i]; !p.ended {
			p.ended = true
			b.done(i, flow.Result{Token: p.token, Dst: p.dst, Fate: flow.FateUnknown, Doubt: flow.DoubtTimeout, Err: why})
		}
	}
}

// tell sends the number of started requests to submit, once.
func (b *batch) tell(v begun) {
	if !b.told {
		b.told = true
		b.begun <- v
	}
}

// stop asks the chip to start no further requests of the batch, because ctx has ended. stop returns
// how many requests the chip started. If the chip does not answer in time, stop closes the
// connection. All requests of the batch then count as started, and open requests end with the fate
// unknown.
func (b *batch) stop(ctx context.Context) (int, error) {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	again := time.NewTicker(stopAgain)
	defer again.Stop()
	for b.conn.Load() && short.Err() == nil {
		var unknown *StatusError
		err := b.c.call(short, "DELETE", "/v1/requests?batch="+url.QueryEscape(b.id), nil, nil)
		if err != nil && !errors.As(err, &unknown) {
			break
		}
		select {
		case got := <-b.begun:
			return got.n, cause(got, ctx.Err())
		case <-again.C:
		case <-short.Done():
		}
	}
	b.cancel(&silentError{b.c.who()})
	got := <-b.begun
	return got.n, cause(got, ctx.Err())
}

// cause returns the error of a Submit whose context has ended. If the chip nevertheless started all
// requests, cause returns nil. Otherwise cause returns the error of the context. The chip's own
// reason would only be that the caller stopped the batch.
func cause(got begun, ended error) error {
	if got.err == nil {
		return nil
	}
	return ended
}
