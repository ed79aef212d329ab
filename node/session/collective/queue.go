package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ttfabric/node/collective"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// outlet is the sending side of a FIFO.
type outlet struct {
	collective.Pair
	sent  uint32               // number of the latest message
	acked atomic.Uint32        // latest acknowledgement that this rank has seen
	back  [lanesOfPlane]*inlet // FIFOs of the other direction, of the same lane and of the other lane of the plane

	mu    sync.Mutex
	slots [Slots]slot   // guarded by mu while open is above 0 or posted is set
	free  chan struct{} // gets a value when all writes of a slot have ended
}

// slot is a slot of a FIFO at its sender.
type slot struct {
	packets []byte    // packets of the latest message; a write that is repeated needs them
	number  uint32    // number of the latest message
	open    int       // number of packets whose writes have not ended
	posted  time.Time // when the message was posted, until the message is known to have come; zero: the message was not posted
}

// inlet is the receiving side of a FIFO.
type inlet struct {
	collective.Pair
	taken uint32 // number of the latest message that has been taken
	told  uint32 // latest acknowledgement that has been sent
	buf   []byte
	await awaited
	back  [lanesOfPlane]*outlet // FIFOs of the other direction, of the same lane and of the other lane of the plane

	mu     sync.Mutex
	latest uint32 // latest acknowledgement in a write of its own; guarded by mu
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
	return c.outletLocked(p)
}

// outletLocked does what outlet does. The caller holds the lock.
func (c *Comm) outletLocked(p collective.Pair) *outlet {
	x := c.out[p]
	if x == nil {
		x = &outlet{Pair: p, free: make(chan struct{}, 1)}
		c.out[p] = x
		for i := range x.back {
			x.back[i] = c.inletLocked(collective.Pair{From: p.To, To: p.From, Lane: p.Lane ^ i})
		}
	}
	return x
}

// inlet returns the receiving side of a FIFO.
func (c *Comm) inlet(p collective.Pair) *inlet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inletLocked(p)
}

// inletLocked does what inlet does. The caller holds the lock.
func (c *Comm) inletLocked(p collective.Pair) *inlet {
	x := c.in[p]
	if x == nil {
		x = &inlet{Pair: p}
		c.in[p] = x
		for i := range x.back {
			x.back[i] = c.outletLocked(collective.Pair{From: p.To, To: p.From, Lane: p.Lane ^ i})
		}
	}
	return x
}

// packets returns the number of packets of a message with so many bytes of data.
func packets(size int) int { return max(1, (size+packetData-1)/packetData) }

// header returns the header of a message, without acknowledgements.
func header(number, tag uint32, move, size int) (h [headerSize]byte) {
	le := binary.LittleEndian
	le.PutUint32(h[:], number)
	le.PutUint32(h[4:], tag)
	le.PutUint16(h[8:], uint16(move))
	le.PutUint16(h[10:], uint16(size))
	return h
}

// same reports whether a packet has the header h. The acknowledgements may differ.
func same(packet []byte, h *[headerSize]byte) bool { return [ackAt]byte(packet) == [ackAt]byte(h[:]) }

// batch is a list of writes that leave together.
type batch struct {
	c  *Comm
	rs []flow.Request
	of []piece // what each request belongs to
}

// piece is a packet of a message, or an acknowledgement.
type piece struct {
	out       *outlet
	slot, num int    // slot, and number of the packet in the message
	in        *inlet // not nil: an acknowledgement
}

// add adds a message to a batch. add waits for a free slot. If no slot is free and the batch has other
// writes, add sends them first. If "posted" is set, a message of one packet is posted: no chip answers,
// and the communicator sends the message again if no acknowledgement comes. The argument "tells" says how many of the
// FIFOs in x.back get no other acknowledgement than the one in the message.
func (b *batch) add(x *outlet, tag uint32, move int, data []byte, posted bool, tells int) error {
	c := b.c
	if x.sent >= lastMessage {
		return fmt.Errorf("rank %d has sent %d messages to rank %d, as many as a communicator can; open a new communicator", c.rank, x.sent, x.To)
	}
	n, k := x.sent+1, packets(len(data))
	posted = posted && k == 1 && x.Lane < lanesOfPlane
	i := int(n % Slots)
	if n > x.acked.Load()+Slots {
		if err := b.post(); err != nil {
			return err
		}
		acked, err := c.s.WaitToReply(c.ctx, c.ackWord(x.To, x.Lane), n-Slots)
		if err != nil {
			return c.own(err)
		}
		x.ack(acked)
	}
	for !x.claim(i, n, k, posted) { // the message has been taken, but a repeated write of its packets is under way
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
	at, buf := c.inFIFO(c.rank, x.Lane).Add(i*SlotSize), x.slots[i].packets[:0]
	for j, acks := range x.stamp(&h) {
		if j < tells {
			x.back[j].told = acks
		}
	}
	if need := k*headerSize + len(data); cap(buf) < need {
		buf = make([]byte, 0, need)
	}
	b.of = slices.Grow(b.of, k)
	for num := range k {
		off := num * packetData
		buf = append(append(buf, h[:]...), data[off:min(off+packetData, len(data))]...)
		r := b.request(piece{out: x, slot: i, num: num}, x.To, x.Lane)
		r.Payload, r.Posted = buf[num*wire.MaxPayload:], posted
		r.Command = wire.Command{Type: wire.NocUnicastWrite, Addr: at.Add(num * wire.MaxPayload)}
	}
	x.slots[i].packets = buf
	if posted {
		c.tend()
	}
	return nil
}

// request adds a request to a batch. The batch reuses the memory of earlier requests.
func (b *batch) request(p piece, to, lane int) *flow.Request {
	if n := len(b.rs); n < cap(b.rs) {
		b.rs = b.rs[:n+1]
	} else {
		b.rs = append(b.rs, flow.Request{})
	}
	b.of = append(b.of, p)
	r := &b.rs[len(b.rs)-1]
	r.Dst, r.Plane = b.c.chips[to], wire.Plane(lane/lanesOfPlane)
	return r
}

// claim takes a slot for message n with so many packets. If writes of the slot have not ended, claim
// returns false.
func (x *outlet) claim(i int, n uint32, packets int, posted bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &x.slots[i]
	if s.open > 0 {
		return false
	}
	s.open, s.number, s.posted = packets, n, time.Time{}
	if posted {
		s.posted = time.Now()
	}
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
	of := b.of
	started, err := c.s.SubmitEach(c.ctx, b.rs, func(i int, err error) {
		if err == nil {
			of[i].end()
			c.calls.Done()
			return
		}
		go func() {
			defer c.calls.Done()
			of[i].repeat(c, err)
		}()
	})
	b.rs, b.of = b.rs[:0], nil
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
	x.slots[p.slot].open--
	free := x.slots[p.slot].open == 0
	x.mu.Unlock()
	if free {
		select {
		case x.free <- struct{}{}:
		default:
		}
	}
}

// repeat performs a write again that ended with an error.
func (p *piece) repeat(c *Comm, err error) {
	if x := p.out; p.in == nil {
		packet := x.slots[p.slot].packets[p.num*wire.MaxPayload:]
		packet = packet[:min(len(packet), wire.MaxPayload)]
		at := c.inFIFO(c.rank, x.Lane).Add(p.slot*SlotSize + p.num*wire.MaxPayload)
		if c.deliver(x.To, err, func(ctx context.Context) error {
			return c.s.Write(ctx, c.chips[x.To], at, packet, session.OnPlane(wire.Plane(x.Lane/2)))
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
			return c.s.InlineWrite(ctx, c.chips[x.From], c.ackWord(c.rank, x.Lane), n, session.OnPlane(wire.Plane(x.Lane/2)))
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

// slotOf returns the address of message n of a FIFO to this rank.
func (c *Comm) slotOf(x *inlet, n uint32) wire.NocAddr {
	return c.inFIFO(x.From, x.Lane).Add(int(n%Slots) * SlotSize)
}

// collect hands the data of the next message of a FIFO to the function "take", piece by piece. The last packet of the
// message has come. The argument "from" is the number of bytes before the piece. The pieces are valid during the
// call. Messages of another call, or of another length, are an error.
func (c *Comm) collect(x *inlet, tag uint32, move, size int, call string, take func(from int, data []byte)) error {
	n, k := x.taken+1, packets(size)
	at := c.slotOf(x, n)
	h := header(n, tag, move, size)
	length := k*headerSize + size // all packets but the last one are full
	for num := 0; ; {             // the last packet mostly comes last; if an earlier packet was lost, it comes again
		other := false
		err := c.show(x, at.Add(num*wire.MaxPayload), length-num*wire.MaxPayload, func(piece []byte) bool {
			for ; len(piece) > 0; num++ {
				p := piece[:min(len(piece), wire.MaxPayload)]
				if !same(p, &h) {
					other = binary.LittleEndian.Uint32(p) == n
					return false
				}
				if num == 0 {
					x.stamped(p)
				}
				take(num*packetData, p[headerSize:])
				piece = piece[len(p):]
			}
			return true
		})
		switch {
		case err != nil:
			return c.own(err)
		case other:
			return &MismatchError{c.rank, x.From, call}
		case num == k:
			return nil
		}
		if _, err := c.s.WaitToReply(c.ctx, at.Add(num*wire.MaxPayload), n); err != nil {
			return c.own(err)
		}
	}
}

// show hands n bytes of this chip's memory to f, in pieces of whole packets.
func (c *Comm) show(x *inlet, at wire.NocAddr, n int, f func(piece []byte) bool) error {
	if c.s.View(at, n, f) {
		return nil
	}
	if len(x.buf) < n {
		x.buf = make([]byte, n)
	}
	err := c.s.Read(c.ctx, c.s.Self(), at, x.buf[:n])
	if err == nil {
		f(x.buf[:n])
	}
	return err
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
	return err == nil && le.Uint32(b[:]) == n && !same(b[:], &h)
}
