package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"ttfabric/node"
	pure "ttfabric/node/collective"
	"ttfabric/node/kernel/shipped"
	"ttfabric/node/session/collective"
)

// numbers returns small int32 numbers of a rank.
func numbers(rank, count int) (b []byte) {
	for i := range count {
		b = binary.LittleEndian.AppendUint32(b, uint32(i%7+rank))
	}
	return b
}

// edmRanks opens the communicators of all chips, which use the EDM.
func edmRanks(ctx context.Context, t testing.TB, ns []*node.Node) []*collective.Comm {
	t.Helper()
	return communicatorsWith(ctx, t, ns, collective.Options{Means: collective.EDM})
}

// TestCollectivesByEDM performs the operations of the EDM on a ring, with data of one job and of several jobs. Outputs
// are compared with a naive computation. The EDM refuses all other operations.
func TestCollectivesByEDM(t *testing.T) {
	_, _, ns := fabricWith(t, "mesh:2x2", func(c *node.Config) { c.Kernels = shipped.Kernels })
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cs := edmRanks(ctx, t, ns)
	for _, count := range []int{1, 1000} {
		onAll(t, 4, func(r int) error { return byEDM(ctx, cs[r], count) })
	}
	onAll(t, 4, func(r int) error { // this all-gather needs two jobs
		var all []byte
		for k := range 4 {
			all = append(all, numbers(k, 17000)...)
		}
		got := make([]byte, len(all))
		err := cs[r].AllGather(ctx, numbers(r, 17000), got)
		if err == nil && !bytes.Equal(got, all) {
			err = errors.New("wrong data of a long all-gather")
		}
		return err
	})
	for k := range pure.Kinds() {
		call := pure.Call{Kind: pure.Kind(k), Count: 4, Type: pure.Int32}
		err := cs[1].Do(ctx, call, make([]byte, 4*call.InCount(1, 4)), make([]byte, 4*call.OutCount(1, 4)))
		switch call.Kind {
		case pure.AllGather, pure.ReduceScatter, pure.AllReduce, pure.Barrier:
			continue
		}
		if err == nil || !strings.Contains(err.Error(), call.Kind.String()+" by the EDM: the EDM has all-gather") {
			t.Errorf("%s: %v", call.Kind, err)
		}
	}
}

// byEDM performs each operation of the EDM on a rank, and checks the outputs.
func byEDM(ctx context.Context, c *collective.Comm, count int) error {
	n, me := c.Size(), c.Rank()
	var all, sums, part []byte
	for r := range n {
		all = append(all, numbers(r, count)...)
	}
	sums = numbers(0, count*n)
	for r := 1; r < n; r++ {
		pure.Accumulate(pure.Int32, pure.Sum, sums, sums, numbers(r, count*n))
	}
	part = sums[4*count*me:][:4*count]
	gathered, scattered, reduced := make([]byte, len(all)), make([]byte, len(part)), make([]byte, len(sums))
	err := c.AllGather(ctx, numbers(me, count), gathered)
	if err == nil && c.Path().Ring {
		err = errors.Join(c.ReduceScatter(ctx, pure.Sum, pure.Int32, numbers(me, count*n), scattered), c.AllReduce(ctx, pure.Sum, pure.Int32, numbers(me, count*n), reduced))
		if err == nil && (!bytes.Equal(scattered, part) || !bytes.Equal(reduced, sums)) {
			err = errors.New("wrong sums")
		}
	}
	if err == nil && !bytes.Equal(gathered, all) {
		err = errors.New("wrong data of the all-gather")
	}
	return errors.Join(err, c.Barrier(ctx))
}

// TestEDMAfterADeath kills a chip between operations of the EDM. All ranks that are left get an error that names the
// chip. They form a line: an all-gather goes on, and an all-reduce is refused.
func TestEDMAfterADeath(t *testing.T) {
	_, _, ns := fabricWith(t, "mesh:2x2", func(c *node.Config) { c.Kernels = shipped.Kernels })
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cs := edmRanks(ctx, t, ns)
	onAll(t, 4, func(r int) error { return byEDM(ctx, cs[r], 10) })
	ns[3].Close()
	for r, err := range errorsOf(3, func(r int) error { return byEDM(ctx, cs[r], 1000) }) {
		var dead *collective.DeadError
		if !errors.As(err, &dead) || dead.Chip != ns[3].Self() {
			t.Errorf("rank %d: %v; want an error that names %s", r, err, ns[3].Self())
		}
	}
	cs[3].Close()
	cs = cs[:3]
	onAll(t, 3, func(r int) (err error) {
		cs[r], err = cs[r].Shrink(ctx)
		return err
	})
	onAll(t, 3, func(r int) error { return byEDM(ctx, cs[r], 1000) })
	if err := cs[0].AllReduce(ctx, pure.Sum, pure.Int32, make([]byte, 4), make([]byte, 4)); err == nil || !strings.Contains(err.Error(), "the ranks form a line") {
		t.Errorf("an all-reduce on a line: %v", err)
	}
	closeAll([][]*collective.Comm{cs})
}
