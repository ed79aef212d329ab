package collective

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"ttfabric/node/collective"
	"ttfabric/node/edm"
	"ttfabric/node/edm/allgather"
	"ttfabric/node/edm/reducescatter"
	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// Means says what moves the data of a communicator.
type Means uint8

// The means.
const (
	Fabric Means = iota // writes over the fabric's routes
	// EDM moves data by kernels: the workers of the CCL guide, and an ERISC data mover at each end of each cable. The
	// ranks must form a ring or a line of cables. EDM has all-gather, and on a ring reduce-scatter and
	// all-reduce. The order of summation is that of the guide, so sums of floating-point numbers can have other bits
	// than those of Fabric. A barrier always uses Fabric.
	EDM
	numMeans
)

var meansNames = [numMeans]string{"fabric", "edm"}

// String returns the name of the means.
func (m Means) String() string {
	if m >= numMeans {
		return fmt.Sprintf("means %d", uint8(m))
	}
	return meansNames[m]
}

// ParseMeans returns the means of a name.
func ParseMeans(name string) (Means, error) {
	if i := slices.Index(meansNames[:], name); i >= 0 {
		return Means(i), nil
	}
	return 0, fmt.Errorf("%q moves no data: want one of %v", name, meansNames)
}

// Sizes of a job of the EDM, our own choices.
const (
	edmPage  = 2048     // largest page, in bytes
	edmRound = 64 << 10 // largest part of one rank in one job, in bytes; the L1 of the banks holds the parts of all ranks
	edmBanks = 8        // Tensix tiles of a chip that hold the tensors
)

// byEDM performs one operation by kernels. The caller has the turn.
func (c *Comm) byEDM(ctx context.Context, call collective.Call, in, out []byte) error {
	n := len(c.chips)
	if call.Kind != collective.AllGather && call.Kind != collective.ReduceScatter && call.Kind != collective.AllReduce {
		return fmt.Errorf("%s by the EDM: the EDM has all-gather, reduce-scatter and all-reduce; use a communicator with Means Fabric", call.Kind)
	}
	if c.path.Strided || call.Kind != collective.AllGather && !c.path.Ring && n > 1 {
		return fmt.Errorf("%s by the EDM: the ranks form %s, and the EDM needs a ring, or for an all-gather a line of cables; use a communicator with Means Fabric", call.Kind, c.path)
	}
	if err := c.fits(&call, in, out); err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return c.failure()
	}
	if n == 1 {
		copy(out, in)
		return nil
	}
	if c.nonce == 0 {
		if err := c.agreeNonce(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	j, err := c.newJobs()
	if err != nil {
		return err
	}
	switch call.Kind {
	case collective.AllGather:
		err = j.gather(ctx, in, out)
	case collective.ReduceScatter:
		err = j.scatter(ctx, &call, in, out)
	default:
		err = j.reduce(ctx, &call, in, out)
	}
	if err == nil {
		return nil
	}
	if c.ctx.Err() == nil {
		c.fail(c.blame(err), true)
	}
	return c.failure()
}

// blame returns the error of a job that has failed: a dead chip's, if one is dead.
func (c *Comm) blame(err error) error {
	ctx, cancel := context.WithTimeout(c.ctx, tellMost)
	defer cancel()
	for r := range c.chips {
		if r != c.rank {
			if dead := c.lookAt(ctx, r); dead != nil {
				return dead
			}
		}
	}
	return c.left(err)
}

// agreeNonce gives all ranks a number that rank 0 draws. Jobs of two communicators have different numbers, because
// chips remember how jobs ended.
func (c *Comm) agreeNonce(ctx context.Context) error {
	b := make([]byte, 8)
	var in []byte
	if c.rank == 0 {
		_, _ = rand.Read(b) // never fails
		b[0] |= 1
		in = slices.Clone(b)
	}
	err := c.byFabric(ctx, collective.Call{Kind: collective.Broadcast, Count: len(b), Type: Uint8}, in, b)
	c.nonce = binary.LittleEndian.Uint64(b)
	return err
}

// jobs runs the jobs of one operation.
type jobs struct {
	c    *Comm
	path *edm.Path
}

func (c *Comm) newJobs() (*jobs, error) {
	var chips []wire.FabricNodeID
	for _, r := range c.path.Order {
		chips = append(chips, c.chips[r])
	}
	make := edm.NewLine
	if c.path.Ring {
		make = edm.NewRing
	}
	p, err := make(c.s.Topology(), chips, c.links)
	return &jobs{c, p}, err
}

// id returns the number of the next job.
func (j *jobs) id() kernel.JobID {
	j.c.op++
	h := fnv.New64a()
	fmt.Fprint(h, j.c.nonce, j.c.generation, j.c.area, j.c.chips, j.c.op)
	return kernel.JobID(h.Sum64()>>11 + 1) // numbers in JSON are exact up to 2^53
}

// pages returns the pages of a part of n bytes. Each link and direction carries at least one page.
func (j *jobs) pages(n int) (count, size int) {
	least := 2 * j.c.links
	size = min(edmPage, max(16, (n/least+15)/16*16))
	return max(least, (n+size-1)/size), size
}

// put writes data to pages of this chip. The last page is filled with zeros.
func (j *jobs) put(ctx context.Context, t *edm.Tensor, page func(i int) int, count int, data []byte) error {
	for i := range count {
		b := make([]byte, t.PageSize)
		copy(b, data[min(len(data), i*t.PageSize):])
		if err := j.c.s.Write(ctx, j.c.s.Self(), t.Page(page(i)), b); err != nil {
			return err
		}
	}
	return nil
}

// get reads data from pages of this chip.
func (j *jobs) get(ctx context.Context, t *edm.Tensor, page func(i int) int, data []byte) error {
	for i := 0; len(data) > 0; i++ {
		n := min(len(data), t.PageSize)
		if err := j.c.s.Read(ctx, j.c.s.Self(), t.Page(page(i)), data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func itself(i int) int { return i }

// gather gives all ranks the parts of all ranks.
func (j *jobs) gather(ctx context.Context, in, out []byte) error {
	c, place := j.c, j.c.path.At[j.c.rank]
	scheme := allgather.Halfway
	if c.path.Ring {
		scheme = allgather.Halves
	}
	for off := 0; off < len(in); off += edmRound {
		n := min(edmRound, len(in)-off)
		count, size := j.pages(n)
		op, err := allgather.New(c.s.Topology(), j.id(), j.path, allgather.Settings{Scheme: scheme, Workers: 1, Pages: count, PageSize: size, Banks: edmBanks})
		if err == nil {
			err = j.put(ctx, op.Inputs[place], itself, count, in[off:off+n])
		}
		if err == nil {
			err = c.s.Run(ctx, op.Parts[c.s.Self()])
		}
		for r, at := range c.path.At {
			if err == nil {
				err = j.get(ctx, op.Outputs[place], func(i int) int { return op.Place(at, i) }, out[r*len(in)+off:][:n])
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scatter gives rank r the sum of part r.
func (j *jobs) scatter(ctx context.Context, call *collective.Call, in, out []byte) error {
	c, place := j.c, j.c.path.At[j.c.rank]
	for off := 0; off < len(out); off += edmRound {
		n := min(edmRound, len(out)-off)
		count, size := j.pages(n)
		op, err := reducescatter.New(c.s.Topology(), j.id(), j.path, reducescatter.Settings{Type: call.Type, Op: call.Op, Workers: 1, Pages: count, PageSize: size, Banks: edmBanks})
		for r, at := range c.path.At {
			if err == nil {
				err = j.put(ctx, op.Inputs[place], func(i int) int { return op.Place(at, i) }, count, in[r*len(out)+off:][:n])
			}
		}
		if err == nil {
			err = c.s.Run(ctx, op.Parts[c.s.Self()])
		}
		if err == nil {
			err = j.get(ctx, op.Outputs[place], itself, out[off:off+n])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reduce gives all ranks the sum: a reduce-scatter of equal parts, and an all-gather of the sums.
func (j *jobs) reduce(ctx context.Context, call *collective.Call, in, out []byte) error {
	n, e := len(j.c.chips), call.Type.Size()
	part := (call.Count + n - 1) / n * e
	all, sum := make([]byte, n*part), make([]byte, part)
	copy(all, in)
	err := j.scatter(ctx, call, all, sum)
	if err == nil {
		err = j.gather(ctx, sum, all)
	}
	copy(out, all)
	return err
}

// fits returns an error if the input or the output of a call has a wrong length.
func (c *Comm) fits(call *collective.Call, in, out []byte) error {
	if !call.Type.Valid() || !call.Op.Valid() {
		return errors.New("there is no such type of elements, or no such reduction")
	}
	n, e := len(c.chips), call.Type.Size()
	if len(in) != e*call.InCount(c.rank, n) || len(out) != e*call.OutCount(c.rank, n) {
		return fmt.Errorf("%s of %d elements of %d bytes, rank %d of %d: an input of %d bytes and an output of %d bytes; want %d and %d", call.Kind, call.Count, e, c.rank, n,
			len(in), len(out), e*call.InCount(c.rank, n), e*call.OutCount(c.rank, n))
	}
	return nil
}
