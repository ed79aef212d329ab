package reducescatter

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/edm"
	"ttfabric/node/edm/edmtest"
	"ttfabric/node/kernel"
	"ttfabric/router"
	"ttfabric/wire"
)

// bench is a fabric of simulated chips that run reduce-scatters, with a checker of their EDMs.
type bench struct {
	*edmtest.Fabric
	checker *edm.Checker
}

func newBench(t *testing.T, machine string) *bench {
	t.Helper()
	b := &bench{}
	b.checker = edm.NewChecker(func(p wire.PortID) (wire.PortID, bool) { return kernel.ConnectedEthernetCore(b.M, p.Node, p.Channel) })
	table := edm.Observed(b.checker.Observe)
	maps.Copy(table, Kernels)
	b.Fabric = edmtest.New(t, machine, 11, table)
	return b
}

// ring returns a ring through chips of mesh 0.
func (b *bench) ring(links int, chips ...wire.ChipID) *edm.Path {
	b.T.Helper()
	var all []wire.FabricNodeID
	for _, c := range chips {
		all = append(all, wire.FabricNodeID{Chip: c})
	}
	p, err := edm.NewRing(b.M, all, links)
	if err != nil {
		b.T.Fatal(err)
	}
	return p
}

// page returns random elements. Floating-point elements have many exponents, so the order of a sum matters.
func page(rng *rand.Rand, t collective.Type, size int) []byte {
	b := edmtest.Random(rng, size)
	for i := 0; i < size; i += t.Size() {
		f := math.Float32bits(float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(12)))))
		switch t {
		case collective.Float32:
			copy(b[i:], []byte{byte(f), byte(f >> 8), byte(f >> 16), byte(f >> 24)})
		case collective.BFloat16:
			copy(b[i:], []byte{byte(f >> 16), byte(f >> 24)})
		}
	}
	return b
}

// run runs a reduce-scatter on random tensors, calls fault while it runs, and compares each output byte for byte with
// sums in the guide's order.
func (b *bench) run(p *edm.Path, s Settings, fault func()) {
	b.T.Helper()
	op, err := New(b.M, 1, p, s)
	if err != nil {
		b.T.Fatal(err)
	}
	rng, n := rand.New(rand.NewPCG(3, 4)), len(p.Chips)
	input := make([][][]byte, n)
	for i, in := range op.Inputs {
		for at := range in.Pages {
			data := page(rng, s.Type, s.PageSize)
			b.Write(p.Chips[i], in.Page(at), data)
			input[i] = append(input[i], data)
		}
	}
	b.Start(op.Parts)
	if fault != nil {
		b.Run(5*time.Millisecond, b.Quiet)
		if b.Quiet() {
			b.T.Fatal("the reduce-scatter ended before the fault")
		}
		fault()
	}
	b.Run(time.Minute, b.Quiet)
	b.Done(op.Parts)
	for _, x := range b.checker.Finish() {
		b.T.Error(x)
	}
	for f, out := range op.Outputs {
		for at := range s.Pages {
			from := at // page of the input: fractures lie behind each other, in runs of Inner pages
			if from += f * s.Pages; s.Inner > 0 {
				from = at/s.Inner*s.Inner*n + f*s.Inner + at%s.Inner
			}
			sum := append([]byte(nil), input[(f+n-1)%n][from]...)
			for k := 2; k <= n; k++ {
				collective.Accumulate(s.Type, s.Op, sum, sum, input[(f+2*n-k)%n][from])
			}
			if string(b.Read(p.Chips[f], out.Page(at), s.PageSize)) != string(sum) {
				b.T.Errorf("chip %s: page %d of %d is wrong", p.Chips[f], at, s.Pages)
			}
		}
	}
}

// TestReduceScatter runs reduce-scatters on rings of several sizes, with all types and reductions, and compares each
// byte.
func TestReduceScatter(t *testing.T) {
	for _, c := range []struct {
		machine string
		links   int
		chips   []wire.ChipID
	}{
		{"mesh:1x2", 1, []wire.ChipID{0, 1}},
		{"mesh:2x2", 2, []wire.ChipID{0, 1, 3, 2}},
		{"ring:5", 1, []wire.ChipID{4, 3, 2, 1, 0}},
	} {
		for i := range 16 {
			s := Settings{Type: collective.Type(i % 4), Op: collective.Op(i / 4), Workers: 1 + i%3, Pages: 24, PageSize: 1024, Inner: i % 2 * 3, Slice: 1 + i%2, Layout: edm.Layout(i / 2 % 2), Banks: 4}
			t.Run(fmt.Sprintf("%s, %s of %s", c.machine, s.Op, s.Type), func(t *testing.T) {
				b := newBench(t, c.machine)
				p := b.ring(c.links, c.chips...)
				for range 2 { // the second round finds the words that the first round has left
					b.run(p, s, nil)
				}
			})
		}
	}
}

// TestReduceScatterUnderFaults runs reduce-scatters while cables lose datagrams, while a link trains anew, and after a
// cable has failed.
func TestReduceScatterUnderFaults(t *testing.T) {
	for _, fault := range []string{"loss", "retrain", "fallback"} {
		t.Run(fault, func(t *testing.T) {
			b := newBench(t, "t3000")
			rng := rand.New(rand.NewPCG(5, 6))
			b.Lose = func() bool { return rng.IntN(50) == 0 }
			p := b.ring(1, 0, 1, 5, 4)
			l := p.Hops[2][0]
			b.run(p, Settings{Type: collective.BFloat16, Workers: 2, Pages: 60, PageSize: 2048, Layout: edm.Sharded, Banks: 6}, func() {
				switch fault {
				case "retrain":
					if err := b.Chips[l.From.Node].Command(b.Now, l.From.Channel, router.CommandRetrain); err != nil {
						t.Error(err)
					}
				case "fallback":
					b.Gone[l.From], b.Gone[l.To] = true, true
				}
			})
		})
	}
}

// TestLargeSliceDeadlocks shows that a ring with slices of one packet more than [Buffers] stops, and that the same ring
// ends with slices of Buffers packets. New refuses the larger slices, so the test gives them to the workers directly.
func TestLargeSliceDeadlocks(t *testing.T) {
	for slice := 1; slice <= Buffers+1; slice++ {
		b := newBench(t, "ring:4")
		op, err := New(b.M, 1, b.ring(1, 0, 1, 2, 3), Settings{Workers: 1, Pages: 16 * (Buffers + 1), PageSize: 1024, Banks: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range op.Parts {
			for _, k := range j.Programs[0].Kernels {
				if k.Kernel == workerName {
					k.Args[4*argSlice] = byte(slice)
				}
			}
		}
		b.Start(op.Parts)
		if ended := b.Run(20*time.Second, b.Quiet); ended != (slice <= Buffers) {
			t.Errorf("slices of %d packets with %d buffers: ended %t", slice, Buffers, ended)
		}
	}
}

// TestKilledChip kills a chip at several instants of a reduce-scatter. The job must end on each other chip with an error
// that names the killed chip.
func TestKilledChip(t *testing.T) {
	for instant := range 4 {
		b := newBench(t, "t3000")
		p := b.ring(1, 0, 1, 2, 3, 7, 6, 5, 4)
		op, err := New(b.M, 1, p, Settings{Workers: 1, Pages: 60, PageSize: 2048, Banks: 6, Patience: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		b.Start(op.Parts)
		b.Run(time.Duration(instant)*time.Millisecond, func() bool { return false })
		killed := p.Chips[(3*instant+2)%len(p.Chips)]
		if len(b.Chips[killed].Jobs()) == 0 {
			t.Fatal("the reduce-scatter ended before the chip was killed")
		}
		b.Kill(killed)
		b.Run(30*time.Second, b.Quiet)
		for _, c := range p.Chips {
			if want := "chip died, first at chip " + killed.String(); c != killed && !strings.Contains(b.Ends[c], want) {
				t.Errorf("chip %s: %q, want %q", c, b.Ends[c], want)
			}
		}
	}
}

// TestRefused checks that New names what is wrong.
func TestRefused(t *testing.T) {
	b := newBench(t, "mesh:2x2")
	ring := b.ring(1, 0, 1, 3, 2)
	line, err := edm.NewLine(b.M, ring.Chips[:2], 1)
	if err != nil {
		t.Fatal(err)
	}
	good := Settings{Workers: 1, Pages: 4, PageSize: 64, Banks: 1}
	for want, change := range map[string]func(s *Settings) *edm.Path{
		"on a line: want a ring":    func(s *Settings) *edm.Path { return line },
		"one of the two is unknown": func(s *Settings) *edm.Path { s.Type = 9; return ring },
		"fractures of 0 pages":      func(s *Settings) *edm.Path { s.Pages = 0; return ring },
		"pages of 65 bytes":         func(s *Settings) *edm.Path { s.PageSize = 65; return ring },
		"0 workers":                 func(s *Settings) *edm.Path { s.Workers = 0; return ring },
		"3 pages of a fracture side by side: want a divisor of the 4 pages": func(s *Settings) *edm.Path { s.Inner = 3; return ring },
		"slices of 3 packets: all chips of":                                 func(s *Settings) *edm.Path { s.Slice = 3; return ring },
		"layout 2 is unknown":                                               func(s *Settings) *edm.Path { s.Layout = 2; return ring },
		"tensors in 0 banks":                                                func(s *Settings) *edm.Path { s.Banks = 0; return ring },
		"bytes are left":                                                    func(s *Settings) *edm.Path { s.Pages = 1 << 16; return ring },
		"pages of 163840 bytes: a buffer of":                                func(s *Settings) *edm.Path { s.PageSize, s.Pages = 163840, 1; return ring },
	} {
		s := good
		p := change(&s)
		if _, err := New(b.M, 1, p, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
