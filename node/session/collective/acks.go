package collective

import (
	"encoding/binary"

	"ttfabric/wire"
)

// The receiver of a FIFO tells the sender how many messages it has taken. The messages of the other direction carry
// these acknowledgements, of the FIFO of the same lane and of the FIFO of the other lane of the plane. If no message
// carries them, the receiver writes an acknowledgement into a word at the sender.

// ackAt is the offset of the acknowledgements in a header.
const ackAt = 12

// stamp writes into the header h the acknowledgements of the other direction, and returns them.
func (x *outlet) stamp(h *[headerSize]byte) (n [lanesOfPlane]uint32) {
	for i, in := range x.back {
		n[i] = in.taken
		binary.LittleEndian.PutUint16(h[ackAt+2*i:], uint16(n[i]))
	}
	return n
}

// stamped notes the acknowledgements in the header of a message of FIFO x.
func (x *inlet) stamped(packet []byte) {
	for i, out := range x.back {
		was := out.acked.Load()
		if more := int16(binary.LittleEndian.Uint16(packet[ackAt+2*i:]) - uint16(was)); more > 0 {
			out.ack(was + uint32(more))
		}
	}
}

// ack notes an acknowledgement. Only the goroutine of the operation calls ack.
func (x *outlet) ack(n uint32) { x.acked.Store(max(n, x.acked.Load())) }

// acknowledge adds an acknowledgement to a batch, if no message to the sender has carried one since Slots/2 messages.
func (c *Comm) acknowledge(x *inlet, b *batch) {
	n := x.taken
	if n-x.told < Slots/2 {
		return
	}
	x.told = n
	x.mu.Lock()
	x.latest = n
	x.mu.Unlock()
	r := b.request(piece{in: x}, x.From, x.Lane)
	r.Payload, r.Posted = nil, false
	r.Command = wire.Command{Type: wire.NocInlineWrite, Addr: c.ackWord(c.rank, x.Lane), Value: n}
}

// tellsOf returns how many of the acknowledgements in a header are the only ones for their FIFO; see the method "add" of
// batch. These acknowledgements reach the sender when its rank takes the message. So they suffice only if all ranks
// perform their moves in rounds, and no rank waits for another move before it takes a message.
func (p *plan) tellsOf() int {
	bytes := make([]int, p.s.Ranks)
	for i := range p.s.Moves {
		m := &p.s.Moves[i]
		if m.TakeAfter >= 0 {
			return 0
		}
		bytes[m.From] += m.Len * p.s.Type.Size()
		bytes[m.To] += m.Len * p.s.Type.Size()
	}
	for _, n := range bytes {
		if n <= turnBytes {
			return 0
		}
	}
	return lanesOfPlane
}
