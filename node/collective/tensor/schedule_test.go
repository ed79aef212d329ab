package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ttfabric/node/collective"
	"ttfabric/router/topo"
)

// small returns random elements 0 to 2, whose sums are exact in every type and in any order.
func small(rng *rand.Rand, t Type, n int) (out []byte) {
	for range n {
		v := rng.IntN(3)
		switch f := math.Float32bits(float32(v)); t {
		case Float32:
			out = binary.LittleEndian.AppendUint32(out, f)
		case BFloat16:
			out = binary.LittleEndian.AppendUint16(out, uint16(f>>16))
		case Int32:
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		default:
			out = append(out, byte(v))
		}
	}
	return out
}

// TestGridOnSchedules runs the schedules of package collective on each operation, layout and sharding of the guide's
// table, on rings and lines, with one plane and with two. Each output is compared with a naive computation, byte for
// byte.
func TestGridOnSchedules(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	kinds := map[Operation]collective.Kind{AllGather: collective.AllGather, ReduceScatter: collective.ReduceScatter, SendReceive: collective.SendReceive, AllReduce: collective.AllReduce}
	types := map[Type]collective.Type{Float32: collective.Float32, BFloat16: collective.BFloat16, Int32: collective.Int32, Uint8: collective.Uint8}
	for _, machine := range []string{"mesh:1x2", "mesh:1x3", "mesh:2x2", "ring:5", "t3000"} {
		m, err := topo.Named(machine)
		if err != nil {
			t.Fatal(err)
		}
		p, err := collective.FindPath(m, m.Nodes())
		if err != nil {
			t.Fatal(err)
		}
		for op, kind := range kinds {
			for _, memory := range cells() {
				for mine, theirs := range types {
					n := len(p.Order)
					x, err := NewExchange(op, Spec{mine, Shape{2, 3 * n, 35}, memory}, 1, n, memory)
					if err != nil {
						t.Fatal(err)
					}
					s, err := collective.Plan(collective.Call{Kind: kind, Count: x.PartSize() / mine.Size(), Type: theirs, Op: collective.Sum}, p, 1+rng.IntN(2))
					if err != nil {
						t.Fatal(err)
					}
					var plain, packed [][]byte
					for range n {
						plain = append(plain, small(rng, mine, x.In.Shape.Elements()))
						in, err := FromElements(x.In, plain[len(plain)-1])
						if err != nil {
							t.Fatal(err)
						}
						b, err := x.Pack(in)
						if err != nil {
							t.Fatal(err)
						}
						packed = append(packed, b)
					}
					for rank, b := range s.Reference(packed) {
						out, err := x.Unpack(b)
						if err != nil {
							t.Fatal(err)
						}
						if !bytes.Equal(out.Elements(), naive(x, rank, plain)) {
							t.Fatal(fmt.Errorf("%s of %s, %s (%s), on %s: rank %d is wrong", op, mine, memory.Sharding, memory.Layout, machine, rank))
						}
					}
				}
			}
		}
	}
}
