package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// outlet is the sending side of a FIFO.
type outlet struct {
	collective.Pair
	sent  uint32               // number of the latest message
	acked uint32               // latest acknowledgement that this rank has seen
	slots [Slots]chan struct{} // closed when the writes of the slot's latest message have ended; nil: none
}

// inlet is the receiving side of a FIFO.
type inlet struct {
	collective.Pair
	taken uint32 // number of the latest message that has been taken
	told  uint32 // number of the message for which the rank last began an acknowledgement
	buf   []byte

	ack    uint32 // number that the goroutine must acknowledge next, a copy of told; guarded by Comm.mu
	acking bool   // a goroutine writes acknowledgements; guarded by Comm.mu
}

// outlet returns the sending side of a FIFO.
func (c *Comm) outlet(p collective.Pair) *outlet {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.out[p]
	if x == nil {
		x = &outlet{Pair: p}
		c.out[p] = x
	}
	return x
}

// inlet returns the receiving side of a FIFO.
func (c *Comm) inlet(p collective.Pair) *inlet {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.in[p]
	if x == nil {
		x = &inlet{Pair: p}
		c.in[p] = x
	}
	return x
}

// plane returns the option for the plane of a lane.
func plane(lane int) session.Option { return session.OnPlane(wire.Plane(lane / 2)) }

// send sends one message. send waits for a free slot, and does not wait for the end of the writes. The data
// must not change before "ended" is closed.
func (c *Comm) send(x *outlet, tag uint32, move int, data []byte) (ended chan struct{}, err error) {
	if x.sent >= lastMessage {
		return nil, fmt.Errorf("rank %d has sent %d messages to rank %d, as many as a communicator can; open a new communicator", c.rank, x.sent, x.To)
	}
	n := x.sent + 1
	slot := int(n % Slots)
	if e := x.slots[slot]; e != nil {
		select {
		case <-e:
		case <-c.ctx.Done():
			return nil, c.failure()
		}
	}
	if n > x.acked+Slots {
		if x.acked, err = c.s.WaitCounter(c.ctx, c.ackWord(x.To, x.Lane), n-Slots); err != nil {
			return nil, c.own(err)
		}
	}
	first := min(len(data), firstData)
	packet := make([]byte, headerSize, headerSize+first)
	le := binary.LittleEndian
	le.PutUint32(packet, n)
	le.PutUint32(packet[4:], tag)
	le.PutUint32(packet[8:], uint32(move))
	le.PutUint32(packet[12:], uint32(len(data)))
	packet = append(packet, data[:first]...)
	to, at, rest := x.To, c.inFIFO(c.rank, x.Lane).Add(slot*SlotSize), data[first:]
	x.sent = n
	ended = make(chan struct{})
	x.slots[slot] = ended
	if !c.spawn(func() {
		defer close(ended)
		if len(rest) > 0 && !c.deliver(to, func(ctx context.Context) error {
			return c.s.Write(ctx, c.chips[to], at.Add(wire.MaxPayload), rest, plane(x.Lane))
		}) {
			return
		}
		c.deliver(to, func(ctx context.Context) error { return c.s.Write(ctx, c.chips[to], at, packet, plane(x.Lane)) })
	}) {
		return nil, c.failure()
	}
	return ended, nil
}

// Repetitions of a write that was lost or whose outcome is unknown.
const (
	maxRepeats  = 100
	repeatAfter = 5 * time.Millisecond
	repeatMost  = 250 * time.Millisecond
)

// deliver performs a write to a rank. The write may be performed several times. If the rank's chip is gone,
// the communicator fails. deliver reports success. deliver returns only when no attempt is under way, even if
// the communicator has failed: a later generation must not meet a write of this generation.
func (c *Comm) deliver(to int, write func(ctx context.Context) error) bool {
	wait := repeatAfter
	for try := 0; ; try++ {
		err := write(context.WithoutCancel(c.ctx))
		if err == nil {
			return true
		}
		if c.ctx.Err() != nil {
			return false
		}
		if gone := c.gone(c.ctx, to, err); gone != nil || try == maxRepeats {
			if gone == nil {
				gone = c.left(err)
			}
			c.fail(gone, true)
			return false
		}
		select {
		case <-time.After(wait):
		case <-c.ctx.Done():
			return false
		}
		wait = min(2*wait, repeatMost)
	}
}

// gone returns the error of a rank that is dead or refuses a write. If the command with the error err
// may be repeated, gone returns nil.
func (c *Comm) gone(ctx context.Context, r int, err error) error {
	var refused *session.RefusedError
	switch {
	case errors.Is(err, session.ErrUnreachable):
		return &DeadError{r, c.chips[r], err}
	case errors.As(err, &refused) && refused.Outcome != wire.OutcomeAgain && refused.Outcome != wire.OutcomeOverflow && refused.Outcome != wire.OutcomeUnknownFlow:
		return c.left(err)
	}
	life, err := c.lifeOf(ctx, r)
	switch {
	case errors.Is(err, session.ErrUnreachable):
		return &DeadError{r, c.chips[r], err}
	case err == nil && life != c.lives[r]:
		return &DeadError{r, c.chips[r], errRestarted}
	}
	return nil
}

var errRestarted = errors.New("the chip has restarted")

// receive waits for the next message of a FIFO, and returns its data. The data are valid until the next
// receive from the same FIFO. Messages of another call, or of another length, are an error.
func (c *Comm) receive(x *inlet, tag uint32, move, size int, call string) ([]byte, error) {
	n := x.taken + 1
	at := c.inFIFO(x.From, x.Lane).Add(int(n%Slots) * SlotSize)
	if _, err := c.s.WaitCounter(c.ctx, at, n); err != nil {
		return nil, c.own(err)
	}
	if len(x.buf) < headerSize+size {
		x.buf = make([]byte, headerSize+size)
	}
	b := x.buf[:headerSize+size]
	if err := c.s.Read(c.ctx, c.s.Self(), at, b); err != nil {
		return nil, c.own(err)
	}
	le := binary.LittleEndian
	if le.Uint32(b) != n || le.Uint32(b[4:]) != tag || le.Uint32(b[8:]) != uint32(move) || le.Uint32(b[12:]) != uint32(size) {
		return nil, &MismatchError{c.rank, x.From, call}
	}
	return b[headerSize:], nil
}

// take notes that the latest message of a FIFO has been taken, and tells the sender after every second
// message. One acknowledgement of a FIFO is under way at a time, so no older value follows a newer value.
func (c *Comm) take(x *inlet) {
	x.taken++
	if x.taken-x.told < Slots/2 {
		return
	}
	x.told = x.taken
	c.mu.Lock()
	x.ack = x.taken
	begin := !x.acking
	x.acking = true
	c.mu.Unlock()
	if begin {
		c.spawn(func() { c.acknowledge(x) })
	}
}

// acknowledge writes the number of the latest message that has been taken to the sender.
func (c *Comm) acknowledge(x *inlet) {
	for done := uint32(0); ; {
		c.mu.Lock()
		n := x.ack
		x.acking = n != done
		c.mu.Unlock()
		if n == done {
			return
		}
		if !c.deliver(x.From, func(ctx context.Context) error {
			return c.s.InlineWrite(ctx, c.chips[x.From], c.ackWord(c.rank, x.Lane), n, plane(x.Lane))
		}) {
			return
		}
		done = n
	}
}
