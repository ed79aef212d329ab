package tensor

import "fmt"

// Window is a box of elements that two tensors have in common: a copy from one tensor into the other. The two tensors
// may have different layouts and shards.
type Window struct {
	From, To     Spec
	FromAt, ToAt []int // first element of the box in each tensor
	Size         []int // elements of the box in each dimension
}

// Run is a copy of bytes out of a page into a bank.
type Run struct {
	From int // offset in the page
	Bank int // bank of the tensor To
	To   int // offset in the bank
	Len  int // bytes
}

// NewWindow returns the window of a box, and refuses a box that one of the tensors does not contain.
func NewWindow(from, to Spec, fromAt, toAt, size []int) (*Window, error) {
	if err := from.Check(); err != nil {
		return nil, err
	}
	if err := to.Check(); err != nil {
		return nil, err
	}
	n := len(from.Shape)
	switch {
	case from.Type != to.Type:
		return nil, fmt.Errorf("a copy of %s into %s: convert the elements first", from.Type, to.Type)
	case len(to.Shape) != n || len(fromAt) != n || len(toAt) != n || len(size) != n:
		return nil, fmt.Errorf("a copy from shape %d at %d to shape %d at %d with size %d: want equal numbers of dimensions", []int(from.Shape), fromAt, []int(to.Shape), toAt, size)
	}
	for i := range size {
		if size[i] < 1 || fromAt[i] < 0 || toAt[i] < 0 || size[i] > from.Shape[i]-fromAt[i] || size[i] > to.Shape[i]-toAt[i] {
			return nil, fmt.Errorf("dimension %d: a copy of %d elements from %d of %d to %d of %d", i, size[i], fromAt[i], from.Shape[i], toAt[i], to.Shape[i])
		}
	}
	return &Window{from, to, fromAt, toAt, size}, nil
}

// row returns the row of the tensor To for a row of the tensor From, and false if the row is outside of the box.
func (w *Window) row(row int) (int, bool) {
	to, stride := 0, 1
	for i := len(w.Size) - 2; i >= 0; i-- {
		at := row%w.From.Shape[i] - w.FromAt[i]
		row /= w.From.Shape[i]
		if at < 0 || at >= w.Size[i] {
			return 0, false
		}
		to += (at + w.ToAt[i]) * stride
		stride *= w.To.Shape[i]
	}
	return to, true
}

// Moves returns the copies that bring the elements of one page of the tensor From to their places in the tensor To.
// Therefore a receiver can store each page when the page comes.
func (w *Window) Moves(page int) (runs []Run) {
	_, cols := w.From.pageGrid()
	r, c := page/cols, page%cols
	first, rows, x, width := r, 1, c*w.From.pageWidth(), w.From.pageWidth()
	if w.From.Layout == Tiled {
		h := w.From.Shape.height()
		tall := divide(h, TileSide)
		first, rows = r/tall*h+r%tall*TileSide, min(TileSide, h-r%tall*TileSide)
		x, width = c*TileSide, TileSide
	}
	fromX, toX, n := 0, 0, 1
	if d := len(w.Size) - 1; d >= 0 {
		fromX, toX, n = w.FromAt[d], w.ToAt[d], w.Size[d]
	}
	for row := first; row < first+rows; row++ {
		to, inside := w.row(row)
		if !inside {
			continue
		}
		end := min(x+width, fromX+n)
		for at := max(x, fromX); at < end; {
			_, from, a := w.From.locate(row, at)
			p, off, b := w.To.locate(to, at-fromX+toX)
			bank, base := w.To.Page(p)
			k := min(a, b, end-at)
			runs = join(runs, Run{from, bank, base + off, k * w.From.Type.Size()})
			at += k
		}
	}
	return runs
}

// join appends a run, or makes the last run longer.
func join(runs []Run, r Run) []Run {
	if n := len(runs) - 1; n >= 0 {
		if l := &runs[n]; l.Bank == r.Bank && l.From+l.Len == r.From && l.To+l.Len == r.To {
			l.Len += r.Len
			return runs
		}
	}
	return append(runs, r)
}

// Store stores one page of the tensor From into a tensor.
func (w *Window) Store(page int, data []byte, to *Tensor) {
	for _, r := range w.Moves(page) {
		copy(to.Banks[r.Bank][r.To:r.To+r.Len], data[r.From:])
	}
}

// Copy copies the box from one tensor into the other.
func (w *Window) Copy(from, to *Tensor) {
	for p := range w.From.Pages() {
		w.Store(p, from.Page(p), to)
	}
}
