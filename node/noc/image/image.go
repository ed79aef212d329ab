// Package image reads and writes memory images. A memory image is a file with the content of the tiles of
// one chip. The file has only the memory that is in use. 'ttfabric mem save' writes such a file.
//
// # Format
//
// All numbers are little-endian. The file begins with a head of 32 bytes:
//
//	offset  bytes  content
//	0       6      the letters TTFMEM
//	6       2      version of the format: 1
//	8       1      architecture: 1 Wormhole, 2 Blackhole
//	9       3      0
//	12      2      mesh of the chip
//	14      2      number of the chip in the mesh
//	16      8      incarnation of the chip
//	24      4      0
//	28      4      CRC-32C of the bytes 0 to 27
//
// Blocks follow. Each block holds bytes of one tile, within one page of 32 KiB:
//
//	0       1      x of the tile, in coordinates of NoC 0
//	1       1      y of the tile
//	2       2      0
//	4       4      length n of the content, in bytes: 1 to 32768
//	8       8      offset of the content in the tile
//	16      n      content
//	16+n    4      CRC-32C of the bytes 0 to 15+n
//
// The last block has the length 0, the coordinates 255 and 255, and in place of the offset the number of the
// blocks before it. The file ends with the CRC-32C of this block. Bytes of memory that no block holds are zero.
//
// The image has the memory of Tensix and DRAM tiles, and the memory of ethernet tiles from 0x18300 on. The
// memory of ethernet tiles below this offset belongs to the base firmware. Registers are not in the image.
package image

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"ttfabric/wire"
	"ttfabric/wire/castagnoli"
)

// The format.
const (
	Version  = 1        // version of the format
	MaxBlock = 32 << 10 // largest content of a block, in bytes: a page
	headLen  = 32
	blockLen = 16 // a block without content and CRC
	crcLen   = 4
	endCoord = 0xFF // coordinates of the last block
)

var magic = []byte("TTFMEM")

// Head says whose memory an image holds.
type Head struct {
	Arch        wire.Arch         // architecture of the chip
	Chip        wire.FabricNodeID // chip that wrote the image; an image can go to another chip
	Incarnation wire.Incarnation  // incarnation of this chip
}

// Sum says how much an image holds.
type Sum struct {
	Blocks uint64 `json:"blocks"` // number of blocks
	Bytes  uint64 `json:"bytes"`  // bytes of memory in the blocks
}

// Writer writes an image.
type Writer struct {
	w   *bufio.Writer
	sum Sum
	buf []byte
}

// NewWriter writes the head of an image to w.
func NewWriter(w io.Writer, h *Head) (*Writer, error) {
	x := &Writer{w: bufio.NewWriterSize(w, 1<<20)}
	b := append([]byte{}, magic...)
	b = binary.LittleEndian.AppendUint16(b, Version)
	b = append(b, byte(h.Arch), 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(h.Chip.Mesh))
	b = binary.LittleEndian.AppendUint16(b, uint16(h.Chip.Chip))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.Incarnation))
	b = append(b, 0, 0, 0, 0)
	_, err := x.w.Write(binary.LittleEndian.AppendUint32(b, castagnoli.Checksum(b)))
	return x, err
}

// Put writes bytes of a tile, without the zeros at both ends. The bytes must lie in one page of 32 KiB. Put
// writes nothing if all bytes are zero.
func (x *Writer) Put(tileX, tileY uint8, off uint64, b []byte) error {
	b = bytes.TrimRight(b, "\x00")
	n := len(b)
	b = bytes.TrimLeft(b, "\x00")
	if len(b) == 0 {
		return nil
	}
	x.sum.Blocks++
	x.sum.Bytes += uint64(len(b))
	return x.block(tileX, tileY, off+uint64(n-len(b)), b)
}

func (x *Writer) block(tileX, tileY uint8, off uint64, b []byte) error {
	x.buf = append(x.buf[:0], tileX, tileY, 0, 0)
	x.buf = binary.LittleEndian.AppendUint32(x.buf, uint32(len(b)))
	x.buf = binary.LittleEndian.AppendUint64(x.buf, off)
	x.buf = append(x.buf, b...)
	_, err := x.w.Write(binary.LittleEndian.AppendUint32(x.buf, castagnoli.Checksum(x.buf)))
	return err
}

// End writes the last block. An image without the last block is incomplete.
func (x *Writer) End() (Sum, error) {
	err := x.block(endCoord, endCoord, x.sum.Blocks, nil)
	return x.sum, errors.Join(err, x.w.Flush())
}

// ErrFormat is the error of an image that is damaged, or of a file that is no image.
var ErrFormat = errors.New("the file is no memory image, or is damaged")

func bad(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFormat}, a...)...)
}

// Read reads an image to its end. Read calls the function "head" with the head, and then the function "put"
// for each block. The content is valid only during the call. If a function returns an error, Read returns
// this error. For a file that is cut short, damaged or no image, the error is [ErrFormat]. Read finds a
// damage only when it reaches the damage, and by then it has called "put" for earlier blocks. Read uses about
// 1 MiB of memory.
func Read(r io.Reader, head func(*Head) error, put func(x, y uint8, off uint64, b []byte) error) (Sum, error) {
	var sum Sum
	in := bufio.NewReaderSize(r, 1<<20)
	buf := make([]byte, blockLen+MaxBlock+crcLen)
	h, err := readHead(in, buf[:headLen])
	if err == nil {
		err = head(h)
	}
	if err != nil {
		return sum, err
	}
	for {
		if err := fill(in, buf[:blockLen]); err != nil {
			return sum, err
		}
		n := int64(binary.LittleEndian.Uint32(buf[4:]))
		if n > MaxBlock {
			return sum, bad("block %d has %d bytes: want at most %d", sum.Blocks, n, MaxBlock)
		}
		b := buf[:blockLen+n+crcLen]
		if err := fill(in, b[blockLen:]); err != nil {
			return sum, err
		}
		off := binary.LittleEndian.Uint64(b[8:])
		end := n == 0 && b[0] == endCoord && b[1] == endCoord
		switch {
		case binary.LittleEndian.Uint32(b[blockLen+n:]) != castagnoli.Checksum(b[:blockLen+n]):
			return sum, bad("the checksum of block %d is wrong", sum.Blocks)
		case b[2] != 0 || b[3] != 0 || n == 0 && !end:
			return sum, bad("block %d has unknown fields", sum.Blocks)
		case end && off != sum.Blocks:
			return sum, bad("the last block counts %d blocks, and the file has %d", off, sum.Blocks)
		case end:
			if _, err := in.ReadByte(); err != io.EOF {
				if err == nil {
					err = bad("bytes follow the last block")
				}
				return sum, err
			}
			return sum, nil
		}
		if err := put(b[0], b[1], off, b[blockLen:blockLen+n]); err != nil {
			return sum, err
		}
		sum.Blocks++
		sum.Bytes += uint64(n)
	}
}

func readHead(in io.Reader, b []byte) (*Head, error) {
	switch err := fill(in, b); {
	case err != nil:
		return nil, err
	case !bytes.HasPrefix(b, magic):
		return nil, bad("the file does not begin with %s", magic)
	case binary.LittleEndian.Uint16(b[6:]) != Version:
		return nil, bad("version %d of the format: want %d", binary.LittleEndian.Uint16(b[6:]), Version)
	case binary.LittleEndian.Uint32(b[headLen-crcLen:]) != castagnoli.Checksum(b[:headLen-crcLen]):
		return nil, bad("the checksum of the head is wrong")
	}
	return &Head{Arch: wire.Arch(b[8]), Incarnation: wire.Incarnation(binary.LittleEndian.Uint64(b[16:])),
		Chip: wire.FabricNodeID{Mesh: wire.MeshID(binary.LittleEndian.Uint16(b[12:])), Chip: wire.ChipID(binary.LittleEndian.Uint16(b[14:]))}}, nil
}

// fill reads len(b) bytes.
func fill(in io.Reader, b []byte) error {
	_, err := io.ReadFull(in, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("the file is cut short")
	}
	return err
}

// Copy copies an image from r to w, and checks the image on the way.
func Copy(w io.Writer, r io.Reader) (Sum, error) {
	return Read(io.TeeReader(r, w), func(*Head) error { return nil }, func(uint8, uint8, uint64, []byte) error { return nil })
}
