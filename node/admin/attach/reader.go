package attach

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"ttfabric/node/flow"
	"ttfabric/node/session"
)

// answer takes one frame.
func (c *Client) answer(r *bufio.Reader) error {
	b, err := r.Peek(HeadLen)
	if err != nil {
		return err
	}
	h, err := ParseHead(b)
	if err != nil {
		return err
	}
	q := c.request(&h)
	if q != nil && q.into != nil && h.Kind == KindCommand+Answer {
		return c.long(r, &h, q)
	}
	h, body, err := whole(r)
	if err != nil {
		return c.lost(q, err)
	}
	switch {
	case h.Kind == KindError:
		e, err := ParseError(body)
		if err != nil {
			return c.lost(q, err)
		}
		if q == nil {
			return e
		}
		c.refused(q, e)
	case q == nil:
		return fmt.Errorf("the chip sent a frame of kind %d for request %d, which is not in flight", h.Kind, h.Number)
	case h.Kind == KindEvent:
		if q.event != nil {
			q.event(body)
		}
	case q.done != nil:
		var res flow.Result
		from, n, more, err := ParseResult(body, len(body), &res)
		if more || err == nil && h.Kind != KindCommand+Answer {
			err = errors.New("the chip answered a command with another frame")
		}
		if err != nil {
			return c.lost(q, err)
		}
		if n > 0 {
			res.Data = slices.Clone(body[from:])
		}
		c.result(q, res)
	default:
		q.reply(body, nil)
	}
	return nil
}

// long takes the result of a long read. The data go directly to the caller's memory.
func (c *Client) long(r *bufio.Reader, h *Head, q *request) error {
	b, err := r.Peek(HeadLen + resultLen)
	if err != nil {
		return c.lost(q, err)
	}
	var res flow.Result
	from, n, more, err := ParseResult(b[HeadLen:], h.Len-HeadLen, &res)
	if err == nil && (more || n != len(q.into) && res.Fate == flow.FateDone || n > len(q.into)) {
		err = fmt.Errorf("the chip answered a read of %d bytes with %d bytes", len(q.into), n)
	}
	if err == nil {
		_, err = r.Discard(HeadLen + from)
	}
	if err == nil {
		err = q.take(r, n)
	}
	if err != nil {
		return c.lost(q, err)
	}
	c.result(q, res)
	return nil
}

// take reads n bytes of data into the caller's memory. If the caller has left, take discards the data.
func (q *request) take(r *bufio.Reader, n int) error {
	for at := 0; at < n; {
		piece := min(n-at, readPiece) // a caller that leaves waits until one piece has been read, at most
		q.mu.Lock()
		var err error
		if q.left {
			_, err = r.Discard(piece)
		} else {
			_, err = io.ReadFull(r, q.into[at:at+piece])
		}
		q.mu.Unlock()
		if err != nil {
			return err
		}
		at += piece
	}
	return nil
}

// request returns the open request that a frame is for, or nil. The frame ends the request. But an
// events request ends only with an error.
func (c *Client) request(h *Head) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[h.Number]
	if q == nil {
		return nil
	}
	if q.event == nil || h.Kind == KindError {
		delete(c.open, h.Number)
	}
	if h.Kind != KindEvent && (q.event == nil || h.Kind != KindError || !q.answered) {
		q.answered = true
		c.called = q.calls
		<-c.slots
	}
	return q
}

// result ends a command.
func (c *Client) result(q *request, r flow.Result) {
	r.Token, r.Dst = q.token, q.dst
	q.done(q.index, r)
}

// refused ends a request that the chip did not carry out.
func (c *Client) refused(q *request, e *Error) {
	if q.done == nil {
		q.reply(nil, e)
		return
	}
	var err error = e
	if e.Code == CodeNoRoute {
		err = &session.NoRouteError{Src: c.hello.Chip, Dst: q.dst, Plane: q.plane}
	}
	c.result(q, flow.Result{Fate: flow.FateRefused, Err: err})
}

// lost ends the connection and then a request whose answer cannot be read, and returns the error. So a caller
// that has the result of this request cannot start another one.
func (c *Client) lost(q *request, err error) error {
	c.broke(err)
	if q != nil {
		c.unknown(q, err)
	}
	return err
}

// unknown ends a request of unknown outcome.
func (c *Client) unknown(q *request, err error) {
	if q.done == nil {
		q.reply(nil, err)
		return
	}
	c.result(q, flow.Result{Fate: flow.FateUnknown, Err: err})
}

// end ends all requests in flight with an unknown outcome.
func (c *Client) end(err error) {
	c.mu.Lock()
	if c.ended == nil {
		c.ended, c.turn = err, over
		close(c.gone)
	}
	open := c.open
	c.open = map[uint64]*request{}
	c.mu.Unlock()
	for _, q := range open {
		c.unknown(q, c.ended)
	}
}
