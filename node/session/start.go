package session

import (
	"context"
	"errors"
	"fmt"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/wire"
)

// MaxCalls is the largest number of open [Call] values of a Session. While MaxCalls are open, the
// methods that start a Call wait until another Call has ended.
const MaxCalls = 4096

// Call is a command that a program has started without waiting for its end.
type Call struct {
	s     *Session
	dst   wire.FabricNodeID
	ended chan struct{} // closed when the command has ended
	err   error         // error of the command; valid once the command has ended

	key    lineKey // flow of the command
	line   *line
	number uint64 // number of the command in its line; 0: not started
	reads  bool   // the command is a read, which may be repeated after later commands

	then func(err error) // called when the command has ended; may be nil
}

// Done returns a channel that is closed when the command has ended.
func (c *Call) Done() <-chan struct{} { return c.ended }

// Poll reports whether the command has ended. After the end, err is the command's error. The
// package documentation lists the types of the error.
func (c *Call) Poll() (ended bool, err error) {
	select {
	case <-c.ended:
		return true, c.err
	default:
		return false, nil
	}
}

// Wait waits until the command has ended, and returns the command's error. If ctx ends first, Wait
// returns an [OutcomeUnknownError] and the error of ctx. The command then continues, and a later
// Wait may still return the command's own error.
func (c *Call) Wait(ctx context.Context) error {
	select {
	case <-c.ended:
		return c.err
	case <-ctx.Done():
		return errors.Join(&OutcomeUnknownError{Dst: c.dst, Reason: "the caller stopped waiting"}, ctx.Err())
	}
}

// end ends the call.
func (s *Session) end(c *Call, err error) {
	c.err = err
	s.leave(c)
	if c.then != nil {
		c.then(err)
	}
	close(c.ended)
	<-s.calls
}

// open waits until fewer than MaxCalls Calls are open, and returns a new Call for a command with
// the header h.
func (s *Session) open(ctx context.Context, h *flow.Request) (*Call, error) {
	select {
	case s.calls <- struct{}{}:
		c := &Call{s: s, dst: h.Dst, ended: make(chan struct{}), key: lineOf(h), reads: h.Command.Type == wire.NocRead}
		s.join(c)
		return c, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%d calls are open, as many as a session may have: %w", MaxCalls, ctx.Err())
	}
}

// StartWrite does what [Session.Write] does, without waiting for the end. The data must not change
// before the Call has ended.
func (s *Session) StartWrite(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, data []byte, o ...Option) (*Call, error) {
	h := with(flow.Request{Dst: dst, Command: device.Write(a)}, o)
	return s.Start(ctx, &h, data)
}

// StartRead does what [Session.Read] does, without waiting for the end. The bytes of b are valid
// once the Call has ended without an error. After a fault or a refusal for lack of room, the
// session repeats a read even if later commands have been started. The repeated read may see the
// writes of these commands.
func (s *Session) StartRead(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, b []byte, o ...Option) (*Call, error) {
	build, took := s.reading(dst, a, b, o)
	h := build(0, 0)
	c, err := s.open(ctx, &h)
	if err != nil {
		return nil, err
	}
	t := s.transfer(ctx, len(b), build, took)
	t.first, t.repeat = c.submit, c.repeat
	more := t.submit()
	go func() { s.end(c, t.run(more)) }()
	return c, nil
}

// Start starts a command with the header h, whose Payload is not used. Start returns when the
// command's first [InFlight] packets have left for the chip. Commands that one goroutine starts
// leave in the order of the calls, except the packets beyond the first InFlight. If ctx ends, Start
// stops waiting for room, and the session does not repeat the command after any refusal or loss.
//
// The session repeats a command that the destination refused for lack of room or after a restart,
// and a command that was lost at a fault. A repeated command would arrive after later commands.
// Therefore the session repeats a command only if its program has started no later command of the
// same flow. Otherwise the Call ends with the error of the refusal or loss. Commands of one flow
// have the same destination or members and the same plane. Either all commands of a flow have
// [OtherWay], or no command has it.
//
// A payload of more than 4 KiB is allowed for writes, and for writes with increment that are not
// posted. The last packet carries the increment of such a write. The last packet leaves when the
// destination has performed all other packets. Later commands may then arrive before the last
// packet. The payload must not change before the Call has ended.
func (s *Session) Start(ctx context.Context, h *flow.Request, payload []byte) (*Call, error) {
	return s.start(ctx, h, payload, nil)
}

// StartThen does what Start does. StartThen calls the function "then" once, with the error, when
// the command has ended or could not be started. The function must not block, and must not call the
// session.
func (s *Session) StartThen(ctx context.Context, h *flow.Request, payload []byte, then func(err error)) {
	started := false
	if _, err := s.start(ctx, h, payload, func(err error) { started = true; then(err) }); err != nil && !started {
		then(err)
	}
}

func (s *Session) start(ctx context.Context, h *flow.Request, payload []byte, then func(err error)) (*Call, error) {
	long, fused := len(payload) > wire.MaxPayload, h.Command.Type == wire.NocFusedInc
	if long && h.Command.Type != wire.NocUnicastWrite && h.Command.Type != wire.NocMulticastWrite && !fused {
		return nil, fmt.Errorf("a payload of %d bytes: a packet carries at most %d, and only writes use several packets", len(payload), wire.MaxPayload)
	}
	if long && fused && h.Posted {
		return nil, fmt.Errorf("a posted write with increment of %d bytes: want at most %d, because the increment must wait for the data of the other packets", len(payload), wire.MaxPayload)
	}
	c, err := s.open(ctx, h)
	if err != nil {
		return nil, err
	}
	c.then = then
	if long {
		t := s.transfer(ctx, len(payload), pieces(*h, payload), nil)
		t.first, t.repeat, t.lastAlone = c.submit, c.repeat, fused
		more := t.submit()
		go func() { s.end(c, t.run(more)) }()
		return c, nil
	}
	r := *h
	r.Payload = payload
	_, err = c.submit(ctx, []flow.Request{r}, func(_ int, res flow.Result) { s.settle(ctx, c, r, res) })
	if err != nil {
		s.end(c, err)
		return nil, err
	}
	return c, nil
}

// settle ends a call of one packet, or sends the packet again if a repetition can succeed and keeps
// the order of the flow.
func (s *Session) settle(ctx context.Context, c *Call, r flow.Request, res flow.Result) {
	switch {
	case res.Members != nil:
		go func() { s.end(c, again(ctx, r, &res, c.repeat)) }()
	case repeats(&r, &res, 0) && ctx.Err() == nil:
		go func() {
			_, err := perform(ctx, r, res, attempts(c.repeat))
			s.end(c, err)
		}()
	default:
		s.end(c, failure(&r, &res))
	}
}

// pieces returns a function that makes the packets of a write, or of a write with increment, from a
// header.
func pieces(h flow.Request, payload []byte) func(off, n int) flow.Request {
	return func(off, n int) flow.Request {
		r := h
		r.Payload, r.Command.Addr = payload[off:off+n], h.Command.Addr.Add(off)
		if off+n < len(payload) {
			r.Command = device.Write(r.Command.Addr)
		}
		return r
	}
}

// Sender returns an interface to this Session for the packages linear and mesh. A command waits for
// room until ctx ends. A call of these packages waits for the ends of its packets until ctx ends,
// unless its packets are posted.
func (s *Session) Sender(ctx context.Context) device.Sender { return &sender{s, ctx} }

type sender struct {
	*Session
	ctx context.Context
}

// Start starts a command, see [Session.Start].
func (x *sender) Start(h *flow.Request, payload []byte) (device.Pending, error) {
	c, err := x.Session.Start(x.ctx, h, payload)
	if err != nil {
		return nil, err
	}
	return &pending{c, x.ctx}, nil
}

type pending struct {
	*Call
	ctx context.Context
}

// Wait waits until the command has ended or the sender's context has ended.
func (p *pending) Wait() error { return p.Call.Wait(p.ctx) }
