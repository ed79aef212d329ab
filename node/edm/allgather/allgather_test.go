package allgather

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ttfabric/node/edm"
	"ttfabric/node/edm/edmtest"
	"ttfabric/node/kernel"
	"ttfabric/router"
	"ttfabric/wire"
)

// bench is a fabric of simulated chips that run all-gathers, with a checker of their EDMs.
type bench struct {
	*edmtest.Fabric
	checker *edm.Checker
}

func newBench(t *testing.T, machine string, seed uint64) *bench {
	t.Helper()
	b := &bench{}
	b.check()
	table := edm.Observed(func(e edm.Event) { b.checker.Observe(e) })
	maps.Copy(table, Kernels)
	b.Fabric = edmtest.New(t, machine, seed, table)
	return b
}

// check begins with a new checker.
func (b *bench) check() {
	b.checker = edm.NewChecker(func(p wire.PortID) (wire.PortID, bool) { return kernel.ConnectedEthernetCore(b.M, p.Node, p.Channel) })
}

// path returns a line or a ring through chips of mesh 0.
func (b *bench) path(ring bool, links int, chips ...wire.ChipID) *edm.Path {
	b.T.Helper()
	var all []wire.FabricNodeID
	for _, c := range chips {
		all = append(all, wire.FabricNodeID{Chip: c})
	}
	make := edm.NewLine
	if ring {
		make = edm.NewRing
	}
	p, err := make(b.M, all, links)
	if err != nil {
		b.T.Fatal(err)
	}
	return p
}

// run runs an all-gather on random slices, calls fault while it runs, and compares each output with a naive
// concatenation.
func (b *bench) run(p *edm.Path, s Settings, seed uint64, fault func()) {
	b.T.Helper()
	op, err := New(b.M, 1, p, s)
	if err != nil {
		b.T.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	inner := s.Inner
	if inner == 0 {
		inner = s.Pages
	}
	want := make([][]byte, s.Pages*len(p.Chips)) // the output, page by page
	input := make([][][]byte, len(p.Chips))
	for i, in := range op.Inputs {
		for page := range s.Pages {
			data := edmtest.Random(rng, s.PageSize)
			b.Write(p.Chips[i], in.Page(page), data)
			input[i] = append(input[i], data)
		}
	}
	at := 0
	for outer := range s.Pages / inner { // the naive concatenation along a dimension
		for i := range p.Chips {
			for q := range inner {
				want[at] = input[i][outer*inner+q]
				at++
			}
		}
	}
	b.Start(op.Parts)
	if fault != nil {
		b.Run(5*time.Millisecond, b.Quiet)
		if b.Quiet() {
			b.T.Fatal("the all-gather ended before the fault")
		}
		fault()
	}
	b.Run(time.Minute, b.Quiet)
	b.Done(op.Parts)
	for _, x := range b.checker.Finish() {
		b.T.Error(x)
	}
	for i, out := range op.Outputs {
		wrong := 0
		for page := range want {
			if string(b.Read(p.Chips[i], out.Page(page), s.PageSize)) != string(want[page]) {
				wrong++
			}
		}
		if wrong > 0 {
			b.T.Errorf("chip %s: %d of %d pages are wrong", p.Chips[i], wrong, len(want))
		}
	}
}

// settings are all-gathers of all kinds.
func settings(ring bool) map[string]Settings {
	all := map[string]Settings{}
	for _, scheme := range []Scheme{OneWay, Halves, Halfway} {
		if !ring && scheme != Halfway {
			continue
		}
		for _, layout := range []edm.Layout{edm.Interleaved, edm.Sharded} {
			all[fmt.Sprintf("%s, %s", scheme, layout)] = Settings{Scheme: scheme, Workers: 1, Pages: 23, PageSize: 1024, Layout: layout, Banks: 4}
			all[fmt.Sprintf("%s, %s, inner dimension", scheme, layout)] = Settings{Scheme: scheme, Workers: 2, Pages: 24, PageSize: 2048, Inner: 3, Layout: layout, Banks: 5}
			all[fmt.Sprintf("%s, %s, one page", scheme, layout)] = Settings{Scheme: scheme, Workers: 3, Pages: 1, PageSize: 64, Layout: layout, Banks: 1}
		}
	}
	return all
}

// TestAllGather runs all-gathers of all kinds on lines and rings of several lengths, and with several links,
// and compares each page of each output.
func TestAllGather(t *testing.T) {
	for _, c := range []struct {
		name, machine string
		ring          bool
		links         int
		chips         []wire.ChipID
	}{
		{"line of 2", "mesh:1x2", false, 2, []wire.ChipID{0, 1}},
		{"line of 3", "mesh:1x3", false, 1, []wire.ChipID{0, 1, 2}},
		{"line of 5", "mesh:1x5", false, 2, []wire.ChipID{4, 3, 2, 1, 0}},
		{"ring of 2", "mesh:1x2", true, 1, []wire.ChipID{0, 1}},
		{"ring of 4", "mesh:2x2", true, 2, []wire.ChipID{0, 1, 3, 2}},
		{"ring of 6", "mesh:2x3", true, 1, []wire.ChipID{0, 1, 2, 5, 4, 3}},
		{"ring of 5", "ring:5", true, 1, []wire.ChipID{0, 1, 2, 3, 4}},
	} {
		for kind, s := range settings(c.ring) {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				b := newBench(t, c.machine, 11)
				p := b.path(c.ring, c.links, c.chips...)
				for round := range uint64(2) { // the second round finds the words that the first round has left
					b.run(p, s, round, nil)
				}
			})
		}
	}
}

// TestAllGatherUnderFaults runs all-gathers under three faults: the cables lose datagrams, a link
// trains anew, or a cable has failed. The frames of the failed cable's link take the parallel
// cable.
func TestAllGatherUnderFaults(t *testing.T) {
	for _, scheme := range []Scheme{Halves, Halfway} {
		for _, fault := range []string{"loss", "retrain", "fallback"} {
			t.Run(fmt.Sprintf("%s, %s", scheme, fault), func(t *testing.T) {
				b := newBench(t, "t3000", 13)
				rng := rand.New(rand.NewPCG(5, 6))
				b.Lose = func() bool { return rng.IntN(50) == 0 }
				p := b.path(true, 1, 0, 1, 5, 4)
				l := p.Hops[2][0]
				b.run(p, Settings{Scheme: scheme, Workers: 2, Pages: 60, PageSize: 2048, Layout: edm.Sharded, Banks: 6}, 1, func() {
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
}

// TestRefused checks that New names what is wrong.
func TestRefused(t *testing.T) {
	b := newBench(t, "mesh:2x2", 0)
	ring, line := b.path(true, 1, 0, 1, 3, 2), b.path(false, 1, 0, 1)
	good := Settings{Scheme: Halfway, Workers: 1, Pages: 4, PageSize: 64, Banks: 1}
	for want, change := range map[string]func(s *Settings) *edm.Path{
		"slices of 0 pages":             func(s *Settings) *edm.Path { s.Pages = 0; return ring },
		"slices of 4 pages of 65 bytes": func(s *Settings) *edm.Path { s.PageSize = 65; return ring },
		"0 workers: want 1 to 3":        func(s *Settings) *edm.Path { s.Workers = 0; return ring },
		"4 workers: want 1 to 3":        func(s *Settings) *edm.Path { s.Workers = 4; return ring },
		"3 pages of a slice side by side: want a divisor of the 4 pages": func(s *Settings) *edm.Path { s.Inner = 3; return ring },
		"layout 2 and scheme 2":             func(s *Settings) *edm.Path { s.Layout = 2; return ring },
		`the scheme "halves" on a line`:     func(s *Settings) *edm.Path { s.Scheme = Halves; return line },
		"tensors in 0 banks: want 1 to 140": func(s *Settings) *edm.Path { s.Banks = 0; return ring },
		"bytes are left":                    func(s *Settings) *edm.Path { s.Pages = 1 << 16; return ring },
		"Tensix tile ":                      func(s *Settings) *edm.Path { s.Banks = 80; return ring },
		"pages of 163840 bytes":             func(s *Settings) *edm.Path { s.PageSize, s.Pages = 163840, 1; return ring },
	} {
		s := good
		p := change(&s)
		if _, err := New(b.M, 1, p, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
