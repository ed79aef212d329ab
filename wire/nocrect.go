package wire

import "encoding/binary"

// NocOne is the bit of a [NocAddr] that says in which coordinates the address names its tile. The
// bit is 1 for coordinates of NoC 1, and 0 for coordinates of NoC 0. Both NoCs reach the same byte.
// The bit is ttfabric's own: on hardware, the address does not say which NoC a command uses. The
// address of a rectangle is always in the coordinates of NoC 0.
const NocOne NocAddr = 1 << 60

// Bits of a NocAddr that name the first tile of a rectangle (tt-metal, NOC_MULTICAST_ADDR). The bits
// of X and Y name the last tile.
const (
	rectXBit = NocOffsetBits + 2*NocCoordBits
	rectYBit = NocOffsetBits + 3*NocCoordBits
	rectBits = 1<<(rectYBit+NocCoordBits) - 1<<rectXBit
)

// Limits of a rectangle's address.
const (
	maxRectOffset = 1<<32 - 1           // largest offset, in bytes: tt-metal's NocMulticastCommandHeader has 32 bits
	maxRectSide   = 1<<NocCoordBits - 1 // largest coordinate
)

// NewNocRect returns the address of a rectangle of tiles, for a NoC multicast. The rectangle has
// the tiles from column x0 and row y0 to column x1 and row y1, both included. The address names the
// bytes at the given offset in each of these tiles. NewNocRect returns false if a coordinate is
// above 63, if the rectangle ends before it begins, or if the offset has more than 32 bits.
// NewNocRect also returns false if x0 and y0 are both 0, because the address of such a rectangle
// would look like the address of a tile. Column 0 and row 0 hold no Tensix tile.
func NewNocRect(x0, y0, x1, y1 uint8, offset uint64) (NocAddr, bool) {
	if x1 > maxRectSide || y1 > maxRectSide || x0 > x1 || y0 > y1 || offset > maxRectOffset || x0|y0 == 0 {
		return 0, false
	}
	return NewNocAddr(x1, y1, offset) | NocAddr(x0)<<rectXBit | NocAddr(y0)<<rectYBit, true
}

// IsRect reports whether the address is the address of a rectangle. X and Y of such an address are
// the last column and row.
func (a NocAddr) IsRect() bool { return a&rectBits != 0 }

// First returns the first column and row of a rectangle.
func (a NocAddr) First() (x, y uint8) {
	const mask = 1<<NocCoordBits - 1
	return uint8(a>>rectXBit) & mask, uint8(a>>rectYBit) & mask
}

// rectOK reports whether an address is one that NewNocRect returns.
func (a NocAddr) rectOK() bool {
	x, y := a.First()
	b, ok := NewNocRect(x, y, a.X(), a.Y(), a.Offset())
	return ok && a == b
}

// ForWrite returns the type of the command that writes to address a: [NocMulticastWrite] for a
// rectangle, [NocUnicastWrite] otherwise.
func (a NocAddr) ForWrite() NocSendType {
	if a.IsRect() {
		return NocMulticastWrite
	}
	return NocUnicastWrite
}

// ForInc returns the type of the command that increments the word at address a: [NocMulticastInc] for
// a rectangle, [NocAtomicInc] otherwise.
func (a NocAddr) ForInc() NocSendType {
	if a.IsRect() {
		return NocMulticastInc
	}
	return NocAtomicInc
}

// CheckRect returns [ErrCommand] if the command is a NoC multicast, and its address is not an
// address that [NewNocRect] returns. A packet cannot carry such a command.
func (c *Command) CheckRect() error {
	if (c.Type == NocMulticastWrite || c.Type == NocMulticastInc) && !c.Addr.rectOK() {
		return ErrCommand
	}
	return nil
}

// Offsets of the rectangle in the command union of a NoC multicast, in bytes: first column, first
// row, number of columns, number of rows, one byte each.
const (
	rectOfWrite = 4
	rectOfInc   = 8
)

// decodeRect reads the command union of a NoC multicast. The error is [ErrCommand].
func decodeRect(c Command, b []byte) (Command, error) {
	le := binary.LittleEndian
	r := b[rectOfWrite:]
	if c.Type == NocMulticastInc {
		c.Value, r = le.Uint32(b[4:]), b[rectOfInc:]
	}
	if r[2] == 0 || r[3] == 0 || r[2] > maxRectSide || r[3] > maxRectSide || r[0] > maxRectSide || r[1] > maxRectSide {
		return Command{}, ErrCommand
	}
	var ok bool
	if c.Addr, ok = NewNocRect(r[0], r[1], r[0]+r[2]-1, r[1]+r[3]-1, uint64(le.Uint32(b))); !ok {
		return Command{}, ErrCommand
	}
	return c, nil
}

// putRect writes the command union of a NoC multicast. If the command does not pass CheckRect,
// putRect writes zeros, which readers refuse.
func (c *Command) putRect(b []byte) {
	if c.CheckRect() != nil {
		return
	}
	le := binary.LittleEndian
	le.PutUint32(b, uint32(c.Addr.Offset()))
	r := b[rectOfWrite:]
	if c.Type == NocMulticastInc {
		le.PutUint32(b[4:], c.Value)
		r = b[rectOfInc:]
	}
	x, y := c.Addr.First()
	r[0], r[1], r[2], r[3] = x, y, c.Addr.X()-x+1, c.Addr.Y()-y+1
}
