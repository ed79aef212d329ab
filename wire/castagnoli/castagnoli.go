// Package castagnoli computes CRC-32C (RFC 3720 §B.4), the checksum of every frame, as fast as the
// processor can. Some processors can multiply 64 bytes at a time without carries (AVX-512 with
// VPCLMULQDQ). On such processors, the package folds long inputs with these multiplications. For
// all other inputs, the package uses the standard library, which handles eight bytes at a time.
package castagnoli

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// The standard library handles inputs of fewer than 256 bytes.
const foldFrom = blocks * block

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 {
	if !folds || len(b) < foldFrom {
		return crc32.Checksum(b, table)
	}
	return ^fold(^uint32(0), &b[0], len(b), &by)
}

// The distances over which fold carries, in bytes: four blocks side by side, each block to the
// next, and the first three quarters of a block to the last quarter.
const (
	block   = 64
	blocks  = 4
	quarter = block / 4
)

// factor holds the factors for the two halves of 16 bytes. A multiplication by these factors
// carries the halves over a distance.
type factor struct{ first, second uint64 }

// factors are the factors that fold needs.
type factors struct {
	blocks, block factor
	quarters      [4]factor // the last factor is zero: the last quarter is already in place
}

// over returns the factor for a distance of n bytes. The bytes are a polynomial whose highest power
// is in the lowest bit. The first eight bytes are 64 powers higher than the others. The product of
// two reversed factors lacks one power.
func over(n int) factor { return factor{power(8*n + 64 - 1), power(8*n - 1)} }

// power returns x to the n modulo the polynomial of CRC-32C, n ≥ 0, reversed in 64 bits.
func power(n int) uint64 {
	r := uint32(1) << 31 // x to the power 0, reversed
	for range n {
		low := r & 1
		if r >>= 1; low != 0 {
			r ^= crc32.Castagnoli
		}
	}
	return uint64(r) << 32
}
