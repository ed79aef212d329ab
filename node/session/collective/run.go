package collective

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"ttfabric/node/collective"
	"ttfabric/wire"
)

// plan is a schedule, and this rank's part of it.
type plan struct {
	s       *collective.Schedule
	out, in []queue
	hash    uint32
	inTurn  []int // if not nil: this rank's moves in the order in which the rank performs them; else the rank performs them in rounds
	tells   int   // see the method "add" of batch; for moves in rounds
}

// queue is the moves of one FIFO.
type queue struct {
	collective.Pair
	moves []int
}

// Limits up to which a rank performs all its moves in turn.
const (
	turnBytes = 64 << 10 // data of all moves to and from the rank, in bytes
	turnMoves = 2 * collective.MaxRanks
)

// plan returns the plan of a call.
func (c *Comm) plan(call collective.Call) (*plan, error) {
	if p := c.plans[call]; p != nil {
		return p, nil
	}
	s, err := collective.Plan(call, c.path, c.links)
	if err != nil {
		return nil, err
	}
	p := &plan{s: s}
	index := map[collective.Pair]*queue{}
	var order []*queue
	for i, m := range s.Moves {
		if m.From != c.rank && m.To != c.rank {
			continue
		}
		k := collective.Pair{From: m.From, To: m.To, Lane: m.Lane}
		if index[k] == nil {
			index[k] = &queue{Pair: k}
			order = append(order, index[k])
		}
		index[k].moves = append(index[k].moves, i)
		p.inTurn = append(p.inTurn, i)
	}
	for _, q := range order {
		if q.From == c.rank {
			p.out = append(p.out, *q)
		} else {
			p.in = append(p.in, *q)
		}
	}
	p.orderTurns(c.rank)
	p.tells = p.tellsOf()
	h := fnv.New32a()
	fmt.Fprint(h, c.generation, c.chips, call)
	p.hash = h.Sum32()
	if len(c.plans) >= maxPlans {
		clear(c.plans)
	}
	c.plans[call] = p
	return p, nil
}

// orderTurns orders the moves of a rank by their steps: in each step first what the rank sends, and then
// what the rank receives. If the moves are long, or need another order, inTurn becomes nil.
func (p *plan) orderTurns(rank int) {
	bytes, moves := 0, p.s.Moves
	for _, i := range p.inTurn {
		m := &moves[i]
		bytes += m.Len * p.s.Type.Size()
		for _, before := range []int{m.SendAfter, m.TakeAfter} {
			if before >= 0 && moves[before].To == rank && moves[before].Step >= m.Step {
				p.inTurn = nil
				return
			}
		}
	}
	if bytes > turnBytes || len(p.inTurn) > turnMoves {
		p.inTurn = nil
		return
	}
	receives := func(i int) int {
		if moves[i].To == rank {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.inTurn, func(a, b int) int {
		if d := cmp.Compare(moves[a].Step, moves[b].Step); d != 0 {
			return d
		}
		return receives(a) - receives(b)
	})
}

// run is one operation under way.
type run struct {
	*plan
	c   *Comm
	b   collective.Buffers
	tag uint32

	mu    sync.Mutex // guards the fields below against the goroutine that looks at the peers
	taken []int      // number of elements of each move to this rank that have been taken
	ended []bool     // moves to this rank that have ended
	sent  []bool     // queues whose messages have all been sent
	turn  int        // index of the move in inTurn that is under way
}

// Do performs one operation. The methods [collective.Call.InCount] and [collective.Call.OutCount] return
// how many elements in and out must have.
func (c *Comm) Do(ctx context.Context, call collective.Call, in, out []byte) error {
	if c.means == EDM && call.Kind != collective.Barrier {
		return c.inTurn(ctx, call, in, out, c.byEDM)
	}
	return c.inTurn(ctx, call, in, out, c.byFabric)
}

// inTurn performs one operation after the operations under way.
func (c *Comm) inTurn(ctx context.Context, call collective.Call, in, out []byte, perform func(context.Context, collective.Call, []byte, []byte) error) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.turn }()
	return perform(ctx, call, in, out)
}

// byFabric performs one operation over the fabric's routes. The caller has the turn.
func (c *Comm) byFabric(ctx context.Context, call collective.Call, in, out []byte) error {
	p, err := c.plan(call)
	if err != nil {
		return err
	}
	if err := c.fits(&call, in, out); err != nil {
		return err
	}
	e := call.Type.Size()
	if c.ctx.Err() != nil {
		return c.failure()
	}
	c.op++
	r := &run{plan: p, c: c, b: collective.Buffers{In: in, Work: out}, tag: p.hash + c.op}
	if p.inTurn == nil {
		r.taken, r.ended, r.sent = make([]int, len(p.s.Moves)), make([]bool, len(p.s.Moves)), make([]bool, len(p.out))
	}
	size := e * p.s.Work[c.rank]
	apart := size != len(out) || call.Kind == collective.SendReceive // a send-receive in place would send what it has just received
	if apart {
		if cap(c.scratch) < size {
			c.scratch = make([]byte, size)
		}
		r.b.Work = c.scratch[:size]
	}
	p.s.Begin(c.rank, r.b)
	if err := r.all(ctx); err != nil {
		return err
	}
	if got := p.s.End(c.rank, r.b); apart {
		copy(out, got)
	}
	return nil
}

// all sends and receives all messages of the operation.
func (r *run) all(ctx context.Context) error {
	c := r.c
	leave := context.AfterFunc(ctx, func() { c.fail(c.left(ctx.Err()), true) })
	defer leave()
	ended := make(chan struct{})
	defer close(ended)
	defer time.AfterFunc(LookEvery, func() {
		watched, enough := context.WithCancel(c.ctx)
		defer enough()
		dead := func(e *DeadError) { c.fail(e, true) }
		c.spawn(func() { c.watchPeers(watched, r.peers, dead) })
		defer time.AfterFunc(CheckAfter-LookEvery, func() {
			c.spawn(func() { c.watch(watched, dead) })
			c.spawn(func() { r.compare(watched) })
		}).Stop()
		select {
		case <-ended:
		case <-c.ctx.Done():
		}
	}).Stop()
	perform := r.rounds
	if r.inTurn != nil {
		perform = r.turns
	}
	if err := perform(); err != nil {
		c.fail(err, true)
	}
	if c.ctx.Err() != nil {
		return c.failure()
	}
	return nil
}

// turns performs all moves of the rank, one after another.
func (r *run) turns() error {
	c := r.c
	b := &c.batch
	b.rs, b.of = b.rs[:0], nil
	for turn, i := range r.inTurn {
		r.mu.Lock()
		r.turn = turn
		r.mu.Unlock()
		m := &r.s.Moves[i]
		for from := 0; ; {
			to := min(m.Len, from+r.chunk(m))
			if m.From == c.rank {
				if err := b.add(c.outlet(collective.Pair{From: m.From, To: m.To, Lane: m.Lane}), r.tag, i, r.s.Source(m, r.b, from, to), true, 1); err != nil {
					return err
				}
			} else {
				if err := b.post(); err != nil {
					return err
				}
				x := c.inlet(collective.Pair{From: m.From, To: m.To, Lane: m.Lane})
				if err := r.receive(x, i, from, to); err != nil {
					return err
				}
				c.acknowledge(x, b)
			}
			if from = to; from >= m.Len {
				break
			}
		}
	}
	return b.post()
}

// receive waits for a message with elements of move i, and takes the elements from element "from" to element "to".
func (r *run) receive(x *inlet, i, from, to int) error {
	n, size := x.taken+1, (to-from)*r.s.Type.Size()
	k := packets(size)
	x.await.set(header(n, r.tag, i, size), k > 1)
	defer x.await.set([headerSize]byte{}, false)
	if _, err := r.c.s.WaitToReply(r.c.ctx, r.c.slotOf(x, n).Add((k-1)*wire.MaxPayload), n); err != nil {
		return r.c.own(err)
	}
	return r.collect(x, i, from, to)
}

// collect does what receive does, for a message whose last packet has come.
func (r *run) collect(x *inlet, i, from, to int) error {
	m, e := &r.s.Moves[i], r.s.Type.Size()
	err := r.c.collect(x, r.tag, i, (to-from)*e, r.s.Kind.String(), func(off int, data []byte) {
		r.s.Take(m, r.b, from+off/e, data)
	})
	if err == nil {
		x.taken++
	}
	return err
}

// compare finds out, until ctx ends, whether a message comes whose sender makes another call.
func (r *run) compare(ctx context.Context) {
	for ctx.Err() == nil {
		for i := range r.in {
			if x := r.c.inlet(r.in[i].Pair); r.c.mismatched(x) {
				r.c.fail(&MismatchError{r.c.rank, x.From, r.s.Kind.String()}, true)
			}
		}
		_ = pause(ctx, CheckEvery)
	}
}

// most returns the largest number of elements of one message.
func (r *run) most() int { return wholeSlot / r.s.Type.Size() }

// chunk returns the number of elements of the messages of a move. The messages of a move are equally long, as far as
// the packets of all of them but the last are full: a short message at the end would cost as much as a long one.
func (r *run) chunk(m *collective.Move) int {
	most, whole := r.most(), packetData/r.s.Type.Size()
	if m.Len <= most {
		return most
	}
	messages := (m.Len + most - 1) / most
	each := (m.Len + messages - 1) / messages
	return (each + whole - 1) / whole * whole
}

// peers returns the ranks that this rank waits for, each once: those that have not sent all their messages, and
// those that have not made room for all messages of this rank.
func (r *run) peers() (ps []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inTurn != nil {
		if m := &r.s.Moves[r.inTurn[r.turn]]; m.From == r.c.rank {
			return []int{m.To}
		} else {
			return []int{m.From}
		}
	}
	for i := range r.in {
		if q := &r.in[i]; !r.ended[q.moves[len(q.moves)-1]] {
			ps = append(ps, q.From)
		}
	}
	for i := range r.out {
		if !r.sent[i] {
			ps = append(ps, r.out[i].To)
		}
	}
	slices.Sort(ps)
	return slices.Compact(ps)
}
