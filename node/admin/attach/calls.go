package attach

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// call sends a request that is not a command, and returns the body of its answer. The function f
// appends the request's frame. If ctx ends first, call cancels the request, and waits at most
// cancelTime for the chip's answer.
func (c *Client) call(ctx context.Context, f func(b []byte, number uint64) []byte) ([]byte, error) {
	type answer struct {
		body []byte
		err  error
	}
	answers := make(chan answer, 1)
	number, err := c.send(ctx, &request{reply: func(b []byte, err error) { answers <- answer{slices.Clone(b), err} }}, f)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answers:
		return a.body, a.err
	case <-ctx.Done():
	}
	c.cancel(number)
	select {
	case a := <-answers:
		var e *Error
		if errors.As(a.err, &e) && e.Code == CodeCancelled {
			a.err = ctx.Err()
		}
		return a.body, a.err
	case <-time.After(cancelTime):
		return nil, ctx.Err()
	}
}

// send sends a request that is not a command.
func (c *Client) send(ctx context.Context, q *request, f func(b []byte, number uint64) []byte) (uint64, error) {
	if err := c.take(ctx); err != nil {
		return 0, err
	}
	if err := c.lock(ctx); err != nil {
		<-c.slots
		return 0, err
	}
	number, _, err := c.note(q)
	if err != nil {
		<-c.writing
		<-c.slots
		return 0, err
	}
	c.text = f(c.text, number)
	return number, c.write(ctx, nil)
}

// cancelTime is the longest time for which a cancel waits until it can be sent. cancelTime is also
// the longest time for the chip to answer the cancelled request.
const cancelTime = time.Second

// cancel asks the chip to end a request, and does not wait for the answer. The chip ends the request
// before it performs later requests of this program.
func (c *Client) cancel(which uint64) {
	ctx, stop := context.WithTimeout(context.Background(), cancelTime)
	defer stop()
	_, _ = c.send(ctx, &request{reply: func([]byte, error) {}}, func(b []byte, number uint64) []byte {
		return binary.LittleEndian.AppendUint64(AppendHead(b, KindCancel, number, 8), which)
	})
}

// Await waits until a word of the chip passes a test; see [session.Waiter].
func (c *Client) Await(ctx context.Context, a wire.NocAddr, t session.Test, value uint32) (uint32, error) {
	b, err := c.call(ctx, func(b []byte, number uint64) []byte { return AppendWait(b, number, &Wait{a, value, t}) })
	switch {
	case err != nil:
		return 0, fmt.Errorf("chip %s: the wait on the word at %s ended: %w", c.hello.Chip, a, err)
	case len(b) != 8:
		return 0, fmt.Errorf("chip %s answered a wait with %d bytes: want 8", c.hello.Chip, len(b))
	}
	return binary.LittleEndian.Uint32(b), nil
}

// Barrier waits until all ranks have called Barrier with the same name at this chip. If a rank's
// connection closes first, the error is an [Error] with [CodeLeft].
func (c *Client) Barrier(ctx context.Context, name string, rank, ranks int) error {
	w := Barrier{name, rank, ranks}
	if err := w.Check(); err != nil {
		return err
	}
	_, err := c.call(ctx, func(b []byte, number uint64) []byte { return AppendBarrier(b, number, &w) })
	return err
}

// Moment returns the counts of the chip's requests; see [session.Counter].
func (c *Client) Moment(ctx context.Context) (m flow.Moment, err error) {
	b, err := c.call(ctx, func(b []byte, number uint64) []byte { return AppendHead(b, KindMoment, number, 0) })
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return m, err
}

// Watch calls f for each event of the chip; see [session.Watcher].
func (c *Client) Watch(ctx context.Context, f func(session.Event)) error {
	events, ended := make(chan session.Event, eventBacklog), make(chan error, 1)
	q := &request{reply: func(_ []byte, err error) {
		if err != nil {
			ended <- err
		}
	}, event: func(b []byte) {
		var e Event
		if json.Unmarshal(b, &e) == nil {
			select {
			case events <- e.Session():
			default: // f lags
			}
		}
	}}
	number, err := c.send(ctx, q, func(b []byte, number uint64) []byte { return AppendHead(b, KindEvents, number, 0) })
	if err != nil {
		return err
	}
	for {
		select {
		case e := <-events:
			f(e)
		case err := <-ended:
			return err
		case <-ctx.Done():
			c.cancel(number)
			return ctx.Err()
		}
	}
}

// eventBacklog is the number of events that wait for a slow program, before the program misses events.
const eventBacklog = 256
