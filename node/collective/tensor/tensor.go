package tensor

import "fmt"

// Tensor is a tensor of one chip, with the contents of its banks.
type Tensor struct {
	Spec
	Banks [][]byte // each has BankSize bytes
}

// New returns a tensor of zeros.
func New(s Spec) (*Tensor, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return zeros(s), nil
}

// zeros returns a tensor of zeros for a description that is right.
func zeros(s Spec) *Tensor {
	t := &Tensor{Spec: s}
	for range s.Banks() {
		t.Banks = append(t.Banks, make([]byte, s.BankSize()))
	}
	return t
}

// FromElements returns a tensor with elements in the order of their indexes, the last index fastest.
func FromElements(s Spec, elements []byte) (*Tensor, error) {
	t, err := New(s)
	if err != nil {
		return nil, err
	}
	if want := s.Shape.Elements() * s.Type.Size(); len(elements) != want {
		return nil, fmt.Errorf("%d bytes for a tensor of shape %d and %s: want %d bytes", len(elements), []int(s.Shape), s.Type, want)
	}
	t.each(func(at []byte, i int) { copy(at, elements[i:]) })
	return t, nil
}

// Elements returns the elements in the order of their indexes, the last index fastest.
func (t *Tensor) Elements() []byte {
	out := make([]byte, t.Shape.Elements()*t.Type.Size())
	t.each(func(at []byte, i int) { copy(out[i:], at) })
	return out
}

// each calls f for all runs of elements that lie together, with the run's place in the order of the elements.
func (t *Tensor) each(f func(at []byte, i int)) {
	size, width := t.Type.Size(), t.Shape.width()
	for row := range t.Shape.rows() {
		for w := 0; w < width; {
			p, off, n := t.locate(row, w)
			f(t.Page(p)[off:off+n*size], (row*width+w)*size)
			w += n
		}
	}
}

// Page returns the bytes of a page, 0 to Pages - 1. The bytes belong to the tensor.
func (t *Tensor) Page(p int) []byte {
	bank, at := t.Spec.Page(p)
	return t.Banks[bank][at : at+t.PageSize()]
}
