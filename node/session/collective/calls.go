package collective

import (
	"context"
	"errors"
	"fmt"

	"ttfabric/node/collective"
)

// part divides b into n equal parts, and returns the number of elements of each part. If the parts would
// not have whole elements, part returns an error.
func part(b []byte, t collective.Type, n int) (int, error) {
	if !t.Valid() {
		return 0, fmt.Errorf("%s: there is no such type of elements", t)
	}
	if e := t.Size() * n; len(b)%e != 0 {
		return 0, fmt.Errorf("%d bytes: want a multiple of %d, for %d parts of %s", len(b), e, n, t)
	}
	return len(b) / t.Size() / n, nil
}

// AllGather gives all ranks the inputs of all ranks, in the order of the ranks. The length of out is the
// number of ranks times the length of in.
func (c *Comm) AllGather(ctx context.Context, in, out []byte) error {
	return c.Do(ctx, collective.Call{Kind: collective.AllGather, Count: len(in), Type: Uint8}, in, out)
}

// ReduceScatter combines the inputs of all ranks, and gives rank r part r of the result. The length of in
// is the number of ranks times the length of out.
func (c *Comm) ReduceScatter(ctx context.Context, op collective.Op, t collective.Type, in, out []byte) error {
	n, err := part(out, t, 1)
	return errors.Join(err, c.when(err, ctx, collective.Call{Kind: collective.ReduceScatter, Count: n, Type: t, Op: op}, in, out))
}

// AllReduce combines the inputs of all ranks, and gives all ranks the result. All ranks get the same
// bits.
func (c *Comm) AllReduce(ctx context.Context, op collective.Op, t collective.Type, in, out []byte) error {
	n, err := part(in, t, 1)
	return errors.Join(err, c.when(err, ctx, collective.Call{Kind: collective.AllReduce, Count: n, Type: t, Op: op}, in, out))
}

// Reduce combines the inputs of all ranks, and gives the root the result. On the other ranks, out is
// empty.
func (c *Comm) Reduce(ctx context.Context, op collective.Op, t collective.Type, root int, in, out []byte) error {
	n, err := part(in, t, 1)
	return errors.Join(err, c.when(err, ctx, collective.Call{Kind: collective.Reduce, Count: n, Type: t, Op: op, Root: root}, in, out))
}

func (c *Comm) when(err error, ctx context.Context, call collective.Call, in, out []byte) error {
	if err != nil {
		return nil
	}
	return c.Do(ctx, call, in, out)
}

// Broadcast gives all ranks the input of the root. On the other ranks, in is empty.
func (c *Comm) Broadcast(ctx context.Context, root int, in, out []byte) error {
	return c.Do(ctx, collective.Call{Kind: collective.Broadcast, Count: len(out), Type: Uint8, Root: root}, in, out)
}

// Gather gives the root the inputs of all ranks, in the order of the ranks. On the other ranks, out is
// empty.
func (c *Comm) Gather(ctx context.Context, root int, in, out []byte) error {
	return c.Do(ctx, collective.Call{Kind: collective.Gather, Count: len(in), Type: Uint8, Root: root}, in, out)
}

// Scatter gives rank r part r of the root's input. On the other ranks, in is empty.
func (c *Comm) Scatter(ctx context.Context, root int, in, out []byte) error {
	return c.Do(ctx, collective.Call{Kind: collective.Scatter, Count: len(out), Type: Uint8, Root: root}, in, out)
}

// AllToAll gives rank r part r of the input of each rank, in the order of the ranks.
func (c *Comm) AllToAll(ctx context.Context, in, out []byte) error {
	n, err := part(in, Uint8, len(c.chips))
	return errors.Join(err, c.when(err, ctx, collective.Call{Kind: collective.AllToAll, Count: n, Type: Uint8}, in, out))
}

// SendReceive gives each rank the input of the rank before it. Rank 0 gets the input of the last rank.
func (c *Comm) SendReceive(ctx context.Context, in, out []byte) error {
	return c.Do(ctx, collective.Call{Kind: collective.SendReceive, Count: len(in), Type: Uint8}, in, out)
}

// Barrier waits until all ranks have called Barrier.
func (c *Comm) Barrier(ctx context.Context) error {
	return c.Do(ctx, collective.Call{Kind: collective.Barrier, Type: Uint8}, nil, nil)
}
