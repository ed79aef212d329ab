package kernel

import (
	"fmt"

	"ttfabric/node/fifo"
	"ttfabric/wire"
)

// SocketReceiver is the receiving end of a socket in a kernel.
type SocketReceiver struct {
	*socketEnd
	m *fifo.Receiver
}

// OpenReceiver opens the receiving end of a socket, and waits until the sender has opened its end.
func (k *Context) OpenReceiver(s Socket) (*SocketReceiver, error) {
	m, err := fifo.NewReceiver(s.Config)
	if err != nil {
		return nil, err
	}
	e, err := k.open(s, fifo.ReceiverRole)
	if err != nil {
		return nil, err
	}
	return &SocketReceiver{e, m}, nil
}

// step lets the receiver do all the work that is possible now.
func (x *SocketReceiver) step() error {
	if err := x.settle(); err != nil {
		x.m.Fail(err)
	}
	switch f := x.fare(); {
	case f == fifo.Closed && !x.m.Closed():
		x.m.HandleClosed(x.count())
	case f == fifo.Failed && !x.m.Closed():
		x.m.Fail(x.gone(f))
	default:
		x.m.HandleSent(x.count())
	}
	if add, ok := x.m.Poll(x.k.Now()); ok {
		c := wire.Command{Type: wire.NocAtomicInc, Addr: x.s.PeerAt.Add(fifo.CountOffset), Value: add}
		after := x.m.After()
		if err := x.command(c, nil, &after, func(f fifo.Fate) { x.m.HandleEnd(x.k.Now(), f) }); err != nil {
			x.m.Fail(err)
		}
	}
	return x.m.Err()
}

// until calls step again and again, until the function "ready" returns true.
func (x *SocketReceiver) until(ready func() bool) error {
	for d := socketPoll; ; d = min(2*d, socketMost) {
		if err := x.step(); err != nil {
			return err
		}
		if ready() {
			return nil
		}
		// The farewell comes in another word, so the receiver also looks at the farewell from time
		// to time.
		x.k.WaitWordFor(x.s.At+fifo.CountOffset, Differs, uint32(x.m.Sent()), d)
		if err := x.watched(); err != nil {
			x.m.Fail(err)
		}
	}
}

// Wait waits until at least one page has come. Wait returns the address of the next bytes in the
// kernel's tile, and the number n of bytes that lie there in one piece. The number n is at most
// "most", rounded down to whole pages. After the last byte of a closed sender, n is 0. The kernel
// reads the bytes in place, and gives the room back by [SocketReceiver.Pop].
func (x *SocketReceiver) Wait(most int) (addr uint32, n int, err error) {
	page := int(x.s.Page)
	if most < page {
		return 0, 0, fmt.Errorf("a receive of at most %d bytes: want at least the page of %d bytes", most, page)
	}
	var at uint32
	err = x.until(func() bool {
		at, n = x.m.Next(most / page * page)
		return n > 0 || x.m.Ended()
	})
	return x.s.At + fifo.BlockSize + at, n, err
}

// Pop gives the room of the next n bytes, which [SocketReceiver.Wait] has named, back to the sender.
func (x *SocketReceiver) Pop(n int) error {
	if _, have := x.m.Next(n); have < n || n < 0 || n%int(x.s.Page) != 0 {
		return fmt.Errorf("a pop of %d bytes: %d bytes in whole pages are there", n, have)
	}
	x.m.Take(n)
	return x.step()
}

// Recv copies n bytes, a multiple of the page, to address dst of the kernel's tile. If the stream
// ends before n bytes have come, Recv returns the number of bytes that came.
func (x *SocketReceiver) Recv(dst uint32, n int) (got int, err error) {
	for got < n {
		at, k, err := x.Wait(n - got)
		if err != nil || k == 0 {
			return got, err
		}
		x.k.Copy(dst+uint32(got), at, k)
		if got += k; x.Pop(k) != nil {
			return got, x.m.Err()
		}
	}
	return got, nil
}

// Close frees the receiver's block and FIFO. If the kernel has not read all bytes, Close tells the
// sender, and the sender gets an error. Close then waits until the sender has stopped writing.
func (x *SocketReceiver) Close() error {
	if x.m.Err() == nil && !x.m.Ended() {
		if err := x.tell(fifo.Closed); err != nil {
			x.m.Fail(err)
		}
		for x.m.Err() == nil && x.fare() == fifo.Open {
			x.k.WaitWordFor(x.s.At+fifo.FareOffset, Differs, uint32(fifo.Open), fifo.CheckEvery)
			if err := x.watched(); err != nil {
				x.m.Fail(err)
			}
		}
		x.free()
		return x.m.Err()
	}
	err := x.until(x.m.Drained)
	return x.leave(err)
}
