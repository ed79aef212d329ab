package server

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/attach"
	"ttfabric/node/admin/barrier"
	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// Sizes of a client's memory.
const (
	readRoom  = 64 << 10               // first size of the memory for received frames, in bytes; a longer frame makes the memory grow to longRoom
	longRoom  = 2 * attach.MaxFrame    // largest size of the memory for received frames, in bytes
	maxBlocks = 64                     // largest number of blocks of memory for long reads that the chip keeps for later reads
	batchMost = 256                    // largest number of packets that one step of the chip starts
	hungCheck = 100 * time.Millisecond // time between two checks whether the client has gone, while a command of the client waits for room
)

// client is one connection.
type client struct {
	s      *Server
	conn   *net.UnixConn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	input
	output

	waits   map[uint64]func() bool // open requests that may take long, by number; the function ends the request, and returns false if the caller must not answer the request; guarded by mu
	members map[string]*barrier.Member
	jobs    map[kernel.JobID]string // jobs that the client has started, and their owners; used by the reading goroutine alone
	comms   map[uint64]*comm        // communicators that are not closed, by number; guarded by mu
	host    host
}

// input holds the state that only the reading goroutine uses. Any goroutine may call the method Wake of source.
type input struct {
	source *attach.Poller
	in     []byte         // memory for received bytes; the bytes in[from:to] are not performed yet
	from   int            // start of the first frame that is not performed
	to     int            // end of the received bytes
	hello  bool           // the client has sent its hello
	rs     []flow.Request // packets of the commands that wait to be started
	parts  []part         // the command of each packet of rs
}

// output holds the answers to a client.
type output struct {
	mu       sync.Mutex
	room     sync.Cond // signalled when answers have been written, or the connection has ended
	out      []byte    // answers to write, without the data of long reads
	long     []long    // data of long reads to write, in the order of their places in out
	spare    []byte    // memory for the next out
	spent    []long    // memory for the next long
	vec      [][]byte  // memory for the pieces of one write
	blocks   [][]byte  // memory for data of long reads that no command uses, at most maxBlocks
	writing  bool      // a goroutine writes answers
	reading  bool      // the reading goroutine performs frames, and writes their answers itself
	inFlight int       // requests without a written answer
	answered int       // answers in out
	bytes    int       // length of answers that are not written, and of data that reads under way will have, in bytes
	failed   bool      // the connection has ended
	wake     chan struct{}
	raw      syscall.RawConn
}

// long is the data of a long read. The data are written from the memory into which the chip read them.
type long struct {
	at   int // the data follow the first "at" bytes of out
	data []byte
}

// op is a command under way.
type op struct {
	number uint64
	left   int         // packets that have not ended
	res    flow.Result // result so far
	begun  bool        // a packet has ended
	data   []byte      // data of a long read; nil: the data are those of the only packet
	size   int         // number of bytes that a read wants
}

// part is one packet of a command.
type part struct {
	op  *op
	off int // where the packet's data begin in the command's data, in bytes
}

func newClient(s *Server, conn *net.UnixConn, raw syscall.RawConn) *client {
	c := &client{s: s, conn: conn, input: input{source: attach.NewPoller(raw), in: make([]byte, readRoom)}, output: output{wake: make(chan struct{}, 1), raw: raw}, waits: map[uint64]func() bool{}, members: map[string]*barrier.Member{}, jobs: map[kernel.JobID]string{}, comms: map[uint64]*comm{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.room.L = &c.mu
	return c
}

// serve performs the client's requests until the connection ends.
func (c *client) serve() {
	c.s.ended.Go(c.writeLater)
	for c.receive() && c.perform() {
	}
	c.conn.Close()
	c.cancel()
	c.mu.Lock()
	c.failed = true
	waits, members, comms := c.waits, c.members, c.comms
	c.waits, c.members, c.comms = nil, nil, nil
	c.room.Broadcast()
	c.mu.Unlock()
	for _, end := range waits {
		end()
	}
	for _, m := range members {
		m.Leave()
	}
	c.endJobs()
	c.endComms(comms)
	c.endHost()
}

// receive reads until the memory holds at least one whole frame. receive returns false if the
// connection has ended.
func (c *client) receive() bool {
	for {
		need := attach.HeadLen
		if c.to-c.from >= need {
			h, err := attach.ParseHead(c.in[c.from:])
			if err != nil {
				c.refuse(0, attach.CodeBad, err.Error())
				c.flush()
				return false
			}
			need = h.Len
		}
		switch {
		case c.to-c.from >= need:
			return true
		case c.from == c.to:
			c.from, c.to = 0, 0
		}
		if c.from+need > len(c.in) {
			c.makeRoom(need)
		}
		n, err := c.source.Read(c.in[c.to:])
		if errors.Is(err, os.ErrDeadlineExceeded) { // the end of a hold has woken this goroutine
			if err = c.conn.SetReadDeadline(time.Time{}); err == nil {
				continue
			}
		}
		if c.to += n; err != nil {
			return false
		}
	}
}

// makeRoom moves the received bytes to the start of the memory, and makes the memory larger if a
// frame of "need" bytes does not fit.
func (c *client) makeRoom(need int) {
	to := c.in
	if need > len(to) {
		to = make([]byte, longRoom)
	}
	c.to = copy(to, c.in[c.from:c.to])
	c.in, c.from = to, 0
}

// perform performs all whole frames that the memory holds, in order. perform returns false if the
// connection must end.
func (c *client) perform() bool {
	c.mu.Lock()
	c.reading = true
	c.mu.Unlock()
	ok := true
	for ok && c.to-c.from >= attach.HeadLen {
		h, err := attach.ParseHead(c.in[c.from:])
		if err != nil || c.to-c.from < h.Len {
			break // receive reports the error
		}
		ok = c.frame(h, c.in[c.from+attach.HeadLen:c.from+h.Len])
		c.from += h.Len
	}
	c.start()
	c.mu.Lock()
	c.reading = false
	c.mu.Unlock()
	return c.flush() && ok
}

// frame performs one frame. frame returns false if the connection must end.
func (c *client) frame(h attach.Head, body []byte) bool {
	if !c.take() {
		return false
	}
	if !c.hello {
		if err := attach.ParseHello(body); err != nil || h.Kind != attach.KindHello {
			if err == nil {
				err = errors.New("the first frame of a connection must be a hello")
			}
			c.refuse(0, attach.CodeBad, err.Error())
			return false
		}
		c.hello = true
		c.answer(func(b []byte) []byte { return attach.AppendWelcome(b, h.Number, c.s.hello()) })
		return true
	}
	switch h.Kind {
	case attach.KindCommand:
		c.command(h.Number, body)
		return true
	case attach.KindMoved:
		return c.moved(h.Number, body)
	}
	c.start() // starts the commands that came before this frame
	switch h.Kind {
	case attach.KindWait:
		c.wait(h.Number, body)
	case attach.KindHold:
		c.hold(h.Number, body)
	case attach.KindCancel:
		c.cancelOne(h.Number, body)
	case attach.KindBarrier:
		c.barrier(h.Number, body)
	case attach.KindEvents:
		c.events(h.Number)
	case attach.KindClaim:
		c.claim(h.Number, body)
	case attach.KindJob:
		c.startJob(h.Number, body)
	case attach.KindStop:
		c.stopJob(h.Number, body)
	case attach.KindEnd:
		c.waitJob(h.Number, body)
	case attach.KindMemory:
		c.shareMemory(h.Number, body)
	case attach.KindTile:
		c.shareTile(h.Number, body)
	case attach.KindLend:
		c.lend(h.Number, body)
	case attach.KindComm:
		c.newComm(h.Number, body)
	case attach.KindBegin:
		c.begin(h.Number, body)
	case attach.KindOperation:
		c.operate(h.Number, body)
	case attach.KindShrink:
		c.shrink(h.Number, body)
	case attach.KindSplit:
		c.split(h.Number, body)
	case attach.KindCloseComm:
		c.closeComm(h.Number, body)
	case attach.KindMoment:
		m, _ := c.s.n.Moment(c.ctx)
		b, _ := json.Marshal(&m)
		c.reply(h.Number, attach.KindMoment+attach.Answer, b)
	default:
		c.refuse(h.Number, attach.CodeBad, "this chip does not know this kind of frame")
	}
	return true
}

// command adds a command to the commands that wait to be started.
func (c *client) command(number uint64, body []byte) {
	var r flow.Request
	wanted, err := attach.ParseCommand(body, &r)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	n := max(wanted, len(r.Payload))
	o := &op{number: number, left: max(1, (n+wire.MaxPayload-1)/wire.MaxPayload), size: wanted}
	if len(c.rs)+o.left > batchMost {
		c.start()
	}
	if wanted > 0 {
		c.promise(o)
	}
	at, payload := r.Command.Addr, r.Payload
	own := o.data != nil && r.Dst == c.s.n.Self()
	for off := 0; off == 0 || off < n; off += wire.MaxPayload {
		piece := min(wire.MaxPayload, n-off)
		if n > wire.MaxPayload {
			r.Command.Addr = at.Add(off)
		}
		if wanted > 0 {
			r.Command.Size = uint16(piece)
			if own {
				r.Into = o.data[off : off+piece]
			}
		} else if payload != nil {
			r.Payload = payload[off : off+piece]
		}
		c.rs, c.parts = append(c.rs, r), append(c.parts, part{o, off})
	}
}

// start starts the commands that wait. If a command cannot be started, start answers the command
// with an error, and starts the next commands. If the chip has no room, start waits.
func (c *client) start() {
	rs, parts := c.rs, c.parts
	c.rs, c.parts = c.rs[:0], nil // the op of each part is in use until its packets have ended
	for len(rs) > 0 {
		ps := parts
		done := func(i int, r flow.Result) { c.ended(ps[i], &r) }
		n, busy, err := c.s.n.TrySubmit(rs, done)
		if busy {
			rs, parts = rs[n:], parts[n:]
			ps := parts
			n, err = c.submit(rs, func(i int, r flow.Result) { c.ended(ps[i], &r) })
		}
		if n < len(rs) {
			c.ended(parts[n], refusal(err))
			n++
		}
		rs, parts = rs[n:], parts[n:]
	}
}

// submit starts commands for which the chip has no room now. submit ends if the client goes away.
func (c *client) submit(rs []flow.Request, done func(int, flow.Result)) (int, error) {
	c.mu.Lock()
	c.reading = false // meanwhile, the other goroutine writes
	c.mu.Unlock()
	c.flush()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(hungCheck)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if hungUp(c.conn) {
					c.cancel()
					return
				}
			case <-stop:
				return
			}
		}
	}()
	n, err := c.s.n.Submit(c.ctx, rs, done)
	c.mu.Lock()
	c.reading = true
	c.mu.Unlock()
	return n, err
}

// refusal returns the result of a packet that the chip did not start.
func refusal(err error) *flow.Result { return &flow.Result{Fate: flow.FateRefused, Err: err} }

// codeOf returns the code for the error of a command.
func codeOf(err error) attach.Code {
	var leaving *node.LeavingError
	switch {
	case errors.Is(err, node.ErrClosed), errors.As(err, &leaving), errors.Is(err, context.Canceled):
		return attach.CodeClosed
	case errors.Is(err, session.ErrUnreachable):
		return attach.CodeNoRoute
	}
	return attach.CodeRefused
}

// ended takes the result of one packet. The node may call ended under its lock.
func (c *client) ended(p part, r *flow.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := p.op
	if o.data != nil && r.Fate == flow.FateDone && len(r.Data) > 0 && &r.Data[0] != &o.data[p.off] {
		copy(o.data[p.off:], r.Data) // the data came from another chip
	}
	switch good := func(r *flow.Result) bool { return r.Fate == flow.FateDone || r.Fate == flow.FatePosted }; {
	case !o.begun:
		o.begun, o.res = true, *r
	case good(&o.res) && !good(r):
		sent := o.res.Sent
		o.res = *r
		o.res.Sent = sent
	default:
		o.res.Done = r.Done
	}
	if o.left--; o.left > 0 {
		return
	}
	done := o.res.Fate == flow.FateDone && o.res.Err == nil
	if o.size > 0 {
		c.bytes -= o.size
	}
	c.add(func(b []byte) []byte {
		switch {
		case o.res.Err != nil && o.res.Fate == flow.FateRefused:
			return attach.AppendError(b, o.number, codeOf(o.res.Err), o.res.Err.Error())
		case !done:
			o.res.Data = nil
		case o.data != nil:
			return attach.AppendLong(b, o.number, &o.res, o.size)
		}
		return attach.AppendResult(b, o.number, &o.res, o.res.Data)
	})
	switch {
	case o.data == nil:
	case done && !c.failed:
		c.long = append(c.long, long{len(c.out), o.data})
		c.bytes += o.size
	default:
		c.keep(o.data)
	}
	o.data = nil
}
