package reliable

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Kind is the type of a flit, a field of 3 bits. RR §2.1 and §5.2 name two kinds of heads, data,
// tail and two kinds of tokens. The paper gives no codes, so the codes are ours.
type Kind uint8

const (
	Padding      Kind = iota // no flit and no other information; a receiver may lose or repeat the slot (RR §6)
	Control                  // no flit, but acknowledgements or the state of the link
	HeadOriginal             // the first flit of a packet, or of its front piece (RR §5.2)
	HeadRestart              // the first flit of the rear piece of a packet (RR §5.2)
	Data                     // user data
	Tail                     // the last flit; the data are the number of data and tail flits of the whole packet
	TokenUnique              // follows the tail: nobody else has a copy of the packet (RR §5.1)
	TokenReplica             // follows the tail: another copy or piece may be under way (RR §5.1)
	numKinds
)

var kindNames = [numKinds]string{"padding", "control", "head:original", "head:restart", "data", "tail", "token:unique", "token:replica"}

func (k Kind) String() string {
	if k >= numKinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// Head reports whether the flit is the first flit of a packet or of a piece of a packet.
func (k Kind) Head() bool { return k == HeadOriginal || k == HeadRestart }

// Body reports whether the flit is a data or tail flit. Those flits have a second copy in the
// preceding node (RR §5.2).
func (k Kind) Body() bool { return k == Data || k == Tail }

// Token reports whether the flit is a token.
func (k Kind) Token() bool { return k == TokenUnique || k == TokenReplica }

// FlitBits is the number of bits of a flit: 64 of data, 8 of byte parity and 3 of the kind (RR §2.1).
const FlitBits = 75

// flitBytes is the length of an encoded flit in bytes. The five bits above the flit are zero.
const flitBytes = (FlitBits + 7) / 8

// Flit is the unit of buffering, forwarding and flow control (RR §2.1).
type Flit struct {
	Kind   Kind
	Data   uint64
	Parity uint8 // bit i is the even parity of byte i of Data; the destination checks it
}

// NewFlit returns a flit with the byte parity of the data.
func NewFlit(k Kind, data uint64) Flit { return Flit{k, data, byteParity(data)} }

// Intact reports whether the byte parity fits the data (RR §2.1, "end-to-end error detection").
func (f Flit) Intact() bool { return f.Parity == byteParity(f.Data) }

// byteParity returns the even parity of each byte. Bit i is 1 if byte i has an odd number of ones.
func byteParity(data uint64) uint8 {
	data ^= data >> 4
	data ^= data >> 2
	data ^= data >> 1
	data &= 0x0101010101010101
	return uint8(data * 0x0102040810204080 >> 56)
}

// AppendBinary appends the 75 bits of the flit: data in bits 63:0, byte parity in bits 71:64, the
// kind in bits 74:72. The first byte has bits 7:0.
func (f Flit) AppendBinary(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, f.Data)
	return append(b, f.Parity, uint8(f.Kind))
}

// DecodeFlit decodes the 10 bytes of a flit. The five bits above the 75 must be zero.
func DecodeFlit(b []byte) (Flit, error) {
	if len(b) != flitBytes {
		return Flit{}, fmt.Errorf("a flit of %d bytes; a flit has %d bytes", len(b), flitBytes)
	}
	if b[9] >= uint8(numKinds) {
		return Flit{}, fmt.Errorf("bits 79:75 of a flit are %#x; a flit has %d bits", b[9]>>3, FlitBits)
	}
	return Flit{Kind(b[9]), binary.LittleEndian.Uint64(b), b[8]}, nil
}

// Limits of the fields of a head flit (RR Table 1).
const (
	MaxSide  = 32 // nodes along x or y; the address has 5 bits for each
	UserBits = 52 // bits 63:12 of a head flit
	userMask = 1<<UserBits - 1
)

// Head is the data of a head flit (RR Table 1).
type Head struct {
	X, Y       uint8  // address of the destination, bits 4:0 and 9:5; 0 to 31
	Diagnostic bool   // bit 10: the packet leaves at the diagnostic port of its destination
	Priority   uint8  // bit 11: 0 or 1
	User       uint64 // bits 63:12; 0 to 2^52-1; the endpoints keep the packet's unique identifier here
}

// Encode returns the data of the head flit. A field out of its range is an error.
func (h Head) Encode() (uint64, error) {
	if h.X >= MaxSide || h.Y >= MaxSide || h.Priority > 1 || h.User > userMask {
		return 0, fmt.Errorf("head flit to x %d, y %d with priority %d and user information %#x: x and y are at most %d, the priority is 0 or 1, and the user information has %d bits", h.X, h.Y, h.Priority, h.User, MaxSide-1, UserBits)
	}
	v := uint64(h.X) | uint64(h.Y)<<5 | uint64(h.Priority)<<11 | h.User<<12
	if h.Diagnostic {
		v |= 1 << 10
	}
	return v, nil
}

// DecodeHead returns the fields of a head flit's data. All 2^64 values are valid.
func DecodeHead(data uint64) Head {
	return Head{uint8(data & 31), uint8(data >> 5 & 31), data>>10&1 == 1, uint8(data >> 11 & 1), data >> 12}
}

// odd returns 1 if v has an even number of ones, so that v and the bit together have an odd number.
func odd(v uint32) uint32 { return uint32(bits.OnesCount32(v)+1) & 1 }
