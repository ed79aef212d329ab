package collective

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// Type is the type of the elements of an operation. Elements lie in memory in little-endian order.
type Type uint8

// The types.
const (
	Float32  Type = iota // IEEE 754, 4 bytes
	BFloat16             // the upper half of a Float32, 2 bytes
	Int32                // 4 bytes, two's complement
	Uint8                // 1 byte
	numTypes
)

var typeNames = [numTypes]string{"float", "bfloat16", "int32", "uint8"}

// String returns the name of the type in nccl-tests.
func (t Type) String() string {
	if t >= numTypes {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return typeNames[t]
}

// Size returns the length of an element in bytes. The type must be valid.
func (t Type) Size() int { return [numTypes]int{4, 2, 4, 1}[t] }

// Valid reports whether t is one of the types.
func (t Type) Valid() bool { return t < numTypes }

// ParseType returns the type of a name, in nccl-tests' or tt-metal's form.
func ParseType(name string) (Type, error) {
	switch name {
	case "float32", "fp32":
		return Float32, nil
	case "bf16":
		return BFloat16, nil
	}
	if i := slices.Index(typeNames[:], name); i >= 0 {
		return Type(i), nil
	}
	return 0, fmt.Errorf("%q is no type of elements: want one of %s", name, strings.Join(typeNames[:], ", "))
}

// Op is the arithmetic of a reduction.
type Op uint8

// The operations. Sums and products of integers wrap. Sums and products of BFloat16 are computed as
// Float32, and each result is rounded to the nearest BFloat16, to even. If an element of a minimum or
// maximum is not a number, the result is not a number.
const (
	Sum Op = iota
	Product
	Min
	Max
	numOps
)

var opNames = [numOps]string{"sum", "prod", "min", "max"}

// String returns the name of the operation in nccl-tests.
func (o Op) String() string {
	if o >= numOps {
		return fmt.Sprintf("operation %d", uint8(o))
	}
	return opNames[o]
}

// Valid reports whether o is one of the operations.
func (o Op) Valid() bool { return o < numOps }

// ParseOp returns the operation of a name.
func ParseOp(name string) (Op, error) {
	if i := slices.Index(opNames[:], name); i >= 0 {
		return Op(i), nil
	}
	return 0, fmt.Errorf("%q is no reduction: want one of %s", name, strings.Join(opNames[:], ", "))
}

// Accumulate computes dst = got ∘ own for each element, with the operation ∘. The three slices have the
// same length, a multiple of the element's size. The slice dst may be one of the other two.
func Accumulate(t Type, o Op, dst, got, own []byte) {
	if len(got) != len(dst) || len(own) != len(dst) || len(dst)%t.Size() != 0 {
		panic(fmt.Sprintf("collective: slices of %d, %d and %d bytes with elements of %d bytes", len(dst), len(got), len(own), t.Size()))
	}
	switch t {
	case Float32:
		if d, g, w, ok := words[float32](dst, got, own); ok {
			if o == Sum {
				addFloats(d, g, w)
				return
			}
			vector(o, d, g, w, minFloat, maxFloat)
			return
		}
		each(dst, got, own, 4, func(d, g, w []byte) {
			le := binary.LittleEndian
			le.PutUint32(d, math.Float32bits(one(o, math.Float32frombits(le.Uint32(g)), math.Float32frombits(le.Uint32(w)), minFloat, maxFloat)))
		})
	case Int32:
		if d, g, w, ok := words[int32](dst, got, own); ok {
			vector(o, d, g, w, minInt, maxInt)
			return
		}
		each(dst, got, own, 4, func(d, g, w []byte) {
			le := binary.LittleEndian
			le.PutUint32(d, uint32(one(o, int32(le.Uint32(g)), int32(le.Uint32(w)), minInt, maxInt)))
		})
	case BFloat16:
		each(dst, got, own, 2, func(d, g, w []byte) {
			le := binary.LittleEndian
			r := one(o, widen(le.Uint16(g)), widen(le.Uint16(w)), minFloat, maxFloat)
			le.PutUint16(d, narrow(r))
		})
	case Uint8:
		vector(o, dst, got, own, minByte, maxByte)
	}
}

// words returns the slices as slices of numbers, if the processor is little-endian and the slices are
// aligned.
func words[T float32 | int32](a, b, c []byte) (x, y, z []T, ok bool) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 || len(a) == 0 {
		return nil, nil, nil, false
	}
	p, q, r := unsafe.SliceData(a), unsafe.SliceData(b), unsafe.SliceData(c)
	if (uintptr(unsafe.Pointer(p))|uintptr(unsafe.Pointer(q))|uintptr(unsafe.Pointer(r)))%4 != 0 {
		return nil, nil, nil, false
	}
	view := func(p *byte) []T { return unsafe.Slice((*T)(unsafe.Pointer(p)), len(a)/4) }
	return view(p), view(q), view(r), true
}

// each calls f for each element of n bytes.
func each(dst, got, own []byte, n int, f func(d, g, w []byte)) {
	for i := 0; i < len(dst); i += n {
		f(dst[i:i+n], got[i:i+n], own[i:i+n])
	}
}

type number interface{ float32 | int32 | uint8 }

// vector computes d = g ∘ w for each element. Each operation has a loop of its own, without calls.
func vector[T number](o Op, d, g, w []T, low, high func(a, b T) T) {
	g, w = g[:len(d)], w[:len(d)]
	switch o {
	case Sum:
		for i := range d {
			d[i] = g[i] + w[i]
		}
	case Product:
		for i := range d {
			d[i] = g[i] * w[i]
		}
	default:
		for i := range d {
			d[i] = one(o, g[i], w[i], low, high)
		}
	}
}

// one returns a ∘ b.
func one[T number](o Op, a, b T, low, high func(a, b T) T) T {
	switch o {
	case Sum:
		return a + b
	case Product:
		return a * b
	case Min:
		return low(a, b)
	}
	return high(a, b)
}

func minFloat(a, b float32) float32 { return min(a, b) }
func maxFloat(a, b float32) float32 { return max(a, b) }
func minInt(a, b int32) int32       { return min(a, b) }
func maxInt(a, b int32) int32       { return max(a, b) }
func minByte(a, b uint8) uint8      { return min(a, b) }
func maxByte(a, b uint8) uint8      { return max(a, b) }

// widen returns a BFloat16 as Float32, without loss.
func widen(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// narrow rounds a Float32 to the nearest BFloat16, to even.
func narrow(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7FFFFFFF > 0x7F800000 {
		return uint16(bits>>16) | 0x40 // not a number stays so, although the rounding drops bits
	}
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}
