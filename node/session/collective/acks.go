package collective

import (
	"context"
	"encoding/binary"

	"ttfabric/wire"
)

// The receiver of a FIFO tells the sender how many messages it has taken. The messages of the other direction carry
// these acknowledgements, of the FIFO of the same lane and of the FIFO of the other lane of the plane. If no message
// carries them, the receiver writes an acknowledgement into a word at the sender.

// ackAt is the offset of the acknowledgements in a header.
const ackAt = 12

// stamp writes into the header h the acknowledgements of the other direction.
func (x *outlet) stamp(h *[headerSize]byte) (n [2]uint32) {
	for i, in := range x.back {
		n[i] = in.taken.Load()
		binary.LittleEndian.PutUint16(h[ackAt+2*i:], uint16(n[i]))
	}
	return n
}

// stamped takes the acknowledgements in the header of a message of FIFO x.
func (x *inlet) stamped(packet []byte) {
	for i, out := range x.back {
		was := out.acked.Load()
		if more := int16(binary.LittleEndian.Uint16(packet[ackAt+2*i:]) - uint16(was)); more > 0 {
			out.ack(was + uint32(more))
		}
	}
}

// awaitAck waits until the receiver of a FIFO has acknowledged message n. The acknowledgement comes as a write into
// the word for acknowledgements, or in a message.
func (c *Comm) awaitAck(x *outlet, n uint32) error {
	for {
		ctx, cancel := context.WithCancel(c.ctx)
		x.waits(cancel)
		if x.acked.Load() >= n {
			break
		}
		acked, err := c.s.WaitToReply(ctx, c.ackWord(x.To, x.Lane), n)
		if err == nil {
			x.ack(acked)
		} else if ctx.Err() == nil || c.ctx.Err() != nil {
			x.waits(nil)
			return c.own(err)
		}
	}
	x.waits(nil)
	return nil
}

// waits notes how to end the wait for an acknowledgement that begins, or nil at the end of the wait. An earlier wait
// ends.
func (x *outlet) waits(cancel context.CancelFunc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.wake != nil {
		x.wake()
	}
	x.wake = cancel
}

// ack notes an acknowledgement.
func (x *outlet) ack(n uint32) {
	for {
		was := x.acked.Load()
		if n <= was {
			return
		}
		if x.acked.CompareAndSwap(was, n) {
			break
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.wake != nil {
		x.wake()
	}
}

// take notes that the latest message of a FIFO has been taken.
func (x *inlet) take() { x.taken.Add(1) }

// owes reports whether the sender of a FIFO needs an acknowledgement now: no message to the sender has carried one
// since Slots/2 messages.
func (x *inlet) owes() bool { return x.taken.Load()-x.told.Load() >= Slots/2 }

// acknowledge adds an acknowledgement to a batch, if the sender of a FIFO needs one.
func (c *Comm) acknowledge(x *inlet, b *batch) {
	if !x.owes() {
		return
	}
	n := x.taken.Load()
	x.told.Store(n)
	x.mu.Lock()
	x.latest = n
	x.mu.Unlock()
	r := b.request(piece{in: x}, x.From, x.Lane)
	r.Payload, r.Posted = nil, false
	r.Command = wire.Command{Type: wire.NocInlineWrite, Addr: c.ackWord(c.rank, x.Lane), Value: n}
}
