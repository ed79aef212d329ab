package reliable

import (
	"encoding/binary"
	"errors"

	"ttfabric/router/reliable/nexthop"
)

// Priorities is the number of classes of messages: requests, replies and control. A class has escape
// channels of its own, so that no class waits for a later one. RR §2.1 has two.
const Priorities = 3

// Virtual channels of a link (RR §4). RR has two adaptive channels of 16 flits. Here the places of one
// adaptive channel are independent of each other, so one such channel is enough.
const (
	VCAdaptive = 0
	VCOrdered  = 1                      // the first of the dimension-ordered channels, one for each priority
	VCFault    = VCOrdered + Priorities // the first of the fault-handling channels, one for each priority
	NumVCs     = VCFault + Priorities
)

// Limits of a packet.
const (
	MaxPayload = 4096 // bytes
	MaxSlots   = 256  // places of a virtual channel
)

// Packet is a packet on its way.
type Packet struct {
	Src, Dst nexthop.Place
	Priority uint8  // 0 to Priorities-1
	TTL      uint8  // hops that the packet may still take
	Epoch    uint32 // incarnation of the source
	Seq      uint64 // number in the flow from Src to Dst with this priority, from 0
	Payload  []byte // at most MaxPayload bytes
}

// Kind is the kind of a frame between neighbours.
type Kind uint8

const (
	KindData    Kind = 1 + iota // a packet for a place of the receiver
	KindCopied                  // back: the router after the next has stored the packet in the place
	KindUnique                  // forward: the unique token of the packet in the place
	KindReplica                 // forward: the replica token of the packet in the place
	KindFreed                   // back: the place is free
)

// Sizes of frames in bytes. All numbers are little-endian.
//
//	offset 0  kind
//	       1  virtual channel
//	       2  place in the virtual channel, 16 bits
//	       4  source x, source y, destination x, destination y; from here on only of KindData
//	       8  priority
//	       9  TTL
//	      10  1 if the packet stays on fault-handling channels, else 0
//	      11  0
//	      12  epoch, 32 bits
//	      16  sequence number, 64 bits
//	      24  payload
const (
	ControlBytes = 4
	HeaderBytes  = 24
)

// Frame is what one router sends to a neighbour. The link must deliver frames in order and once, or
// fail at both ends.
type Frame struct {
	Kind  Kind
	VC    uint8
	Slot  uint16
	Stays bool   // of KindData
	P     Packet // of KindData
}

// ErrFrame is the error of bytes that are no frame.
var ErrFrame = errors.New("no frame of the Reliable Router")

// Append appends the frame's bytes.
func (f *Frame) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint16(append(b, byte(f.Kind), f.VC), f.Slot)
	if f.Kind != KindData {
		return b
	}
	p := &f.P
	stays := byte(0)
	if f.Stays {
		stays = 1
	}
	b = append(b, byte(p.Src.X), byte(p.Src.Y), byte(p.Dst.X), byte(p.Dst.Y), p.Priority, p.TTL, stays, 0)
	b = binary.LittleEndian.AppendUint32(b, p.Epoch)
	return append(binary.LittleEndian.AppendUint64(b, p.Seq), p.Payload...)
}

// DecodeFrame decodes a frame. The payload of the packet is part of b. Bytes that [Frame.Append] does
// not write are [ErrFrame].
func DecodeFrame(b []byte) (f Frame, err error) {
	if len(b) < ControlBytes {
		return f, ErrFrame
	}
	f.Kind, f.VC, f.Slot = Kind(b[0]), b[1], binary.LittleEndian.Uint16(b[2:])
	switch {
	case f.VC >= NumVCs || f.Slot >= MaxSlots || f.Kind < KindData || f.Kind > KindFreed:
		return Frame{}, ErrFrame
	case f.Kind != KindData && len(b) == ControlBytes:
		return f, nil
	case f.Kind != KindData || len(b) < HeaderBytes || len(b) > HeaderBytes+MaxPayload || b[8] >= Priorities || b[10] > 1 || b[11] != 0:
		return Frame{}, ErrFrame
	}
	f.Stays = b[10] == 1
	f.P = Packet{
		Src: nexthop.Place{X: int(b[4]), Y: int(b[5])}, Dst: nexthop.Place{X: int(b[6]), Y: int(b[7])},
		Priority: b[8], TTL: b[9], Epoch: binary.LittleEndian.Uint32(b[12:]), Seq: binary.LittleEndian.Uint64(b[16:]),
	}
	if len(b) > HeaderBytes {
		f.P.Payload = b[HeaderBytes:]
	}
	return f, nil
}
