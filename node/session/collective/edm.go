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
	"ttfabric/node/edm/schedule"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// Means says what moves the data of a communicator.
type Means uint8

// The means.
const (
	Fabric Means = iota // writes over the fabric's routes
	// EDM moves data by kernels: workers on Tensix tiles, and an ERISC data mover at each end of each cable. The ranks
	// must form a ring or a line of cables. All data go from neighbour to neighbour. The results have the bits of those
	// of Fabric. A barrier always uses Fabric. A cable carries one operation of the EDM at a time. So rows and columns
	// of a mesh can work at the same time, but two communicators with a common cable cannot.
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

// edmSpace is the memory for the data of one operation of the EDM on a chip, in bytes: half of a bank of DRAM. A
// communicator uses one bank. Even and odd generations use different halves.
const edmSpace = 1 << 30

// movers is what a communicator knows about its jobs of the EDM. The turn guards all fields.
type movers struct {
	nonce uint64 // part of the numbers of jobs; 0: not agreed yet
	plans map[collective.Call]*edmPlan
}

// edmPlan is a schedule, and this rank's part of the job that performs the schedule.
type edmPlan struct {
	*collective.Schedule
	memory schedule.Memory
	job    kernel.Job
	input  bool // the rank's kernels read the input
}

// edmPlan returns the plan of a call.
func (c *Comm) edmPlan(call collective.Call) (*edmPlan, error) {
	if p := c.edm.plans[call]; p != nil {
		return p, nil
	}
	if c.path.Strided {
		return nil, fmt.Errorf("%s by the EDM: the ranks form %s, and the EDM needs a ring or a line of cables; use a communicator with Means Fabric", call.Kind, c.path)
	}
	s, err := collective.PlanAlong(call, c.path, c.links)
	if err != nil {
		return nil, err
	}
	p := &edmPlan{Schedule: s}
	if len(s.Moves) > 0 {
		if err := c.buildJob(p); err != nil {
			return nil, fmt.Errorf("%s by the EDM: %w", call.Kind, err)
		}
	}
	if c.edm.plans == nil || len(c.edm.plans) >= maxPlans {
		c.edm.plans = map[collective.Call]*edmPlan{}
	}
	c.edm.plans[call] = p
	return p, nil
}

// buildJob builds this rank's part of the job of a plan.
func (c *Comm) buildJob(p *edmPlan) error {
	e := p.Type.Size()
	work := (e*p.InCount(c.rank, p.Ranks) + edmAlign - 1) / edmAlign * edmAlign // offset of the work
	if n := work + e*p.Work[c.rank]; n > edmSpace {
		return fmt.Errorf("%d bytes of rank %d: a chip holds at most %d bytes of an operation; use several calls, or a communicator with Means Fabric", n, c.rank, edmSpace)
	}
	base, err := c.edmBank()
	if err != nil {
		return err
	}
	p.memory = schedule.Memory{Input: base, Work: base.Add(work)}
	for i := range p.Moves {
		m := &p.Moves[i]
		p.input = p.input || m.From == c.rank && m.Input || m.To == c.rank && m.Take == collective.Combine
	}
	var chips []wire.FabricNodeID
	for _, r := range c.path.Order {
		chips = append(chips, c.chips[r])
	}
	make := edm.NewLine
	if c.path.Ring {
		make = edm.NewRing
	}
	t := c.s.Topology()
	links, err := make(t, chips, c.links)
	if err != nil {
		return err
	}
	h := fnv.New32a()
	fmt.Fprint(h, p.Call)
	p.job, err = schedule.New(t, 1, schedule.Settings{Path: c.path, Links: links, Schedule: p.Schedule, Key: h.Sum32(), Patience: edm.MaxPatience, Tile: c.area * schedule.MaxWorkers}, c.rank, p.memory, edm.NewLinks(t))
	return err
}

// edmAlign is the alignment of the work in a chip's memory, in bytes.
const edmAlign = 64

// edmBank returns the address of the communicator's memory for the data of the EDM's operations.
func (c *Comm) edmBank() (wire.NocAddr, error) {
	tiles, err := session.Tiles(c.s.Topology(), c.s.Self())
	if err != nil {
		return 0, err
	}
	var banks []noc.Tile
	for _, x := range tiles {
		if x.Kind == noc.DRAM && !x.Harvested && !slices.ContainsFunc(banks, func(y noc.Tile) bool { return y.Name == x.Name }) {
			banks = append(banks, x)
		}
	}
	i := len(banks) - 1 - c.area
	if i < 1 || banks[i].Size < 2*edmSpace { // the first bank has the FIFOs
		return 0, fmt.Errorf("chip %s has %d banks of DRAM, too few for communicator %d of the chip", c.s.Self(), len(banks), c.area)
	}
	return wire.NewNocAddr(banks[i].X, banks[i].Y, uint64(c.generation%2)*edmSpace), nil
}

// byEDM performs one operation by kernels. The caller has the turn.
func (c *Comm) byEDM(ctx context.Context, call collective.Call, in, out []byte) error {
	if err := c.fits(&call, in, out); err != nil {
		return err
	}
	p, err := c.edmPlan(call)
	if err != nil {
		return err
	}
	if c.ctx.Err() != nil {
		return c.failure()
	}
	if len(p.Moves) == 0 {
		b := collective.Buffers{In: in, Work: make([]byte, call.Type.Size()*p.Work[c.rank])}
		p.Begin(c.rank, b)
		copy(out, p.End(c.rank, b))
		return nil
	}
	if c.edm.nonce == 0 {
		if err := c.agreeNonce(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	job := p.job
	job.ID = c.jobID()
	if err = c.put(ctx, p, in); err == nil {
		err = c.s.Run(ctx, job)
	}
	if err == nil {
		err = c.get(ctx, p, out)
	}
	if err == nil {
		return nil
	}
	if c.ctx.Err() == nil {
		c.fail(c.blame(err))
	}
	return c.failure()
}

// put stores the input of an operation in the chip's memory, and the part of the input that begins in the work.
func (c *Comm) put(ctx context.Context, p *edmPlan, in []byte) error {
	if p.input && len(in) > 0 {
		if err := c.s.Write(ctx, c.s.Self(), p.memory.Input, in); err != nil {
			return err
		}
	}
	e := p.Type.Size()
	for _, x := range p.Copies {
		if x.Rank != c.rank || x.Len == 0 {
			continue
		}
		if err := c.s.Write(ctx, c.s.Self(), p.memory.Work.Add(x.DstOff*e), in[x.SrcOff*e:(x.SrcOff+x.Len)*e]); err != nil {
			return err
		}
	}
	return nil
}

// get reads the output of an operation from the chip's memory.
func (c *Comm) get(ctx context.Context, p *edmPlan, out []byte) error {
	if len(out) == 0 {
		return nil
	}
	if !p.Fold {
		return c.s.Read(ctx, c.s.Self(), p.memory.Work.Add(p.Result[c.rank]*p.Type.Size()), out)
	}
	b := collective.Buffers{Work: make([]byte, p.Ranks*len(out))}
	if err := c.s.Read(ctx, c.s.Self(), p.memory.Work, b.Work); err != nil {
		return err
	}
	copy(out, p.End(c.rank, b))
	return nil
}

// jobID returns the number of the next job.
func (c *Comm) jobID() kernel.JobID {
	c.op++
	h := fnv.New64a()
	fmt.Fprint(h, c.edm.nonce, c.generation, c.area, c.chips, c.op)
	return kernel.JobID(h.Sum64()>>11 + 1) // numbers in JSON are exact up to 2^53
}

// blame returns the error of an operation whose job has failed with err: a dead chip's, if one is dead. The chips may not
// know of a death yet, and a rank that stopped the job may be about to tell why. So blame waits up to tellMost. If "tell"
// is false, another rank tells all ranks, or has told them.
func (c *Comm) blame(err error) (why error, tell bool) {
	why, tell = c.left(err), true
	var ended *session.JobError
	if errors.As(err, &ended) {
		if r := slices.Index(c.chips, ended.End.By); r >= 0 && r != c.rank {
			switch ended.End.Why {
			case kernel.EndChip, kernel.EndAnew:
				return &DeadError{r, c.chips[r], err}, true
			case kernel.EndStopped, kernel.EndRank:
				why, tell = &AbandonedError{r, c.chips[r], nil}, false
			case kernel.EndPanic:
				return why, true
			}
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, tellMost)
	defer cancel()
	dead := make(chan *DeadError, len(c.chips))
	c.watch(ctx, func(e *DeadError) {
		dead <- e
		cancel()
	})
	select {
	case e := <-dead:
		return e, true
	default:
		return why, tell
	}
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
	c.edm.nonce = binary.LittleEndian.Uint64(b)
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
