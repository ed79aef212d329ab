package edm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ttfabric/node/edm/edmtest"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// bench is a fabric of simulated chips that run the kernels of this package, with a checker.
type bench struct {
	*edmtest.Fabric
	checker *Checker
	seen    map[Kind]int // events of EDMs by kind, since the last call of done
}

// newBench returns a bench. The seed determines the random delays of the kernels' starts and of NoC
// commands.
func newBench(t *testing.T, machine string, seed uint64, broken sabotage) *bench {
	t.Helper()
	b := &bench{seen: map[Kind]int{}}
	b.checker = NewChecker(func(p wire.PortID) (wire.PortID, bool) { return kernel.ConnectedEthernetCore(b.M, p.Node, p.Channel) })
	table := kernels(b.observe, broken)
	table["stranger"] = func(k *kernel.Context) { k.EthSetupHandshake(true) } // a kernel of the guide, and no EDM
	b.Fabric = edmtest.New(t, machine, seed, table)
	return b
}

// observe takes an event of an EDM.
func (b *bench) observe(e Event) {
	b.seen[e.Kind]++
	b.checker.Observe(e)
}

// fill writes random pages to the sources of a stream, and returns them.
func (b *bench) fill(s *Stream, seed uint64) (pages [][]byte) {
	b.T.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, f := range s.Flows {
		data := edmtest.Random(rng, f.Size)
		b.Write(f.From, f.Source, data)
		pages = append(pages, data)
	}
	return pages
}

// wrong lists the flows of a stream whose pages have missing or wrong bytes at the destination.
func (b *bench) wrong(s *Stream, pages [][]byte) (all []string) {
	b.T.Helper()
	for i, f := range s.Flows {
		if string(b.Read(f.To, f.Dest, f.Size)) != string(pages[i]) {
			all = append(all, fmt.Sprintf("the pages of %s to %s, channel %d, are wrong", f.From, f.To, f.Channel))
		}
	}
	return all
}

// done fails the test unless the job has ended as done on all chips of a stream, and the pages have
// arrived. done also fails the test if a kernel or an EDM broke a rule.
func (b *bench) done(s *Stream, pages [][]byte) {
	b.T.Helper()
	b.Done(s.Parts)
	n := len(s.Links.Ports())
	if b.seen[Begun] != n || b.seen[Ended] != n || b.seen[Sent] != b.seen[Released] || b.seen[Sent] == 0 && len(pages[0]) > 0 {
		b.T.Errorf("%d EDMs gave these events: %v", n, b.seen)
	}
	clear(b.seen)
	for _, list := range [][]string{b.checker.Finish(), b.wrong(s, pages)} {
		for _, x := range list {
			b.T.Error(x)
		}
	}
}

// line returns the line through the given chips.
func (b *bench) line(links int, chips ...wire.ChipID) *Path {
	b.T.Helper()
	var all []wire.FabricNodeID
	for _, c := range chips {
		all = append(all, wire.FabricNodeID{Chip: c})
	}
	p, err := NewLine(b.M, all, links)
	if err != nil {
		b.T.Fatal(err)
	}
	return p
}

// stream makes a stream, or fails the test.
func (b *bench) stream(p *Path, s Settings) *Stream {
	b.T.Helper()
	made, err := NewStream(b.M, 1, p, s)
	if err != nil {
		b.T.Fatal(err)
	}
	return made
}
