package tensor

import "fmt"

// Layout says how the elements of a page lie in memory.
type Layout uint8

// The layouts.
const (
	RowMajor Layout = iota // a page is a row, or a shard's part of a row
	Tiled                  // a page is a tile of 32 x 32 elements
	numLayouts
)

// String returns the guide's name of the layout.
func (l Layout) String() string {
	if l >= numLayouts {
		return fmt.Sprintf("layout %d", l)
	}
	return [numLayouts]string{"row major", "tile"}[l]
}

// Sharding says how the pages of a tensor lie in the banks of a chip.
type Sharding uint8

// The kinds of sharding.
const (
	Interleaved   Sharding = iota // page p lies in bank p modulo the number of banks
	HeightSharded                 // each bank has whole rows of pages, in a row
	WidthSharded                  // each bank has whole columns of pages, in a row
	BlockSharded                  // the banks are a grid, and each bank has a rectangle of pages
	numShardings
)

// String returns the guide's name of the sharding.
func (s Sharding) String() string {
	if s >= numShardings {
		return fmt.Sprintf("sharding %d", s)
	}
	return [numShardings]string{"interleaved", "height sharded", "width sharded", "block sharded"}[s]
}

// Memory says how a tensor lies in the memory of a chip (the guide's memory_config).
type Memory struct {
	Layout   Layout
	Sharding Sharding
	// Rows and Cols are the grid of the banks. Bank b is at row b / Cols and column b % Cols. Interleaved and
	// height-sharded tensors have one column. Width-sharded tensors have one row.
	Rows, Cols int
}

// Spec describes a tensor of a chip.
type Spec struct {
	Type  Type
	Shape Shape
	Memory
}

// Sizes of a tile.
const (
	TileSide = 32 // elements
	FaceSide = 16 // elements
)

// pageUnit is the unit of a page's size in bytes: the word of the ethernet dataflow API.
const pageUnit = 16

// Check refuses a wrong description.
func (s *Spec) Check() error {
	switch {
	case s.Type >= numTypes || s.Layout >= numLayouts || s.Sharding >= numShardings:
		return fmt.Errorf("a tensor with %s, %s and %s: one of the three is unknown", s.Type, s.Layout, s.Sharding)
	case s.Rows < 1 || s.Cols < 1 || s.Rows > MaxBanks || s.Cols > MaxBanks || s.Rows*s.Cols > MaxBanks:
		return fmt.Errorf("a tensor in %d x %d banks: want 1 to %d banks", s.Rows, s.Cols, MaxBanks)
	case (s.Sharding == Interleaved || s.Sharding == HeightSharded) && s.Cols != 1:
		return fmt.Errorf("a tensor, %s, in %d columns of banks: want one column", s.Sharding, s.Cols)
	case s.Sharding == WidthSharded && s.Rows != 1:
		return fmt.Errorf("a tensor, %s, in %d rows of banks: want one row", s.Sharding, s.Rows)
	}
	if err := s.Shape.check(); err != nil {
		return err
	}
	if n := s.Bytes(); n > MaxBytes {
		return fmt.Errorf("a tensor of shape %d has %d bytes with padding; want at most %d", []int(s.Shape), n, MaxBytes)
	}
	return nil
}

// Banks returns the number of banks.
func (s *Spec) Banks() int { return s.Rows * s.Cols }

// divide returns a / b, rounded up.
func divide(a, b int) int { return (a + b - 1) / b }

// pageWidth returns the elements of a row-major page.
func (s *Spec) pageWidth() int { return divide(s.Shape.width(), s.Cols) }

// pageGrid returns the rows and columns of pages.
func (s *Spec) pageGrid() (rows, cols int) {
	if s.Layout == Tiled {
		h := s.Shape.height()
		return s.Shape.rows() / h * divide(h, TileSide), divide(s.Shape.width(), TileSide)
	}
	return s.Shape.rows(), divide(s.Shape.width(), s.pageWidth())
}

// Pages returns the number of pages.
func (s *Spec) Pages() int {
	r, c := s.pageGrid()
	return r * c
}

// PageSize returns the bytes of a page, a multiple of 16.
func (s *Spec) PageSize() int {
	n := TileSide * TileSide
	if s.Layout == RowMajor {
		n = s.pageWidth()
	}
	return divide(n*s.Type.Size(), pageUnit) * pageUnit
}

// shard returns the rows and columns of pages in a bank.
func (s *Spec) shard() (rows, cols int) {
	r, c := s.pageGrid()
	return divide(r, s.Rows), divide(c, s.Cols)
}

// BankSize returns the bytes of each bank. All banks have the same size, so a tensor has one address in all banks.
func (s *Spec) BankSize() int {
	if s.Sharding == Interleaved {
		return divide(s.Pages(), s.Banks()) * s.PageSize()
	}
	r, c := s.shard()
	return r * c * s.PageSize()
}

// Bytes returns the bytes of all banks.
func (s *Spec) Bytes() int { return s.BankSize() * s.Banks() }

// Page returns the bank of a page, and the offset of the page's first byte in the bank. Pages have numbers from 0 to
// Pages - 1, row by row.
func (s *Spec) Page(p int) (bank, offset int) {
	if s.Sharding == Interleaved {
		return p % s.Banks(), p / s.Banks() * s.PageSize()
	}
	_, cols := s.pageGrid()
	r, c := p/cols, p%cols
	sr, sc := s.shard()
	return r/sr*s.Cols + c/sc, (r%sr*sc + c%sc) * s.PageSize()
}

// locate returns the page of an element, its byte offset in the page, and how many elements of the same row follow
// without a gap, with the element itself. The row counts over all dimensions but the last.
func (s *Spec) locate(row, w int) (page, offset, n int) {
	_, cols := s.pageGrid()
	if s.Layout == RowMajor {
		pw := s.pageWidth()
		c := w / pw
		return row*cols + c, (w - c*pw) * s.Type.Size(), min((c+1)*pw, s.Shape.width()) - w
	}
	h := s.Shape.height()
	y, x := row%h%TileSide, w%TileSide
	tileRow := row/h*divide(h, TileSide) + row%h/TileSide
	face := y/FaceSide*2 + x/FaceSide
	at := face*FaceSide*FaceSide + y%FaceSide*FaceSide + x%FaceSide
	return tileRow*cols + w/TileSide, at * s.Type.Size(), min(FaceSide-x%FaceSide, s.Shape.width()-w)
}

// Stream returns the tensor's description as a stream of pages: all pages one after the other, without banks. Chips
// send tensors in this form.
func (s *Spec) Stream() Spec {
	return Spec{s.Type, s.Shape, Memory{Layout: s.Layout, Rows: 1, Cols: 1}}
}

// with returns the description with another shape.
func (s *Spec) with(shape Shape) Spec { return Spec{s.Type, shape, s.Memory} }
