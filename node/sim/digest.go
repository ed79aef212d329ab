package sim

import (
	"hash/crc32"
	"math/bits"
)

// digest is a hash of everything that happened in a run. It is none against
// those who mean harm, but each word of it changes all that comes after.
type digest uint64

// golden is 2^64 divided by the golden ratio, odd: a multiplier under which no two words become one.
const golden = 0x9e3779b97f4a7c15

// word adds a number.
func (d *digest) word(v uint64) { *d = digest(bits.RotateLeft64((uint64(*d)^v)*golden, 29)) }

// bytes adds a datagram, by its length and a checksum: a byte at a time costs
// more than what a chip does with it. The checksum is another than the frames
// have themselves, under which a whole frame may say nothing about what is in it.
func (d *digest) bytes(b []byte) { d.word(uint64(len(b))<<32 | uint64(crc32.ChecksumIEEE(b))) }
