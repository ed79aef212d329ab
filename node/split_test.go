package node_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"ttfabric/node"
	pure "ttfabric/node/collective"
	"ttfabric/node/session"
	"ttfabric/node/session/collective"
)

// splits returns the communicators of all ranks that f makes, grouped by their chips.
func splits(t *testing.T, cs []*collective.Comm, f func(c *collective.Comm) (*collective.Comm, error)) (groups [][]*collective.Comm) {
	t.Helper()
	made := make([]*collective.Comm, len(cs))
	onAll(t, len(cs), func(r int) (err error) {
		made[r], err = f(cs[r])
		return err
	})
	at := map[string]int{}
	for r, x := range made {
		if x == nil {
			continue
		}
		key := x.Path().String() + x.Chips()[0].String()
		for i, n := range x.Chips() {
			if (n == cs[r].Chips()[r]) != (i == x.Rank()) {
				t.Fatalf("rank %d of %v has rank %d in %v", r, cs[r].Chips(), x.Rank(), x.Chips())
			}
		}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key], groups = i, append(groups, make([]*collective.Comm, x.Size()))
		}
		groups[i][x.Rank()] = x
	}
	return groups
}

// TestSplit performs random calls of the rows and of the columns of a mesh at the same time, over two planes,
// beside calls of all chips. All outputs must be right, byte for byte.
func TestSplit(t *testing.T) {
	_, _, ns := fabric(t, "t3000")
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	const links = 2
	cs := communicators(ctx, t, ns, links)
	rows := splits(t, cs, func(c *collective.Comm) (*collective.Comm, error) { return c.Row(ctx) })
	columns := splits(t, cs, func(c *collective.Comm) (*collective.Comm, error) { return c.Column(ctx) })
	if len(rows) != 2 || len(columns) != 4 || rows[0][0].Size() != 4 || columns[0][0].Size() != 2 {
		t.Fatalf("%d rows of %d chips, and %d columns of %d", len(rows), rows[0][0].Size(), len(columns), columns[0][0].Size())
	}
	var wg sync.WaitGroup
	for g, group := range append(append([][]*collective.Comm{cs}, rows...), columns...) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(9, uint64(g)))
			for i := range 20 {
				call := pure.Call{Kind: pure.Kind(i % len(pure.Kinds())), Type: pure.Type(r.IntN(4)), Op: pure.Op(r.IntN(4)), Root: r.IntN(len(group))}
				call.Count = r.IntN([]int{3, 100, 3000, 20000}[r.IntN(4)])
				oneCall(ctx, t, group, call, links, uint64(1000*g+i))
			}
		})
	}
	wg.Wait()
	if _, err := rows[0][0].Split(ctx, 0, 0); err == nil || !strings.Contains(err.Error(), "split the communicator that New returned") {
		t.Errorf("a split of a row: %v", err)
	}
	// The communicator of the even ranks, in reverse order, takes the last free area of memory. A further split
	// fails until all ranks have closed one of the earlier communicators.
	even := splits(t, cs, func(c *collective.Comm) (*collective.Comm, error) { return c.Split(ctx, -(c.Rank() % 2), -c.Rank()) })
	if len(even) != 1 || even[0][0].Size() != 4 || even[0][0].Chips()[0] != ns[6].Self() {
		t.Fatalf("even ranks: %d groups", len(even))
	}
	oneCall(ctx, t, even[0], pure.Call{Kind: pure.AllReduce, Count: 30000}, links, 1)
	closeAll(rows[:1])
	for r, err := range errorsOf(len(cs), func(r int) error { _, err := cs[r].Column(ctx); return err }) {
		if err == nil || !strings.Contains(err.Error(), "no area of memory is free on all 8 ranks") {
			t.Errorf("rank %d: a split without memory: %v", r, err)
		}
	}
	closeAll(rows[1:])
	again := splits(t, cs, func(c *collective.Comm) (*collective.Comm, error) { return c.Row(ctx) })
	for _, g := range again {
		oneCall(ctx, t, g, pure.Call{Kind: pure.AllReduce, Count: 60000}, links, 1)
	}
	closeAll([][]*collective.Comm{cs}) // the communicators that were split off still work
	oneCall(ctx, t, columns[1], pure.Call{Kind: pure.AllReduce, Count: 60000}, links, 1)
	claimed(ctx, t, ns[0], true)
	closeAll(append(append(again, columns...), even...))
	claimed(ctx, t, ns[0], false)
}

func closeAll(groups [][]*collective.Comm) {
	for _, c := range slices.Concat(groups...) {
		c.Close()
	}
}

// claimed checks whether communicators hold the memory of a chip.
func claimed(ctx context.Context, t *testing.T, n *node.Node, want bool) {
	t.Helper()
	release, err := n.Claim(ctx, "the memory of collective operations", "the test")
	if got := errors.As(err, new(*session.HeldError)); got != want || err != nil && !got {
		t.Errorf("communicators hold the memory of chip %s: %v, want %v; %v", n.Self(), got, want, err)
	}
	if err == nil {
		release()
	}
}

// TestSplitAndShrink kills a chip. The row and the column of the chip fail, and the other rows and columns go on.
// The ranks that are left shrink what has failed, and split again.
func TestSplitAndShrink(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x2")
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cs := communicators(ctx, t, ns, 1)
	rows := splits(t, cs, func(c *collective.Comm) (*collective.Comm, error) { return c.Row(ctx) })
	columns := splits(t, cs, func(c *collective.Comm) (*collective.Comm, error) { return c.Column(ctx) })
	ns[3].Close()
	for _, c := range []*collective.Comm{cs[0], rows[1][0], columns[1][0]} {
		out := make([]byte, 4*c.Size())
		var dead *collective.DeadError
		if err := c.AllGather(ctx, []byte{1, 2, 3, 4}, out); !errors.As(err, &dead) || dead.Chip != ns[3].Self() {
			t.Errorf("%v: %v", c.Chips(), err)
		}
	}
	for _, g := range [][]*collective.Comm{rows[0], columns[0]} {
		oneCall(ctx, t, g, pure.Call{Kind: pure.AllReduce, Count: 30000}, 1, 1)
	}
	onAll(t, 3, func(r int) (err error) {
		cs[r], err = cs[r].Shrink(ctx)
		return err
	})
	small := splits(t, cs[:3], func(c *collective.Comm) (*collective.Comm, error) { return c.Row(ctx) })
	if len(small) != 2 || small[0][0].Size() != 2 || small[1][0].Size() != 1 {
		t.Fatalf("%d rows", len(small))
	}
	oneCall(ctx, t, small[0], pure.Call{Kind: pure.AllReduce, Count: 30000}, 1, 2)
	alone, err := rows[1][0].Shrink(ctx)
	if err != nil || alone.Size() != 1 {
		t.Fatal(alone, err)
	}
	out := make([]byte, 4)
	if err := alone.AllGather(ctx, []byte{1, 2, 3, 4}, out); err != nil || !bytes.Equal(out, []byte{1, 2, 3, 4}) {
		t.Errorf("a rank alone: %v, %v", out, err)
	}
	closeAll([][]*collective.Comm{cs, rows[0], {alone, rows[1][1]}})
	closeAll(append(columns, small...))
	claimed(ctx, t, ns[0], false)
	claimed(ctx, t, ns[2], false)
}
