package castagnoli

import "golang.org/x/sys/cpu"

// folds is true if this processor has the instructions that fold needs.
var folds = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// The variable "by" holds the factors that every call of fold gets.
var by = factors{over(blocks * block), over(block), [4]factor{over(3 * quarter), over(2 * quarter), over(quarter)}}

// fold returns the CRC register after the n bytes from p on. The parameter "register" is the CRC
// register before these bytes. n is at least blocks × block.
//
//go:noescape
func fold(register uint32, p *byte, n int, by *factors) uint32
