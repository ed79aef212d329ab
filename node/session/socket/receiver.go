package socket

import (
	"context"
	"errors"
	"io"

	"ttfabric/node/fifo"
	"ttfabric/node/session"
	"ttfabric/node/session/device"
	"ttfabric/wire/mono"
)

// Receiver is the receiving end of a socket. A Receiver is safe for concurrent use; a Receiver
// performs one receive after another.
type Receiver struct {
	*end
	m    *fifo.Receiver
	turn chan struct{} // holds a value while a receive reads the FIFO
	last chan struct{} // closed when the latest started receive has ended; guarded by mu
	room chan struct{} // one value for each started receive
}

// Listen opens the receiving end of a socket on the session's chip, and waits until the sender has
// opened its end. See [Options].
func Listen(ctx context.Context, s *session.Session, o Options) (*Receiver, error) {
	e, err := open(ctx, s, o, fifo.ReceiverRole)
	if err != nil {
		return nil, err
	}
	m, err := fifo.NewReceiver(e.meet.Own.Config)
	if err != nil {
		return nil, errors.Join(err, e.free())
	}
	x := &Receiver{end: e, m: m, turn: make(chan struct{}, 1), room: make(chan struct{}, MaxOpen)}
	e.pump = x.start
	e.counted = m.HandleSent
	e.run(m)
	return x, nil
}

// start starts the acknowledgement that is due, if any.
func (x *Receiver) start(now mono.Time) {
	if add, ok := x.m.Poll(now); ok {
		after := x.m.After()
		x.command(device.AtomicInc(x.o.PeerAt.Add(fifo.CountOffset), add, false), nil, &after, x.m.HandleEnd)
	}
}

// Recv waits until at least one page has come, and reads as many bytes as have come, in whole pages, up to
// len(b). After the last byte of a closed sender, the error is [io.EOF]. If b is shorter than a page, Recv
// fails.
func (x *Receiver) Recv(ctx context.Context, b []byte) (n int, err error) {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-x.turn }()
	return x.read(ctx, b)
}

// read does the work of Recv. The caller has the turn.
func (x *Receiver) read(ctx context.Context, b []byte) (n int, err error) {
	page := int(x.o.Page)
	if len(b) < page {
		return 0, io.ErrShortBuffer
	}
	b = b[:len(b)/page*page]
	at, k := uint32(0), 0
	err = x.until(ctx, func() bool {
		at, k = x.m.Next(len(b))
		return k > 0 || x.m.Err() != nil || x.m.Ended() || x.closed
	})
	x.mu.Lock()
	failed, closed, ended := x.m.Err(), x.closed, x.m.Ended()
	x.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case closed:
		return 0, ErrClosed
	case ended:
		return 0, io.EOF
	}
	for k > 0 {
		if err := x.s.Read(ctx, x.s.Self(), x.o.At.Add(fifo.BlockSize+int(at)), b[n:n+k]); err != nil {
			return n, err
		}
		x.change(func(mono.Time) {
			x.m.Take(k)
			n += k
			at, k = x.m.Next(len(b) - n)
		})
	}
	return n, nil
}

// Start starts to receive exactly len(b) bytes, a multiple of the page. The receiver performs
// receives in the order of the calls. If the stream ends before the first byte of b, the Call's
// error is [io.EOF]. If the stream ends before the last byte of b, the error is
// [io.ErrUnexpectedEOF]. While [MaxOpen] receives are open, Start waits until one of them ends, or
// until ctx ends. If ctx ends after Start has returned, the receive ends with the error of ctx.
func (x *Receiver) Start(ctx context.Context, b []byte) (*Call, error) {
	if len(b)%int(x.o.Page) != 0 {
		return nil, io.ErrShortBuffer
	}
	select {
	case x.room <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := newCall()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		<-x.room
		return nil, ErrClosed
	}
	before := x.last
	x.last = c.ended
	x.wg.Go(func() {
		defer func() { <-x.room }()
		if before != nil {
			<-before
		}
		c.end(x.fill(ctx, b))
	})
	return c, nil
}

// fill reads exactly len(b) bytes.
func (x *Receiver) fill(ctx context.Context, b []byte) (n int, err error) {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-x.turn }()
	for n < len(b) && err == nil {
		var k int
		k, err = x.read(ctx, b[n:])
		n += k
	}
	if err == io.EOF && n > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// RecvFull receives exactly len(b) bytes, see [Receiver.Start].
func (x *Receiver) RecvFull(ctx context.Context, b []byte) (n int, err error) {
	c, err := x.Start(ctx, b)
	if err != nil {
		return 0, err
	}
	<-c.ended // the receive ends with ctx
	return c.n, c.err
}

// Close frees the receiver's memory. If the program has not read all bytes, Close tells the sender,
// and the sender's calls return an error. Close then waits until no write of the sender is under
// way. If ctx ends first, Close returns an error, because writes of the sender can still reach the
// freed memory. After Close, all other calls return [ErrClosed].
func (x *Receiver) Close(ctx context.Context) error {
	first, tell := false, false
	x.change(func(mono.Time) {
		first, x.closed = !x.closed, true
		if first && !x.m.Ended() && x.m.Err() == nil && !x.told {
			tell, x.told = true, true
		}
	})
	if !first {
		return ErrClosed
	}
	if tell {
		if err := x.tell(ctx, fifo.Closed); err != nil {
			x.fail(err)
		}
	}
	err := x.settle(ctx)
	return errors.Join(err, x.free())
}
