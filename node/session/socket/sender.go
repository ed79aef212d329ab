package socket

import (
	"context"
	"errors"
	"fmt"

	"ttfabric/node/fifo"
	"ttfabric/node/session"
	"ttfabric/node/session/device"
	"ttfabric/wire/mono"
)

// Sender is the sending end of a socket. A Sender is safe for concurrent use; the bytes of two
// sends never mix.
type Sender struct {
	*end
	m    *fifo.Sender
	ring []byte        // the bytes that are not in the FIFO yet, at the same offsets as in the FIFO
	last chan struct{} // closed when the sender has copied the bytes of the latest send; guarded by mu
	room chan struct{} // one value for each send that Start has started
}

// copyMost is the largest number of bytes that a send copies at once, unless a page is longer.
const copyMost = 128 << 10

// Dial opens the sending end of a socket on the session's chip, and waits until the receiver has
// opened its end. See [Options].
func Dial(ctx context.Context, s *session.Session, o Options) (*Sender, error) {
	e, err := open(ctx, s, o, fifo.SenderRole)
	if err != nil {
		return nil, err
	}
	m, err := fifo.NewSender(e.meet.Own.Config)
	if err != nil {
		return nil, errors.Join(err, e.free())
	}
	x := &Sender{end: e, m: m, ring: make([]byte, e.o.Size), room: make(chan struct{}, MaxOpen)}
	e.pump = x.start
	e.counted = m.HandleAcked
	e.run(m)
	return x, nil
}

// start starts the commands that the state machine has ready.
func (x *Sender) start(now mono.Time) {
	for w, ok := x.m.Poll(now); ok; w, ok = x.m.Poll(now) {
		c, after := device.Write(x.o.PeerAt.Add(fifo.BlockSize+int(w.Offset))), (*uint32)(nil)
		switch at := x.o.PeerAt.Add(fifo.CountOffset); {
		case w.Inc > 0 && w.From == w.To:
			c, after = device.AtomicInc(at, w.Inc, false), &w.After
		case w.Inc > 0:
			c, after = device.FusedAtomicInc(c.Addr, at, w.Inc, false), &w.After
		}
		x.command(c, x.ring[w.Offset:][:w.To-w.From], after, func(now mono.Time, f fifo.Fate) { x.m.HandleEnd(now, w.ID, f) })
	}
}

// enter gives a send of n bytes its place behind the earlier sends. The send begins when the
// channel "before" is closed. The send closes the channel "mine" when the sender has copied the
// bytes.
func (x *Sender) enter(n int) (before, mine chan struct{}, err error) {
	if n%int(x.o.Page) != 0 {
		return nil, nil, fmt.Errorf("%d bytes to send: want a multiple of the page of %d bytes", n, x.o.Page)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.m.Err() != nil:
		return nil, nil, x.m.Err()
	case x.closed:
		return nil, nil, ErrClosed
	}
	before, x.last = x.last, make(chan struct{})
	return before, x.last, nil
}

// hand copies the bytes of a send into the sender's ring, after the bytes of the earlier sends. The
// result "end" is the number of bytes that the stream then has.
func (x *Sender) hand(ctx context.Context, before, mine chan struct{}, data []byte) (end uint64, err error) {
	defer x.change(func(mono.Time) { close(mine) })
	if before != nil {
		<-before // each send ends with the socket, or with its own ctx
	}
	size, page := uint64(x.o.Size), uint64(x.o.Page)
	for len(data) > 0 {
		var at, n uint64
		err := x.until(ctx, func() bool {
			at = x.m.Taken()
			n = min(size-(at-x.m.Sent()), size-at%size, max(copyMost, page), uint64(len(data))) / page * page
			return n > 0 || x.m.Err() != nil
		})
		if err == nil && n == 0 {
			err = x.failure()
		}
		if err != nil {
			return 0, err
		}
		copy(x.ring[at%size:], data[:n])
		x.change(func(mono.Time) { err = x.m.Put(int(n)) })
		if err != nil {
			return 0, err
		}
		data = data[n:]
	}
	x.change(func(mono.Time) { end = x.m.Taken() })
	return end, nil
}

// Start starts to send data, whose length is a multiple of the page. The sender performs sends in
// the order of the calls. The data must not change before the Call has ended. The Call ends when
// the data is in the receiver's FIFO. While [MaxOpen] sends are open, Start waits until one of them
// ends, or until ctx ends. If ctx ends after Start has returned, the Call ends with the error of
// ctx, and the sender may still send a part of the data.
func (x *Sender) Start(ctx context.Context, data []byte) (*Call, error) {
	select {
	case x.room <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	before, mine, err := x.enter(len(data))
	if err != nil {
		<-x.room
		return nil, err
	}
	c := newCall()
	go func() {
		defer func() { <-x.room }()
		end, err := x.hand(ctx, before, mine, data)
		if err == nil {
			err = x.sent(ctx, end)
		}
		if err != nil {
			c.end(0, err)
			return
		}
		c.end(len(data), nil)
	}()
	return c, nil
}

// sent waits until the receiver's FIFO has got the first "end" bytes of the stream.
func (x *Sender) sent(ctx context.Context, end uint64) error {
	ok := false
	err := x.until(ctx, func() bool {
		ok = x.m.Sent() >= end
		return ok || x.m.Err() != nil
	})
	if err == nil && !ok {
		err = x.failure()
	}
	return err
}

// Send sends data, whose length is a multiple of the page. Send returns when the sender has copied
// the data. The sender holds at most [Options.Size] bytes. If the sender has no room for
// the data, Send waits for room until ctx ends. If ctx ends first, the sender still sends a part of
// the data, and Send returns the error of ctx. A later call may return an error of the socket that
// concerns this data.
func (x *Sender) Send(ctx context.Context, data []byte) error {
	before, mine, err := x.enter(len(data))
	if err == nil {
		_, err = x.hand(ctx, before, mine, data)
	}
	return err
}

// Flush waits until the bytes of all earlier sends are in the receiver's FIFO.
func (x *Sender) Flush(ctx context.Context) error {
	before, mine, err := x.enter(0)
	if err != nil {
		return err
	}
	end, err := x.hand(ctx, before, mine, nil)
	if err == nil {
		err = x.sent(ctx, end)
	}
	return err
}

// Acked returns the number of bytes that the program at the other end has read.
func (x *Sender) Acked() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.m.Acked()
}

// Close waits until all bytes are in the FIFO, and tells the receiver that no more bytes follow.
// Close then waits until the receiver has read all bytes, and frees the sender's memory. If ctx
// ends first, or if the socket has failed, Close ends the socket, and the receiver gets an error.
// After Close, all other calls return [ErrClosed].
func (x *Sender) Close(ctx context.Context) error {
	first := false
	x.change(func(mono.Time) { first, x.closed = !x.closed, true })
	if !first {
		return ErrClosed
	}
	failed := func() bool { return x.m.Err() != nil }
	err := ctx.Err()
	if err == nil {
		err = x.until(ctx, func() bool { return failed() || x.idle() && x.m.Sent() == x.m.Taken() })
	}
	tell := false
	x.change(func(mono.Time) {
		tell = err == nil && !failed() && !x.told
		x.told = x.told || tell
	})
	if tell {
		err = x.tell(ctx, fifo.Closed)
	}
	if err == nil {
		err = x.until(ctx, func() bool { return failed() || x.m.Acked() == x.m.Taken() })
	}
	drained := false
	x.change(func(mono.Time) {
		drained = x.m.Acked() == x.m.Taken() && (x.told && err == nil || errors.Is(x.m.Err(), &fifo.PeerError{Why: fifo.PeerClosed}))
		if !drained && err != nil {
			x.m.Fail(err)
		}
	})
	failure := x.failure()
	if err = errors.Join(x.settle(ctx), x.free()); !drained {
		err = errors.Join(failure, err)
	}
	return err
}

// idle reports whether the sender has copied the bytes of all sends. The caller holds the lock.
func (x *Sender) idle() bool {
	if x.last == nil {
		return true
	}
	select {
	case <-x.last:
		return true
	default:
		return false
	}
}

// Fail ends the socket with an error. All sends end with this error, and the receiver gets an
// error, too. The program must still call Close.
func (x *Sender) Fail(err error) { x.fail(err) }
