package wire

import (
	"encoding/binary"
	"errors"
)

// Lengths of a hello's payload without padding, in bytes. HelloLen is for a hello with the slots
// and grants of the first [BasicVCs] virtual channels. FullHelloLen is for a hello with the slots
// and grants of all virtual channels.
const (
	HelloLen     = 80
	FullHelloLen = HelloLen + 6*(NumVCs-BasicVCs)
)

// Hello is the payload of a frame of [KindHello]. The two ends of a link exchange hellos to train.
// The frame's Session is the sender's session, or 0 before the first session. The frame's RxSeq is
// the next sequence number that the sender expects in that session.
type Hello struct {
	Up         bool   // the sender's end of the link is up
	WantAnswer bool   // the sender asks for a hello in return
	From       PortID // the sender's port
	Expected   PortID // the port that the sender believes to be at the other end of the cable
	MaxPayload uint16 // largest padded frame payload that the sender takes, in bytes; a multiple of PadUnit

	Incarnation     Incarnation // incarnation of the sender's process
	EchoIncarnation Incarnation // incarnation of the peer in the last hello that the sender received; 0: none
	Training        uint32      // training number of the sender; see "Link: bring-up and training" in the package's page
	EchoTraining    uint32      // training number of the peer in the last hello that the sender received
	Stamp           uint64      // a number that only the sender interprets, not 0; an answer repeats the number in EchoStamp
	EchoStamp       uint64      // in an answer: the Stamp of the hello that is answered; otherwise 0

	// Via is 0 in a hello that the sender sends by the link's own cable. In a hello by the cable of
	// another link, Via is one more than the sender's channel of that cable. After this hello, all
	// frames of the link may come by that cable.
	Via uint8

	Slots  [NumVCs]uint16 // number of slots of the sender's receiver channels
	Fabric uint32         // number of the fabric; chips of different fabrics form no links; 0 matches every fabric
	Grants [NumVCs]uint32 // grants in the session of the frame
}

// Bits of a hello's flag byte. All other bits are reserved and must be zero.
const (
	helloUp         = 1 << 0
	helloWantAnswer = 1 << 1
)

// helloVia is the offset of [Hello.Via] in the payload.
const helloVia = 60

// PeekVia reads a datagram b that may be a frame. The result "to" is the frame's destination
// channel. The result "hello" is true if the frame is a hello. The result "via" is then
// [Hello.Via], or 0 if b is too short for this field. The result ok is false if b is too short to
// be a frame. PeekVia checks nothing else.
func PeekVia(b []byte) (to Channel, via uint8, hello, ok bool) {
	if len(b) < FrameOverhead {
		return 0, 0, false, false
	}
	to = Channel(b[offVersion] & 0xF)
	if hello = Kind(b[offKind]&0xF) == KindHello; hello {
		if o := EnvelopeLen + HeaderLen + helloVia; o < len(b) {
			via = b[o]
		}
	}
	return to, via, hello, true
}

// ErrHello is the error for a payload that is not a valid hello.
var ErrHello = errors.New("hello: malformed")

// DecodeHello decodes a hello from a frame's payload b. The error is [ErrHello].
func DecodeHello(b []byte) (Hello, error) {
	if (len(b) != HelloLen && len(b) != FullHelloLen) || b[0] != Version || b[1]&^(helloUp|helloWantAnswer) != 0 || b[61] != 0 || b[62] != 0 || b[63] != 0 {
		return Hello{}, ErrHello
	}
	le := binary.LittleEndian
	h := Hello{
		Up:              b[1]&helloUp != 0,
		WantAnswer:      b[1]&helloWantAnswer != 0,
		From:            PortID{FabricNodeID{MeshID(le.Uint16(b[4:])), ChipID(le.Uint16(b[6:]))}, Channel(b[2])},
		Expected:        PortID{FabricNodeID{MeshID(le.Uint16(b[8:])), ChipID(le.Uint16(b[10:]))}, Channel(b[3])},
		EchoTraining:    le.Uint32(b[12:]),
		Incarnation:     Incarnation(le.Uint64(b[16:])),
		EchoIncarnation: Incarnation(le.Uint64(b[24:])),
		Stamp:           le.Uint64(b[32:]),
		EchoStamp:       le.Uint64(b[40:]),
		Training:        le.Uint32(b[48:]),
		MaxPayload:      le.Uint16(b[52:]),
		// the loop below reads the slots at 54, 56 and 58; the bytes 61 to 63 are reserved
		Via:    b[helloVia],
		Fabric: le.Uint32(b[64:]),
	}
	for v := range BasicVCs {
		h.Slots[v] = le.Uint16(b[54+2*v:])
		h.Grants[v] = le.Uint32(b[68+4*v:])
	}
	for v, o := BasicVCs, HelloLen; o < len(b); v, o = v+1, o+6 {
		h.Slots[v] = le.Uint16(b[o:])
		h.Grants[v] = le.Uint32(b[o+2:])
	}
	if h.Via > MaxChannels || !h.From.Valid() || !h.Expected.Valid() || h.Incarnation == 0 ||
		h.MaxPayload == 0 || h.MaxPayload%PadUnit != 0 || h.MaxPayload > MaxFramePayload {
		return Hello{}, ErrHello
	}
	return h, nil
}

// Append appends the encoded hello to b. The hello takes [HelloLen] bytes if only the first
// [BasicVCs] virtual channels have slots or grants, and [FullHelloLen] bytes otherwise.
func (h *Hello) Append(b []byte) []byte {
	var flags byte
	if h.Up {
		flags |= helloUp
	}
	if h.WantAnswer {
		flags |= helloWantAnswer
	}
	le := binary.LittleEndian
	b = append(b, Version, flags, byte(h.From.Channel), byte(h.Expected.Channel))
	b = le.AppendUint16(b, uint16(h.From.Node.Mesh))
	b = le.AppendUint16(b, uint16(h.From.Node.Chip))
	b = le.AppendUint16(b, uint16(h.Expected.Node.Mesh))
	b = le.AppendUint16(b, uint16(h.Expected.Node.Chip))
	b = le.AppendUint32(b, h.EchoTraining)
	b = le.AppendUint64(b, uint64(h.Incarnation))
	b = le.AppendUint64(b, uint64(h.EchoIncarnation))
	b = le.AppendUint64(b, h.Stamp)
	b = le.AppendUint64(b, h.EchoStamp)
	b = le.AppendUint32(b, h.Training)
	b = le.AppendUint16(b, h.MaxPayload)
	full := false
	for v, s := range h.Slots {
		if v < BasicVCs {
			b = le.AppendUint16(b, s)
		} else {
			full = full || s != 0 || h.Grants[v] != 0
		}
	}
	b = append(b, h.Via, 0, 0, 0)
	b = le.AppendUint32(b, h.Fabric)
	for _, g := range h.Grants[:BasicVCs] {
		b = le.AppendUint32(b, g)
	}
	for v := BasicVCs; full && v < NumVCs; v++ {
		b = le.AppendUint16(b, h.Slots[v])
		b = le.AppendUint32(b, h.Grants[v])
	}
	return b
}

// NewSessionID returns the id of the session between two ports a and b, whose chips have the
// incarnations ai and bi. The id is the CRC-32C of 26 bytes. The first 13 bytes are the lower port
// and its incarnation, the next 13 bytes the higher port and its incarnation. Mesh and chip have 16
// bits, the channel 8 bits, and the incarnation 64 bits, all little-endian. If the CRC-32C is 0,
// the id is 1, because 0 means no session. The two ends of a link compute the same id.
func NewSessionID(a PortID, ai Incarnation, b PortID, bi Incarnation) SessionID {
	if b.Less(a) {
		a, ai, b, bi = b, bi, a, ai
	}
	var buf [26]byte
	put := func(o []byte, p PortID, i Incarnation) {
		binary.LittleEndian.PutUint16(o, uint16(p.Node.Mesh))
		binary.LittleEndian.PutUint16(o[2:], uint16(p.Node.Chip))
		o[4] = byte(p.Channel)
		binary.LittleEndian.PutUint64(o[5:], uint64(i))
	}
	put(buf[:13], a, ai)
	put(buf[13:], b, bi)
	if s := SessionID(Checksum(buf[:])); s != 0 {
		return s
	}
	return 1
}

// InitialSeq returns the low 32 bits of an incarnation. In every session, the first data frame or
// write of a chip has the sequence number InitialSeq of the chip's incarnation.
func InitialSeq(i Incarnation) Seq { return Seq(uint32(i)) }
