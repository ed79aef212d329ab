package tensor

import (
	"bytes"
	"fmt"
	"slices"
)

// Mesh is the size of a mesh of chips. Chip i is at row i / Cols and column i % Cols.
type Mesh struct{ Rows, Cols int }

// Axis names the chips that take part in an operation together.
type Axis uint8

// The axes.
const (
	Column Axis = iota // the chips of each column; their rows differ
	Row                // the chips of each row; their columns differ
	numAxes
)

// String returns the name of the axis.
func (a Axis) String() string {
	if a >= numAxes {
		return fmt.Sprintf("axis %d", a)
	}
	return [numAxes]string{"column", "row"}[a]
}

// size returns the number of chips along an axis.
func (m Mesh) size(a Axis) int {
	if a == Column {
		return m.Rows
	}
	return m.Cols
}

// Groups returns the chips of each row or of each column, in order.
func (m Mesh) Groups(a Axis) [][]int {
	groups := make([][]int, m.Rows*m.Cols/m.size(a))
	for i := range m.Rows * m.Cols {
		g := i / m.Cols
		if a == Column {
			g = i % m.Cols
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// Placement says what the chips along one axis of a mesh hold: a value of 0 or more is the dimension along which the
// chips share the tensor.
type Placement int

// The placements without a dimension.
const (
	Replicated Placement = -1 // each chip holds the same elements
	Partial    Placement = -2 // each chip holds a term; the tensor is the reduction of the terms
)

// String returns the placement in words.
func (p Placement) String() string {
	switch {
	case p == Replicated:
		return "replicated"
	case p >= 0:
		return fmt.Sprintf("sharded along dimension %d", int(p))
	}
	return "partial"
}

// MeshTensor is a logical tensor on a mesh of chips (CCL guide, "Calling Multichip Ops From Host (TTNN)").
type MeshTensor struct {
	Mesh  Mesh
	Shape Shape        // of the logical tensor
	Place [2]Placement // by [Axis]
	Parts []*Tensor    // by chip
}

// Mover runs an exchange on one group of chips, on a fabric or elsewhere. The values in and out are the packed parts
// of each chip of the group. The Mover chooses the reduction: sum, minimum, maximum or product.
type Mover func(x *Exchange, group []int, in [][]byte) (out [][]byte, err error)

// part returns the shape of a chip's part.
func (m Mesh) part(s Shape, place [2]Placement) (Shape, error) {
	if m.Rows < 1 || m.Cols < 1 || m.Rows > MaxRanks || m.Cols > MaxRanks {
		return nil, fmt.Errorf("a mesh of %d x %d chips: want 1 to %d rows and columns", m.Rows, m.Cols, MaxRanks)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	for a, p := range place {
		if p < Partial {
			return nil, fmt.Errorf("placement %d is unknown", int(p))
		}
		if p < 0 {
			continue
		}
		if err := s.checkDim(int(p)); err != nil {
			return nil, err
		}
		n := m.size(Axis(a))
		if s[p]%n != 0 {
			return nil, fmt.Errorf("dimension %d has %d elements, which the %d chips of a %s cannot share equally; pad the tensor", int(p), s[p], n, Axis(a))
		}
		s = s.with(int(p), s[p]/n)
	}
	return s, nil
}

// at returns the first element of a chip's part.
func (m *MeshTensor) at(chip int) []int {
	at := make([]int, len(m.Shape))
	part := m.Parts[chip].Shape
	r, c := chip/m.Mesh.Cols, chip%m.Mesh.Cols
	switch rows, cols := m.Place[Column], m.Place[Row]; {
	case rows >= 0 && rows == cols:
		at[rows] = (r*m.Mesh.Cols + c) * part[rows]
	default:
		if rows >= 0 {
			at[rows] = r * part[rows]
		}
		if cols >= 0 {
			at[cols] = c * part[cols]
		}
	}
	return at
}

// Distribute makes a mesh tensor out of elements, which have the order of their indexes. If both axes share the same
// dimension, the rows of the mesh share it first.
func Distribute(m Mesh, s Spec, place [2]Placement, elements []byte) (*MeshTensor, error) {
	if place[0] == Partial || place[1] == Partial {
		return nil, fmt.Errorf("elements have no terms: want %s or a dimension; use FromParts for terms", Replicated)
	}
	shape, err := m.part(s.Shape, place)
	if err != nil {
		return nil, err
	}
	plain := s.Stream()
	plain.Layout = RowMajor
	whole, err := FromElements(plain, elements)
	if err != nil {
		return nil, err
	}
	t := &MeshTensor{Mesh: m, Shape: s.Shape, Place: place}
	for chip := range m.Rows * m.Cols {
		part, err := New(s.with(shape))
		if err != nil {
			return nil, err
		}
		t.Parts = append(t.Parts, part)
		w, err := NewWindow(plain, part.Spec, t.at(chip), make([]int, len(shape)), shape)
		if err != nil {
			return nil, err
		}
		w.Copy(whole, part)
	}
	return t, nil
}

// FromParts makes a mesh tensor out of the tensors of all chips, which have one description.
func FromParts(m Mesh, place [2]Placement, parts []*Tensor) (*MeshTensor, error) {
	if len(parts) == 0 || len(parts) != m.Rows*m.Cols {
		return nil, fmt.Errorf("%d tensors for a mesh of %d x %d chips", len(parts), m.Rows, m.Cols)
	}
	shape := slices.Clone(parts[0].Shape)
	for a, p := range place {
		if p >= 0 {
			if err := shape.checkDim(int(p)); err != nil {
				return nil, err
			}
			shape[p] *= m.size(Axis(a))
		}
	}
	if _, err := m.part(shape, place); err != nil {
		return nil, err
	}
	for i, p := range parts {
		if a, b := p.Spec, parts[0].Spec; a.Type != b.Type || a.Memory != b.Memory || !slices.Equal(a.Shape, b.Shape) {
			return nil, fmt.Errorf("the tensors at row %d, column %d and at row 0, column 0 differ in type, shape or memory", i/m.Cols, i%m.Cols)
		}
	}
	return &MeshTensor{m, shape, place, parts}, nil
}

// Elements returns the elements of the logical tensor. Elements refuses partial tensors, and copies that differ.
func (t *MeshTensor) Elements() ([]byte, error) {
	spec := t.Parts[0].with(t.Shape)
	plain := spec.Stream()
	plain.Layout = RowMajor
	whole, err := New(plain)
	if err != nil {
		return nil, err
	}
	first := map[string]int{}
	for chip, p := range t.Parts {
		at := t.at(chip)
		if t.Place[0] == Partial || t.Place[1] == Partial {
			return nil, fmt.Errorf("the tensor is partial: reduce it first")
		}
		key := fmt.Sprint(at)
		if other, seen := first[key]; seen {
			if !bytes.Equal(p.Elements(), t.Parts[other].Elements()) {
				return nil, fmt.Errorf("the copies at row %d, column %d and at row %d, column %d differ", other/t.Mesh.Cols, other%t.Mesh.Cols, chip/t.Mesh.Cols, chip%t.Mesh.Cols)
			}
			continue
		}
		first[key] = chip
		w, err := NewWindow(p.Spec, plain, make([]int, len(at)), at, p.Shape)
		if err != nil {
			return nil, err
		}
		w.Copy(p, whole)
	}
	return whole.Elements(), nil
}

// AllGather gathers the shards of each row, or of each column. The result is replicated along the axis, and has the
// memory m.
func (t *MeshTensor) AllGather(a Axis, m Memory, move Mover) (*MeshTensor, error) {
	if a >= numAxes || t.Place[a] < 0 {
		return nil, fmt.Errorf("all-gather of each %s: the tensor is not sharded there", a)
	}
	if a == Column && t.Place[Row] == t.Place[Column] {
		return nil, fmt.Errorf("all-gather of each column: the rows share dimension %d too; gather the rows first", int(t.Place[a]))
	}
	return t.run(AllGather, a, int(t.Place[a]), Replicated, m, move)
}

// AllReduce reduces the terms of each row, or of each column. The result is replicated along the axis.
func (t *MeshTensor) AllReduce(a Axis, m Memory, move Mover) (*MeshTensor, error) {
	if a >= numAxes || t.Place[a] != Partial {
		return nil, fmt.Errorf("all-reduce of each %s: the tensor has no terms there", a)
	}
	return t.run(AllReduce, a, 0, Replicated, m, move)
}

// ReduceScatter reduces the terms of each row, or of each column. The result is sharded along a dimension of the
// tensor.
func (t *MeshTensor) ReduceScatter(a Axis, dim int, m Memory, move Mover) (*MeshTensor, error) {
	if a >= numAxes || t.Place[a] != Partial {
		return nil, fmt.Errorf("reduce-scatter of each %s: the tensor has no terms there", a)
	}
	if a == Column && t.Place[Row] == Placement(dim) {
		return nil, fmt.Errorf("reduce-scatter of each column along dimension %d, which the rows share already: choose another dimension", dim)
	}
	return t.run(ReduceScatter, a, dim, Placement(dim), m, move)
}

// run runs an exchange on each group of an axis.
func (t *MeshTensor) run(op Operation, a Axis, dim int, after Placement, m Memory, move Mover) (*MeshTensor, error) {
	x, err := NewExchange(op, t.Parts[0].Spec, dim, t.Mesh.size(a), m)
	if err != nil {
		return nil, err
	}
	out := &MeshTensor{t.Mesh, t.Shape, t.Place, make([]*Tensor, len(t.Parts))}
	out.Place[a] = after
	for g, group := range t.Mesh.Groups(a) {
		var in [][]byte
		for _, chip := range group {
			packed, err := x.Pack(t.Parts[chip])
			if err != nil {
				return nil, err
			}
			in = append(in, packed)
		}
		got, err := move(x, group, in)
		if err != nil {
			return nil, fmt.Errorf("%s of %s %d: %w", op, a, g, err)
		}
		if len(got) != len(group) {
			return nil, fmt.Errorf("%s of %s %d: %d outputs for %d chips", op, a, g, len(got), len(group))
		}
		for i, chip := range group {
			if out.Parts[chip], err = x.Unpack(got[i]); err != nil {
				return nil, fmt.Errorf("%s of %s %d: %w", op, a, g, err)
			}
		}
	}
	return out, nil
}

// InOrder refuses the chips of a mesh tensor whose order is not that of the ring or line, and names the first chip
// out of order (CCL guide, "Usage").
func InOrder[C comparable](chips, path []C) error {
	if len(chips) != len(path) {
		return fmt.Errorf("a tensor on %d chips, and a path of %d chips", len(chips), len(path))
	}
	for i := range chips {
		if chips[i] != path[i] {
			return fmt.Errorf("tensor %d is on chip %v, and the path has chip %v there; order the tensors as the path", i, chips[i], path[i])
		}
	}
	return nil
}
