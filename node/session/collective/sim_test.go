package collective_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	pure "ttfabric/node/collective"
	"ttfabric/node/session"
	"ttfabric/node/session/collective"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

var full = flag.Bool("collective.full", false, "run all cases: 10,000 random calls, and a death at each of 64 instants; scripts/check does so")

// errorsOf calls f for n ranks at once, and returns the errors.
func errorsOf(n int, f func(r int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { errs[r] = f(r) })
	}
	wg.Wait()
	return errs
}

// onAll calls f for n ranks at once. An error ends the test.
func onAll(t testing.TB, n int, f func(r int) error) {
	t.Helper()
	for r, err := range errorsOf(n, f) {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

// links returns the number of planes for the links of a case. The dispatcher reserves one of the two links between the
// chips of a board of a T3000, and the EDM uses no reserved links.
func (b *bubble) links(links int) int {
	if b.means == collective.EDM && slices.ContainsFunc(b.topo.Chips, func(c topo.Chip) bool {
		return slices.ContainsFunc(b.topo.Ports(c.Node), func(p topo.Port) bool { return b.topo.Reserved(p.Local) })
	}) {
		return 1
	}
	return links
}

// open opens the communicators of all chips.
func open(ctx context.Context, t testing.TB, b *bubble, links int) []*collective.Comm {
	t.Helper()
	var chips []wire.FabricNodeID
	for _, c := range b.topo.Chips {
		chips = append(chips, c.Node)
	}
	meet := collective.Together(len(chips))
	cs := make([]*collective.Comm, len(chips))
	onAll(t, len(chips), func(r int) (err error) {
		cs[r], err = collective.New(ctx, session.New(&port{b, r}), collective.Options{Chips: chips, Links: links, Means: b.means, Meet: meet})
		return err
	})
	b.comms = append(b.comms, cs...)
	return cs
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// check is like compare, and fails the test if there is an error.
func check(ctx context.Context, t testing.TB, cs []*collective.Comm, links int, r *rand.Rand, calls ...pure.Call) {
	t.Helper()
	if err := compare(ctx, cs, links, r, calls...); err != nil {
		t.Fatal(err)
	}
}

// compare performs calls on all ranks with random input, and compares the outputs with those of the schedules on
// one machine, byte for byte. The tests of package node/collective compare the schedules with a naive
// computation. Each rank performs one call after the other, with random pauses, so some ranks are ahead of others.
func compare(ctx context.Context, cs []*collective.Comm, links int, r *rand.Rand, calls ...pure.Call) error {
	n := len(cs)
	in, out, want := make([][][]byte, len(calls)), make([][][]byte, len(calls)), make([][][]byte, len(calls))
	pauses := make([][]time.Duration, len(calls))
	for i, call := range calls {
		s, err := pure.Plan(call, cs[0].Path(), links)
		if err != nil {
			return err
		}
		for rank := range n {
			e := call.Type.Size()
			in[i], out[i] = append(in[i], random(r, e*call.InCount(rank, n))), append(out[i], make([]byte, e*call.OutCount(rank, n)))
			pauses[i] = append(pauses[i], time.Duration(r.IntN(100)*r.IntN(10))*time.Microsecond)
		}
		want[i] = s.Reference(in[i])
	}
	err := errors.Join(errorsOf(n, func(rank int) error {
		for i, call := range calls {
			if len(calls) > 1 {
				time.Sleep(pauses[i][rank])
			}
			if err := cs[rank].Do(ctx, call, in[i][rank], out[i][rank]); err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
		}
		return nil
	})...)
	for i, call := range calls {
		for rank := range n {
			if err == nil && !bytes.Equal(out[i][rank], want[i][rank]) {
				err = fmt.Errorf("call %d of %d, %+v: rank %d has wrong bytes", i, len(calls), call, rank)
			}
		}
	}
	return err
}

// batch is the number of calls that a rank performs without a meeting of all ranks.
const batch = 10

// draw draws a call.
func draw(r *rand.Rand, cs []*collective.Comm) pure.Call {
	call := pure.Call{Kind: pure.Kind(r.IntN(len(pure.Kinds()))), Type: pure.Type(r.IntN(4)), Op: pure.Op(r.IntN(4)), Root: r.IntN(len(cs)), Scheme: pure.Scheme(r.IntN(4))}
	call.Count = r.IntN([]int{3, 100, 3000, 30000}[r.IntN(4)])
	if call.Scheme == pure.Halves && !cs[0].Path().Ring && len(cs) > 2 {
		call.Scheme = pure.Auto
	}
	return call
}

// eachMeans runs a test for each means that moves the data.
func eachMeans(t *testing.T, f func(t *testing.T, means collective.Means)) {
	for _, means := range []collective.Means{collective.Fabric, collective.EDM} {
		t.Run(means.String(), func(t *testing.T) { f(t, means) })
	}
}

// TestRandomCalls performs random calls of every operation, on rings and lines, over one plane and two.
func TestRandomCalls(t *testing.T) { eachMeans(t, randomCalls) }

func randomCalls(t *testing.T, means collective.Means) {
	for _, c := range []struct {
		machine string
		links   int
		calls   int
	}{{"n300", 2, 40}, {"mesh:2x2", 1, 40}, {"mesh:1x4", 1, 40}, {"t3000", 2, 20}, {"mesh:3x3", 1, 20}, {"ring:5", 1, 20}} {
		if *full { // 10,000 calls in all
			c.calls = 2000
			if c.machine == "n300" || c.machine == "ring:5" {
				c.calls = 1000
			}
		}
		t.Run(c.machine, func(t *testing.T) {
			begin := time.Now()
			runBy(t, means, c.machine, 1, func(t *testing.T, b *bubble) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				links := b.links(c.links)
				cs := open(ctx, t, b, links)
				r := rand.New(rand.NewPCG(7, 1))
				for range c.calls / batch {
					var calls []pure.Call
					for range batch {
						calls = append(calls, draw(r, cs))
					}
					check(ctx, t, cs, links, r, calls...)
				}
				for _, x := range cs {
					x.Close()
				}
				b.settled(t)
				t.Logf("%d calls in %v of virtual time, %d events, hash %x; %d parts of jobs", c.calls, time.Since(b.begun), b.d.Events(), b.hash, b.jobs.done)
			})
			t.Logf("took %v", time.Since(begin))
		})
	}
}

// TestMain lets one goroutine run at a time. Go then runs the programs of a bubble in the same order each time, but
// for a goroutine that Go interrupts after 10 ms.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
