package ttlink

import (
	"fmt"

	"ttfabric/wire"
)

// ComplianceBuffer is the largest number of payloads that wait to be sent, and the largest number
// that wait to be read, at a [Compliance] end.
const ComplianceBuffer = 64

// Compliance is one end of a cable in compliance mode (Spec §2.1). Each frame carries one payload.
// Compliance mode has no training, no sequence numbers, no credits and no retransmission. The end
// drops damaged frames. The payload of a good frame waits in the receive buffer until layer 3 reads
// it. If the buffer is full, the end drops the frame. Fabric packets need
// TT-link mode, which [Link] implements. Each mode drops the frames of the other mode.
//
// Like a Link, a Compliance has no clock, socket or goroutine, and is not safe for concurrent use.
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
	Sent, SentBytes         uint64 // payloads that Send accepted, and their bytes
	Received, ReceivedBytes uint64 // payloads put into the receive buffer, and their bytes
	Faults                  [wire.NumFrameFaults]uint64
	OtherMode               uint64 // frames dropped because they have the version of another mode
	WrongChannel            uint64 // frames dropped because they are for another port
	Off                     uint64 // datagrams dropped because the path was off
	Overflows               uint64 // frames dropped because the receive buffer was full
}

// frameQueue is a first-in-first-out queue of payloads. A frameQueue uses the memory of old
// payloads again.
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

// pop removes and returns the oldest payload. The payload is valid until the next call of push.
func (q *frameQueue) pop() ([]byte, bool) {
	if q.n == 0 {
		return nil, false
	}
	b := q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return b, true
}

// NewCompliance returns an end whose path is off. The argument "max" is the size of the largest
// payload in bytes, from 1 to wire.MaxRaw.
func NewCompliance(local, peer wire.PortID, max int) (*Compliance, error) {
	switch {
	case !local.Valid() || !peer.Valid() || local == peer:
		return nil, fmt.Errorf("compliance mode from %v to %v: want two ports of the fabric", local, peer)
	case max < wire.MinRaw || max > wire.MaxRaw:
		return nil, fmt.Errorf("compliance mode at %v: largest payload of %d bytes: want 1 to %d", local, max, wire.MaxRaw)
	}
	return &Compliance{local: local, peer: peer, max: max}, nil
}

// SetPath switches the path on or off. The owner switches the path on when the peer's address is
// known. While the path is off, Send refuses payloads, and HandleDatagram drops datagrams.
func (c *Compliance) SetPath(on bool) { c.on = on }

// Send copies a payload of 1 to max bytes into the send queue, and returns true. If the size is out
// of range, the path is off, or the queue is full, Send returns false. The sender does not learn
// whether the payload arrives.
func (c *Compliance) Send(payload []byte) bool {
	if !c.on || len(payload) == 0 || len(payload) > c.max || !c.out.push(payload) {
		return false
	}
	c.counters.Sent++
	c.counters.SentBytes += uint64(len(payload))
	return true
}

// PollTransmit returns the next frame to send. If no payload waits, PollTransmit returns false. The
// frame is valid until the next call of PollTransmit.
func (c *Compliance) PollTransmit() (Transmit, bool) {
	p, ok := c.out.pop()
	if !ok {
		return Transmit{}, false
	}
	c.seal = wire.AppendRaw(c.seal[:0], c.peer.Channel, p)
	return Transmit{Data: c.seal, Seg: len(c.seal)}, true
}

// HandleDatagram processes one received datagram, and puts the payload of a good frame into the
// receive buffer. If the path is off, the frame is bad or the buffer is full, HandleDatagram counts
// the datagram and drops it.
func (c *Compliance) HandleDatagram(b []byte) {
	if !c.on {
		c.counters.Off++
		return
	}
	to, payload, err := wire.DecodeRaw(b)
	if err == wire.FaultVersion {
		c.counters.OtherMode++
		return
	}
	if err != nil {
		fault, _ := err.(wire.FrameFault)
		c.counters.Faults[fault]++
		return
	}
	switch {
	case to != c.local.Channel:
		c.counters.WrongChannel++
	case !c.in.push(payload):
		c.counters.Overflows++
	default:
		c.counters.Received++
		c.counters.ReceivedBytes += uint64(len(payload))
	}
}

// Read removes and returns the oldest payload of the receive buffer. If the buffer is empty, Read
// returns false. The payload is valid until the next call of HandleDatagram.
func (c *Compliance) Read() ([]byte, bool) { return c.in.pop() }

// Counters returns the end's counters since NewCompliance.
func (c *Compliance) Counters() ComplianceCounters { return c.counters }
