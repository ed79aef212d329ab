package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
	pure "ttfabric/node/collective"
	"ttfabric/node/session"
	"ttfabric/node/session/collective"
)

// comm is a communicator of a client. The goroutine of the method serve performs the communicator's
// requests in the order in which they came.
type comm struct {
	c      *client
	number uint64
	mem    *commMemory
	comm   *collective.Comm // set before the first function of todo runs
	todo   chan func()      // requests; the client has at most MaxInFlight of them
	begun  chan uint64      // gets the number of the request begin; has room for one number
	asked  bool             // the client has sent the request begin; used by the reading goroutine alone
	last   uint64           // number of the request close; 0: there is none. closeComm writes last before it closes todo
}

// commMemory is the memory that a client and the chip share for the data of communicators.
type commMemory struct {
	file    *os.File
	mem     []byte       // the mapped file
	holders atomic.Int32 // communicators that use the memory
}

func newCommMemory(chip fmt.Stringer, size int64) (*commMemory, error) {
	f, err := newFile(fmt.Sprintf("ttfabric collective operations of %s", chip), size)
	if err != nil {
		return nil, err
	}
	mem, err := mapFile(f, size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the chip cannot map %d bytes of shared memory: %w", size, err)
	}
	m := &commMemory{file: f, mem: mem}
	m.holders.Store(1)
	return m, nil
}

// leave frees the memory if no communicator uses it any more.
func (m *commMemory) leave() {
	if m.holders.Add(-1) == 0 {
		_ = unmapFile(m.mem) // mapFile has mapped these bytes
		m.file.Close()
	}
}

// onBehalf is the chip for the operations of a client. The client is the holder of all claims.
type onBehalf struct {
	*node.Node
	holder string
}

// Claim claims a part of the chip for the client.
func (o onBehalf) Claim(ctx context.Context, name, _ string) (release func(), err error) {
	return o.Node.Claim(ctx, name, o.holder)
}

// newComm makes a communicator of the client.
func (c *client) newComm(number uint64, body []byte) {
	o, err := attach.ParseComm(body)
	means := collective.Fabric
	if err == nil && o.Means != "" {
		means, err = collective.ParseMeans(o.Means)
	}
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	m, err := newCommMemory(c.s.n.Self(), o.Memory)
	if err != nil {
		c.refuse(number, attach.CodeRefused, err.Error())
		return
	}
	x, err := c.addComm(number, m)
	if err != nil {
		m.leave()
		c.refuse(number, attach.CodeFull, err.Error())
		return
	}
	c.s.ended.Go(func() { x.open(&o, means) })
}

// addComm notes a communicator of the client.
func (c *client) addComm(number uint64, m *commMemory) (*comm, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.waits == nil:
		return nil, errors.New("the connection has ended")
	case c.comms[number] != nil:
		return nil, fmt.Errorf("the client has a communicator of the number %d already", number)
	case len(c.comms) >= attach.MaxComms:
		return nil, fmt.Errorf("the client has %d communicators, as many as it may have: close some of them", len(c.comms))
	}
	x := &comm{c: c, number: number, mem: m, todo: make(chan func(), attach.MaxInFlight), begun: make(chan uint64, 1)}
	c.comms[number] = x
	return x, nil
}

// removeComm forgets a communicator that has failed to begin, and ends its requests.
func (c *client) removeComm(x *comm) {
	c.mu.Lock()
	if c.comms[x.number] == x {
		delete(c.comms, x.number)
		close(x.todo)
	}
	c.mu.Unlock()
	x.serve()
}

// endComms closes all communicators, because the connection has ended.
func (c *client) endComms(comms map[uint64]*comm) {
	for _, x := range comms {
		close(x.todo)
	}
}

// open opens the communicator, waits for the request begin, and then performs the requests.
func (x *comm) open(o *attach.Comm, means collective.Means) {
	c, asked, met := x.c, x.number, 0
	meet := func(ctx context.Context) error {
		if met++; met == 1 {
			return nil // the ranks have met before the client sent its request
		}
		c.hand(asked, attach.KindComm+attach.Answer, int64(len(x.mem.mem)), x.mem.file)
		select {
		case asked = <-x.begun:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var err error
	x.comm, err = collective.New(c.ctx, session.New(onBehalf{c.s.n, o.Holder}), collective.Options{Chips: o.Chips, Links: o.Links, Means: means, Meet: meet})
	if err == nil && len(o.Chips) == 1 { // New meets nobody
		if err = errors.Join(meet(c.ctx), meet(c.ctx)); err != nil {
			x.comm.Close()
		}
	}
	if err != nil {
		x.comm = nil
		if c.ctx.Err() == nil {
			c.shut(asked, func(b []byte) []byte { return failure(b, asked, err) })
		}
		c.removeComm(x)
		return
	}
	c.shut(asked, x.view(asked, attach.KindBegin))
	x.serve()
}

// view returns the answer that describes a communicator.
func (x *comm) view(number uint64, k attach.Kind) func(b []byte) []byte {
	return commView(number, k, &attach.CommView{Rank: x.comm.Rank(), Chips: x.comm.Chips(), Path: x.comm.Path().String()})
}

func commView(number uint64, k attach.Kind, v *attach.CommView) func(b []byte) []byte {
	text, _ := json.Marshal(v) // a view has no value that JSON lacks
	return func(b []byte) []byte {
		return append(attach.AppendHead(b, k+attach.Answer, number, len(text)), text...)
	}
}

// serve performs requests until the communicator is closed, or the connection has ended.
func (x *comm) serve() {
	for f := range x.todo {
		f()
	}
	if x.comm != nil {
		x.comm.Close()
	}
	x.mem.leave()
	if x.last != 0 {
		x.c.shut(x.last, func(b []byte) []byte { return attach.AppendHead(b, attach.KindCloseComm+attach.Answer, x.last, 0) })
	}
}

// failure appends the error of a collective operation.
func failure(b []byte, number uint64, err error) []byte {
	var dead *collective.DeadError
	var left *collective.AbandonedError
	var mismatch *collective.MismatchError
	switch text := err.Error(); {
	case errors.As(err, &dead):
		return attach.AppendRankError(b, number, attach.CodeDead, dead.Rank, text)
	case errors.As(err, &left):
		return attach.AppendRankError(b, number, attach.CodeAbandoned, left.Rank, text)
	case errors.As(err, &mismatch):
		return attach.AppendRankError(b, number, attach.CodeMismatch, mismatch.Peer, text)
	case errors.As(err, new(*session.HeldError)):
		return attach.AppendError(b, number, attach.CodeHeld, text)
	case errors.Is(err, context.Canceled):
		return attach.AppendError(b, number, attach.CodeCancelled, "the client cancelled the request")
	default:
		return attach.AppendError(b, number, codeOf(err), text)
	}
}

// commOf returns a communicator of the client. If there is none, commOf answers the request.
func (c *client) commOf(number, which uint64) *comm {
	c.mu.Lock()
	x := c.comms[which]
	c.mu.Unlock()
	if x == nil {
		c.refuse(number, attach.CodeRefused, fmt.Sprintf("the client has no communicator of the number %d", which))
	}
	return x
}

// commNamed returns the communicator whose number is the body of a frame. If there is none, commNamed answers the
// request.
func (c *client) commNamed(number uint64, body []byte) *comm {
	which, err := attach.ParseCommNumber(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return nil
	}
	return c.commOf(number, which)
}

// begin lets a communicator begin, because all ranks have met.
func (c *client) begin(number uint64, body []byte) {
	x := c.commNamed(number, body)
	if x == nil {
		return
	}
	if x.asked {
		c.refuse(number, attach.CodeRefused, "the communicator has begun already")
		return
	}
	x.asked = true
	c.reserve(number)
	x.begun <- number
}

// perform performs a request of the communicator, after the earlier requests. The function f returns the
// answer. Only the reading goroutine calls perform.
func (x *comm) perform(number uint64, f func(ctx context.Context) func(b []byte) []byte) {
	c := x.c
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.comms[x.number] != x {
		cancel()
		c.add(func(b []byte) []byte { return attach.AppendError(b, number, attach.CodeRefused, notBegun) })
		return
	}
	c.waits[number] = func() bool { cancel(); return false }
	x.todo <- func() { // has room for all requests of the client
		defer cancel()
		if x.comm == nil {
			c.shut(number, func(b []byte) []byte { return attach.AppendError(b, number, attach.CodeRefused, notBegun) })
			return
		}
		c.shut(number, f(ctx))
	}
}

const notBegun = "the communicator has failed before it could begin"

// operate performs an operation.
func (c *client) operate(number uint64, body []byte) {
	o, err := attach.ParseOperation(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	x := c.commOf(number, o.Comm)
	if x == nil {
		return
	}
	x.perform(number, func(ctx context.Context) func(b []byte) []byte {
		in, out, err := x.buffers(&o)
		if err == nil {
			err = x.comm.Do(ctx, o.Call, in, out)
		}
		return func(b []byte) []byte {
			if err != nil {
				return failure(b, number, err)
			}
			return attach.AppendHead(b, attach.KindOperation+attach.Answer, number, 0)
		}
	})
}

// buffers returns the input and the output of an operation.
func (x *comm) buffers(o *attach.Operation) (in, out []byte, err error) {
	e, n, rank, mem := o.Call.Type.Size(), x.comm.Size(), x.comm.Rank(), x.mem.mem
	inAt, inTo, err := attach.Range("input", o.In, e*o.Call.InCount(rank, n), len(mem))
	if err != nil {
		return nil, nil, err
	}
	outAt, outTo, err := attach.Range("output", o.Out, e*o.Call.OutCount(rank, n), len(mem))
	if err != nil {
		return nil, nil, err
	}
	same := inAt == outAt && inTo == outTo && o.Call.Kind != pure.AllToAll
	if !same && max(inAt, outAt) < min(inTo, outTo) {
		return nil, nil, fmt.Errorf("the input and the output of %s overlap, from offset %d on and from offset %d on", o.Call.Kind, inAt, outAt)
	}
	return mem[inAt:inTo:inTo], mem[outAt:outTo:outTo], nil
}

// shrink makes the communicator of the ranks that are left.
func (c *client) shrink(number uint64, body []byte) {
	if x := c.commNamed(number, body); x != nil {
		x.derive(number, attach.KindShrink, x.shrunk)
	}
}

// split makes a communicator of some of the ranks.
func (c *client) split(number uint64, body []byte) {
	s, err := attach.ParseSplit(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	if x := c.commOf(number, s.Comm); x != nil {
		x.derive(number, attach.KindSplit, func(ctx context.Context) (*collective.Comm, error) {
			return x.comm.Split(ctx, int(s.Color), int(s.Key))
		})
	}
}

func (x *comm) shrunk(ctx context.Context) (*collective.Comm, error) { return x.comm.Shrink(ctx) }

// derive makes another communicator, with the same memory, by the function "derived".
func (x *comm) derive(number uint64, k attach.Kind, derived func(context.Context) (*collective.Comm, error)) {
	c := x.c
	x.perform(number, func(ctx context.Context) func(b []byte) []byte {
		made, err := derived(ctx)
		if err == nil && made == nil {
			return commView(number, k, &attach.CommView{Rank: -1})
		}
		var y *comm
		if err == nil {
			if y, err = c.addComm(number, x.mem); err != nil {
				made.Close()
			}
		}
		if err != nil {
			return func(b []byte) []byte { return failure(b, number, err) }
		}
		y.comm = made
		x.mem.holders.Add(1)
		c.s.ended.Go(y.serve)
		return y.view(number, k)
	})
}

// closeComm ends a communicator after its earlier requests.
func (c *client) closeComm(number uint64, body []byte) {
	x := c.commNamed(number, body)
	if x == nil {
		return
	}
	c.reserve(number)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.comms[x.number] != x { // the communicator has failed to begin meanwhile
		delete(c.waits, number)
		c.add(func(b []byte) []byte { return attach.AppendError(b, number, attach.CodeRefused, notBegun) })
		return
	}
	delete(c.comms, x.number)
	x.last = number
	close(x.todo)
}
