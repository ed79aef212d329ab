package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// add adds elements of a type in place. Sums of bfloat16 round to the nearest, ties to even, at each step.
func add(t Type, sum, own []byte) {
	le := binary.LittleEndian
	for i := 0; i < len(sum); i += t.Size() {
		a, b := sum[i:], own[i:]
		switch t {
		case Float32:
			le.PutUint32(a, math.Float32bits(math.Float32frombits(le.Uint32(a))+math.Float32frombits(le.Uint32(b))))
		case BFloat16:
			bits := math.Float32bits(math.Float32frombits(uint32(le.Uint16(a))<<16) + math.Float32frombits(uint32(le.Uint16(b))<<16))
			le.PutUint16(a, uint16((bits+0x7fff+bits>>16&1)>>16))
		case Int32, Uint32:
			le.PutUint32(a, le.Uint32(a)+le.Uint32(b))
		case Uint16:
			le.PutUint16(a, le.Uint16(a)+le.Uint16(b))
		case Uint8:
			a[0] += b[0]
		}
	}
}

// random returns random elements. Floating-point elements have random signs and exponents, so the order of a sum
// matters.
func random(rng *rand.Rand, t Type, n int) (out []byte) {
	for range n {
		switch f := math.Float32bits(float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(12))))); t {
		case Float32:
			out = binary.LittleEndian.AppendUint32(out, f)
		case BFloat16:
			out = binary.LittleEndian.AppendUint16(out, uint16(f>>16))
		default:
			for range t.Size() {
				out = append(out, byte(rng.Uint32()))
			}
		}
	}
	return out
}

// route is how the parts of a test travel.
type route struct {
	name          string
	ring, bothWay bool
}

var routes = []route{{"ring", true, false}, {"bidirectional ring", true, true}, {"line", false, true}}

// gather runs an all-gather chip by chip. Each packet goes into the output of the receiver at once, and the receiver
// forwards the packet.
func (r route) gather(t *testing.T, x *Exchange, in [][]byte, outs []*Tensor) {
	t.Helper()
	n, size := len(in), x.Part.PageSize()
	pages := x.Part.Pages()
	send := func(from, step, hops, first, last int) {
		for hop := range hops + 1 {
			to := ((from+hop*step)%n + n) % n
			for p := first; p < last; p += 3 { // packets of up to 3 pages
				end := min(p+3, last)
				if err := x.Store(from, p, in[from][p*size:end*size], outs[to]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range n {
		switch {
		case !r.ring:
			send(i, 1, n-1-i, 0, pages)
			send(i, -1, i, 0, pages)
		case r.bothWay:
			send(i, 1, n-1, 0, pages/2)
			send(i, -1, n-1, pages/2, pages)
		default:
			send(i, 1, n-1, 0, pages)
		}
	}
}

// scatter runs a reduce-scatter in the guide's order: the chip before chip f begins the sum of fracture f. From each
// chip, the sum travels to the chip before, up to chip f.
func scatter(t Type, size int, in [][]byte) (out [][]byte) {
	n := len(in)
	for f := range n {
		sum := bytes.Clone(in[(f+n-1)%n][f*size:][:size])
		for k := 2; k <= n; k++ {
			add(t, sum, in[(f+2*n-k)%n][f*size:][:size])
		}
		out = append(out, sum)
	}
	return out
}

// run runs an exchange on a route, and returns the output of each rank.
func (r route) run(t *testing.T, x *Exchange, in []*Tensor) (outs []*Tensor) {
	t.Helper()
	var packed [][]byte
	for _, tensor := range in {
		p, err := x.Pack(tensor)
		if err != nil {
			t.Fatal(err)
		}
		packed = append(packed, p)
	}
	switch n := len(in); x.Op {
	case AllGather:
		for range in {
			outs = append(outs, zeros(x.Out))
		}
		r.gather(t, x, packed, outs)
		return outs
	case ReduceScatter:
		packed = scatter(x.In.Type, x.PartSize(), packed)
	case AllReduce: // each rank is the owner of an equal number of elements; the last elements are padding
		share := divide(x.PartSize()/x.In.Type.Size(), n) * x.In.Type.Size()
		for i := range packed {
			packed[i] = append(packed[i], make([]byte, share*n-len(packed[i]))...)
		}
		all := bytes.Join(scatter(x.In.Type, share, packed), nil)
		for i := range packed {
			packed[i] = all[:x.PartSize()]
		}
	case SendReceive: // each rank sends to the next rank
		packed = append(packed[n-1:], packed[:n-1]...)
	}
	for _, p := range packed {
		out, err := x.Unpack(p)
		if err != nil {
			t.Fatal(err)
		}
		outs = append(outs, out)
	}
	return outs
}

// naive computes the output of a rank element by element from plain elements.
func naive(x *Exchange, rank int, in [][]byte) (out []byte) {
	size, n := x.In.Type.Size(), len(in)
	at := make([]int, len(x.Out.Shape))
	share := divide(x.PartSize()/size, n)
	for range x.Out.Shape.Elements() {
		index := func(shift int) int { // index of the element in an input
			i := 0
			for d, a := range at {
				if d == x.Dim {
					a += shift
				}
				i = i*x.In.Shape[d] + a
			}
			return i * size
		}
		sum := func(i, owner int) []byte {
			s := bytes.Clone(in[(owner+n-1)%n][i:][:size])
			for k := 2; k <= n; k++ {
				add(x.In.Type, s, in[(owner+2*n-k)%n][i:][:size])
			}
			return s
		}
		switch x.Op {
		case AllGather:
			from := at[x.Dim] / x.In.Shape[x.Dim]
			out = append(out, in[from][index(-from*x.In.Shape[x.Dim]):][:size]...)
		case ReduceScatter:
			out = append(out, sum(index(rank*x.Out.Shape[x.Dim]), rank)...)
		case SendReceive:
			out = append(out, in[(rank+n-1)%n][index(0):][:size]...)
		case AllReduce: // the place in the stream says who owns the element
			row := index(0) / size / x.In.Shape.width()
			page, off, _ := x.Part.locate(row, at[len(at)-1])
			out = append(out, sum(index(0), (page*x.Part.PageSize()+off)/size/share)...)
		}
		for d := len(at) - 1; d >= 0; d-- {
			if at[d]++; at[d] < x.Out.Shape[d] {
				break
			}
			at[d] = 0
		}
	}
	return out
}

// cells are the rows of the guide's table: all layouts with all kinds of sharding.
func cells() (all []Memory) {
	for _, l := range []Layout{RowMajor, Tiled} {
		all = append(all, Memory{l, Interleaved, 3, 1}, Memory{l, WidthSharded, 1, 2}, Memory{l, HeightSharded, 3, 1}, Memory{l, BlockSharded, 2, 3})
	}
	return all
}

// TestGrid runs each operation of the guide's table in each layout and sharding, with each type, on rings and lines of
// several sizes, and along each dimension. Each output is compared with a naive computation, byte for byte.
func TestGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for op := range numOperations {
		for _, m := range cells() {
			for _, r := range routes {
				if op != AllGather && r.name != "ring" {
					continue // these operations do not depend on the route here
				}
				t.Run(fmt.Sprintf("%s, %s (%s), %s", op, m.Sharding, m.Layout, r.name), func(t *testing.T) {
					for kind := range numTypes {
						for _, ranks := range []int{2, 3, 4} {
							for _, shape := range []Shape{{2 * ranks, 3 * ranks}, {ranks, 33, 5 * ranks}, {2, ranks, 1, 11 * ranks}, {61 * ranks}} {
								dim := rng.IntN(len(shape))
								if op == ReduceScatter && shape[dim]%ranks != 0 {
									dim = len(shape) - 1
								}
								cell(t, rng, op, r, Spec{kind, shape, m}, dim, ranks, m)
							}
						}
					}
				})
			}
		}
	}
}

// TestReshardingInFlight runs operations whose output has another layout, sharding and number of banks than the input.
func TestReshardingInFlight(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for op := range numOperations {
		for _, from := range cells() {
			for _, to := range cells() {
				cell(t, rng, op, routes[1], Spec{BFloat16, Shape{2, 40, 66}, from}, 1+rng.IntN(2), 2, to)
			}
		}
	}
}

// cell runs one exchange on random tensors, and compares the outputs.
func cell(t *testing.T, rng *rand.Rand, op Operation, r route, s Spec, dim, ranks int, m Memory) {
	t.Helper()
	x, err := NewExchange(op, s, dim, ranks, m)
	if err != nil {
		t.Fatal(err)
	}
	var in []*Tensor
	var plain [][]byte
	for range ranks {
		e := random(rng, s.Type, s.Shape.Elements())
		tensor, err := FromElements(s, e)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(tensor.Elements(), e) {
			t.Fatalf("%v: the elements of a tensor are not those that it was made of", s)
		}
		plain, in = append(plain, e), append(in, tensor)
	}
	for rank, out := range r.run(t, x, in) {
		if !bytes.Equal(out.Elements(), naive(x, rank, plain)) {
			t.Fatalf("%s of %v along dimension %d, rank %d of %d, %s: the output is wrong", op, s, dim, rank, ranks, r.name)
		}
	}
}

// TestPlaces checks that no two elements have the same place, that all places lie in the banks, and that the faces of a
// tile have the documented order.
func TestPlaces(t *testing.T) {
	for _, m := range cells() {
		for _, shape := range []Shape{{}, {1}, {5}, {3, 7}, {33, 65}, {2, 3, 40, 50}} {
			s := Spec{Uint16, shape, m}
			seen := map[[2]int]bool{}
			for row := range shape.rows() {
				for w := range shape.width() {
					p, off, n := s.locate(row, w)
					bank, at := s.Page(p)
					if at += off; bank >= s.Banks() || at+2*n > s.BankSize() || off+2*n > s.PageSize() || p >= s.Pages() || n < 1 || seen[[2]int{bank, at}] {
						t.Fatalf("%v: element %d of row %d has bank %d, offset %d, page %d, %d together", s, w, row, bank, at, p, n)
					}
					seen[[2]int{bank, at}] = true
				}
			}
		}
	}
	s := Spec{Float32, Shape{64, 64}, Memory{Tiled, Interleaved, 1, 1}}
	for _, c := range [][3]int{{0, 15, 15}, {0, 16, 256}, {1, 0, 16}, {16, 0, 512}, {31, 31, 1023}, {0, 32, 1024}, {32, 0, 2048}} {
		p, off, _ := s.locate(c[0], c[1])
		if at := p*1024 + off/4; at != c[2] {
			t.Errorf("row %d, column %d of a tensor with 64 columns lies at element %d, want %d", c[0], c[1], at, c[2])
		}
	}
}
