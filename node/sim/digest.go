package sim

import (
	"hash/crc32"
	"math/bits"
)

// digest is a hash of all events of a run. Two runs with different events almost certainly have
// different hashes. The hash is not cryptographic.
type digest uint64

// golden is 2^64 divided by the golden ratio. Because golden is odd, products of golden and
// different words are different.
const golden = 0x9e3779b97f4a7c15

// word adds a number to the hash.
func (d *digest) word(v uint64) { *d = digest(bits.RotateLeft64((uint64(*d)^v)*golden, 29)) }

// bytes adds the length and a checksum of a datagram. Adding every byte would take longer than the
// chip takes to handle the datagram. The checksum must not be CRC-32C. A frame ends with its own
// CRC-32C, and the CRC-32C of a whole frame, with its CRC-32C at the end, is always the same
// number.
func (d *digest) bytes(b []byte) { d.word(uint64(len(b))<<32 | uint64(crc32.ChecksumIEEE(b))) }

// note adds numbers and the present time to the hash of the run.
func (s *Sim) note(vs ...uint64) {
	for _, v := range vs {
		s.hash.word(v)
	}
	s.hash.word(uint64(s.now))
}
