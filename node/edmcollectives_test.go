package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
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

// TestCollectivesByEDM performs all operations by the EDM on a ring, with data of one message and of many messages. The
// outputs are compared with a naive computation, or with those of the schedule on one machine.
func TestCollectivesByEDM(t *testing.T) {
	_, _, ns := fabricWith(t, "mesh:2x2", func(c *node.Config) { c.Kernels = shipped.Kernels })
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cs := edmRanks(ctx, t, ns)
	for _, count := range []int{1, 1000} {
		onAll(t, 4, func(r int) error { return byEDM(ctx, cs[r], count) })
	}
	for k := range pure.Barrier {
		call := pure.Call{Kind: k, Count: 17000, Type: pure.Int32, Root: 1}
		s, err := pure.Plan(call, cs[0].Path(), 1)
		if err != nil {
			t.Fatal(err)
		}
		in, out := make([][]byte, 4), make([][]byte, 4)
		for r := range in {
			in[r], out[r] = numbers(r, call.InCount(r, 4)), make([]byte, 4*call.OutCount(r, 4))
		}
		onAll(t, 4, func(r int) error { return cs[r].Do(ctx, call, in[r], out[r]) })
		for r, want := range s.Reference(in) {
			if !bytes.Equal(out[r], want) {
				t.Errorf("%s: rank %d has wrong bytes", k, r)
			}
		}
	}
	closeAll([][]*collective.Comm{cs})
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
	if err == nil {
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
// chip. They form a line, on which all operations go on.
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
	closeAll([][]*collective.Comm{cs})
}
