package wire

import (
	"encoding/binary"

	"ttfabric/wire/castagnoli"
)

// Sizes of a frame's parts, in bytes. The TT-link header's size is the specification's (Spec §2.1:
// "a custom 16-Byte Tenstorrent TT-link header"). No public document gives the offsets of the
// header's fields, so the offsets are ours.
const (
	EnvelopeLen   = 8
	HeaderLen     = 16
	TrailerLen    = 4
	FrameOverhead = EnvelopeLen + HeaderLen + TrailerLen

	// PadUnit is the unit in which the envelope's pad byte counts a padded payload, in bytes.
	PadUnit = 32
	// MaxFramePayload is the largest padded payload of one frame.
	MaxFramePayload = 255 * PadUnit
	// MaxFrame is the largest frame on the wire.
	MaxFrame = FrameOverhead + MaxFramePayload
)

// Version is the version of the frame and hello formats. An end drops frames of other versions.
const Version = 1

// Offsets within a frame.
const (
	offMagic   = 0  // 'T', 'T'
	offVersion = 2  // version in the high nibble, destination channel in the low
	offPad     = 3  // padded payload in units of PadUnit; 0: not padded
	offSession = 4  // session id
	offKind    = 8  // kind in the low nibble, virtual channel in the high
	offFlags   = 9  // Flags
	offLength  = 10 // true payload length
	offDest    = 12 // payload destination address at the receiver
	offTxSeq   = 16
	offRxSeq   = 20
	offPayload = 24
)

// Kind tells the purpose of a frame.
type Kind uint8

// The kinds of frame.
const (
	KindData   Kind = 1 // a piece of a fabric packet for a receiver channel's slot
	KindUpdate Kind = 2 // sequence update: ack, NACK, credit grants
	KindHello  Kind = 3 // bring-up and training
	KindRaw    Kind = 4 // compliance mode: no ARQ (Spec §2.1)
	KindClose  Kind = 5 // the sender goes away in order
)

// Flags qualify a frame.
type Flags uint8

// The flags of a frame; the other bits are reserved and must be zero.
const (
	FlagEnd     Flags = 1 << 0 // data: last piece of its packet
	FlagNACK    Flags = 1 << 1 // update: a frame is missing, go back to the rx seq
	FlagSolicit Flags = 1 << 2 // update: answer with another update
	flagsKnown        = FlagEnd | FlagNACK | FlagSolicit
)

// Frame is one TT-link frame. In a decoded frame Payload is a view into the datagram.
type Frame struct {
	Channel Channel   // the port of the receiver that the frame is for
	Session SessionID // 0 outside a session
	Kind    Kind
	VC      VC
	Flags   Flags
	Dest    uint32 // payload destination address at the receiver (Spec §2.1); see [SlotAddress]
	TxSeq   Seq    // sequence number of this frame; meaningful for KindData
	RxSeq   Seq    // next sequence number that the sender expects: a cumulative ack
	Padded  int    // length of the payload with its padding; a multiple of PadUnit, or 0 for no padding
	Payload []byte // payload without its padding
}

// SlotStride is the distance between two slots in a receiver channel's
// address space, in bytes: the smallest power of two that holds [MaxPacket].
const SlotStride = 8192

// SlotAddress returns the destination address of a byte of the packet in a slot. The byte lies at
// the given offset in the packet. The parameter slot is the packet's number on its VC in this
// session, modulo the receiver's number of slots.
func SlotAddress(slot uint32, offset int) uint32 { return slot*SlotStride + uint32(offset) }

// PadTo rounds n up to a multiple of [PadUnit].
func PadTo(n int) int { return (n + PadUnit - 1) / PadUnit * PadUnit }

// FrameFault says why bytes are not a frame. A FrameFault is an error, and its values are small
// enough to index counters.
type FrameFault uint8

// The reasons to drop a datagram that holds no valid frame.
const (
	FaultShort    FrameFault = iota + 1 // the datagram has fewer bytes than the frame's fields say
	FaultMagic                          // the datagram does not begin with the magic of TT-link
	FaultVersion                        // the frame has another version
	FaultChecksum                       // the CRC-32C is wrong
	FaultKind                           // the kind or the virtual channel is unknown
	FaultLength                         // the lengths contradict each other
	FaultReserved                       // a reserved bit is set
	NumFrameFaults
)

// Error names the fault.
func (f FrameFault) Error() string {
	names := [NumFrameFaults]string{"", "short", "magic", "version", "checksum", "kind", "length", "reserved"}
	if f == 0 || f >= NumFrameFaults {
		return "frame: unknown fault"
	}
	return "frame: " + names[f]
}

// Checksum returns the CRC-32C (Castagnoli) of b, as in iSCSI (RFC 3720 §B.4).
func Checksum(b []byte) uint32 { return castagnoli.Checksum(b) }

// WireLen returns the number of bytes that f takes on the wire.
func (f *Frame) WireLen() int {
	if f.Padded > 0 {
		return FrameOverhead + f.Padded
	}
	return FrameOverhead + len(f.Payload)
}

// FrameLen returns the length of the frame at the start of b. With FrameLen, a caller can split
// several frames that lie back to back. FrameLen looks only at the length fields.
func FrameLen(b []byte) (int, error) {
	if len(b) < FrameOverhead {
		return 0, FaultShort
	}
	if b[offMagic] != 'T' || b[offMagic+1] != 'T' {
		return 0, FaultMagic
	}
	n := int(b[offPad]) * PadUnit
	if n == 0 {
		n = int(binary.LittleEndian.Uint16(b[offLength:]))
	}
	if n += FrameOverhead; n > len(b) {
		return 0, FaultShort
	}
	return n, nil
}

// DecodeFrame reads the one frame that b must hold, and checks all of it. The error is a [FrameFault].
func DecodeFrame(b []byte) (f Frame, err error) {
	if err = f.Decode(b); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// Decode does what [DecodeFrame] does, and stores the frame in f. After an error, the content of f
// is undefined.
func (f *Frame) Decode(b []byte) error {
	n, err := FrameLen(b)
	if err != nil {
		return err
	}
	if n != len(b) {
		return FaultLength
	}
	if b[offVersion]>>4 != Version {
		return FaultVersion
	}
	if Checksum(b[:n-TrailerLen]) != binary.LittleEndian.Uint32(b[n-TrailerLen:]) {
		return FaultChecksum
	}
	f.Channel = Channel(b[offVersion] & 0xF)
	f.Session = SessionID(binary.LittleEndian.Uint32(b[offSession:]))
	f.Kind = Kind(b[offKind] & 0xF)
	f.VC = VC(b[offKind] >> 4)
	f.Flags = Flags(b[offFlags])
	f.Dest = binary.LittleEndian.Uint32(b[offDest:])
	f.TxSeq = Seq(binary.LittleEndian.Uint32(b[offTxSeq:]))
	f.RxSeq = Seq(binary.LittleEndian.Uint32(b[offRxSeq:]))
	f.Padded = int(b[offPad]) * PadUnit
	length := int(binary.LittleEndian.Uint16(b[offLength:]))
	switch {
	case f.Kind < KindData || f.Kind > KindClose:
		return FaultKind
	case f.Flags&^flagsKnown != 0:
		return FaultReserved
	case length > n-FrameOverhead || length > MaxFramePayload:
		return FaultLength
	}
	f.Payload = b[offPayload : offPayload+length : offPayload+length]
	return nil
}

// Append appends the frame, padded and sealed. The padding is zero. Append panics if the caller
// passes a frame that the format cannot express.
func (f *Frame) Append(b []byte) []byte {
	start := len(b)
	n := f.WireLen()
	b = append(b, make([]byte, n)...)
	copy(b[start+offPayload:], f.Payload)
	f.Seal(b[start:])
	return b
}

// Seal writes envelope, header and checksum around a payload that already lies in b, at offset
// [EnvelopeLen]+[HeaderLen]. b must be exactly [Frame.WireLen] bytes long. Seal uses only the
// length of f.Payload.
func (f *Frame) Seal(b []byte) {
	if len(b) != f.WireLen() || f.Padded%PadUnit != 0 || f.Padded > MaxFramePayload ||
		(f.Padded > 0 && len(f.Payload) > f.Padded) || len(f.Payload) > MaxFramePayload || f.Channel >= MaxChannels {
		panic("wire: frame cannot be expressed")
	}
	b[offMagic], b[offMagic+1] = 'T', 'T'
	b[offVersion] = Version<<4 | byte(f.Channel)
	b[offPad] = byte(f.Padded / PadUnit)
	binary.LittleEndian.PutUint32(b[offSession:], uint32(f.Session))
	b[offKind] = byte(f.VC)<<4 | byte(f.Kind)
	b[offFlags] = byte(f.Flags)
	binary.LittleEndian.PutUint16(b[offLength:], uint16(len(f.Payload)))
	binary.LittleEndian.PutUint32(b[offDest:], f.Dest)
	binary.LittleEndian.PutUint32(b[offTxSeq:], uint32(f.TxSeq))
	binary.LittleEndian.PutUint32(b[offRxSeq:], uint32(f.RxSeq))
	end := len(b) - TrailerLen
	binary.LittleEndian.PutUint32(b[end:], Checksum(b[:end]))
}
