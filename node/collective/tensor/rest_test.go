package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// refused checks that an error has a text.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want an error with %q", err, want)
	}
}

// TestSlicer checks that the slices of many tensors cover each fracture once, fit into the pipeline, and alternate
// between the workers.
func TestSlicer(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		ranks, workers := 2+rng.IntN(6), 1+rng.IntN(6)
		s := Spec{Type(rng.IntN(int(numTypes))), Shape{1 + rng.IntN(3), 1 + rng.IntN(90), ranks * (1 + rng.IntN(90))}, Memory{Layout(rng.IntN(2)), Interleaved, 2, 1}}
		p := Pipeline{Packet: 4096, Buffers: 1 + rng.IntN(4)}
		x, err := NewSlicer(s, workers, 2, ranks, p)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[[3]int]bool{}
		var order []Slice
		for w := range workers {
			order = append(order, x.Worker(w)...)
		}
		for _, one := range order {
			if err := p.Fits(s, one.Shape); err != nil {
				t.Error(err)
			}
			for i := range one.Shape[0] {
				for j := range one.Shape[1] {
					for k := range one.Shape[2] {
						at := [3]int{one.At[0] + i, one.At[1] + j, one.At[2] + k}
						if seen[at] {
							t.Fatalf("element %d is in two slices", at)
						}
						seen[at] = true
					}
				}
			}
		}
		if len(order) != len(x.Slices) || len(seen) != x.Fracture.Elements() {
			t.Errorf("%d of %d slices and %d of %d elements", len(order), len(x.Slices), len(seen), x.Fracture.Elements())
		}
		if workers > 1 && len(x.Slices) > 1 && !slices.Equal(x.Worker(1)[0].At, x.Slices[1].At) {
			t.Error("the second worker does not have the second slice")
		}
	}
}

// TestLargeSliceDeadlocks checks that the slicer refuses exactly the slices that stop the ring.
func TestLargeSliceDeadlocks(t *testing.T) {
	for ranks := 2; ranks < 7; ranks++ {
		for buffers := 1; buffers < 6; buffers++ {
			p := Pipeline{Packet: 2048, Buffers: buffers}
			for tiles := 1; tiles < 10; tiles++ {
				s := Spec{BFloat16, Shape{32 * tiles, 32}, Memory{Tiled, Interleaved, 1, 1}}
				fits, runs := p.Fits(s, s.Shape), p.Simulate(ranks, 3, tiles)
				if (fits == nil) != (runs == nil) {
					t.Errorf("%d ranks, %d buffers, %d tiles: %v, and %v", ranks, buffers, tiles, fits, runs)
				}
				if runs != nil {
					refused(t, runs, "deadlock: ")
					refused(t, fits, "all chips of the ring would wait to send")
				}
			}
		}
	}
	s := Spec{Float32, Shape{64, 64}, Memory{Tiled, Interleaved, 1, 1}}
	_, err := NewSlicer(s, 1, 0, 2, Pipeline{Packet: 2048, Buffers: 4})
	refused(t, err, "are larger than a packet of 2048 bytes")
}

// pack is a Mover for tests. It sums in the guide's order.
func pack(x *Exchange, group []int, in [][]byte) (out [][]byte, err error) {
	switch x.Op {
	case AllGather:
		for range group {
			out = append(out, bytes.Join(in, nil))
		}
	case ReduceScatter:
		out = scatter(x.In.Type, x.PartSize(), in)
	case AllReduce:
		sum := bytes.Clone(in[0])
		for _, b := range in[1:] {
			add(x.In.Type, sum, b)
		}
		for range group {
			out = append(out, sum)
		}
	}
	return out, nil
}

// TestMesh runs row and column operations on meshes, and compares the logical tensors.
func TestMesh(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	m := Mesh{2, 4}
	rm, tile := Memory{RowMajor, WidthSharded, 1, 2}, Memory{Tiled, BlockSharded, 2, 2}
	s := Spec{Int32, Shape{8, 48, 64}, rm}
	e := random(rng, s.Type, s.Shape.Elements())
	same := func(x *MeshTensor, err error, want []byte) *MeshTensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Elements()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("the elements of a tensor with %v are wrong", x.Place)
		}
		return x
	}
	for rows := Replicated; rows < 3; rows++ {
		for cols := Replicated; cols < 3; cols++ {
			x, err := Distribute(m, s, [2]Placement{rows, cols}, e)
			same(x, err, e)
			if cols >= 0 {
				if x, err = x.AllGather(Row, tile, pack); rows >= 0 && err == nil {
					same(x, err, e)
					x, err = x.AllGather(Column, rm, pack)
				}
				same(x, err, e)
			}
			for chip, p := range x.Parts {
				if cols >= 0 && !bytes.Equal(p.Elements(), e) {
					t.Errorf("%v, %v: chip %d does not have all elements", rows, cols, chip)
				}
			}
		}
	}
	// Terms along the rows: the shards of the columns stay, and the terms of each row add up.
	var parts []*Tensor
	var terms [8][]byte
	for i := range terms {
		part := Spec{Int32, Shape{4, 48, 64}, rm}
		terms[i] = random(rng, part.Type, part.Shape.Elements())
		p, err := FromElements(part, terms[i])
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	var want []byte
	for r := range 2 {
		sum := bytes.Clone(terms[4*r])
		for c := 1; c < 4; c++ {
			add(Int32, sum, terms[4*r+c])
		}
		want = append(want, sum...)
	}
	x, err := FromParts(m, [2]Placement{0, Partial}, parts)
	if err != nil {
		t.Fatal(err)
	}
	_, err = x.Elements()
	refused(t, err, "reduce it first")
	reduced, err := x.AllReduce(Row, tile, pack)
	same(reduced, err, want)
	scattered, err := x.ReduceScatter(Row, 2, tile, pack)
	same(scattered, err, want)
	_, err = x.AllGather(Row, rm, pack)
	refused(t, err, "not sharded")
	_, err = reduced.AllReduce(Row, rm, pack)
	refused(t, err, "no terms")
	reduced.Parts[2].Page(0)[0]++
	_, err = reduced.Elements()
	refused(t, err, "the copies at row 0, column 0 and at row 0, column 2 differ")
	_, err = Distribute(m, s, [2]Placement{3, Replicated}, e)
	refused(t, err, "dimension 3")
	_, err = Distribute(Mesh{3, 1}, s, [2]Placement{0, Replicated}, e)
	refused(t, err, "pad the tensor")
	both, err := Distribute(m, s, [2]Placement{0, 0}, e)
	same(both, err, e)
	_, err = both.AllGather(Column, rm, pack)
	refused(t, err, "gather the rows first")
	if g := m.Groups(Column); fmt.Sprint(g) != "[[0 4] [1 5] [2 6] [3 7]]" {
		t.Error(g)
	}
	refused(t, InOrder([]string{"M0D0", "M0D2"}, []string{"M0D0", "M0D1"}), "tensor 1 is on chip M0D2, and the path has chip M0D1 there")
}

// TestRefused checks that wrong arguments are named.
func TestRefused(t *testing.T) {
	good := Spec{Float32, Shape{6, 8}, Memory{RowMajor, Interleaved, 2, 1}}
	for want, change := range map[string]func(s *Spec){
		"element type 6":       func(s *Spec) { s.Type = 6 },
		"0 x 1 banks":          func(s *Spec) { s.Rows = 0 },
		"141 x 1 banks":        func(s *Spec) { s.Rows = 141 },
		"2 columns of banks":   func(s *Spec) { s.Cols = 2 },
		"2 rows of banks":      func(s *Spec) { s.Sharding = WidthSharded },
		"9 dimensions":         func(s *Spec) { s.Shape = make(Shape, 9) },
		"dimension 1 has 0":    func(s *Spec) { s.Shape = Shape{3, 0} },
		"has more than":        func(s *Spec) { s.Shape = Shape{1 << 31, 1 << 31, 1 << 31} },
		"bytes with padding":   func(s *Spec) { s.Shape, s.Layout = Shape{1 << 31, 1, 1}, Tiled },
		"dimension 0 of shape": func(s *Spec) { s.Shape = Shape{} },
	} {
		s := good
		change(&s)
		_, err := NewExchange(AllGather, s, 0, 2, good.Memory)
		refused(t, err, want)
	}
	_, err := NewExchange(ReduceScatter, good, 0, 4, good.Memory)
	refused(t, err, "dimension 0 has 6 elements, which 4 ranks cannot share equally")
	x, err := NewExchange(AllGather, good, 0, 4, good.Memory)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, x.Store(0, 5, make([]byte, 64), zeros(x.Out)), "want whole pages of 32 bytes")
	refused(t, x.Store(4, 0, make([]byte, 32), zeros(x.Out)), "parts up to 3")
	_, err = x.Unpack(nil)
	refused(t, err, "0 bytes came")
	other := good
	other.Shape = Shape{6, 9}
	_, err = x.Pack(zeros(other))
	refused(t, err, "the exchange is for float32, shape [6 8]")
	_, err = NewWindow(good, good, []int{0, 4}, []int{0, 0}, []int{1, 5})
	refused(t, err, "dimension 1: a copy of 5 elements from 4 of 8")
	for i := range numTypes {
		if got, err := ParseType(i.String()); got != i || err != nil {
			t.Error(got, err)
		}
	}
	_, err = ParseType("float64")
	refused(t, err, `element type "float64": want one of float32, bfloat16`)
}

// TestNPY checks that files come back, and that files of Python 2 and files with big-endian elements decode.
func TestNPY(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, v := range []Version{NPY1, NPY2, NPY3} {
		for kind := range numTypes {
			for _, s := range []Shape{{}, {5}, {2, 3}, {4, 1, 3, 2}} {
				for _, fortran := range []bool{false, true} {
					e := random(rng, kind, s.Elements())
					f, err := EncodeNPY(v, kind, s, e, fortran)
					if err != nil {
						t.Fatal(err)
					}
					k, shape, got, err := DecodeNPY(f)
					if err != nil || k != kind || !slices.Equal(shape, s) || !bytes.Equal(got, e) || (len(f)-len(e))%64 != 0 {
						t.Errorf("version %d, %s, shape %d: %s, %d, %v", v, kind, s, k, shape, err)
					}
				}
			}
		}
	}
	head := func(s string) []byte {
		return append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(s))), s...)
	}
	f := append(head("{\"shape\": (2L, 3L), 'fortran_order': True, 'descr': '>u2'}\n"), 0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6)
	if k, s, e, err := DecodeNPY(f); err != nil || k != Uint16 || fmt.Sprint(s) != "[2 3]" || fmt.Sprint(e) != "[1 0 2 0 3 0 4 0 5 0 6 0]" {
		t.Error(k, s, e, err)
	}
	for want, f := range map[string][]byte{
		"not those of numpy":            []byte("PK"),
		"version 4.0":                   []byte("\x93NUMPY\x04\x00\x00\x00"),
		"ends within":                   []byte("\x93NUMPY\x02\x00\x00\x00"),
		"a header of 4294967295 bytes":  []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"),
		"not UTF-8":                     []byte("\x93NUMPY\x03\x00\x01\x00\x00\x00\xff"),
		"want a dictionary":             head("[]"),
		`elements of type "<f8"`:        head("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }"),
		"elements with fields":          head("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
		"want True or False":            head("{'fortran_order': 1}"),
		`key "descr" comes twice`:       head("{'descr': '<f4', 'descr': '<f4'}"),
		`key "x" is unknown`:            head("{'x': 1}"),
		"want a comma before":           head("{'descr': '<f4' 'shape': (1,)}"),
		"1 keys came":                   head("{'descr': '<f4'}"),
		"want a tuple":                  head("{'shape': 3}"),
		"want at most 8 numbers":        head("{'shape': (1,1,1,1,1,1,1,1,1)}"),
		"has more than":                 head("{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
		"0 bytes of elements for shape": head("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}"),
		"with its last quote":           head("{'descr"),
		"want a string in quotes":       head("{3: 1}"),
		"dimension 0 has 0 elements":    head("{'descr': '|u1', 'fortran_order': False, 'shape': (0,)}"),
	} {
		_, _, _, err := DecodeNPY(f)
		refused(t, err, want)
	}
	_, err := EncodeNPY(Version{1, 1}, Uint8, Shape{1}, []byte{1}, false)
	refused(t, err, "version 1.1")
	_, err = EncodeNPY(NPY1, Uint8, Shape{2}, []byte{1}, false)
	refused(t, err, "1 bytes for shape [2] and uint8: want 2 bytes")
}

// FuzzDecodeNPY checks that no file stops the decoder, and that a decoded tensor comes back after encoding.
func FuzzDecodeNPY(f *testing.F) {
	for _, fortran := range []bool{false, true} {
		for _, v := range []Version{NPY1, NPY2, NPY3} {
			seed, _ := EncodeNPY(v, Uint16, Shape{2, 3}, make([]byte, 12), fortran)
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		kind, s, e, err := DecodeNPY(file)
		if err != nil {
			return
		}
		again, err := EncodeNPY(NPY2, kind, s, e, true)
		if err != nil {
			t.Fatal(err)
		}
		k, shape, got, err := DecodeNPY(again)
		if err != nil || k != kind || !slices.Equal(shape, s) || !bytes.Equal(got, e) {
			t.Fatalf("%s %d became %s %d: %v", kind, s, k, shape, err)
		}
	})
}

// FuzzExchange checks that operations with any description are refused or right.
func FuzzExchange(f *testing.F) {
	f.Add(uint8(0), uint8(1), uint8(1), uint8(2), uint8(3), uint8(1), uint8(1), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, op, kind, layouts, shardings, rows, cols, dim, h, ranks uint8) {
		from := Memory{Layout(layouts & 3), Sharding(shardings & 7), int(rows & 15), int(cols & 15)}
		to := Memory{Layout(layouts >> 4 & 3), Sharding(shardings >> 4 & 7), int(cols & 15), int(rows & 15)}
		s := Spec{Type(kind), Shape{2, int(h & 63), int(h>>2) * int(ranks&3)}, from}
		if _, err := NewExchange(Operation(op), s, int(dim), int(ranks&3), to); err != nil {
			return
		}
		cell(t, rand.New(rand.NewPCG(uint64(h), 1)), Operation(op), routes[1], s, int(dim), int(ranks&3), to)
	})
}
