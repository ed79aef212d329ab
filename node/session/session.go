// Package session is the blocking programming interface of the fabric, for Go programs.
// A program on a host calls this package as a kernel on a device calls the fabric API
// (Spec §4).
//
// A program beside a running fabric opens the fabric and gets a [Session] on one of the
// fabric's chips:
//
//	f, err := fabric.Open(ctx, "default") // the fabric that 'ttfabric up' started
//	s, err := f.Session(src)              // commands start from this chip
//	err = s.Write(ctx, dst, wire.NewNocAddr(1, 2, 0x1000), []byte("hello"))
//
// 'ttfabric up --program' runs one program as every chip of a fabric. Such a program
// gets its [Session] from package process:
//
//	func main() { process.Main(hello) } // started with 'ttfabric up --program ./hello'
//	func hello(ctx context.Context, s *session.Session) error { ... }
//
// # Calls and their errors
//
// A [Session] uses a [Fabric]: a chip in this process, or a chip that the program reaches through
// the chip's API. Each call blocks until the fate of the call's command is known, or until the
// call's context ends. A nil error means that the destination performed the command. With [Posted],
// a nil error only means that the chip has sent the command. The type of an error says more:
//
//   - [RefusedError]: the destination did not perform the command, and the error says why.
//   - [LostError]: the command did not arrive, and was not performed.
//   - [OutcomeUnknownError]: nobody knows whether the command was performed.
//   - [NoRouteError]: the fabric has no route to the destination, even without faults.
//   - [MulticastError]: the errors of single destinations of a multicast.
//   - [MissedError]: the number of posted packets that were not performed, or perhaps not
//     performed; only from [Session.Flush].
//
// Many goroutines may call a Session at once. A call that moves more than 4 KiB keeps
// several packets in flight.
//
// # Tiles
//
// An address names a byte of a tile, by the tile's coordinates of NoC 0, its coordinates of NoC 1
// ([wire.NocOne]), or its translated coordinates. Boards lack some Tensix tiles (harvesting). The
// function [Tensix] finds a tile that several chips have. Write and AtomicInc to the address of a
// rectangle ([wire.NewNocRect]) are NoC multicasts: each Tensix tile of the rectangle takes part.
// A NoC multicast carries no flush.
//
// # Calls that do not wait
//
// [Session.StartWrite], [Session.StartRead] and [Session.Start] return a [Call] as soon as the
// first packets have left. [Call.Wait] waits for the end of the command, and [Call.Poll] asks
// whether the command has ended. A call with [Posted] returns when the chip has sent the call's
// packets. No destination answers these packets. [Session.Flush] waits for posted commands.
//
// # Sockets
//
// Package socket sends streams of bytes to a program of another chip, with flow control.
//
// # The device API
//
// The packages linear and mesh have the names of tt-metal's device API. Their calls use a
// [device.Sender], which [Session.Sender] returns.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Fabric starts requests and reports how the requests end.
type Fabric interface {
	// Submit starts requests in order. Submit may wait for room, but at most until ctx ends. Submit
	// returns how many requests it started. If Submit did not start all requests, it also returns
	// an error. For each started request, the fabric calls the function "done" once, with the
	// request's index. The function "done" must not block.
	Submit(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error)
	Self() wire.FabricNodeID
	Topology() *topo.Topology
}

// Limits and times.
const (
	InFlight       = 256                    // largest number of packets that one call keeps in flight
	againRetries   = 200                    // largest number of repetitions of a request that the destination refused for lack of room
	faultRetries   = 4                      // largest number of repetitions of a request that was lost at a fault, or of a read or a ping whose fate a fault left open
	againWait      = 2 * time.Millisecond   // wait before the first repetition; the wait doubles up to againMax
	againMax       = 100 * time.Millisecond // longest wait before a repetition
	againDoublings = 6                      // number of doublings after which the wait is againMax
)

// OutcomeUnknownError says that nobody knows whether the destination performed a command. The
// reason is one of these: the destination restarted, the route died, no answer came, the caller
// stopped waiting, or the program's own chip was shut down.
type OutcomeUnknownError struct {
	Dst    wire.FabricNodeID
	Reason string
	Err    error // error of the Fabric that ended the command, for example because the chip was shut down; nil: none
}

// Unwrap returns the error of the Fabric, or nil.
func (e *OutcomeUnknownError) Unwrap() error { return e.Err }

// Error names the chip and the reason.
func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("chip %s: outcome unknown: %s", e.Dst, e.Reason)
}

// ErrUnreachable matches, by [errors.Is], the error of a command if no route leads to the
// destination. A matching error has one of three types. A [LostError] says that the
// destination did not perform the command. An [OutcomeUnknownError] says that the last
// route died while the command was under way. A [NoRouteError] says that the fabric never
// had a route. If a route died but another route still exists, the error does not match,
// and the next command may succeed.
var ErrUnreachable = errors.New("no route to the chip is left")

// Is reports whether err is [ErrUnreachable] and the last route to the chip died.
func (e *OutcomeUnknownError) Is(err error) bool {
	return err == ErrUnreachable && e.Reason == flow.DoubtUnreachable.String()
}

// Is reports whether err is [ErrUnreachable] and the fabric had no route to the chip.
func (e *LostError) Is(err error) bool {
	return err == ErrUnreachable && e.Reason == wire.DropUnreachable
}

// RefusedError says that the destination did not perform a command.
type RefusedError struct {
	Dst     wire.FabricNodeID
	Outcome wire.Outcome
	Addr    wire.NocAddr
}

// Error names the chip, the address and the destination's reason for the refusal.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("chip %s refused %s: %s", e.Dst, e.Addr, e.Outcome)
}

// LostError says that a command did not reach its destination, and was not performed.
type LostError struct {
	Dst    wire.FabricNodeID
	Reason wire.DropReason   // why a chip dropped the command; 0 if the destination saw a gap instead
	At     wire.FabricNodeID // the chip that dropped the command, if Reason is not 0
}

// Error names the destination, the chip that dropped the command, and the reason.
func (e *LostError) Error() string {
	if e.Reason == wire.DropUnreachable {
		return fmt.Sprintf("chip %s unreachable: at chip %s, no route round the faults is left; not performed", e.Dst, e.At)
	}
	if e.Reason == 0 {
		return fmt.Sprintf("chip %s: the request was lost on its route, not performed", e.Dst)
	}
	return fmt.Sprintf("chip %s unreachable: chip %s dropped the request: %s; not performed", e.Dst, e.At, e.Reason)
}

// NoRouteError says that the fabric has no route to a chip on a plane, even without
// faults. A 1D fabric, for example, has no routes between the lines of a mesh. A retry
// fails in the same way.
type NoRouteError struct {
	Src, Dst wire.FabricNodeID
	Plane    wire.Plane
}

// Error names the chips and the plane, and the command that lists the routes.
func (e *NoRouteError) Error() string {
	return fmt.Sprintf("there is no route from %s to %s on plane %d; 'ttfabric routes' shows the routes that exist", e.Src, e.Dst, e.Plane)
}

// Is reports whether err is [ErrUnreachable].
func (e *NoRouteError) Is(err error) bool { return err == ErrUnreachable }

// Session is the interface for programs. A Session is safe for concurrent use.
type Session struct {
	f     Fabric
	calls chan struct{} // one value for each open Call

	mu    sync.Mutex
	lines map[lineKey]*line // the flows with open Calls
}

// New returns a Session on a fabric.
func New(f Fabric) *Session {
	return &Session{f: f, calls: make(chan struct{}, MaxCalls), lines: map[lineKey]*line{}}
}

// Self returns the chip that this Session's commands start from.
func (s *Session) Self() wire.FabricNodeID { return s.f.Self() }

// Topology returns the topology of this Session's fabric.
func (s *Session) Topology() *topo.Topology { return s.f.Topology() }

// Option changes how a call sends its packets.
type Option func(*flow.Request)

// OnPlane chooses the routing plane (Spec §2.2.2) of a call. A call without OnPlane
// uses plane 0.
func OnPlane(p wire.Plane) Option { return func(r *flow.Request) { r.Plane = p } }

// OtherWay makes a call's packets take the other direction round a ring, if both
// directions are equally long. Both directions are equally long between opposite chips
// of a ring of even length. With OtherWay in some calls, a program can use both
// directions. Between other chips OtherWay changes nothing. The packets of calls with
// OtherWay stay in order. No order holds between the packets of calls with OtherWay and
// the packets of calls without OtherWay. Calls with OtherWay fail if they are
// multicasts or also have [Via].
func OtherWay() Option { return func(r *flow.Request) { r.Other = true } }

// Traced makes each chip on the route record the arrival of the call's packets. Chips do
// not record multicasts. The method Sightings of chip.Chip returns a chip's records.
func Traced() Option { return func(r *flow.Request) { r.Trace = true } }

// Via makes a call's packets take the given hops, at most [wire.MaxHops], instead of the
// hops from the routing table. The hops must end at the destination. If the destination
// is the sending chip itself, the hops must lead back to this chip. A route of Via may
// break the order of dimensions that keeps the fabric free of deadlock. To avoid
// deadlock, a program must keep fewer packets with Via in flight than a receiver channel
// has slots.
func Via(hops ...wire.Direction) Option { return func(r *flow.Request) { r.Via = hops } }

// Posted makes a call return when the chip has sent the call's packets. No destination
// answers, so the call reports neither a refusal nor a loss. Package flow says what a
// program may rely on. Reads cannot be posted.
func Posted() Option { return func(r *flow.Request) { r.Posted = true } }

// Write writes data to address a of dst, in packets of up to 4 KiB. After an error, the
// destination may have performed some of the packets.
func (s *Session) Write(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, data []byte, o ...Option) error {
	build := func(off, n int) flow.Request {
		return with(flow.Request{Dst: dst, Command: wire.Command{Type: a.ForWrite(), Addr: a.Add(off)}, Payload: data[off : off+n]}, o)
	}
	if len(data) <= wire.MaxPayload {
		_, err := s.do(ctx, build(0, len(data)))
		return err
	}
	if m, ok := s.mover(dst, len(data), o); ok {
		return s.move(ctx, m, true, a, data)
	}
	return s.pieces(ctx, len(data), build, nil)
}

// Read reads len(b) bytes from address a of dst into b.
func (s *Session) Read(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, b []byte, o ...Option) error {
	if ok, err := s.load(dst, a, b, o); ok {
		return err
	}
	if m, ok := s.mover(dst, len(b), o); ok {
		return s.move(ctx, m, false, a, b)
	}
	build, took := s.reading(dst, a, b, o)
	if len(b) == 0 || len(b) > wire.MaxPayload {
		return s.pieces(ctx, len(b), build, took)
	}
	r, err := s.do(ctx, build(0, len(b)))
	if err != nil {
		return err
	}
	return took(0, len(b), r)
}

// reading returns the functions of a transfer that reads into b.
func (s *Session) reading(dst wire.FabricNodeID, a wire.NocAddr, b []byte, o []Option) (build func(off, n int) flow.Request, took func(off, n int, r flow.Result) error) {
	build = func(off, n int) flow.Request {
		return with(flow.Request{Dst: dst, Command: wire.Command{Type: wire.NocRead, Addr: a.Add(off), Size: uint16(n)}}, o)
	}
	return build, func(off, n int, r flow.Result) error {
		if len(r.Data) != n {
			return fmt.Errorf("chip %s answered a read of %d bytes with %d bytes", dst, n, len(r.Data))
		}
		copy(b[off:], r.Data)
		return nil
	}
}

// InlineWrite writes one 32-bit word that travels in the packet's header. The address
// must be a multiple of 4.
func (s *Session) InlineWrite(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, value uint32, o ...Option) error {
	_, err := s.do(ctx, with(flow.Request{Dst: dst, Command: wire.Command{Type: wire.NocInlineWrite, Addr: a, Value: value}}, o))
	return err
}

// AtomicInc adds the value "add" to a 32-bit counter at dst. With flush, the destination
// first performs the earlier writes of this Session's chip to dst on the same plane. Calls
// with and without [OtherWay] do not wait for each other. The address must be a multiple
// of 4.
func (s *Session) AtomicInc(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, add uint32, flush bool, o ...Option) error {
	_, err := s.do(ctx, with(flow.Request{Dst: dst, Command: wire.Command{Type: a.ForInc(), Addr: a, Value: add, Flush: flush}}, o))
	return err
}

// WriteInc writes up to 4 KiB and then adds to a 32-bit counter, in one packet.
func (s *Session) WriteInc(ctx context.Context, dst wire.FabricNodeID, a wire.NocAddr, data []byte, counter wire.NocAddr, add uint32, flush bool, o ...Option) error {
	_, err := s.do(ctx, with(flow.Request{Dst: dst, Payload: data,
		Command: wire.Command{Type: wire.NocFusedInc, Addr: a, Sem: counter, Value: add, Flush: flush}}, o))
	return err
}

// Chunk is one part of a scatter write.
type Chunk = device.Chunk

// ScatterWrite writes two to four chunks, up to 4 KiB together, in one packet.
func (s *Session) ScatterWrite(ctx context.Context, dst wire.FabricNodeID, chunks []Chunk, o ...Option) error {
	r, err := scatter(chunks)
	if err != nil {
		return err
	}
	r.Dst = dst
	_, err = s.do(ctx, with(r, o))
	return err
}

func scatter(chunks []Chunk) (flow.Request, error) {
	c, data, err := device.Scatter(chunks)
	return flow.Request{Command: c, Payload: data}, err
}

// Ping sends an empty packet to dst. Ping returns the time from the sending to the
// arrival of the packet's completion.
func (s *Session) Ping(ctx context.Context, dst wire.FabricNodeID, o ...Option) (time.Duration, error) {
	r, err := s.do(ctx, with(flow.Request{Dst: dst, Probe: true}, o))
	return r.Done.Sub(r.Sent), err
}

// Flush waits until the fates of all posted unicasts from this Session's chip to dst are settled.
// Flush covers the commands on the plane of its own call. A Flush with [OtherWay] covers the
// commands with OtherWay. A Flush without OtherWay covers the commands without OtherWay. For
// multicasts, see the method Flush of [device.Links]. If a command since the last Flush was not
// performed, or perhaps not performed, the error is a [MissedError]. Programs on one chip share the
// count of these commands: the Flush of one program reports and resets the count of all programs.
func (s *Session) Flush(ctx context.Context, dst wire.FabricNodeID, o ...Option) error {
	_, err := s.do(ctx, with(flow.Request{Dst: dst, Probe: true, Flush: true}, o))
	return err
}

// MissedError says that destinations did not perform all posted commands, as far as the
// source knows.
type MissedError struct {
	Dst   wire.FabricNodeID // the destination; for a multicast, the source or a chip of the members' mesh
	Count uint64            // number of posted packets that did not end as done
}

// Error names the chip and the number of packets.
func (e *MissedError) Error() string {
	return fmt.Sprintf("chip %s: %d posted packets were not performed, or perhaps not performed", e.Dst, e.Count)
}

// Ready waits until every chip of the fabric answers. Ready asks one chip after another,
// each on the first plane with a route to the chip. If ctx ends first, the error names a
// chip that does not answer. If no plane has a route to a chip, Ready does not wait for
// this chip, and the error wraps a [NoRouteError].
func (s *Session) Ready(ctx context.Context) error {
	for _, c := range s.Topology().Chips {
		if err := s.answers(ctx, c.Node); err != nil {
			return fmt.Errorf("the fabric is not ready: %w", err)
		}
	}
	return nil
}

// answers waits until a chip answers a ping, on the first plane with a route to the chip.
func (s *Session) answers(ctx context.Context, dst wire.FabricNodeID) error {
	for plane := wire.Plane(0); ; {
		_, err := s.Ping(ctx, dst, OnPlane(plane))
		var none *NoRouteError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &none) && int(plane)+1 < s.Topology().Planes():
			plane++
			continue
		case none != nil || ctx.Err() != nil:
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func with(r flow.Request, o []Option) flow.Request {
	if len(o) == 0 {
		return r
	}
	return withOptions(r, o)
}

func withOptions(r flow.Request, o []Option) flow.Request {
	for _, f := range o {
		f(&r)
	}
	return r
}

// repeats reports whether a call sends a request again. The argument r is the request's result
// after "try" repetitions. A call repeats a request in these cases:
//
//   - The destination refused the request for lack of room, or because the destination restarted.
//   - The request was lost at a fault. The destination did not perform the request, and never will.
//   - A fault left the fate of a read or a ping open, or the data of a read was lost. Reads and
//     pings change nothing.
//
// A call never repeats a write whose fate is open. For a multicast that failed at some members, and
// for a request whose connection or chip has gone, repeats returns false.
func repeats(q *flow.Request, r *flow.Result, try int) bool {
	switch {
	case r.Members != nil, r.Err != nil:
		return false
	case r.Fate == flow.FateRefused:
		return try < againRetries && (r.Outcome == wire.OutcomeAgain || r.Outcome == wire.OutcomeOverflow || r.Outcome == wire.OutcomeUnknownFlow)
	case r.Fate == flow.FateLost:
		return try < faultRetries && (r.Drop == 0 || r.Drop == wire.DropNextHopDead || r.Drop == wire.DropTables)
	case r.Fate == flow.FateUnknown:
		return try < faultRetries && (q.Probe || q.Command.Type == wire.NocRead) && r.Doubt != flow.DoubtTimeout && r.Doubt != flow.DoubtUnreachable
	}
	return false
}

// againAfter returns how long a call waits before repetition number "try" of a request. The number
// of the first repetition is 0.
func againAfter(try int) time.Duration { return min(againWait<<min(try, againDoublings), againMax) }

// stopped adds the error of an ended ctx to the error of a command with an unknown
// outcome. A Fabric may end an open request because ctx has ended.
func stopped(ctx context.Context, err error) error {
	var unknown *OutcomeUnknownError
	if ctx.Err() == nil || !errors.As(err, &unknown) || errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(err, ctx.Err())
}

func failure(r *flow.Request, res *flow.Result) error {
	switch {
	case res.Members != nil:
		return multicastFailure(r, res)
	case res.Fate == flow.FateDone && res.Missed > 0:
		return &MissedError{r.Dst, res.Missed}
	case res.Fate == flow.FateDone, res.Fate == flow.FatePosted:
		return nil
	case res.Fate == flow.FateRefused && res.Err != nil:
		return res.Err
	case res.Fate == flow.FateRefused:
		a := r.Command.Addr
		if r.Command.Type == wire.NocScatterWrite {
			a = r.Command.Scatter[0]
		}
		return &RefusedError{r.Dst, res.Outcome, a}
	case res.Fate == flow.FateLost:
		return &LostError{r.Dst, res.Drop, res.At}
	}
	if res.Err != nil {
		return &OutcomeUnknownError{r.Dst, res.Err.Error(), res.Err}
	}
	return &OutcomeUnknownError{Dst: r.Dst, Reason: cmp.Or(res.Doubt.String(), "the chip was shut down")}
}
