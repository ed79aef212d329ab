package tensor

import (
	"fmt"
	"slices"
	"strings"
)

// Type is the type of a tensor's elements. All elements are little-endian.
type Type uint8

// The types.
const (
	Float32 Type = iota
	BFloat16
	Int32
	Uint8
	Uint16
	Uint32
	numTypes
)

var typeNames = [numTypes]string{"float32", "bfloat16", "int32", "uint8", "uint16", "uint32"}

// String returns the name of the type, such as "bfloat16".
func (t Type) String() string {
	if t >= numTypes {
		return fmt.Sprintf("element type %d", t)
	}
	return typeNames[t]
}

// Size returns the bytes of an element: 1, 2 or 4. Size of an unknown type is 0.
func (t Type) Size() int {
	if t >= numTypes {
		return 0
	}
	return [numTypes]int{4, 2, 4, 1, 2, 4}[t]
}

// ParseType returns the type with a name.
func ParseType(name string) (Type, error) {
	if i := slices.Index(typeNames[:], name); i >= 0 {
		return Type(i), nil
	}
	return 0, fmt.Errorf("element type %q: want one of %s", name, strings.Join(typeNames[:], ", "))
}

// Limits.
const (
	MaxDims  = 8       // dimensions of a shape
	MaxBanks = 140     // banks of a tensor on one chip: the Tensix tiles of a Blackhole chip
	MaxBytes = 1 << 32 // bytes of a tensor on one chip, with padding
)

// Shape is the sizes of a tensor's dimensions. The last dimension is the width, and the dimension before it is the
// height. A shape without dimensions has one element.
type Shape []int

// Elements returns the number of elements.
func (s Shape) Elements() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// check refuses a shape with too many dimensions, an empty dimension, or too many elements.
func (s Shape) check() error {
	if len(s) > MaxDims {
		return fmt.Errorf("a shape of %d dimensions: want at most %d", len(s), MaxDims)
	}
	n := 1
	for i, d := range s {
		if d < 1 {
			return fmt.Errorf("shape %d: dimension %d has %d elements; want at least 1", []int(s), i, d)
		}
		if d > MaxBytes/n {
			return fmt.Errorf("shape %d has more than %d elements; cut the tensor into smaller ones", []int(s), MaxBytes)
		}
		n *= d
	}
	return nil
}

// width returns the size of the last dimension.
func (s Shape) width() int {
	if len(s) == 0 {
		return 1
	}
	return s[len(s)-1]
}

// height returns the size of the dimension before the last.
func (s Shape) height() int {
	if len(s) < 2 {
		return 1
	}
	return s[len(s)-2]
}

// rows returns the number of rows: the product of all dimensions but the last.
func (s Shape) rows() int { return s.Elements() / s.width() }

// with returns the shape with another size of a dimension.
func (s Shape) with(dim, size int) Shape {
	s = slices.Clone(s)
	s[dim] = size
	return s
}

// checkDim refuses a dimension that the shape lacks.
func (s Shape) checkDim(dim int) error {
	if dim < 0 || dim >= len(s) {
		return fmt.Errorf("dimension %d of shape %d: want 0 to %d", dim, []int(s), len(s)-1)
	}
	return nil
}
