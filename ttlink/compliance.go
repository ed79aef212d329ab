package ttlink

import (
	"fmt"

	"ttfabric/wire"
)

// ComplianceBuffer is how many frames of a [Compliance] end may wait to be sent. The same number of
// frames may wait to be read.
const ComplianceBuffer = 64

// Compliance is one end of a cable in compliance mode (Spec §2.1). A frame carries each payload
// unchanged. Compliance mode has no header for a Logical Link Control. For that reason it has no
// training, no sequence numbers, no credits and no retransmission. A Compliance end drops a damaged
// frame. A good frame lies in the receive buffer until layer 3 reads the frame. The fabric needs
// TT-link mode, which is [Link]. A Link drops frames of compliance mode, and a Compliance end drops
// frames of TT-link mode.
//
// Like a Link, a Compliance end is pure, and not safe for concurrent use.
type Compliance struct {
	local, peer wire.PortID
	max         int // largest payload, in bytes
	on          bool
	out, in     frameQueue
	seal        []byte
	counters    ComplianceCounters
}

// ComplianceCounters holds counters that never decrease.
type ComplianceCounters struct {
	Sent, SentBytes         uint64 // payloads that Send took, and their bytes
	Received, ReceivedBytes uint64 // payloads put into the receive buffer
	Faults                  [wire.NumFrameFaults]uint64
	OtherMode               uint64 // well-formed frames of TT-link mode, dropped
	WrongChannel            uint64 // frames for another port, dropped
	Off                     uint64 // datagrams that came while the peer's address was unknown
	Overflows               uint64 // frames dropped because the receive buffer was full
}

// frameQueue is a ring of payloads. A frameQueue reuses their memory.
type frameQueue struct {
	ring    [ComplianceBuffer][]byte
	head, n int
}

func (q *frameQueue) push(b []byte) bool {
	if q.n == len(q.ring) {
		return false
	}
	s := &q.ring[(q.head+q.n)%len(q.ring)]
	*s = append((*s)[:0], b...)
	q.n++
	return true
}

// pop takes the oldest payload. The payload stays valid until as many payloads as the queue holds
// have been pushed after it.
func (q *frameQueue) pop() ([]byte, bool) {
	if q.n == 0 {
		return nil, false
	}
	b := q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return b, true
}

// NewCompliance returns an end whose path is off. The argument max is the largest payload, in
// bytes: 1 to wire.MaxFramePayload.
func NewCompliance(local, peer wire.PortID, max int) (*Compliance, error) {
	switch {
	case !local.Valid() || !peer.Valid() || local == peer:
		return nil, fmt.Errorf("compliance mode from %v to %v: want two ports of the fabric", local, peer)
	case max < 1 || max > wire.MaxFramePayload:
		return nil, fmt.Errorf("compliance mode at %v: payload of %d bytes: want 1 to %d", local, max, wire.MaxFramePayload)
	}
	return &Compliance{local: local, peer: peer, max: max}, nil
}

// SetPath switches the path on or off. The path is on while the peer's address is known. While the
// path is off, the end neither sends nor takes frames.
func (c *Compliance) SetPath(on bool) { c.on = on }

// Send copies a payload of 1 to max bytes into the send queue. Send reports false for a payload of
// another size. Send also reports false while the path is off, and while ComplianceBuffer payloads
// wait. The sender does not learn whether the payload arrives.
func (c *Compliance) Send(payload []byte) bool {
	if !c.on || len(payload) == 0 || len(payload) > c.max || !c.out.push(payload) {
		return false
	}
	c.counters.Sent++
	c.counters.SentBytes += uint64(len(payload))
	return true
}

// PollTransmit returns the next frame to send. The frame is valid until the next call of any
// method.
func (c *Compliance) PollTransmit() (Transmit, bool) {
	p, ok := c.out.pop()
	if !ok {
		return Transmit{}, false
	}
	f := wire.Frame{Channel: c.peer.Channel, Kind: wire.KindRaw, Payload: p}
	c.seal = f.Append(c.seal[:0])
	return Transmit{Data: c.seal, Seg: len(c.seal)}, true
}

// HandleDatagram takes one datagram that holds exactly one frame.
func (c *Compliance) HandleDatagram(b []byte) {
	if !c.on {
		c.counters.Off++
		return
	}
	f, err := wire.DecodeFrame(b)
	if err != nil {
		fault, _ := err.(wire.FrameFault)
		c.counters.Faults[fault]++
		return
	}
	switch {
	case f.Kind != wire.KindRaw:
		c.counters.OtherMode++
	case f.Channel != c.local.Channel:
		c.counters.WrongChannel++
	case !c.in.push(f.Payload):
		c.counters.Overflows++
	default:
		c.counters.Received++
		c.counters.ReceivedBytes += uint64(len(f.Payload))
	}
}

// Read takes the oldest payload out of the receive buffer. The payload is valid until the next
// HandleDatagram.
func (c *Compliance) Read() ([]byte, bool) { return c.in.pop() }

// Counters returns the counters.
func (c *Compliance) Counters() ComplianceCounters { return c.counters }
