package wire

import (
	"encoding/binary"

	"ttfabric/wire/castagnoli"
)

// Sizes of a frame's parts, in bytes. The specification gives the size of the TT-link header (Spec
// §2.1: "a custom 16-Byte Tenstorrent TT-link header"). No public document gives the offsets of the
// header's fields. The offsets are therefore ttfabric's own.
const (
	EnvelopeLen   = 8
	HeaderLen     = 16
	TrailerLen    = 4
	FrameOverhead = EnvelopeLen + HeaderLen + TrailerLen

	// PadUnit is the unit of the envelope's pad byte, in bytes. The length of a padded payload is a
	// multiple of PadUnit.
	PadUnit = 32
	// MaxFramePayload is the length of the longest payload of one frame, with padding, in bytes.
	MaxFramePayload = 255 * PadUnit
	// MaxFrame is the length of the longest frame, in bytes.
	MaxFrame = FrameOverhead + MaxFramePayload
)

// Version is the version of the frame and hello formats. A link drops frames of other versions.
const Version = 3

// Limits of L1 writes and MMIO writes.
const (
	// WriteUnit is the unit of an L1 write, in bytes: addresses and lengths are multiples of
	// WriteUnit. The CCL guide says "Sizes and addresses are specified with 16B alignment"
	// (Ethernet Dataflow API).
	WriteUnit = 16
	// RegisterLen is the length of an MMIO write's payload, in bytes: one register.
	RegisterLen = 4
	// NumQueues is the largest number of transaction command queues of a port. A Blackhole's ethernet
	// tile has three queues, and a Wormhole's two (tt-isa-documentation, BlackholeA0/EthernetTile and
	// WormholeB0/EthernetTile, EthernetTxRx.md).
	NumQueues = 3
)

// MarkRegister is the address of a register of our own in each ethernet tile. An MMIO write of a cut's
// number to this register is the mark of a cut, see "Marks" in the package documentation. Hardware has
// no such register.
const MarkRegister = 0xFFBF3000

// Bits of a cut's number. All other bits tell cuts apart: a later cut has a higher number (wrapping).
const (
	CutPayload = 1 << 0 // the chips save packets with their payloads
	CutMemory  = 1 << 1 // the chips save the memory of their tiles
	CutStep    = 1 << 2 // distance of the numbers of two cuts with equal bits
)

// Offsets within a frame.
const (
	offMagic   = 0  // 'T', 'T'
	offVersion = 2  // version in the high nibble, destination channel in the low
	offPad     = 3  // padded payload in units of PadUnit; 0: not padded
	offSession = 4  // session id
	offKind    = 8  // kind in the low nibble, virtual channel in the high
	offFlags   = 9  // Flags
	offLength  = 10 // length of the payload without padding
	offDest    = 12 // destination address of the payload at the receiver
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
	KindHello  Kind = 3 // hello: brings a link up, and trains it again
	KindClose  Kind = 5 // the sender shuts its link down
	KindWrite  Kind = 6 // L1 write: a piece of a write into the L1 of the ethernet tile at the other end
	KindMMIO   Kind = 7 // MMIO write: a write to one register of the ethernet tile at the other end
)

// Valid reports whether k is the kind of a frame of this version. The number 4 was a kind of earlier
// versions.
func (k Kind) Valid() bool { return k >= KindData && k <= KindMMIO && k != 4 }

// Numbered reports whether frames of kind k have sequence numbers.
func (k Kind) Numbered() bool { return k == KindData || k == KindWrite || k == KindMMIO }

// Flags is the set of a frame's flags.
type Flags uint8

// The flags of a frame. All other bits are reserved and must be zero.
const (
	FlagEnd     Flags = 1 << 0 // in data frames: the payload is the last piece of its packet; in L1 and MMIO writes: the last frame of the command
	FlagNACK    Flags = 1 << 1 // in updates: the frame with number RxSeq is missing, and the peer must send this frame and all later frames again
	FlagSolicit Flags = 1 << 2 // in updates: the sender asks for an update in return
	flagsKnown        = FlagEnd | FlagNACK | FlagSolicit
)

// Frame is one TT-link frame. In a decoded frame, Payload shares the bytes of the datagram.
type Frame struct {
	Channel Channel   // channel of the port at the other end of the link's own cable
	Session SessionID // 0 outside a session
	Kind    Kind
	VC      VC // virtual channel of a data frame; transaction command queue of an L1 or MMIO write
	Flags   Flags
	Dest    uint32 // destination address of the payload (Spec §2.1). Data frames: an address in a receiver channel, see [SlotAddress]. Writes: an address in the ethernet tile.
	TxSeq   Seq    // sequence number of a data frame or write; 0 for other kinds
	RxSeq   Seq    // next sequence number that the sender expects; acknowledges all earlier numbered frames
	Padded  int    // length of the payload with padding, in bytes: a multiple of PadUnit; 0: no padding
	Payload []byte // payload without its padding
}

// SlotSize is the size in bytes of a slot in a receiver channel for requests or replies. SlotSize is
// the smallest power of two that is not below [MaxPacket]. A slot in a receiver channel for control
// packets has [ControlLen] bytes.
const SlotSize = 8192

// SlotSize returns the size in bytes of a slot in the receiver channel of virtual channel v.
func (v VC) SlotSize() int {
	if v.Class() == ClassControl {
		return ControlLen
	}
	return SlotSize
}

// SlotAddress returns the destination address of the byte at the given offset of a packet on virtual
// channel v. The parameter "slot" is the number of the packet's slot in the receiver channel, from
// 0.
func SlotAddress(v VC, slot uint32, offset int) uint32 {
	return slot*uint32(v.SlotSize()) + uint32(offset)
}

// Slot splits the destination address of a data frame into the slot's number and the offset within
// the packet. Slot is the inverse of [SlotAddress].
func (f *Frame) Slot() (slot uint32, offset int) {
	size := uint32(f.VC.SlotSize())
	return f.Dest / size, int(f.Dest % size)
}

// PadTo rounds n up to a multiple of [PadUnit].
func PadTo(n int) int { return (n + PadUnit - 1) / PadUnit * PadUnit }

// FrameFault is an error that says why some bytes are not a valid frame. FrameFault values are
// small numbers, so that an array can have one counter for each fault.
type FrameFault uint8

// The reasons to drop a datagram that holds no valid frame. [DecodeRaw] returns the same faults. Where
// a reason differs for raw frames, a comment gives the other reason after "raw".
const (
	FaultShort    FrameFault = iota + 1 // the datagram is shorter than FrameOverhead (raw: RawOverhead), or than its length fields say
	FaultMagic                          // the datagram does not begin with the magic of TT-link
	FaultVersion                        // the frame's version is not [Version] (raw: not [RawVersion])
	FaultChecksum                       // the CRC-32C is wrong
	FaultKind                           // the kind is unknown
	FaultLength                         // bytes follow the frame, or the payload is longer than its padding allows or than MaxFramePayload (raw: the payload's length is not from MinRaw to MaxRaw)
	FaultReserved                       // a reserved flag is set (raw: the pad byte of the envelope is not 0)
	NumFrameFaults
)

// Error returns the fault's name, such as "frame: checksum".
func (f FrameFault) Error() string {
	names := [NumFrameFaults]string{"", "short", "magic", "version", "checksum", "kind", "length", "reserved"}
	if f == 0 || f >= NumFrameFaults {
		return "frame: unknown fault"
	}
	return "frame: " + names[f]
}

// Checksum returns the CRC-32C (Castagnoli) of b, which iSCSI also uses (RFC 3720 §B.4).
func Checksum(b []byte) uint32 { return castagnoli.Checksum(b) }

// WireLen returns the length of the encoded frame, in bytes.
func (f *Frame) WireLen() int {
	if f.Padded > 0 {
		return FrameOverhead + f.Padded
	}
	return FrameOverhead + len(f.Payload)
}

// FrameLen returns the length in bytes of the first frame in b. b may contain several frames back
// to back. FrameLen checks only the magic and the length fields. The error is [FaultShort] or
// [FaultMagic].
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

// DecodeFrame decodes b, which must be exactly one frame. The error is the first [FrameFault] that
// DecodeFrame finds. DecodeFrame does not check whether virtual channel, flags and sequence numbers
// fit the kind.
func DecodeFrame(b []byte) (f Frame, err error) {
	if err = f.Decode(b); err != nil {
		return Frame{}, err
	}
	return f, nil
}

// Decode decodes b like [DecodeFrame], and stores the frame in f. After an error, the content of f
// is undefined.
func (f *Frame) Decode(b []byte) error {
	n, err := FrameLen(b)
	switch {
	case (err != nil || n != len(b)) && IsRaw(b):
		return FaultVersion
	case err != nil:
		return err
	case n != len(b):
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
	case !f.Kind.Valid():
		return FaultKind
	case f.Flags&^flagsKnown != 0:
		return FaultReserved
	case length > n-FrameOverhead || length > MaxFramePayload:
		return FaultLength
	}
	f.Payload = b[offPayload : offPayload+length : offPayload+length]
	return nil
}

// Append appends the encoded frame to b, with padding of zeros and with the checksum. Append panics
// if a length, the channel, the kind or the virtual channel is out of range.
func (f *Frame) Append(b []byte) []byte {
	start := len(b)
	n := f.WireLen()
	b = append(b, make([]byte, n)...)
	copy(b[start+offPayload:], f.Payload)
	f.Seal(b[start:])
	return b
}

// Seal writes envelope, header and checksum into b. b already contains the payload, at offset
// [EnvelopeLen]+[HeaderLen]. b must be exactly [Frame.WireLen] bytes long. Of f.Payload, Seal uses
// only the length. Seal panics if a length, the channel, the kind or the virtual channel is out
// of range.
func (f *Frame) Seal(b []byte) {
	if len(b) != f.WireLen() || f.Padded%PadUnit != 0 || f.Padded > MaxFramePayload ||
		(f.Padded > 0 && len(f.Payload) > f.Padded) || len(f.Payload) > MaxFramePayload || f.Channel >= MaxChannels || byte(f.Kind)|byte(f.VC) > 0xF {
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
