package collective_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	pure "ttfabric/node/collective"
	"ttfabric/node/collective/tensor"
	"ttfabric/node/session/collective"
)

// types are the element types of tensors on which collective operations compute, as both packages name them.
var types = []struct {
	tensor tensor.Type
	plain  pure.Type
}{{tensor.Float32, pure.Float32}, {tensor.BFloat16, pure.BFloat16}, {tensor.Int32, pure.Int32}, {tensor.Uint32, pure.Int32}, {tensor.Uint8, pure.Uint8}}

// encode returns small numbers as elements of a type. Sums of such numbers are exact in every type, in any order.
func encode(t pure.Type, numbers []int) (b []byte) {
	for _, v := range numbers {
		f := math.Float32bits(float32(v))
		switch t {
		case pure.Float32:
			b = binary.LittleEndian.AppendUint32(b, f)
		case pure.BFloat16:
			b = binary.LittleEndian.AppendUint16(b, uint16(f>>16))
		case pure.Int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case pure.Uint8:
			b = append(b, byte(v))
		}
	}
	return b
}

// naive computes the numbers of a rank's output without schedules, layouts and shards.
func naive(op tensor.Operation, shape tensor.Shape, dim, rank int, in [][]int) (out []int) {
	n, inner := len(in), 1
	for _, d := range shape[dim+1:] {
		inner *= d
	}
	block := shape[dim] * inner // numbers of a tensor that lie together
	sum := func(from, to int) {
		for i := from; i < to; i++ {
			s := 0
			for _, x := range in {
				s += x[i]
			}
			out = append(out, s)
		}
	}
	switch op {
	case tensor.SendReceive:
		return in[(rank+n-1)%n]
	case tensor.AllReduce:
		sum(0, len(in[0]))
		return out
	}
	for at := 0; at < len(in[0]); at += block {
		if op == tensor.ReduceScatter {
			sum(at+rank*block/n, at+(rank+1)*block/n)
			continue
		}
		for _, x := range in {
			out = append(out, x[at:at+block]...)
		}
	}
	return out
}

// exchange performs an operation on a rank's tensor, as a program does.
func exchange(ctx context.Context, c *collective.Comm, x *tensor.Exchange, t pure.Type, in *tensor.Tensor) (*tensor.Tensor, error) {
	packed, err := x.Pack(in)
	if err != nil {
		return nil, err
	}
	got := make([]byte, x.Receives()*x.PartSize())
	switch x.Op {
	case tensor.AllGather:
		err = c.AllGather(ctx, packed, got)
	case tensor.ReduceScatter:
		err = c.ReduceScatter(ctx, collective.Sum, t, packed, got)
	case tensor.AllReduce:
		err = c.AllReduce(ctx, collective.Sum, t, packed, got)
	case tensor.SendReceive:
		err = c.SendReceive(ctx, packed, got)
	}
	if err != nil {
		return nil, err
	}
	return x.Unpack(got)
}

// TestTable fills the CCL guide's table: each operation on tensors of each layout, sharding and type, on several
// topologies. The outputs are compared with a naive computation, byte for byte. Without -collective.full, each
// operation, layout, type and topology occurs, but not each combination.
func TestTable(t *testing.T) { eachMeans(t, table) }

func table(t *testing.T, means collective.Means) {
	var memories []tensor.Memory
	for _, l := range []tensor.Layout{tensor.RowMajor, tensor.Tiled} {
		for _, x := range []struct {
			s          tensor.Sharding
			rows, cols int
		}{{tensor.Interleaved, 3, 1}, {tensor.WidthSharded, 1, 2}, {tensor.HeightSharded, 3, 1}, {tensor.BlockSharded, 2, 3}} {
			memories = append(memories, tensor.Memory{Layout: l, Sharding: x.s, Rows: x.rows, Cols: x.cols})
		}
	}
	operations := []tensor.Operation{tensor.AllGather, tensor.ReduceScatter, tensor.SendReceive, tensor.AllReduce}
	begin, cells := time.Now(), 0
	for k, machine := range []string{"n300", "mesh:1x3", "ring:4", "mesh:2x2", "t3000", "mesh:3x3"} {
		runBy(t, means, machine, 1, func(t *testing.T, b *bubble) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			cs := open(ctx, t, b, 1)
			r := rand.New(rand.NewPCG(1, uint64(k)))
			for i, op := range operations {
				for j, m := range memories {
					for l, e := range types {
						if !*full && (i+j+l+k)%len(types) != 0 {
							continue
						}
						cells++
						n := len(cs)
						shape := []tensor.Shape{{2 * n, 3 * n}, {n, 33, 5 * n}, {2, n, 1, 11 * n}}[r.IntN(3)]
						dim := len(shape) - 1
						if op == tensor.AllGather {
							dim = r.IntN(len(shape))
						}
						cell(ctx, t, cs, r, op, tensor.Spec{Type: e.tensor, Shape: shape, Memory: m}, dim, memories[r.IntN(len(memories))], e.plain)
					}
				}
			}
		})
	}
	t.Logf("%d cells in %v", cells, time.Since(begin))
}

// cell performs an operation on all ranks, whose output has the memory m.
func cell(ctx context.Context, t *testing.T, cs []*collective.Comm, r *rand.Rand, op tensor.Operation, s tensor.Spec, dim int, m tensor.Memory, plain pure.Type) {
	t.Helper()
	name := fmt.Sprintf("%s of %v along %d to %v on %s", op, s, dim, m, cs[0].Path())
	x, err := tensor.NewExchange(op, s, dim, len(cs), m)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var numbers [][]int
	var in []*tensor.Tensor
	for range cs {
		var v []int
		for range s.Shape.Elements() {
			v = append(v, r.IntN(3))
		}
		tt, err := tensor.FromElements(s, encode(plain, v))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		numbers, in = append(numbers, v), append(in, tt)
	}
	out := make([]*tensor.Tensor, len(cs))
	onAll(t, len(cs), func(rank int) (err error) {
		out[rank], err = exchange(ctx, cs[rank], x, plain, in[rank])
		return err
	})
	for rank, o := range out {
		if !bytes.Equal(o.Elements(), encode(plain, naive(op, s.Shape, dim, rank, numbers))) {
			t.Fatalf("%s: rank %d has wrong elements", name, rank)
		}
	}
}

// TestRowsAndColumnsUnderLoss performs random calls of all rows and all columns of a mesh at the same time, while
// all cables lose 1 % of the datagrams. A second run must give the same results at the same times.
func TestRowsAndColumnsUnderLoss(t *testing.T) { eachMeans(t, rowsAndColumns) }

func rowsAndColumns(t *testing.T, means collective.Means) {
	var hashes [2]uint64
	for i := range hashes {
		runBy(t, means, "t3000", 3, func(t *testing.T, b *bubble) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			links := b.links(2)
			cs := open(ctx, t, b, links)
			b.do(lose)
			rows, columns := make([]*collective.Comm, len(cs)), make([]*collective.Comm, len(cs))
			onAll(t, len(cs), func(r int) (err error) {
				if rows[r], err = cs[r].Row(ctx); err == nil {
					columns[r], err = cs[r].Column(ctx)
				}
				return err
			})
			b.comms = append(b.comms, append(rows, columns...)...)
			groups := [][]*collective.Comm{rows[:4], rows[4:], {columns[0], columns[4]}, {columns[1], columns[5]}, {columns[2], columns[6]}, {columns[3], columns[7]}}
			errs := errorsOf(len(groups), func(g int) error {
				r := rand.New(rand.NewPCG(4, uint64(g)))
				for range 3 {
					check(ctx, t, groups[g], links, r, draw(r, groups[g]), draw(r, groups[g]), draw(r, groups[g]))
				}
				return nil
			})
			for _, err := range errs {
				if err != nil {
					t.Error(err)
				}
			}
			if _, _, resent := b.counters(); resent == 0 {
				t.Error("no datagram was lost")
			}
			b.mu.Lock()
			hashes[i] = b.hash
			b.mu.Unlock()
		})
	}
	if hashes[0] != hashes[1] {
		t.Errorf("two runs differ: %x, %x", hashes[0], hashes[1])
	}
}
