package traffic

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Packet is one packet of a run.
type Packet struct {
	Src    wire.FabricNodeID
	Dst    wire.FabricNodeID
	Plane  wire.Plane
	Other  bool         // the packet takes the other direction round a ring
	Number uint64       // number of the packet among the pair's packets on this plane and direction, from 0
	Addr   wire.NocAddr // address in Dst's memory
	Came   mono.Time    // when the packet arrived at its source's queue; set only if the spec has a load
	flow   int          // index into Generator.flows
}

// A packet begins with a header, which determines all bytes after the header. Integers are
// little-endian. The table shows offset, length and content of each field, in bytes:
//
//	 0  2  magic "TF"
//	 2  2  length of the packet
//	 4  4  source: mesh (2), chip (2)
//	 8  4  destination: mesh (2), chip (2)
//	12  8  run
//	20  6  number
//	26  1  plane
//	27  1  1 for the other direction round a ring, else 0
//	28  4  CRC-32C of the header before this field
//
// The other bytes are the exclusive-or of pieces of two fixed tables of random bytes. The header and
// the run determine the two offsets of these pieces.
const (
	offMagic  = 0
	offLength = 2
	offSrc    = 4
	offDst    = 8
	offRun    = 12
	offNumber = 20
	offPlane  = 26
	offOther  = 27
	offCRC    = 28
	headerLen = 32
)

// magic begins every traffic packet.
const magic = 'T' | 'F'<<8

// fill writes the packet's bytes into b. The length of b is the packet's length.
func (p *Packet) fill(run uint64, b []byte) {
	le := binary.LittleEndian
	le.PutUint16(b[offMagic:], magic)
	le.PutUint16(b[offLength:], uint16(len(b)))
	le.PutUint16(b[offSrc:], uint16(p.Src.Mesh))
	le.PutUint16(b[offSrc+2:], uint16(p.Src.Chip))
	le.PutUint16(b[offDst:], uint16(p.Dst.Mesh))
	le.PutUint16(b[offDst+2:], uint16(p.Dst.Chip))
	le.PutUint64(b[offRun:], run)
	le.PutUint64(b[offNumber:], p.Number&(1<<48-1)) // also writes zeros into the bytes of plane and direction
	b[offPlane] = byte(p.Plane)
	if p.Other {
		b[offOther] = 1
	}
	crc := wire.Checksum(b[:offCRC])
	le.PutUint32(b[offCRC:], crc)
	x := mix(run ^ mix(uint64(crc)<<32|p.Number&0xFFFFFFFF))
	body := b[headerLen:]
	subtle.XORBytes(body, tables[0][x%MaxSize:][:len(body)], tables[1][x>>32%MaxSize:][:len(body)])
}

// tables are two tables of random bytes. A piece of MaxSize bytes fits at each offset below MaxSize.
var tables = [2][2 * MaxSize]byte{randomBytes(1), randomBytes(2)}

func randomBytes(x uint64) (t [2 * MaxSize]byte) {
	for i := 0; i < len(t); i += 8 {
		x += step
		binary.LittleEndian.PutUint64(t[i:], mix(x))
	}
	return t
}

// step is the increment of the counter in SplitMix64 (Steele, Lea, Flood 2014). For each output,
// SplitMix64 adds step to the counter and mixes the counter.
const step = 0x9E3779B97F4A7C15

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// parse reads a packet's header. The packet is intact if every byte is the byte that [Packet.fill]
// writes. The argument buf is working space of MaxSize bytes.
func parse(b, buf []byte) (p Packet, run uint64, intact bool) {
	le := binary.LittleEndian
	if len(b) < headerLen || len(b) > len(buf) || le.Uint16(b[offMagic:]) != magic {
		return Packet{}, 0, false
	}
	p = Packet{
		Src:    wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b[offSrc:])), Chip: wire.ChipID(le.Uint16(b[offSrc+2:]))},
		Dst:    wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b[offDst:])), Chip: wire.ChipID(le.Uint16(b[offDst+2:]))},
		Plane:  wire.Plane(b[offPlane]),
		Other:  b[offOther] != 0,
		Number: le.Uint64(b[offNumber:]) & (1<<48 - 1),
	}
	run = le.Uint64(b[offRun:])
	want := buf[:len(b)]
	p.fill(run, want)
	return p, run, bytes.Equal(b, want)
}
