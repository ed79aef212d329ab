package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"ttfabric/node/fifo"
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Socket describes a kernel's end of a socket over the fabric, see package fifo. The end's block, and
// behind the block the FIFO of a receiver, lie in a buffer of the job on the kernel's tile ([SenderBytes],
// [ReceiverBytes]). The other end is a kernel, or a program on a host (package session/socket).
type Socket struct {
	fifo.Config
	Peer   wire.FabricNodeID // chip of the other end
	At     uint32            // address of this end's block in the kernel's tile, a multiple of 16
	PeerAt wire.NocAddr      // address of the other end's block
}

// SenderBytes is the size of the buffer that a sender needs, in bytes.
const SenderBytes = fifo.BlockSize

// ReceiverBytes returns the size of the buffer that a receiver needs, in bytes.
func ReceiverBytes(c fifo.Config) uint32 { return fifo.BlockSize + c.Size }

// Times of the ends, our own choices.
const (
	socketFirst = 10 * time.Microsecond // first wait between two looks at the other end's block, before the ends have met; the wait doubles
	socketMost  = 5 * time.Millisecond  // longest such wait
	socketPoll  = 50 * time.Microsecond // first wait of a receiver for more bytes, before the receiver looks at the farewell again; the wait doubles up to socketMost
)

// socketEnd holds what a SocketSender and a SocketReceiver have in common. A kernel's end has no
// beat. A kernel's end looks at the other end only while the kernel waits in a call of the socket.
type socketEnd struct {
	k       *Context
	s       Socket
	meet    fifo.Meeting
	watch   *fifo.Watch
	looked  mono.Time // when the end last looked at the other end
	counted uint32    // counter of the other end at that time
	flying  []sent
}

// sent is a command of the end that is under way.
type sent struct {
	pending *Pending
	after   *uint32 // for an increment: value of the counter after the increment; nil: a plain write
	ended   func(f fifo.Fate)
}

// open writes this end's block, and waits until the ends have met.
func (k *Context) open(s Socket, r fifo.Role) (*socketEnd, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if s.At%16 != 0 {
		return nil, fmt.Errorf("a socket at 0x%x of tile %s: want a multiple of 16", s.At, k.Tile())
	}
	e := &socketEnd{k: k, s: s, meet: fifo.Meeting{Self: k.Self(), Chip: s.Peer}}
	life := k.life()
	nonce := uint64(life)*0x9E3779B97F4A7C15 ^ uint64(k.Now())<<20 ^ uint64(s.At) | 1
	e.meet.Own = fifo.Block{Role: r, Nonce: nonce, Life: life, Config: s.Config, Peer: s.Peer}
	k.Store(s.At, append(e.meet.Own.Append(nil), make([]byte, fifo.BlockSize-fifo.OwnerSize)...))
	for d := socketFirst; ; d = min(2*d, socketMost) {
		fare := e.fare()
		b, err := e.read(s.PeerAt, fifo.OwnerSize)
		if f, _ := fateOf(err); f == fifo.Refused {
			e.free()
			return nil, err
		}
		publish, met, err := e.meet.Look(fare, b)
		if err != nil {
			k.Sleep(fifo.RefuseLinger)
			e.free()
			return nil, err
		}
		if publish {
			k.Store(s.At+fifo.MetOffset, binary.LittleEndian.AppendUint64(nil, e.meet.Own.Met))
		}
		if met {
			e.watch, e.looked = fifo.NewWatch(&e.meet), k.Now()
			return e, nil
		}
		k.Sleep(d)
	}
}

// life returns the incarnation of the kernel's chip.
func (k *Context) life() wire.Incarnation {
	var b [noc.LifeSize]byte
	at, _ := noc.LifeRegister(k.p.m.cfg.Topology.Arch)
	k.p.m.cfg.Memory.Read(at, b[:])
	return wire.Incarnation(binary.LittleEndian.Uint64(b[:]))
}

// read reads bytes of the other end's chip.
func (e *socketEnd) read(at wire.NocAddr, n int) ([]byte, error) {
	h := flow.Request{Dst: e.s.Peer, Plane: e.s.Plane, Command: wire.Command{Type: wire.NocRead, Addr: at, Size: uint16(n)}}
	d, err := e.k.Sender().Start(&h, nil)
	if err == nil {
		err = d.Wait()
	}
	if err != nil {
		return nil, err
	}
	return d.(*Pending).result.Data, nil
}

// fateOf returns the fate of a command of a socket, and whether the command can be repeated.
func fateOf(err error) (f fifo.Fate, again bool) {
	var r *ResultError
	switch {
	case err == nil:
		return fifo.Done, false
	case !errors.As(err, &r) || r.unreachable():
		return fifo.Refused, false
	case r.Result.Fate == flow.FateLost,
		r.Result.Fate == flow.FateRefused && (r.Result.Outcome == wire.OutcomeAgain || r.Result.Outcome == wire.OutcomeOverflow || r.Result.Outcome == wire.OutcomeUnknownFlow),
		r.Result.Fate == flow.FateUnknown && r.Result.Doubt == flow.DoubtData: // a read
		return fifo.Repeat, true
	case r.Result.Fate == flow.FateRefused:
		return fifo.Refused, false
	}
	return fifo.Unknown, false
}

// unreachable reports whether no route to the chip is left.
func (e *ResultError) unreachable() bool {
	return e.Result.Fate == flow.FateLost && e.Result.Drop == wire.DropUnreachable || e.Result.Fate == flow.FateUnknown && e.Result.Doubt == flow.DoubtUnreachable
}

// command starts a command for the other end's chip.
func (e *socketEnd) command(c wire.Command, payload []byte, after *uint32, ended func(f fifo.Fate)) error {
	h := flow.Request{Dst: e.s.Peer, Plane: e.s.Plane, Command: c}
	p, err := e.k.Sender().Start(&h, payload)
	if err != nil {
		return err
	}
	e.flying = append(e.flying, sent{p.(*Pending), after, ended})
	return nil
}

// settle hands the fates of ended commands to the state machine of package fifo. If the other chip
// refused a command, or its outcome stays unknown, settle returns an error with the reason.
func (e *socketEnd) settle() error {
	for i := 0; i < len(e.flying); {
		x := e.flying[i]
		over, err := x.pending.Poll()
		if !over {
			i++
			continue
		}
		e.flying = append(e.flying[:i], e.flying[i+1:]...)
		f, again := fateOf(err)
		if err != nil && !again {
			if f, err = e.resolve(f, err, x.after); f == fifo.Refused || f == fifo.Unknown {
				return err
			}
		}
		x.ended(f)
	}
	return nil
}

// resolve looks at the other end after a command that was refused or whose outcome is unknown. If
// the other end is gone, the error of resolve says why. Otherwise resolve finds out whether the
// other chip performed an increment of unknown outcome. resolve lets the end repeat a plain write
// of unknown outcome.
func (e *socketEnd) resolve(f fifo.Fate, err error, after *uint32) (fifo.Fate, error) {
	var r *ResultError
	if !errors.As(err, &r) || r.unreachable() {
		return f, err
	}
	why := e.look()
	for try := 0; why != nil && try < fifo.MaxRepeats; try++ {
		if g, _ := fateOf(why); errors.As(why, new(*fifo.PeerError)) || g == fifo.Refused {
			break
		}
		e.k.Sleep(fifo.RepeatMost) // the other end may be gone only if a read succeeds, so resolve repeats a failed read
		why = e.look()
	}
	switch {
	case why != nil:
		return f, fmt.Errorf("%w (%w)", why, err)
	case f != fifo.Unknown:
		return f, err
	case after == nil:
		return fifo.Repeat, nil
	}
	return fifo.Resolve(e.counted, *after), nil
}

// look reads the other end's block with its counter, and the incarnation of the other end's chip.
// If the other end is gone, the error is a [fifo.PeerError].
func (e *socketEnd) look() error {
	e.looked = e.k.Now()
	b, err := e.read(e.s.PeerAt, fifo.BlockSize)
	if err != nil {
		return err
	}
	at, _ := noc.LifeRegister(e.k.p.m.cfg.Topology.Arch)
	life, err := e.read(at, noc.LifeSize)
	if err != nil {
		return err
	}
	e.counted = binary.LittleEndian.Uint32(b[fifo.CountOffset:])
	return e.watch.Look(e.k.Now(), b, wire.Incarnation(binary.LittleEndian.Uint64(life)))
}

// watched looks at the other end if the last look was [fifo.CheckEvery] ago.
func (e *socketEnd) watched() error {
	if e.k.Now().Sub(e.looked) < fifo.CheckEvery || e.fare() != fifo.Open {
		return nil
	}
	err := e.look()
	if e.fare() != fifo.Open || !errors.As(err, new(*fifo.PeerError)) { // the other end has ended meanwhile, or the commands report that the chip cannot be reached
		return nil
	}
	return err
}

func (e *socketEnd) count() uint32       { return e.k.Load32(e.s.At + fifo.CountOffset) }
func (e *socketEnd) fare() fifo.Farewell { return fifo.Farewell(e.k.Load32(e.s.At + fifo.FareOffset)) }

// gone returns the error for a farewell of the other end.
func (e *socketEnd) gone(f fifo.Farewell) error {
	why := fifo.PeerFailed
	if f == fifo.Closed {
		why = fifo.PeerClosed
	}
	return &fifo.PeerError{Peer: e.s.Peer, Role: e.meet.Own.Role.Other(), Why: why}
}

// tell writes this end's farewell into the other end's block.
func (e *socketEnd) tell(f fifo.Farewell) error {
	for try := 0; ; try++ {
		h := flow.Request{Dst: e.s.Peer, Plane: e.s.Plane, Command: wire.Command{Type: wire.NocInlineWrite, Addr: e.s.PeerAt.Add(fifo.FareOffset), Value: uint32(f)}}
		p, err := e.k.Sender().Start(&h, nil)
		if err == nil {
			err = p.Wait()
		}
		if f, _ := fateOf(err); f == fifo.Done || f == fifo.Refused || try == fifo.MaxRepeats {
			return err
		}
		e.k.Sleep(fifo.RepeatAfter(try)) // a repetition may write the same word twice
	}
}

// free gives the end's block back.
func (e *socketEnd) free() { e.k.Store(e.s.At, make([]byte, fifo.OwnerSize)) }

// SocketSender is the sending end of a socket in a kernel.
type SocketSender struct {
	*socketEnd
	m    *fifo.Sender
	data []byte // the bytes of the stream that are not in the FIFO yet, from the byte m.Sent()
	base uint64 // number of the first byte of data
}

// OpenSender opens the sending end of a socket, and waits until the receiver has opened its end.
func (k *Context) OpenSender(s Socket) (*SocketSender, error) {
	m, err := fifo.NewSender(s.Config)
	if err != nil {
		return nil, err
	}
	e, err := k.open(s, fifo.SenderRole)
	if err != nil {
		return nil, err
	}
	return &SocketSender{socketEnd: e, m: m}, nil
}

// step lets the sender do all the work that is possible now.
func (x *SocketSender) step() error {
	if err := x.settle(); err != nil {
		x.m.Fail(err)
	}
	x.m.HandleAcked(x.count())
	if f := x.fare(); f != fifo.Open && x.m.Acked() < x.m.Taken() {
		x.m.Fail(x.gone(f))
	}
	x.data, x.base = x.data[x.m.Sent()-x.base:], x.m.Sent()
	for w, ok := x.m.Poll(x.k.Now()); ok; w, ok = x.m.Poll(x.k.Now()) {
		c := wire.Command{Type: wire.NocUnicastWrite, Addr: x.s.PeerAt.Add(fifo.BlockSize + int(w.Offset))}
		if w.Inc > 0 {
			c.Type, c.Sem, c.Value = wire.NocFusedInc, x.s.PeerAt.Add(fifo.CountOffset), w.Inc
			if w.From == w.To {
				c.Type, c.Addr, c.Sem = wire.NocAtomicInc, c.Sem, 0
			}
		}
		var after *uint32
		if w.Inc > 0 {
			after = &w.After
		}
		if err := x.command(c, x.data[w.From-x.base:w.To-x.base], after, func(f fifo.Fate) { x.m.HandleEnd(x.k.Now(), w.ID, f) }); err != nil {
			x.m.Fail(err)
		}
	}
	return x.m.Err()
}

// until calls step again and again, until the function "ready" returns true.
func (x *SocketSender) until(ready func() bool) error {
	for {
		if err := x.step(); err != nil {
			return err
		}
		if ready() {
			return nil
		}
		if len(x.flying) > 0 {
			_ = x.flying[0].pending.Wait() // settle takes the error
		} else if d, ok := x.m.Deadline(); ok {
			x.k.Sleep(d.Sub(x.k.Now()))
		} else {
			x.k.WaitWordFor(x.s.At+fifo.CountOffset, Differs, uint32(x.m.Acked()), fifo.CheckEvery)
		}
		if err := x.watched(); err != nil {
			x.m.Fail(err)
		}
	}
}

// Start copies n bytes, a multiple of the page, from address src of the kernel's tile, and starts
// to send the bytes. Further calls of the socket continue to send the bytes.
func (x *SocketSender) Start(src uint32, n int) error {
	if err := x.m.Put(n); err != nil {
		return err
	}
	at := len(x.data)
	x.data = append(x.data, make([]byte, n)...)
	x.k.Load(src, x.data[at:])
	return x.step()
}

// Poll lets the sender work, and reports whether all bytes are in the receiver's FIFO.
func (x *SocketSender) Poll() (bool, error) {
	err := x.step()
	return x.m.Sent() == x.m.Taken(), err
}

// Wait waits until all bytes are in the receiver's FIFO.
func (x *SocketSender) Wait() error {
	return x.until(func() bool { return x.m.Sent() == x.m.Taken() })
}

// Send sends n bytes, a multiple of the page, from address src of the kernel's tile. Send waits
// until the bytes are in the receiver's FIFO.
func (x *SocketSender) Send(src uint32, n int) error {
	if err := x.Start(src, n); err != nil {
		return err
	}
	return x.Wait()
}

// Close waits until the receiver has read all bytes, and frees the sender's block.
func (x *SocketSender) Close() error {
	err := x.Wait()
	if err == nil {
		err = x.tell(fifo.Closed)
	}
	if err == nil {
		err = x.until(func() bool { return x.m.Acked() == x.m.Taken() })
	}
	return x.leave(err)
}

// leave gives up this end of the socket. After an error, leave tells the other end.
func (e *socketEnd) leave(err error) error {
	for len(e.flying) > 0 {
		_ = e.flying[0].pending.Wait()
		e.flying = e.flying[1:]
	}
	if err != nil {
		_ = e.tell(fifo.Failed) // leave returns the first error
	}
	e.free()
	return err
}
