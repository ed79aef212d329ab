// Package castagnoli computes CRC-32C (RFC 3720 §B.4), the checksum of every frame, as fast as the
// processor allows. Processors with AVX-512 and VPCLMULQDQ can do carry-less multiplications of 64
// bytes at a time. On these processors, the package folds long inputs with carry-less
// multiplications. In all other cases the package uses the standard library, which handles eight
// bytes at a time.
package castagnoli

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// foldFrom is the length of the shortest input that is folded: 256 bytes. The standard library
// handles shorter inputs.
const foldFrom = blocks * block

// Checksum returns the CRC-32C of b.
func Checksum(b []byte) uint32 {
	if !folds || len(b) < foldFrom {
		return crc32.Checksum(b, table)
	}
	return ^fold(^uint32(0), &b[0], len(b), &by)
}

// Sizes for fold, in bytes except for blocks. The main loop of fold works on "blocks" blocks side
// by side. After the main loop, fold folds these blocks into one block, and the first three
// quarters of this block into the last quarter.
const (
	block   = 64
	blocks  = 4
	quarter = block / 4
)

// factor holds the multipliers for 16 bytes of input, one for each half. A multiplication by the
// two multipliers moves the 16 bytes a certain distance towards the end of the input, and preserves
// the remainder.
type factor struct{ first, second uint64 }

// factors holds the multipliers for all distances that fold needs.
type factors struct {
	blocks, block factor
	quarters      [4]factor // the last is zero, because the last quarter is already in place
}

// The function "over" returns the factor for a distance of n bytes. CRC-32C treats the input as a
// polynomial, with the highest power in the lowest bit of the first byte. The first half of 16
// bytes stands 64 powers higher than the second half. In both calls of power, the exponent has the
// term -1, because the product of two bit-reversed polynomials comes out shifted by one power.
func over(n int) factor { return factor{power(8*n + 64 - 1), power(8*n - 1)} }

// power returns x to the power n, modulo the polynomial of CRC-32C. The result is bit-reversed in
// 64 bits. n is at least 0.
func power(n int) uint64 {
	r := uint32(1) << 31 // x to the power 0, bit-reversed
	for range n {
		low := r & 1
		if r >>= 1; low != 0 {
			r ^= crc32.Castagnoli
		}
	}
	return uint64(r) << 32
}
