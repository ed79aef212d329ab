package collective

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// path returns the path of the first n chips of a topology; 0: of all chips.
func path(t testing.TB, name string, n int) (*Path, *topo.Topology) {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	ns := m.Nodes()
	if n > 0 {
		ns = ns[:n]
	}
	p, err := FindPath(m, ns)
	if err != nil {
		t.Fatal(err)
	}
	return p, m
}

func TestFindPath(t *testing.T) {
	for _, c := range []struct {
		name          string
		n             int
		ring, strided bool
	}{
		{"n300", 0, false, false}, {"t3000", 0, true, false}, {"mesh:2x2", 0, true, false}, {"mesh:3x3", 0, false, false},
		{"mesh:3x4", 0, true, false}, {"mesh:4x3", 0, true, false}, {"galaxy", 0, true, false}, {"mesh:1x7", 0, false, false},
		{"ring:5", 0, true, false}, {"torus:3x3", 0, true, false}, {"2xt3000", 0, true, false}, {"spec-l1", 12, true, false},
		{"t3000", 1, false, false}, {"t3000", 3, false, false}, {"mesh:5x5", 0, false, false}, {"mesh:8x8", 0, true, false}, {"mesh:3x3", 5, false, false},
	} {
		m, err := topo.Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := path(t, c.name, c.n)
		ns := m.Nodes()
		seen := map[int]bool{}
		for i, r := range p.Order {
			if seen[r] || p.At[r] != i {
				t.Errorf("%s: rank %d is at two positions", c.name, r)
			}
			seen[r] = true
			if i+1 < len(p.Order) && !p.Strided && !joined(m, ns[r], ns[p.Order[i+1]]) {
				t.Errorf("%s: no cable joins %v and %v", c.name, ns[r], ns[p.Order[i+1]])
			}
		}
		if p.Ring && !joined(m, ns[p.Order[0]], ns[p.Order[len(p.Order)-1]]) {
			t.Errorf("%s: the ring is open", c.name)
		}
		if c.name == "2xt3000" || c.name == "spec-l1" { // whether a ring exists depends on the cables between the meshes, so the test only logs the path
			t.Logf("%s: %s", c.name, p)
			continue
		}
		if p.Ring != c.ring || p.Strided != c.strided {
			t.Errorf("%s with %d chips: %s", c.name, c.n, p)
		}
	}
	m, _ := topo.Named("mesh:3x3")
	ns := m.Nodes()
	if p, err := FindPath(m, []wire.FabricNodeID{ns[0], ns[2], ns[4], ns[6], ns[8]}); err != nil || !p.Strided || p.Ring {
		t.Errorf("chips without common cables: %v, %v", p, err)
	}
	if _, err := FindPath(m, []wire.FabricNodeID{ns[0], ns[0]}); err == nil {
		t.Error("a chip occurs twice, and FindPath returns no error")
	}
}

func joined(m *topo.Topology, a, b wire.FabricNodeID) bool {
	for _, p := range m.Ports(a) {
		if p.Peer.Node == b {
			return true
		}
	}
	return false
}

// naive computes outputs without schedules. Sums follow the order of the ranks, so callers use numbers
// whose sums are exact.
func naive(c *Call, in [][]byte) (out [][]byte) {
	n, e := len(in), c.Type.Size()
	size := c.Count * e
	fold := func(off int) []byte {
		x := bytes.Clone(in[0][off : off+size])
		for r := 1; r < n; r++ {
			Accumulate(c.Type, c.Op, x, x, in[r][off:off+size])
		}
		return x
	}
	for r := range n {
		var o []byte
		switch {
		case c.Kind == AllGather, c.Kind == Gather && r == c.Root:
			o = bytes.Join(in, nil)
		case c.Kind == ReduceScatter:
			o = fold(r * size)
		case c.Kind == AllReduce, c.Kind == Reduce && r == c.Root:
			o = fold(0)
		case c.Kind == Broadcast:
			o = in[c.Root]
		case c.Kind == Scatter:
			o = in[c.Root][r*size : (r+1)*size]
		case c.Kind == AllToAll:
			for from := range n {
				o = append(o, in[from][r*size:(r+1)*size]...)
			}
		case c.Kind == SendReceive:
			o = in[(r+n-1)%n]
		}
		out = append(out, o)
	}
	return out
}

// small returns random elements whose sums and products are exact in every type: 0 to 2 for sums, and
// powers of two for products.
func small(r *rand.Rand, t Type, o Op, count int) []byte {
	var b []byte
	for range count {
		v := r.IntN(3)
		if o == Product {
			v = 1 + r.IntN(2)
		}
		switch t {
		case Float32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case BFloat16:
			b = binary.LittleEndian.AppendUint16(b, narrow(float32(v)))
		case Int32:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case Uint8:
			b = append(b, byte(v))
		}
	}
	return b
}

// TestSchedules compares every operation by every scheme with a naive computation, on lines, rings and
// chips without common cables, for even and odd numbers of elements.
func TestSchedules(t *testing.T) {
	var paths []*Path
	for _, name := range []string{"mesh:1x1", "n300", "mesh:1x3", "mesh:1x4", "ring:3", "mesh:2x2", "ring:5", "t3000", "mesh:3x3", "galaxy"} {
		p, _ := path(t, name, 0)
		paths = append(paths, p)
	}
	m, _ := topo.Named("mesh:3x3")
	ns := m.Nodes()
	p, err := FindPath(m, []wire.FabricNodeID{ns[0], ns[2], ns[4], ns[6], ns[8]})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	runs := 0
	for _, p := range append(paths, p) {
		n := len(p.Order)
		for k := range numKinds {
			for scheme := range numSchemes {
				for i, count := range []int{0, 1, 3, 64, 257} {
					c := Call{Kind: k, Count: count, Scheme: scheme, Type: Type((i + runs) % int(numTypes)), Op: Op((i/2 + runs) % int(numOps)), Root: r.IntN(n)}
					s, err := Plan(c, p, 1+runs%3)
					if scheme == Halves && !p.Ring && n > 2 {
						if err == nil {
							t.Fatalf("halves on %s: no error", p)
						}
						continue
					}
					if err == nil {
						err = s.Check()
					}
					if err != nil {
						t.Fatalf("%+v on %s: %v", c, p, err)
					}
					var in [][]byte
					for rank := range n {
						in = append(in, small(r, c.Type, c.Op, c.InCount(rank, n)))
					}
					outs := s.Reference(in)
					for rank, want := range naive(&c, in) {
						if got := outs[rank]; !bytes.Equal(got, want) {
							t.Fatalf("%+v by %s on %s, rank %d: got %v, want %v", c, s.Scheme, p, rank, got, want)
						}
					}
					once(t, s)
					runs++
				}
			}
		}
	}
	t.Logf("%d schedules", runs)
}

// once checks that no element of any rank's work is stored twice.
func once(t *testing.T, s *Schedule) {
	t.Helper()
	stored := make([]map[int]bool, s.Ranks)
	for r := range stored {
		stored[r] = map[int]bool{}
	}
	for _, c := range s.Copies {
		for i := range c.Len {
			stored[c.Rank][c.DstOff+i] = true
		}
	}
	for i, m := range s.Moves {
		if m.Take != Store {
			continue
		}
		for x := range m.Len {
			if stored[m.To][m.DstOff+x] {
				t.Fatalf("%s by %s: move %d stores element %d of rank %d a second time", s.Kind, s.Scheme, i, m.DstOff+x, m.To)
			}
			stored[m.To][m.DstOff+x] = true
		}
	}
}

// TestBytesPerLink compares the elements on each link and plane with the formulas.
func TestBytesPerLink(t *testing.T) {
	const c = 8 * 8 * 3 * 2
	for _, name := range []string{"t3000", "mesh:1x8"} {
		p, _ := path(t, name, 0)
		n := len(p.Order)
		for planes := 1; planes <= 3; planes++ {
			for _, k := range []Kind{AllGather, ReduceScatter, AllReduce, Broadcast, Reduce} {
				scheme := Both
				if p.Ring {
					scheme = Halves
				}
				s, err := Plan(Call{Kind: k, Count: c, Scheme: scheme}, p, planes)
				if err != nil {
					t.Fatal(err)
				}
				got := map[Pair]int{}
				for _, m := range s.Moves {
					got[Pair{m.From, m.To, m.Lane / 2}] += m.Len
				}
				for q, elements := range got {
					from, to := p.At[q.From], p.At[q.To]
					want := 0                  // number of elements on this link, on all planes together
					switch pass := from + 1; { // number of ranks whose parts pass a link of the line to the right
					case p.Ring && (k == AllGather || k == ReduceScatter):
						want = (n - 1) * c / 2
					case p.Ring && k == AllReduce:
						want = (n - 1) * c / n
					case p.Ring:
						want = c / 2
						if elements == 0 {
							continue
						}
					default:
						if to < from {
							pass = n - from
						}
						want = map[Kind]int{AllGather: pass * c, ReduceScatter: (n - pass) * c, AllReduce: c, Broadcast: c, Reduce: c}[k]
					}
					if elements != want/planes {
						t.Errorf("%s on %s over %d planes, link %v: %d elements, want %d", k, name, planes, q, elements, want/planes)
					}
				}
			}
		}
	}
	// The second bidirectional scheme needs half as many steps.
	p, _ := path(t, "t3000", 0)
	for scheme, want := range map[Scheme]int{Halves: 7, Both: 4, Direct: 7, Doubling: 3} {
		s, err := Plan(Call{Kind: AllGather, Count: c, Scheme: scheme}, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		if last := s.Moves[len(s.Moves)-1].Step + 1; last != want {
			t.Errorf("all-gather by %s: %d steps, want %d", scheme, last, want)
		}
	}
}

// TestOrderOfSummation compares a reduce-scatter with the guide's order, for numbers whose sums
// depend on the order.
func TestOrderOfSummation(t *testing.T) {
	p, _ := path(t, "ring:5", 0)
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range []Type{Float32, BFloat16} {
		const n, c = 5, 8
		s, err := Plan(Call{Kind: ReduceScatter, Count: c, Type: typ, Scheme: Halves}, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		e := typ.Size()
		var in [][]byte
		for range n {
			b := make([]byte, n*c*e)
			for i := 0; i < len(b); i += e {
				v := math.Float32bits(float32(r.NormFloat64()) * float32(math.Pow(10, float64(r.IntN(6)))))
				if e == 4 {
					binary.LittleEndian.PutUint32(b[i:], v)
				} else {
					binary.LittleEndian.PutUint16(b[i:], uint16(v>>16))
				}
			}
			in = append(in, b)
		}
		for pos, got := range s.Reference(in) {
			for i := range c {
				dir := -1 // the second half of a part goes from chip f-1 downwards, as in the guide
				if i < c/2 {
					dir = 1
				}
				at := (pos*c + i) * e
				sum := bytes.Clone(in[p.Order[(pos+dir+n)%n]][at : at+e])
				for h := 2; h <= n; h++ {
					from := ((pos+dir*h)%n + n) % n
					Accumulate(typ, Sum, sum, sum, in[p.Order[from]][at:at+e])
				}
				if rank := p.Order[pos]; rank == pos && !bytes.Equal(got[i*e:(i+1)*e], sum) {
					t.Errorf("%s, rank %d, element %d: %x, want %x", typ, rank, i, got[i*e:(i+1)*e], sum)
				}
			}
		}
	}
}

// TestCircleIsFound lets two moves wait for each other.
func TestCircleIsFound(t *testing.T) {
	s := &Schedule{Call: Call{Count: 4}, Ranks: 2, Lanes: 2, Work: []int{4, 4}, Result: []int{0, 0}, Moves: []Move{
		{From: 0, To: 1, Len: 4, SendAfter: 1, TakeAfter: -1},
		{From: 1, To: 0, Len: 4, SendAfter: 0, TakeAfter: -1},
	}}
	if err := s.Check(); err == nil {
		t.Error("two moves wait for each other, and the check finds no circle")
	}
	s.Moves[1].SendAfter = -1
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestBFloat16Rounds(t *testing.T) {
	for _, c := range []struct {
		in   uint32
		want uint16
	}{{0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x3F808001, 0x3F81}, {0x7F800000, 0x7F80}, {0x7F7FFFFF, 0x7F80}, {0x7F800001, 0x7FC0}, {0xFFC00000, 0xFFC0}} {
		if got := narrow(math.Float32frombits(c.in)); got != c.want {
			t.Errorf("%08x is rounded to %04x, want %04x", c.in, got, c.want)
		}
	}
}

// TestUnaligned computes with slices that begin at odd addresses.
func TestUnaligned(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for typ := range numTypes {
		for op := range numOps {
			a, b := small(r, typ, op, 33), small(r, typ, op, 33)
			want := make([]byte, len(a))
			Accumulate(typ, op, want, a, b)
			shift := func(x []byte) []byte { return append(make([]byte, 1, 1+len(x)), x...)[1:] }
			got := shift(make([]byte, len(a)))
			Accumulate(typ, op, got, shift(a), shift(b))
			if !bytes.Equal(got, want) {
				t.Errorf("%s %s: %x, want %x", typ, op, got, want)
			}
		}
	}
}
