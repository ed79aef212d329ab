package attach

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/session"
)

// Handing an answer from one goroutine to another costs 5 to 20 µs, which is as much as the chip needs for
// a short request. A caller of Perform therefore reads its answer itself, if nobody else reads.
//
// # States
//
// One goroutine at a time may read from the connection: the one that has the turn. The turn has four
// states, and Client.mu guards the state:
//
//   - resting: nobody has the turn.
//   - reading: the reading goroutine has the turn. The reading goroutine takes frames, and sleeps until frames come.
//   - calling: a caller of Perform has the turn. The caller takes frames that have come whole, and never sleeps.
//   - over: the connection has ended, and nobody takes the turn any more.
//
// # Changes
//
//	resting -> calling   a caller sends a request
//	resting -> reading   another request is sent, or the client has rested for restTime
//	calling -> resting   the caller has its result, and no other request is open
//	calling -> reading   another request is open, the result did not come within pollTime, a frame is
//	                     too long for the memory, or the request cannot be written at once
//	reading -> resting   no request is open, and a caller of Perform waited for the latest answer
//	any     -> over      the connection has ended
//
// # Invariants
//
//  1. Only the goroutine that has the turn uses Client.in.
//  2. While a request is open, the turn is not resting. So somebody reads each answer.
//  3. A caller has the turn for about pollTime at most. A caller has no turn while the caller waits for a channel, for
//     room in the socket or for the end of its ctx. So a caller never holds up another request.
//  4. A rest lasts two restTime at most, if no caller takes the turn. So the client notices soon that
//     the chip has closed the connection.
//  5. A request leaves Client.open before it gets its result. So each request gets one result, whoever
//     reads, and also if the connection ends at the same time.
type turn uint8

const (
	resting turn = iota
	reading
	calling
	over
)

// restTime is the time after which the reading goroutine takes the turn, if no caller has used it. The
// value is a choice of this project.
const restTime = 10 * time.Millisecond

// tryEvery is how often a caller polls although the latest answers came late: each tryEvery-th
// caller polls. All other callers leave the reading to the goroutine that can sleep.
const tryEvery = 16

// errNotYet says that no whole frame has come.
var errNotYet = errors.New("no whole frame has come")

// source is the connection as the two kinds of readers see it.
type source struct {
	poller *Poller
	now    bool // the reader is a caller, and must not sleep
}

// Read implements io.Reader. For a caller, Read returns errNotYet if no byte has come.
func (s *source) Read(b []byte) (int, error) {
	if s.now {
		return s.poller.readNow(b)
	}
	return s.poller.Read(b)
}

// pending is a request whose caller waits in Perform.
type pending struct {
	request
	ended chan flow.Result // has room for the result
}

var pendings = sync.Pool{New: func() any {
	p := &pending{ended: make(chan flow.Result, 1)}
	p.done = func(_ int, r flow.Result) { p.ended <- r }
	return p
}}

// Perform performs one request; see [session.Performer].
func (c *Client) Perform(ctx context.Context, r flow.Request) (flow.Result, error) {
	if err := sendable(&r); err != nil {
		return flow.Result{}, err
	}
	p := pendings.Get().(*pending)
	p.request = request{dst: r.Dst, plane: r.Plane, token: r.Token, done: p.done, calls: true}
	mine, err := c.start(ctx, p, &r)
	if err != nil {
		pendings.Put(p)
		return flow.Result{}, err
	}
	if mine {
		c.serve(p)
	}
	select {
	case res := <-p.ended:
		pendings.Put(p)
		return res, nil
	default:
	}
	select {
	case res := <-p.ended:
		pendings.Put(p)
		return res, nil
	case <-ctx.Done():
		return flow.Result{}, session.LeftError(ctx, r.Dst) // p still gets its result, and is not used again
	}
}

// start sends the request of a caller. The result "mine" is true if the caller has the turn.
func (c *Client) start(ctx context.Context, p *pending, r *flow.Request) (mine bool, err error) {
	if err := c.take(ctx); err != nil {
		return false, err
	}
	if err := c.lock(ctx); err != nil {
		<-c.slots
		return false, err
	}
	number, mine, err := c.note(&p.request)
	if err != nil {
		<-c.writing
		<-c.slots
		return false, err
	}
	c.text = AppendCommand(c.text, number, r, int(r.Command.Size))
	n, err := c.try(c.text)
	if err == nil && n == len(c.text) {
		c.text = c.text[:0]
		<-c.writing
		return mine, nil
	}
	if err != nil && n == 0 && c.forget(number) {
		c.text = c.text[:0]
		<-c.writing
		<-c.slots
		c.broke(err)
		return false, c.failure()
	}
	if mine {
		c.pass() // invariant 3: the chip may take no more bytes before it has sent answers
	}
	_ = c.writeRest(ctx, n, nil, err) // if the write fails, the request ends with an unknown outcome
	return false, nil
}

// forget removes an open request that was not sent. forget returns false if the request has got a result.
func (c *Client) forget(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.open[number]
	delete(c.open, number)
	return ok
}

// serve takes frames until the request p has its result, as the caller that has the turn.
func (c *Client) serve(p *pending) {
	c.in.source.now = true
	err := c.poll(p)
	c.in.source.now = false
	switch err {
	case nil:
		c.leave()
	case errNotYet:
		c.pass()
	default:
		c.broke(err)
	}
}

// poll takes the frames that come within pollTime, and returns nil once the request p has its result. The
// error errNotYet says that the reading goroutine must take over.
func (c *Client) poll(p *pending) error {
	poller := c.in.source.poller
	c.in.calls++
	polls := poller.several && (poller.soon || c.in.calls%tryEvery == 0)
	begin := time.Now()
	for {
		err := c.in.whole()
		if err == nil {
			err = c.answer(c.in.Reader)
		}
		took := time.Since(begin)
		switch {
		case err == nil && len(p.ended) > 0:
			poller.soon = took < pollTime
			return nil
		case err != nil && err != errNotYet:
			return err
		case !polls, took >= pollTime:
			poller.soon = false
			return errNotYet
		case err == errNotYet:
			runtime.Gosched()
		}
	}
}

// input is what has come from the chip. Only the goroutine that has the turn uses an input.
type input struct {
	*bufio.Reader
	source *source
	calls  uint // number of callers that had the turn
}

func newInput(p *Poller) input {
	s := &source{poller: p}
	return input{Reader: bufio.NewReaderSize(s, readBuffer), source: s}
}

// whole returns nil if the next frame is in the memory, or cannot be a frame. The error errNotYet says that
// bytes of the frame are missing, or that the memory is too small for the frame.
func (in *input) whole() error {
	b, err := in.Peek(HeadLen)
	if err != nil {
		return err
	}
	h, err := ParseHead(b)
	switch {
	case err != nil:
		return nil // the method answer reports the error
	case h.Len > in.Size():
		return errNotYet
	}
	_, err = in.Peek(h.Len)
	return err
}

// pass gives a caller's turn to the reading goroutine.
func (c *Client) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == calling {
		c.summon()
	}
}

// leave ends a caller's turn.
func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.turn != calling:
	case len(c.open) > 0 || c.in.Buffered() > 0:
		c.summon()
	default:
		c.turn = resting
	}
}

// summon gives the turn to the reading goroutine. The caller holds the lock.
func (c *Client) summon() {
	c.turn = reading
	select {
	case c.wake <- struct{}{}:
	default: // the goroutine has not taken the value of an earlier call yet, and will look at the state
	}
}

// read takes the chip's answers whenever it has the turn, until the connection ends.
func (c *Client) read() {
	defer c.conn.Close()
	rest := time.NewTimer(restTime)
	defer rest.Stop()
	for c.hasTurn(rest) {
		if err := c.answer(c.in.Reader); err != nil {
			c.broke(err)
		}
	}
}

// hasTurn waits until the reading goroutine has the turn. hasTurn returns false if the connection has ended.
func (c *Client) hasTurn(rest *time.Timer) bool {
	for {
		c.mu.Lock()
		if c.turn == reading && c.called && len(c.open) == 0 && c.in.Buffered() == 0 {
			c.turn = resting
		}
		now, last := c.turn, c.last
		c.mu.Unlock()
		switch now {
		case over:
			return false
		case reading:
			return true
		}
		rest.Reset(restTime)
		select {
		case <-c.wake:
		case <-c.gone:
			return false
		case <-rest.C:
			c.mu.Lock()
			if c.turn == resting && c.last == last {
				c.turn, c.called = reading, false
			}
			c.mu.Unlock()
		}
	}
}

// broke ends the connection after an error.
func (c *Client) broke(err error) {
	c.end(fmt.Errorf("the connection to chip %s broke: %w", c.hello.Chip, err))
	c.conn.Close()
}
