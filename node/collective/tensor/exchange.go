package tensor

import (
	"fmt"
	"slices"
)

// Operation is a collective operation on tensors.
type Operation uint8

// The operations (CCL guide, "Op List").
const (
	AllGather     Operation = iota // each rank gets the tensors of all ranks, behind each other along a dimension
	ReduceScatter                  // rank r gets part r of the reduced tensors, cut along a dimension
	SendReceive                    // a rank gets the tensor of another rank
	AllReduce                      // each rank gets the reduced tensors
	numOperations
)

// String returns the guide's name of the operation.
func (o Operation) String() string {
	if o >= numOperations {
		return fmt.Sprintf("operation %d", o)
	}
	return [numOperations]string{"all-gather", "reduce-scatter", "send/receive", "all-reduce"}[o]
}

// Exchange is an operation on the tensors of a group of ranks. All ranks have tensors with the same description.
//
// A rank sends parts, and receives parts. A part is a stream of pages, see [Spec.Stream]. The bytes of a part are
// whole elements, so a collective operation on plain elements can move and reduce them. Elements of padding are zero,
// and stay in the stream.
type Exchange struct {
	Op    Operation
	Dim   int // dimension of all-gather and reduce-scatter
	Ranks int
	In    Spec // tensor that a rank has
	Out   Spec // tensor that a rank gets
	Part  Spec // stream of a part
}

// MaxRanks limits the ranks of an exchange.
const MaxRanks = 1024

// NewExchange returns an exchange. The output has the memory m.
func NewExchange(op Operation, in Spec, dim, ranks int, m Memory) (*Exchange, error) {
	if err := in.Check(); err != nil {
		return nil, err
	}
	if ranks < 1 || ranks > MaxRanks {
		return nil, fmt.Errorf("an exchange of %d ranks: want 1 to %d", ranks, MaxRanks)
	}
	part, out := in.Shape, in.Shape
	switch op {
	case AllGather, ReduceScatter:
		if err := in.Shape.checkDim(dim); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		size := in.Shape[dim]
		if op == AllGather {
			out = out.with(dim, size*ranks)
			break
		}
		if size%ranks != 0 {
			return nil, fmt.Errorf("reduce-scatter: dimension %d has %d elements, which %d ranks cannot share equally; pad the tensor", dim, size, ranks)
		}
		part = part.with(dim, size/ranks)
		out = part
	case SendReceive, AllReduce:
	default:
		return nil, fmt.Errorf("%s is unknown", op)
	}
	shaped := in.with(part)
	x := &Exchange{op, dim, ranks, in, Spec{in.Type, out, m}, shaped.Stream()}
	if err := x.Out.Check(); err != nil {
		return nil, fmt.Errorf("output of %s: %w", op, err)
	}
	return x, x.Part.Check()
}

// Sends returns the number of parts that a rank sends.
func (x *Exchange) Sends() int {
	if x.Op == ReduceScatter {
		return x.Ranks
	}
	return 1
}

// Receives returns the number of parts that a rank receives.
func (x *Exchange) Receives() int {
	if x.Op == AllGather {
		return x.Ranks
	}
	return 1
}

// at returns the first element of a part in a tensor that has all parts.
func (x *Exchange) at(part int) []int {
	at := make([]int, len(x.In.Shape))
	if x.Op == AllGather || x.Op == ReduceScatter {
		at[x.Dim] = part * x.Part.Shape[x.Dim]
	}
	return at
}

// PartSize returns the bytes of a part.
func (x *Exchange) PartSize() int { return x.Part.Bytes() }

// Source returns the window from a rank's tensor into the stream of a part, 0 to Sends - 1.
func (x *Exchange) Source(part int) *Window {
	return &Window{x.In, x.Part, x.at(part), make([]int, len(x.In.Shape)), x.Part.Shape}
}

// Sink returns the window from the stream of a part into a rank's output, 0 to Receives - 1.
func (x *Exchange) Sink(part int) *Window {
	at := make([]int, len(x.In.Shape))
	if x.Op == AllGather {
		at = x.at(part)
	}
	return &Window{x.Part, x.Out, make([]int, len(x.In.Shape)), at, x.Part.Shape}
}

// Pack returns the parts that a rank sends, one behind the other.
func (x *Exchange) Pack(in *Tensor) ([]byte, error) {
	if in.Type != x.In.Type || in.Memory != x.In.Memory || !slices.Equal(in.Shape, x.In.Shape) {
		return nil, fmt.Errorf("a tensor of %s, shape %d, %s, %s: the exchange is for %s, shape %d, %s, %s", in.Type, []int(in.Shape), in.Layout, in.Sharding, x.In.Type, []int(x.In.Shape), x.In.Layout, x.In.Sharding)
	}
	var packed []byte
	for i := range x.Sends() {
		part := zeros(x.Part)
		x.Source(i).Copy(in, part)
		packed = append(packed, part.Banks[0]...)
	}
	return packed, nil
}

// Store stores pages of a part into a rank's output. The pages begin with number "first" of the part. Store needs no
// other pages of the part, so a receiver stores each packet when the packet comes.
func (x *Exchange) Store(part, first int, pages []byte, out *Tensor) error {
	size := x.Part.PageSize()
	n := len(pages) / size
	if part < 0 || part >= x.Receives() || first < 0 || n*size != len(pages) || n > x.Part.Pages()-first {
		return fmt.Errorf("%d bytes for page %d of part %d: want whole pages of %d bytes, parts up to %d, pages up to %d", len(pages), first, part, size, x.Receives()-1, x.Part.Pages()-1)
	}
	w := x.Sink(part)
	for i := range n {
		w.Store(first+i, pages[i*size:][:size], out)
	}
	return nil
}

// Unpack returns the output of a rank that has received all its parts, one behind the other.
func (x *Exchange) Unpack(parts []byte) (*Tensor, error) {
	if want := x.Receives() * x.PartSize(); len(parts) != want {
		return nil, fmt.Errorf("%s: %d bytes came; want %d", x.Op, len(parts), want)
	}
	out := zeros(x.Out)
	for i := range x.Receives() {
		if err := x.Store(i, 0, parts[i*x.PartSize():][:x.PartSize()], out); err != nil {
			return nil, err
		}
	}
	return out, nil
}
