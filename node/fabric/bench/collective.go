package bench

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/collective"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/session"
	blocking "ttfabric/node/session/collective"
	"ttfabric/wire"
)

// CollectiveRun says what [Target.Collective] measures. Each size is measured for Warm and Rounds calls.
type CollectiveRun struct {
	Call   collective.Call // the operation; Count is not used
	Sizes  []int           // sizes of the data in bytes, as nccl-tests counts them; see [CollectiveRow]
	Rounds int             // calls that are timed, at least 1
	Warm   int             // calls before the timed calls, which are not timed
	Links  int             // number of planes
	Means  blocking.Means  // what moves the data
	Ranks  []int           // numbers of ranks to measure; n ranks use the first n chips of the fabric; empty: all chips
}

// Measurements returns how many rows [Target.Collective] makes.
func (r *CollectiveRun) Measurements() int { return len(r.Sizes) * max(1, len(r.Ranks)) }

// CollectiveRow holds the times of one operation on one size of data. GB are 10^9 bytes.
type CollectiveRow struct {
	Op         string           `json:"operation"`                 // name of the operation
	Size       int              `json:"size_bytes"`                // size of the data; for all-gather, gather, scatter, reduce-scatter and all-to-all, the data of all ranks together
	Count      int              `json:"count"`                     // number of elements of one part, as nccl-tests counts them
	Type       string           `json:"type"`                      // type of the elements
	Redop      string           `json:"reduction"`                 // reduction; "none" if the operation has none
	Root       int              `json:"root"`                      // root; -1 if the operation has none
	Ranks      int              `json:"ranks"`                     // number of ranks
	Path       string           `json:"path"`                      // the ring or line of the ranks
	Scheme     string           `json:"scheme"`                    // how the data travel: halves or both along the path, or direct or doubling over routes
	Means      string           `json:"means"`                     // what moves the data: fabric or edm
	OutOfPlace CollectiveTime   `json:"out_of_place"`              // calls with separate memory for input and output
	InPlace    *CollectiveTime  `json:"in_place,omitempty"`        // calls whose input and output share memory; absent if the operation needs separate memory
	LinkGBps   float64          `json:"link_gigabytes_per_second"` // payload of each link in one direction, measured by send-receive in the same run
	Chips      []CollectiveChip `json:"chips"`                     // the calls with separate memory, by rank
}

// CollectiveTime holds the times of the calls of one kind.
type CollectiveTime struct {
	Micros     float64 `json:"time_microseconds"`          // time of a call: the mean over all timed calls on the rank that needed longest
	AlgBW      float64 `json:"algbw_gigabytes_per_second"` // Size divided by the time
	BusBW      float64 `json:"busbw_gigabytes_per_second"` // AlgBW times the operation's factor, see nccl-tests, PERFORMANCE.md
	Wrong      int     `json:"wrong"`                      // number of wrong elements of the last call, on all ranks
	Efficiency float64 `json:"efficiency,omitempty"`       // BusBW divided by the topology's bound: the rate of a link on a line, or twice this rate on a ring
}

// CollectiveChip holds the times of one rank. The rank that began last did not wait for other ranks (CCL guide,
// "Measuring Op Performance").
type CollectiveChip struct {
	Rank     int               `json:"rank"`                  // number of the rank
	Chip     wire.FabricNodeID `json:"chip"`                  // chip of the rank
	Start    float64           `json:"start_microseconds"`    // start of the first timed call, after the earliest start of any rank
	Duration float64           `json:"duration_microseconds"` // mean time of a call
	Last     bool              `json:"last"`                  // the rank began last
}

// ranks are the communicators of all chips, whose ranks are goroutines of this process.
type ranks struct {
	cs    []*blocking.Comm
	close []func()
}

// Collective measures an operation for each number of ranks and each size, and hands each row to the function "each".
// The ranks run in this process, and reach their chips by the chips' Unix sockets or APIs. After each
// size, Collective compares all outputs with those of the schedule on one machine.
func (b *Target) Collective(ctx context.Context, run CollectiveRun, each func(CollectiveRow)) error {
	all := len(b.fab.Topology.Chips)
	counts := run.Ranks
	if len(counts) == 0 {
		counts = []int{all}
	}
	for _, n := range counts {
		if n < 1 || n > all {
			return spec.Usagef("%d ranks: the fabric has %d chips; want 1 to %d", n, all, all)
		}
	}
	if err := b.running(b.fab.Topology.Nodes()...); err != nil {
		return err
	}
	for _, n := range counts {
		if err := b.collective(ctx, &run, n, each); err != nil {
			return err
		}
	}
	return nil
}

// collective measures an operation of n ranks for each size.
func (b *Target) collective(ctx context.Context, run *CollectiveRun, n int, each func(CollectiveRow)) error {
	g, err := b.ranks(ctx, run, n)
	if err != nil {
		return err
	}
	defer g.end()
	link, err := g.link(ctx)
	if err != nil {
		return err
	}
	for _, size := range run.Sizes {
		row, err := g.row(ctx, run, size, link)
		if err != nil {
			return err
		}
		each(row)
	}
	return nil
}

// ranks opens the communicators of the first n chips.
func (b *Target) ranks(ctx context.Context, run *CollectiveRun, n int) (*ranks, error) {
	sockets := map[wire.FabricNodeID]folder.Chip{}
	for _, c := range b.fab.Running() {
		sockets[c.Chip] = c
	}
	chips := b.fab.Topology.Nodes()[:n]
	g := &ranks{cs: make([]*blocking.Comm, len(chips))}
	meet := blocking.Together(len(chips))
	sessions := make([]*session.Session, len(chips))
	for i, n := range chips {
		if cl, err := attach.Dial(ctx, sockets[n].Socket, b.fab.Topology); err == nil {
			g.close = append(g.close, func() { cl.Close() })
			sessions[i] = session.New(cl)
		} else if sessions[i], err = b.fab.Session(n); err != nil {
			g.end()
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := g.do(func(r int) (err error) {
		g.cs[r], err = blocking.New(ctx, sessions[r], blocking.Options{Chips: chips, Links: run.Links, Means: run.Means, Meet: meet})
		if err != nil {
			cancel()
		}
		return err
	})
	if err != nil {
		g.end()
		return nil, err
	}
	return g, nil
}

// end closes the communicators and the connections to the chips.
func (g *ranks) end() {
	for _, c := range g.cs {
		if c != nil {
			c.Close()
		}
	}
	for _, f := range g.close {
		f()
	}
}

// do calls f for all ranks at once.
func (g *ranks) do(f func(r int) error) error {
	errs := make([]error, len(g.cs))
	var wg sync.WaitGroup
	for r := range g.cs {
		wg.Go(func() { errs[r] = f(r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// linkBytes is the size for which the rate of the links is measured. A smaller size would measure the
// latency.
const linkBytes = 1 << 20

// link measures the payload of a link in one direction, in bytes per second: all ranks send to their
// neighbours at once, by send-receive.
func (g *ranks) link(ctx context.Context) (float64, error) {
	t, _, err := g.time(ctx, collective.Call{Kind: collective.SendReceive, Count: linkBytes, Type: collective.Uint8}, 4, 1, make([][]byte, len(g.cs)), make([][]byte, len(g.cs)))
	return linkBytes / t.Seconds(), err
}

// time performs calls on all ranks, and returns the mean time of a call on the slowest rank. Buffers that
// are nil get memory.
func (g *ranks) time(ctx context.Context, call collective.Call, rounds, warm int, in, out [][]byte) (time.Duration, []CollectiveChip, error) {
	n, e := len(g.cs), call.Type.Size()
	begin, took := make([]time.Time, n), make([]time.Duration, n)
	err := g.do(func(r int) error {
		if in[r] == nil {
			in[r] = make([]byte, e*call.InCount(r, n))
		}
		if out[r] == nil {
			out[r] = make([]byte, e*call.OutCount(r, n))
		}
		for range warm {
			if err := g.cs[r].Do(ctx, call, in[r], out[r]); err != nil {
				return err
			}
		}
		if err := g.cs[r].Barrier(ctx); err != nil {
			return err
		}
		begin[r] = time.Now()
		for range rounds {
			if err := g.cs[r].Do(ctx, call, in[r], out[r]); err != nil {
				return err
			}
		}
		took[r] = time.Since(begin[r]) / time.Duration(rounds)
		return nil
	})
	first, last, slowest := 0, 0, time.Duration(1)
	for r := range n {
		if begin[r].Before(begin[first]) {
			first = r
		}
		if begin[r].After(begin[last]) {
			last = r
		}
		slowest = max(slowest, took[r])
	}
	var chips []CollectiveChip
	for r := range n {
		chips = append(chips, CollectiveChip{r, g.cs[r].Chips()[r], float64(begin[r].Sub(begin[first]).Nanoseconds()) / 1e3, float64(took[r].Nanoseconds()) / 1e3, r == last})
	}
	return slowest, chips, err
}

// row measures one size.
func (g *ranks) row(ctx context.Context, run *CollectiveRun, size int, link float64) (CollectiveRow, error) {
	call, n := run.Call, len(g.cs)
	parts := 1
	switch call.Kind {
	case collective.AllGather, collective.ReduceScatter, collective.Gather, collective.Scatter, collective.AllToAll:
		parts = n
	}
	call.Count = size / call.Type.Size() / parts
	if call.Kind == collective.Barrier {
		call.Count = 0
	}
	path := g.cs[0].Path()
	s, err := collective.Plan(call, path, max(run.Links, 1))
	if err != nil {
		return CollectiveRow{}, spec.Usagef("%d bytes: %v", size, err)
	}
	row := CollectiveRow{Op: call.Kind.String(), Size: call.Count * call.Type.Size() * parts, Count: call.Count, Type: call.Type.String(), Redop: "none", Root: -1,
		Ranks: n, Path: path.String(), Scheme: s.Scheme.String(), Means: run.Means.String(), LinkGBps: link / 1e9}
	if call.Kind.Reduces() {
		row.Redop = call.Op.String()
	}
	if call.Kind.Rooted() {
		row.Root = call.Root
	}
	in := make([][]byte, n)
	rng := rand.New(rand.NewPCG(uint64(size), uint64(call.Kind)))
	for r := range n {
		in[r] = make([]byte, call.Type.Size()*call.InCount(r, n))
		for i := range in[r] {
			in[r][i] = byte(rng.Uint32())
		}
	}
	m := measurement{g, s, in, s.Reference(in), run, link / 1e9}
	if path.Ring {
		m.bound *= 2
	}
	var t *CollectiveTime
	if t, row.Chips, err = m.time(ctx, row.Size, false); err != nil {
		return row, err
	}
	row.OutOfPlace = *t
	row.InPlace, _, err = m.time(ctx, row.Size, true)
	return row, err
}

// measurement is the measurement of one size.
type measurement struct {
	g        *ranks
	s        *collective.Schedule
	in, want [][]byte // inputs and right outputs of all ranks
	run      *CollectiveRun
	bound    float64 // bound of the bus bandwidth, in GB/s
}

// time measures the calls of one kind. If the operation cannot work in place, time returns nil for calls in
// place.
func (m *measurement) time(ctx context.Context, size int, inPlace bool) (*CollectiveTime, []CollectiveChip, error) {
	n, call := len(m.in), m.s.Call
	ins, outs := make([][]byte, n), make([][]byte, n)
	for r := range n {
		ins[r] = append([]byte{}, m.in[r]...)
		if inPlace {
			if ins[r], outs[r] = shared(m.s, r, m.in[r]); outs[r] == nil {
				return nil, nil, nil
			}
		}
	}
	took, chips, err := m.g.time(ctx, call, m.run.Rounds, m.run.Warm, ins, outs)
	if err != nil {
		return nil, nil, err
	}
	t := &CollectiveTime{Micros: float64(took.Nanoseconds()) / 1e3, AlgBW: float64(size) / took.Seconds() / 1e9}
	t.BusBW = t.AlgBW * factor(call.Kind, n)
	if n > 1 && size > 0 {
		t.Efficiency = t.BusBW / m.bound
	}
	if inPlace && call.Kind.Reduces() { // repeated reductions in place have changed the input
		t.Wrong, err = m.g.again(ctx, m.s, m.in, m.want)
	} else { // one more call with cleared outputs, so that old data of an earlier call do not pass as new data
		for r := range n {
			if inPlace {
				ins[r], outs[r] = shared(m.s, r, m.in[r])
			} else {
				clear(outs[r])
			}
		}
		if _, _, err = m.g.time(ctx, call, 1, 0, ins, outs); err == nil {
			t.Wrong = wrong(outs, m.want, call.Type.Size())
		}
	}
	return t, chips, err
}

// shared returns an input and an output of a rank that share memory. If the operation cannot share
// memory, the output is nil.
func shared(s *collective.Schedule, r int, in []byte) (i, o []byte) {
	e, c := s.Type.Size(), s.Count
	switch s.Kind {
	case collective.AllReduce, collective.Broadcast, collective.Reduce:
		b := make([]byte, e*c)
		copy(b, in)
		return b[:len(in)], b[:e*s.OutCount(r, s.Ranks)]
	case collective.AllGather:
		b := make([]byte, e*c*s.Ranks)
		copy(b[r*e*c:], in)
		return b[r*e*c : (r+1)*e*c], b
	case collective.ReduceScatter:
		b := bytes.Clone(in)
		return b, b[r*e*c : (r+1)*e*c]
	}
	return nil, nil
}

// again performs a reduction in place once more, and returns the number of wrong elements.
func (g *ranks) again(ctx context.Context, s *collective.Schedule, in, want [][]byte) (int, error) {
	outs := make([][]byte, len(g.cs))
	err := g.do(func(r int) error {
		var i []byte
		i, outs[r] = shared(s, r, in[r])
		return g.cs[r].Do(ctx, s.Call, i, outs[r])
	})
	return wrong(outs, want, s.Type.Size()), err
}

// wrong returns the number of elements of size e that differ.
func wrong(got, want [][]byte, e int) (n int) {
	for r := range want {
		for i := 0; i < len(want[r]); i += e {
			if !bytes.Equal(got[r][i:i+e], want[r][i:i+e]) {
				n++
			}
		}
	}
	return n
}

// factor returns the bus bandwidth of an operation divided by its algorithm bandwidth (nccl-tests,
// PERFORMANCE.md).
func factor(k collective.Kind, n int) float64 {
	switch k {
	case collective.AllReduce:
		return 2 * float64(n-1) / float64(n)
	case collective.AllGather, collective.ReduceScatter, collective.Gather, collective.Scatter, collective.AllToAll:
		return float64(n-1) / float64(n)
	}
	return 1
}
