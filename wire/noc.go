package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// NocAddr addresses a byte of one tile of a chip, as tt-metal encodes it on
// Wormhole: offset in bits 0–35, NoC x in 36–41, NoC y in 42–47.
type NocAddr uint64

// Limits of a [NocAddr].
const (
	NocOffsetBits = 36
	NocCoordBits  = 6
	MaxNocOffset  = 1<<NocOffsetBits - 1 // bytes
)

// NewNocAddr returns the address of byte offset in tile (x, y). Excess bits are cut off.
func NewNocAddr(x, y uint8, offset uint64) NocAddr {
	return NocAddr(offset&MaxNocOffset | uint64(x&(1<<NocCoordBits-1))<<NocOffsetBits | uint64(y&(1<<NocCoordBits-1))<<(NocOffsetBits+NocCoordBits))
}

// X returns the NoC column.
func (a NocAddr) X() uint8 { return uint8(a>>NocOffsetBits) & (1<<NocCoordBits - 1) }

// Y returns the NoC row.
func (a NocAddr) Y() uint8 { return uint8(a>>(NocOffsetBits+NocCoordBits)) & (1<<NocCoordBits - 1) }

// Offset returns the offset of the byte within the tile.
func (a NocAddr) Offset() uint64 { return uint64(a) & MaxNocOffset }

// Add returns the address n bytes further in the same tile.
func (a NocAddr) Add(n int) NocAddr { return NewNocAddr(a.X(), a.Y(), a.Offset()+uint64(n)) }

// String renders the address as "x-y:0xoffset".
func (a NocAddr) String() string { return fmt.Sprintf("%d-%d:%#x", a.X(), a.Y(), a.Offset()) }

// NocSendType says what the destination does. The values are tt-metal's codes
// (fabric_edm_packet_header.hpp, NocSendType).
type NocSendType uint8

// The NoC commands (Spec §4, "Fabric and NoC Level Commands"). tt-metal marks codes 5 and 6, which
// reach several tiles of one chip, as faulty; this package leaves them out.
const (
	NocUnicastWrite NocSendType = 0
	NocInlineWrite  NocSendType = 1
	NocAtomicInc    NocSendType = 2
	NocFusedInc     NocSendType = 3 // unicast write, then atomic increment
	NocScatterWrite NocSendType = 4
	NocRead         NocSendType = 7
	NocNone         NocSendType = 0xFF // the packet carries no NoC command
)

// String names the command as the command line does.
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

// Command tells what a packet does at its destination.
type Command struct {
	Type    NocSendType
	Addr    NocAddr             // address, for all commands but scatter writes
	Sem     NocAddr             // fused: the counter
	Value   uint32              // inline write: the word; atomics: the increment
	Flush   bool                // atomics: the destination performs earlier writes of the flow first
	Size    uint16              // number of payload bytes; for a read, the number of bytes wanted
	Chunks  uint8               // scatter: 2 to MaxScatter
	Scatter [MaxScatter]NocAddr // scatter: where each chunk goes
	Sizes   [MaxScatter]uint16  // scatter: bytes of each chunk; the last is the rest of Size
}

// ErrCommand is returned for malformed command fields.
var ErrCommand = errors.New("NoC command: malformed")

// chunkWrite is tt-metal's 2-bit chunk encoding for a plain write.
const chunkWrite = 1

// decodeCommand reads the union, which is commandLen bytes. The command's type and size lie behind
// the union, so the caller passes them.
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

// put writes the union into b, which is commandLen zero bytes.
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
