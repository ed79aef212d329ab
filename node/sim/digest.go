package sim

import (
	"hash/crc32"
	"math/bits"
)

// digest is a hash of all events of a run. The hash does not protect against an attacker. Each word
// of the input changes all later values of the hash.
type digest uint64

// golden is 2^64 divided by the golden ratio. Because golden is odd, no two words become equal when
// multiplied by golden.
const golden = 0x9e3779b97f4a7c15

// word adds a number to the hash.
func (d *digest) word(v uint64) { *d = digest(bits.RotateLeft64((uint64(*d)^v)*golden, 29)) }

// bytes adds a datagram by its length and a checksum. To add single bytes would cost more than all
// work that a chip does with the datagram. A frame ends with a checksum of its own, a CRC-32C. The
// CRC-32C of such a whole frame is the same number for every content. For that reason bytes uses
// another checksum.
func (d *digest) bytes(b []byte) { d.word(uint64(len(b))<<32 | uint64(crc32.ChecksumIEEE(b))) }
