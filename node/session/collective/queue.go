package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// outlet is the sending side of a FIFO.
type outlet struct {
	collective.Pair
	sent  uint32        // number of the latest message
	acked uint32        // latest acknowledgement that this rank has seen
	slots [Slots][]byte // packets of the slot's latest message; a write that is repeated needs them

	mu   sync.Mutex
	open [Slots]int    // number of packets of the slot's latest message whose writes have not ended; guarded by mu
	free chan struct{} // gets a value when all writes of a slot have ended
}

// inlet is the receiving side of a FIFO.
type inlet struct {
	collective.Pair
	taken uint32 // number of the latest message that has been taken
	told  uint32 // latest acknowledgement that has been sent
	buf   []byte
	await awaited

	mu     sync.Mutex
	latest uint32 // latest acknowledgement; guarded by mu
	again  bool   // a goroutine writes the latest acknowledgement again; guarded by mu
}

// awaited is the message that an inlet waits for.
type awaited struct {
	mu     sync.Mutex
	header [headerSize]byte
	long   bool // the message has several packets, and the inlet waits for its last packet; guarded by mu
}

// outlet returns the sending side of a FIFO.
func (c *Comm) outlet(p collective.Pair) *outlet {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.out[p]
	if x == nil {
		x = &outlet{Pair: p, free: make(chan struct{}, 1)}
		c.out[p] = x
	}
	return x
}

// inlet returns the receiving side of a FIFO.
func (c *Comm) inlet(p collective.Pair) *inlet {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.in[p]
	if x == nil {
		x = &inlet{Pair: p}
		c.in[p] = x
	}
	return x
}

// packets returns the number of packets of a message with so many bytes of data.
func packets(size int) int { return max(1, (size+packetData-1)/packetData) }

// header returns the header of a message.
func header(number, tag uint32, move, size int) (h [headerSize]byte) {
	le := binary.LittleEndian
	le.PutUint32(h[:], number)
	le.PutUint32(h[4:], tag)
	le.PutUint32(h[8:], uint32(move))
	le.PutUint32(h[12:], uint32(size))
	return h
}

// batch is a list of writes that leave together. A batch is used once.
type batch struct {
	c  *Comm
	rs []flow.Request
	of []piece // what each request belongs to
}

// piece is a packet of a message, or an acknowledgement.
type piece struct {
	out  *outlet
	slot int
	in   *inlet // not nil: an acknowledgement
}

// add adds a message to a batch. add waits for a free slot. If no slot is free and the batch has other
// writes, add sends them first.
func (b *batch) add(x *outlet, tag uint32, move int, data []byte) error {
	c := b.c
	if x.sent >= lastMessage {
		return fmt.Errorf("rank %d has sent %d messages to rank %d, as many as a communicator can; open a new communicator", c.rank, x.sent, x.To)
	}
	n := x.sent + 1
	slot := int(n % Slots)
	if n > x.acked+Slots {
		if err := b.post(); err != nil {
			return err
		}
		var err error
		if x.acked, err = c.s.WaitCounter(c.ctx, c.ackWord(x.To, x.Lane), n-Slots); err != nil {
			return c.own(err)
		}
	}
	for !x.claim(slot, packets(len(data))) { // the message has been taken, but a repeated write of its packets is under way
		if err := b.post(); err != nil {
			return err
		}
		select {
		case <-x.free:
		case <-c.ctx.Done():
			return c.failure()
		}
	}
	x.sent = n
	h := header(n, tag, move, len(data))
	at, buf := c.inFIFO(c.rank, x.Lane).Add(slot*SlotSize), x.slots[slot][:0]
	if need := packets(len(data))*headerSize + len(data); cap(buf) < need {
		buf = make([]byte, 0, need)
	}
	for off := 0; ; {
		k, begin := min(len(data)-off, packetData), len(buf)
		buf = append(append(buf, h[:]...), data[off:off+k]...)
		b.rs = append(b.rs, flow.Request{Dst: c.chips[x.To], Plane: wire.Plane(x.Lane / 2), Payload: buf[begin:],
			Command: wire.Command{Type: wire.NocUnicastWrite, Addr: at.Add(off / packetData * wire.MaxPayload)}})
		b.of = append(b.of, piece{out: x, slot: slot})
		if off += k; off >= len(data) {
			break
		}
	}
	x.slots[slot] = buf
	return nil
}

// claim takes a slot for so many packets. If writes of the slot have not ended, claim returns false.
func (x *outlet) claim(slot, packets int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open[slot] > 0 {
		return false
	}
	x.open[slot] = packets
	return true
}

// post sends the writes of a batch, and empties the batch. post returns when the chip has copied the
// data, and does not wait for the ends of the writes.
func (b *batch) post() error {
	c, n := b.c, len(b.rs)
	if n == 0 {
		return nil
	}
	if !c.hold(n) {
		return c.failure()
	}
	rs, of := b.rs, b.of
	b.rs, b.of = b.rs[n:], b.of[n:]
	started, err := c.s.SubmitEach(c.ctx, rs, func(i int, err error) {
		if err == nil {
			of[i].end()
			c.calls.Done()
			return
		}
		r := rs[i]
		go func() {
			defer c.calls.Done()
			of[i].repeat(c, r, err)
		}()
	})
	for range n - started {
		c.calls.Done()
	}
	if err != nil {
		return c.own(err)
	}
	return nil
}

// hold makes Close and Shrink wait for n commands. After the end of the communicator, hold does nothing
// and returns false.
func (c *Comm) hold(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.calls.Add(n)
	}
	return !c.over
}

// end notes that a write has ended.
func (p *piece) end() {
	if p.in != nil {
		return
	}
	x := p.out
	x.mu.Lock()
	x.open[p.slot]--
	free := x.open[p.slot] == 0
	x.mu.Unlock()
	if free {
		select {
		case x.free <- struct{}{}:
		default:
		}
	}
}

// repeat performs a write again that ended with an error.
func (p *piece) repeat(c *Comm, r flow.Request, err error) {
	if p.in == nil {
		if c.deliver(p.out.To, err, func(ctx context.Context) error {
			return c.s.Write(ctx, r.Dst, r.Command.Addr, r.Payload, session.OnPlane(r.Plane))
		}) {
			p.end()
		}
		return
	}
	x := p.in
	x.mu.Lock()
	begin := !x.again
	x.again = true
	x.mu.Unlock()
	for done := uint32(0); begin; {
		x.mu.Lock()
		n := x.latest
		x.again = n != done
		x.mu.Unlock()
		if n == done || !c.deliver(x.From, err, func(ctx context.Context) error {
			return c.s.InlineWrite(ctx, r.Dst, r.Command.Addr, n, session.OnPlane(r.Plane))
		}) {
			return
		}
		done = n
	}
}

// Repetitions of a write that was lost or whose outcome is unknown.
const (
	maxRepeats  = 100
	repeatAfter = 5 * time.Millisecond
	repeatMost  = 250 * time.Millisecond
)

// deliver performs a write to a rank again, which has ended with an error. The write may be performed
// several times. If the rank's chip is gone, the communicator fails. deliver reports success. deliver
// returns only when no attempt is under way, even if the communicator has failed: a later generation
// must not meet a write of this generation.
func (c *Comm) deliver(to int, err error, write func(ctx context.Context) error) bool {
	wait := repeatAfter
	for try := 0; err != nil; try++ {
		if c.ctx.Err() != nil {
			return false
		}
		if gone := c.gone(c.ctx, to, err); gone != nil || try == maxRepeats {
			if gone == nil {
				gone = c.left(err)
			}
			c.fail(gone, true)
			return false
		}
		if pause(c.ctx, wait) != nil {
			return false
		}
		wait = min(2*wait, repeatMost)
		err = write(context.WithoutCancel(c.ctx))
	}
	return true
}

// gone returns the error of a rank that is dead or refuses a write. If the command with the error err
// may be repeated, gone returns nil.
func (c *Comm) gone(ctx context.Context, r int, err error) error {
	var refused *session.RefusedError
	switch {
	case errors.Is(err, session.ErrUnreachable):
		return &DeadError{r, c.chips[r], err}
	case errors.As(err, &refused) && refused.Outcome != wire.OutcomeAgain && refused.Outcome != wire.OutcomeOverflow && refused.Outcome != wire.OutcomeUnknownFlow:
		return c.left(err)
	}
	life, err := c.lifeOf(ctx, r)
	switch {
	case errors.Is(err, session.ErrUnreachable):
		return &DeadError{r, c.chips[r], err}
	case err == nil && life != c.lives[r]:
		return &DeadError{r, c.chips[r], errRestarted}
	}
	return nil
}

var errRestarted = errors.New("the chip has restarted")

// receive waits for the next message of a FIFO, and hands its data to the function "take", piece by
// piece. The argument "from" is the number of bytes before the piece. The pieces are valid during the
// call. Messages of another call, or of another length, are an error.
func (c *Comm) receive(x *inlet, tag uint32, move, size int, call string, take func(from int, data []byte)) error {
	n, k := x.taken+1, packets(size)
	at := c.inFIFO(x.From, x.Lane).Add(int(n%Slots) * SlotSize)
	h := header(n, tag, move, size)
	if len(x.buf) < (k-1)*wire.MaxPayload+headerSize+size-(k-1)*packetData {
		x.buf = make([]byte, (k-1)*wire.MaxPayload+headerSize+size-(k-1)*packetData)
	}
	b := x.buf[:(k-1)*wire.MaxPayload+headerSize+size-(k-1)*packetData]
	x.await.set(h, k > 1)
	defer x.await.set(h, false)
	if _, err := c.s.WaitCounter(c.ctx, at.Add((k-1)*wire.MaxPayload), n); err != nil { // the last packet mostly comes last
		return c.own(err)
	}
	if err := c.s.Read(c.ctx, c.s.Self(), at, b); err != nil {
		return c.own(err)
	}
	for i := 0; i < k; {
		switch p := b[i*wire.MaxPayload:]; {
		case [headerSize]byte(p) == h:
			i++
		case binary.LittleEndian.Uint32(p) == n:
			return &MismatchError{c.rank, x.From, call}
		default: // an earlier packet was lost, and comes again
			word := at.Add(i * wire.MaxPayload)
			if _, err := c.s.WaitCounter(c.ctx, word, n); err != nil {
				return c.own(err)
			}
			if err := c.s.Read(c.ctx, c.s.Self(), word, p[:min(len(p), wire.MaxPayload)]); err != nil {
				return c.own(err)
			}
			if got := binary.LittleEndian.Uint32(p); got != n {
				return &MismatchError{c.rank, x.From, call}
			}
		}
	}
	for i := range k {
		p := b[i*wire.MaxPayload:]
		take(i*packetData, p[headerSize:min(len(p), wire.MaxPayload)])
	}
	return nil
}

// set notes the message that the inlet waits for.
func (w *awaited) set(header [headerSize]byte, long bool) {
	w.mu.Lock()
	w.header, w.long = header, long
	w.mu.Unlock()
}

// mismatched reports whether the inlet waits for the last packet of a long message, and the first packet
// is of another message.
func (c *Comm) mismatched(x *inlet) bool {
	x.await.mu.Lock()
	h, long := x.await.header, x.await.long
	x.await.mu.Unlock()
	if !long {
		return false
	}
	var b [headerSize]byte
	le, n := binary.LittleEndian, binary.LittleEndian.Uint32(h[:])
	err := c.s.Read(c.ctx, c.s.Self(), c.inFIFO(x.From, x.Lane).Add(int(n%Slots)*SlotSize), b[:])
	return err == nil && le.Uint32(b[:]) == n && b != h
}

// take notes that the latest message of a FIFO has been taken. After every second message, take adds an
// acknowledgement to a batch.
func (c *Comm) take(x *inlet, b *batch) {
	x.taken++
	if x.taken-x.told < Slots/2 {
		return
	}
	x.told = x.taken
	x.mu.Lock()
	x.latest = x.taken
	x.mu.Unlock()
	b.rs = append(b.rs, flow.Request{Dst: c.chips[x.From], Plane: wire.Plane(x.Lane / 2),
		Command: wire.Command{Type: wire.NocInlineWrite, Addr: c.ackWord(c.rank, x.Lane), Value: x.taken}})
	b.of = append(b.of, piece{in: x})
}
