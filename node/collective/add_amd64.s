#include "textflag.h"

// func addFloats(d, g, w []float32)
//
// All elements take their operands in the same order, so that the bits of a sum of two values that are not numbers
// do not depend on the element's place.
TEXT ·addFloats(SB), NOSPLIT, $0-72
	MOVQ d_base+0(FP), DI
	MOVQ d_len+8(FP), CX
	MOVQ g_base+24(FP), SI
	MOVQ w_base+48(FP), DX

sixteen:
	CMPQ   CX, $16
	JLT    one
	MOVUPS 0(SI), X0
	MOVUPS 16(SI), X1
	MOVUPS 32(SI), X2
	MOVUPS 48(SI), X3
	MOVUPS 0(DX), X4
	MOVUPS 16(DX), X5
	MOVUPS 32(DX), X6
	MOVUPS 48(DX), X7
	ADDPS  X4, X0
	ADDPS  X5, X1
	ADDPS  X6, X2
	ADDPS  X7, X3
	MOVUPS X0, 0(DI)
	MOVUPS X1, 16(DI)
	MOVUPS X2, 32(DI)
	MOVUPS X3, 48(DI)
	ADDQ   $64, SI
	ADDQ   $64, DX
	ADDQ   $64, DI
	SUBQ   $16, CX
	JMP    sixteen

one:
	TESTQ CX, CX
	JE    done
	MOVSS (SI), X0
	MOVSS (DX), X4
	ADDSS X4, X0
	MOVSS X0, (DI)
	ADDQ  $4, SI
	ADDQ  $4, DX
	ADDQ  $4, DI
	DECQ  CX
	JMP   one

done:
	RET
