package edm

import (
	"fmt"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// Layout says how the pages of a tensor lie in the banks of a chip.
type Layout uint8

// The layouts.
const (
	Interleaved Layout = iota // page p lies in bank p modulo the number of banks
	Sharded                   // each bank has an equal number of pages in a row; the last banks may have fewer
)

// String returns the layout in words.
func (l Layout) String() string {
	if l == Interleaved {
		return "interleaved"
	}
	return "sharded"
}

// Tensor is a tensor in the L1 of a chip, as pages of equal size. Its banks are Tensix tiles.
type Tensor struct {
	Layout   Layout
	Pages    int // all pages
	PageSize int // bytes of a page
	Base     uint32
	Banks    []kernel.Tile
}

// perBank returns the largest number of pages in one bank.
func (t *Tensor) perBank() int { return (t.Pages + len(t.Banks) - 1) / len(t.Banks) }

// Page returns the address of a page, 0 to Pages - 1.
func (t *Tensor) Page(p int) wire.NocAddr {
	bank, row := p%len(t.Banks), p/len(t.Banks)
	if t.Layout == Sharded {
		bank, row = p/t.perBank(), p%t.perBank()
	}
	return t.Banks[bank].Addr(uint64(t.Base) + uint64(row*t.PageSize))
}

// NewTensor makes a tensor, and takes its memory from a program. Each bank gets a buffer at the same address.
func NewTensor(b *kernel.Builder, l Layout, pages, pageSize int, banks []kernel.Tile) (*Tensor, error) {
	t := &Tensor{Layout: l, Pages: pages, PageSize: pageSize, Banks: banks}
	for i, bank := range banks {
		at := b.CreateBuffer(bank, uint32(t.perBank()*pageSize))
		if _, err := b.Build(); err != nil {
			return nil, err
		}
		if i > 0 && at != t.Base {
			return nil, fmt.Errorf("a tensor at 0x%x of tile %s, and at 0x%x of tile %s: want one address", t.Base, banks[0], at, bank)
		}
		t.Base = at
	}
	return t, nil
}

// Arguments returns the tensor as arguments of a kernel.
func (t *Tensor) Arguments() []uint32 {
	args := []uint32{uint32(t.Layout), uint32(t.Pages), uint32(t.PageSize), t.Base, uint32(len(t.Banks))}
	for _, b := range t.Banks {
		args = append(args, uint32(b.Y)<<16|uint32(b.X))
	}
	return args
}

// MaxBanks limits the banks of a tensor: the Tensix tiles of a Blackhole chip.
const MaxBanks = 140

// TensorAt reads a tensor from a kernel's arguments, and returns the index of the next argument.
func TensorAt(k *kernel.Context, at int) (*Tensor, int) {
	t := &Tensor{Layout: Layout(min(k.Uint32(at), 255)), Pages: int(k.Uint32(at + 1)), PageSize: int(k.Uint32(at + 2)), Base: k.Uint32(at + 3)}
	n := int(k.Uint32(at + 4))
	if n < 1 || n > MaxBanks || t.Pages < 1 || t.PageSize < 1 || t.Layout > Sharded {
		k.Fail("a tensor of %d pages of %d bytes in %d banks, with layout %d: want at least 1 page, and 1 to %d banks", t.Pages, t.PageSize, n, t.Layout, MaxBanks)
	}
	for i := range n {
		w := k.Uint32(at + 5 + i)
		t.Banks = append(t.Banks, kernel.Tile{X: uint8(w), Y: uint8(w >> 16)})
	}
	return t, at + 5 + n
}
