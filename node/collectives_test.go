package node_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ttfabric/node"
	pure "ttfabric/node/collective"
	"ttfabric/node/session"
	"ttfabric/node/session/collective"
	"ttfabric/wire"
)

// communicators opens the communicators of all chips.
func communicators(ctx context.Context, t testing.TB, ns []*node.Node, links int) []*collective.Comm {
	t.Helper()
	return communicatorsWith(ctx, t, ns, collective.Options{Links: links})
}

// communicatorsWith opens the communicators of all chips, with the given options.
func communicatorsWith(ctx context.Context, t testing.TB, ns []*node.Node, o collective.Options) []*collective.Comm {
	t.Helper()
	for _, n := range ns {
		o.Chips = append(o.Chips, n.Self())
	}
	o.Meet = collective.Together(len(ns))
	cs := make([]*collective.Comm, len(ns))
	onAll(t, len(ns), func(r int) (err error) {
		cs[r], err = collective.New(ctx, session.New(ns[r]), o)
		return err
	})
	return cs
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

// oneCall performs a call on all ranks with random input, and compares the outputs with those of the
// schedule on one machine, byte for byte.
func oneCall(ctx context.Context, t testing.TB, cs []*collective.Comm, call pure.Call, links int, seed uint64) {
	t.Helper()
	n, e := len(cs), call.Type.Size()
	s, err := pure.Plan(call, cs[0].Path(), links)
	if err != nil {
		t.Fatal(err)
	}
	var in [][]byte
	for r := range n {
		in = append(in, random(e*call.InCount(r, n), seed+uint64(r)))
	}
	want := s.Reference(in)
	out := make([][]byte, n)
	onAll(t, n, func(r int) error {
		out[r] = make([]byte, e*call.OutCount(r, n))
		return cs[r].Do(ctx, call, in[r], out[r])
	})
	for r := range n {
		if !bytes.Equal(out[r], want[r]) {
			t.Fatalf("%+v: rank %d has wrong bytes", call, r)
		}
	}
}

// inPlace checks that a send-receive can have the same input and output, also with several messages.
func inPlace(ctx context.Context, t testing.TB, cs []*collective.Comm) {
	t.Helper()
	n := len(cs)
	var in, out [][]byte
	for r := range n {
		in = append(in, random(300000, uint64(r)))
		out = append(out, bytes.Clone(in[r]))
	}
	onAll(t, n, func(r int) error { return cs[r].SendReceive(ctx, out[r], out[r]) })
	for r := range n {
		if !bytes.Equal(out[r], in[(r+n-1)%n]) {
			t.Fatalf("rank %d has wrong bytes after a send-receive in place", r)
		}
	}
}

// TestCollectives performs random calls of every operation on rings and lines, over one plane and two.
func TestCollectives(t *testing.T) {
	for _, c := range []struct {
		name  string
		links int
		calls int
	}{{"n300", 2, 30}, {"mesh:2x2", 1, 50}, {"mesh:1x4", 1, 30}, {"t3000", 2, 20}} {
		t.Run(c.name, func(t *testing.T) {
			_, _, ns := fabric(t, c.name)
			ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
			defer cancel()
			cs := communicators(ctx, t, ns, c.links)
			r := rand.New(rand.NewPCG(7, uint64(len(ns))))
			kinds := len(pure.Kinds())
			for i := range c.calls {
				call := pure.Call{Kind: pure.Kind(i % kinds), Type: pure.Type(r.IntN(4)), Op: pure.Op(r.IntN(4)), Root: r.IntN(len(ns))}
				call.Count = r.IntN([]int{3, 100, 3000, 30000}[r.IntN(4)])
				if call.Scheme = pure.Scheme(r.IntN(4)); call.Scheme == pure.Halves && !cs[0].Path().Ring && len(ns) > 2 {
					call.Scheme = pure.Auto
				}
				oneCall(ctx, t, cs, call, c.links, uint64(i))
			}
			inPlace(ctx, t, cs)
			// Each rank closes its communicator as soon as its last call has returned, and opens a new one. No
			// write of the old communicator may reach the new one.
			var chips []wire.FabricNodeID
			for _, n := range ns {
				chips = append(chips, n.Self())
			}
			meet := collective.Together(len(ns))
			for range 3 {
				onAll(t, len(ns), func(x int) (err error) {
					data := bytes.Repeat([]byte{7}, 5000)
					for range 2 { // so few messages need no acknowledgement
						in := data
						if x != 0 {
							in = nil
						}
						if err := cs[x].Broadcast(ctx, 0, in, make([]byte, len(data))); err != nil {
							return err
						}
					}
					cs[x].Close()
					cs[x], err = collective.New(ctx, session.New(ns[x]), collective.Options{Chips: chips, Links: c.links, Meet: meet})
					return err
				})
				oneCall(ctx, t, cs, pure.Call{Kind: pure.Broadcast, Count: 600000}, c.links, 1)
			}
			oneCall(ctx, t, cs, pure.Call{Kind: pure.AllReduce, Count: 100000}, c.links, 1)
			for _, x := range cs {
				x.Close()
			}
		})
	}
}

// TestCollectiveMismatch lets one rank make another call. All ranks get an error.
func TestCollectiveMismatch(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cs := communicators(ctx, t, ns, 1)
	named := 0
	for r, err := range errorsOf(4, func(r int) error {
		n := 100
		if r == 2 {
			n = 104
		}
		return cs[r].AllReduce(ctx, collective.Sum, collective.Float32, make([]byte, n), make([]byte, n))
	}) {
		var bad *collective.MismatchError
		if errors.As(err, &bad) {
			named++
		} else if !errors.As(err, new(*collective.AbandonedError)) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if named == 0 {
		t.Error("no rank has a MismatchError")
	}
	for _, x := range cs {
		x.Close()
	}
}

// TestCollectiveShrink kills one chip after another during all-reduces. On all other ranks the error names
// the chip, and the ranks that are left continue after Shrink, with correct results.
func TestCollectiveShrink(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cs := communicators(ctx, t, ns, 1)
	alive := []int{0, 1, 2, 3}
	for i, dies := range []int{2, 3} {
		victim := cs[dies].Chips()[cs[dies].Rank()]
		begun := make(chan struct{}, len(alive))
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for _, r := range alive {
			wg.Go(func() {
				in, out := make([]byte, 400000), make([]byte, 400000)
				for k := 0; errs[r] == nil; k++ {
					if k == 2+i {
						begun <- struct{}{}
					}
					errs[r] = cs[r].AllReduce(ctx, collective.Sum, collective.Int32, in, out)
				}
			})
		}
		for range alive {
			select {
			case <-begun:
			case <-ctx.Done():
				t.Fatal("the ranks have not begun")
			}
		}
		begin := time.Now()
		ns[dies].Close()
		wg.Wait()
		t.Logf("all ranks ended %v after the death of %s", time.Since(begin), victim)
		var left []int
		for _, r := range alive {
			if r == dies {
				cs[r].Close()
				continue
			}
			left = append(left, r)
			var dead *collective.DeadError
			if !errors.As(errs[r], &dead) || dead.Chip != victim {
				t.Fatalf("rank %d: %v; want an error that names %s", r, errs[r], victim)
			}
		}
		alive = left
		onAll(t, len(alive), func(k int) error {
			c, err := cs[alive[k]].Shrink(ctx)
			cs[alive[k]] = c
			return err
		})
		var now []*collective.Comm
		for k, r := range alive {
			if cs[r].Rank() != k || cs[r].Size() != len(alive) {
				t.Fatalf("rank %d of %d: want %d of %d", cs[r].Rank(), cs[r].Size(), k, len(alive))
			}
			now = append(now, cs[r])
		}
		for k := range 20 {
			oneCall(ctx, t, now, pure.Call{Kind: pure.Kind(k % 10), Count: 1 + 2000*k, Type: pure.Float32}, 1, uint64(k))
		}
	}
	for _, r := range alive {
		cs[r].Close()
	}
}
