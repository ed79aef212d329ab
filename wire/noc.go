package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// NocAddr is the address of a byte in a tile of a chip, in tt-metal's encoding for Wormhole. Bits 0
// to 35 hold the offset in the tile, bits 36 to 41 the NoC column x, and bits 42 to 47 the NoC row
// y. In the address of a rectangle of tiles, bits 48 to 59 hold the rectangle's first column and
// row (see [NewNocRect]). Bit 60 is [NocOne].
type NocAddr uint64

// Limits of a [NocAddr].
const (
	NocOffsetBits = 36
	NocCoordBits  = 6
	MaxNocOffset  = 1<<NocOffsetBits - 1 // largest offset, in bytes
)

// NewNocAddr returns the address of the byte at the given offset in the tile at column x and row y.
// NewNocAddr cuts off bits that exceed the limits.
func NewNocAddr(x, y uint8, offset uint64) NocAddr {
	return NocAddr(offset&MaxNocOffset | uint64(x&(1<<NocCoordBits-1))<<NocOffsetBits | uint64(y&(1<<NocCoordBits-1))<<(NocOffsetBits+NocCoordBits))
}

// X returns the NoC column of the tile.
func (a NocAddr) X() uint8 { return uint8(a>>NocOffsetBits) & (1<<NocCoordBits - 1) }

// Y returns the NoC row of the tile.
func (a NocAddr) Y() uint8 { return uint8(a>>(NocOffsetBits+NocCoordBits)) & (1<<NocCoordBits - 1) }

// Offset returns the offset of the byte within the tile, in bytes.
func (a NocAddr) Offset() uint64 { return uint64(a) & MaxNocOffset }

// Add returns the address of the byte n bytes after a in the same tile. The offset wraps beyond
// [MaxNocOffset].
func (a NocAddr) Add(n int) NocAddr {
	return a&^MaxNocOffset | NocAddr((a.Offset()+uint64(n))&MaxNocOffset)
}

// nocOneText begins the text of an address in the coordinates of NoC 1.
const nocOneText = "noc1:"

// String returns the address in the form "x-y:offset", such as "1-2:0x1000". The address of a
// rectangle has the form "x-y..x-y:offset", with the first and the last tile. An address in the
// coordinates of NoC 1 begins with "noc1:".
func (a NocAddr) String() string {
	s := fmt.Sprintf("%d-%d:%#x", a.X(), a.Y(), a.Offset())
	if a.IsRect() {
		x, y := a.First()
		s = fmt.Sprintf("%d-%d..%s", x, y, s)
	}
	if a&NocOne != 0 {
		s = nocOneText + s
	}
	return s
}

// ParseNocAddr reads an address in the form of [NocAddr.String]. The offset may be decimal, or
// hexadecimal with 0x. The error names a bad text.
func ParseNocAddr(s string) (NocAddr, error) {
	rest, one := strings.CutPrefix(s, nocOneText)
	tile, offset, ok := strings.Cut(rest, ":")
	first, last, rect := strings.Cut(tile, "..")
	x, y, ok1 := parseTile(first)
	digits, base := offset, 10
	if hex, ok := strings.CutPrefix(offset, "0x"); ok {
		digits, base = hex, 16
	}
	o, err := strconv.ParseUint(digits, base, NocOffsetBits)
	if !ok || !ok1 || err != nil {
		return 0, fmt.Errorf("tile %q: want <x>-<y>:<offset>, such as 1-1:0x1000", s)
	}
	switch {
	case rect:
		x1, y1, ok := parseTile(last)
		a, fits := NewNocRect(x, y, x1, y1, o)
		if !ok || !fits || one {
			return 0, fmt.Errorf("rectangle %q: want <x>-<y>..<x>-<y>:<offset> with the first and the last tile in coordinates of NoC 0 and an offset below 2^32, such as 1-2..4-5:0x1000", s)
		}
		return a, nil
	case one:
		return NewNocAddr(x, y, o) | NocOne, nil
	}
	return NewNocAddr(x, y, o), nil
}

// parseTile reads the coordinates "x-y".
func parseTile(s string) (x, y uint8, ok bool) {
	xs, ys, ok := strings.Cut(s, "-")
	vx, err1 := strconv.ParseUint(xs, 10, NocCoordBits)
	vy, err2 := strconv.ParseUint(ys, 10, NocCoordBits)
	return uint8(vx), uint8(vy), ok && err1 == nil && err2 == nil
}

// NocSendType is the kind of a NoC command. The values are tt-metal's codes
// (fabric_edm_packet_header.hpp, NocSendType).
type NocSendType uint8

// The NoC commands (Spec §4, "Fabric and NoC Level Commands"). tt-metal marks its codes 5 and 6 as
// faulty. A packet with one of these codes gives two sizes of a rectangle. In tt-metal, the number
// of tiles is the product of both sizes, but the last column is the first column plus a size. In
// this package, the sizes are numbers of columns and rows.
const (
	NocUnicastWrite   NocSendType = 0
	NocInlineWrite    NocSendType = 1
	NocAtomicInc      NocSendType = 2
	NocFusedInc       NocSendType = 3 // a unicast write, followed by an atomic increment
	NocScatterWrite   NocSendType = 4
	NocMulticastWrite NocSendType = 5 // a write to the Tensix tiles of a rectangle
	NocMulticastInc   NocSendType = 6 // an atomic increment in the Tensix tiles of a rectangle
	NocRead           NocSendType = 7
	NocNone           NocSendType = 0xFF // the packet carries no NoC command
)

// String returns the name of the command on the command line, such as "write".
func (t NocSendType) String() string {
	switch t {
	case NocUnicastWrite:
		return "write"
	case NocInlineWrite:
		return "inline-write"
	case NocAtomicInc:
		return "atomic-inc"
	case NocFusedInc:
		return "fused-write-inc"
	case NocScatterWrite:
		return "scatter-write"
	case NocMulticastWrite:
		return "noc-multicast-write"
	case NocMulticastInc:
		return "noc-multicast-inc"
	case NocRead:
		return "read"
	case NocNone:
		return "none"
	}
	return fmt.Sprintf("noc(%d)", uint8(t))
}

// MaxScatter is the largest number of chunks of a scatter write (tt-metal: 2 to 4).
const MaxScatter = 4

// commandLen is the size of tt-metal's NocCommandFields union, in bytes.
const commandLen = 40

// Command is a NoC command: what the destination of a packet must do.
type Command struct {
	Type    NocSendType
	Addr    NocAddr             // address that the command reads, writes or increments; unused in scatter writes
	Sem     NocAddr             // fused write and increment: address of the word to increment
	Value   uint32              // inline write: the word to write; commands that increment: the increment
	Flush   bool                // commands that increment: the destination performs earlier writes of the flow first
	Size    uint16              // number of payload bytes; for a read, the number of bytes wanted
	Chunks  uint8               // scatter write: number of chunks, 2 to MaxScatter
	Scatter [MaxScatter]NocAddr // scatter write: address of each chunk
	Sizes   [MaxScatter]uint16  // scatter write: length of each chunk, in bytes; the last chunk is the rest of the payload
}

// ErrCommand is the error for a malformed NoC command.
var ErrCommand = errors.New("NoC command: malformed")

// chunkWrite is tt-metal's 2-bit code for a chunk that is a plain write.
const chunkWrite = 1

// decodeCommand reads a command from b, the command union of a packet. The fields for type and size
// follow the union in the packet, so the caller passes their values. The error is [ErrCommand].
func decodeCommand(t NocSendType, size uint16, b []byte) (Command, error) {
	le := binary.LittleEndian
	c := Command{Type: t, Size: size}
	switch t {
	case NocUnicastWrite, NocRead:
		c.Addr = NocAddr(le.Uint64(b))
	case NocInlineWrite:
		c.Addr, c.Value = NocAddr(le.Uint64(b)), le.Uint32(b[8:])
	case NocAtomicInc:
		c.Addr, c.Value, c.Flush = NocAddr(le.Uint64(b)), le.Uint32(b[8:]), b[12] != 0
	case NocFusedInc:
		c.Addr, c.Sem, c.Value, c.Flush = NocAddr(le.Uint64(b)), NocAddr(le.Uint64(b[8:])), le.Uint32(b[16:]), b[20] != 0
	case NocScatterWrite:
		return decodeScatter(c, b)
	case NocMulticastWrite, NocMulticastInc:
		return decodeRect(c, b)
	case NocNone:
	default:
		return Command{}, ErrCommand
	}
	return c, nil
}

func decodeScatter(c Command, b []byte) (Command, error) {
	le := binary.LittleEndian
	c.Chunks = b[38]
	if c.Chunks < 2 || c.Chunks > MaxScatter {
		return Command{}, ErrCommand
	}
	rest := int(c.Size)
	for i := range int(c.Chunks) {
		if b[39]>>(2*i)&3 != chunkWrite {
			return Command{}, ErrCommand
		}
		c.Scatter[i] = NocAddr(le.Uint64(b[8*i:]))
		n := rest
		if i < int(c.Chunks)-1 {
			n = int(le.Uint16(b[32+2*i:]))
		}
		if rest -= n; rest < 0 {
			return Command{}, ErrCommand
		}
		c.Sizes[i] = uint16(n)
	}
	return c, nil
}

// put writes the command union into b. The caller passes a b of commandLen zero bytes.
func (c *Command) put(b []byte) {
	le := binary.LittleEndian
	flush := byte(0)
	if c.Flush {
		flush = 1
	}
	switch c.Type {
	case NocUnicastWrite, NocRead:
		le.PutUint64(b, uint64(c.Addr))
	case NocInlineWrite:
		le.PutUint64(b, uint64(c.Addr))
		le.PutUint32(b[8:], c.Value)
	case NocAtomicInc:
		le.PutUint64(b, uint64(c.Addr))
		le.PutUint32(b[8:], c.Value)
		b[12] = flush
	case NocFusedInc:
		le.PutUint64(b, uint64(c.Addr))
		le.PutUint64(b[8:], uint64(c.Sem))
		le.PutUint32(b[16:], c.Value)
		b[20] = flush
	case NocMulticastWrite, NocMulticastInc:
		c.putRect(b)
	case NocScatterWrite:
		for i := range int(c.Chunks) {
			le.PutUint64(b[8*i:], uint64(c.Scatter[i]))
			if i < int(c.Chunks)-1 {
				le.PutUint16(b[32+2*i:], c.Sizes[i])
			}
			b[39] |= chunkWrite << (2 * i)
		}
		b[38] = c.Chunks
	}
}
