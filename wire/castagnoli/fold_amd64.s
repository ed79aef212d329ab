#include "textflag.h"

// FOLD multiplies the quarters of z by the factors in k, and adds "to" to the product.
#define FOLD(k, z, tmp, to) \
	VPCLMULQDQ $0x00, k, z, tmp; \
	VPCLMULQDQ $0x11, k, z, z;   \
	VPTERNLOGQ $0x96, to, tmp, z

// func fold(register uint32, p *byte, n int, by *factors) uint32
TEXT ·fold(SB), NOSPLIT, $0-36
	MOVL register+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ by+24(FP), BX

	VBROADCASTI32X4 (BX), Z8
	VBROADCASTI32X4 16(BX), Z9
	VMOVDQU64       32(BX), Z10

	// Add the CRC register to the first four bytes of the input.
	VMOVD     AX, X4
	VPXORQ    (SI), Z4, Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	ADDQ      $256, SI
	SUBQ      $256, CX

four:
	CMPQ CX, $256
	JLT  merge
	FOLD(Z8, Z0, Z4, (SI))
	FOLD(Z8, Z1, Z5, 64(SI))
	FOLD(Z8, Z2, Z6, 128(SI))
	FOLD(Z8, Z3, Z7, 192(SI))
	ADDQ $256, SI
	SUBQ $256, CX
	JMP  four

merge:
	FOLD(Z9, Z0, Z4, Z1)
	FOLD(Z9, Z0, Z4, Z2)
	FOLD(Z9, Z0, Z4, Z3)

one:
	CMPQ CX, $64
	JLT  quarters
	FOLD(Z9, Z0, Z4, (SI))
	ADDQ $64, SI
	SUBQ $64, CX
	JMP  one

quarters:
	VPCLMULQDQ    $0x00, Z10, Z0, Z4
	VPCLMULQDQ    $0x11, Z10, Z0, Z5
	VPXORQ        Z5, Z4, Z4
	VEXTRACTI32X4 $3, Z0, X6
	VEXTRACTI64X4 $1, Z4, Y5
	VPXOR         Y5, Y4, Y4
	VEXTRACTI128  $1, Y4, X5
	VPXOR         X5, X4, X4
	VPXOR         X6, X4, X4

	// The last quarter now has the same remainder as all folded input. The CRC-32C of its 16 bytes
	// is the CRC of that input.
	VMOVQ   X4, DX
	VPEXTRQ $1, X4, R8
	VZEROUPPER
	XORL    AX, AX
	CRC32Q  DX, AX
	CRC32Q  R8, AX

eight:
	CMPQ   CX, $8
	JLT    bytes
	CRC32Q (SI), AX
	ADDQ   $8, SI
	SUBQ   $8, CX
	JMP    eight

bytes:
	TESTQ  CX, CX
	JLE    done
	CRC32B (SI), AX
	INCQ   SI
	DECQ   CX
	JMP    bytes

done:
	MOVL AX, ret+32(FP)
	RET
