package session

import (
	"context"
	"errors"
	"strings"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/wire"
)

// MulticastError lists the chips that did not perform a multicast, or perhaps did not perform the
// multicast. All other members have performed the multicast.
type MulticastError struct {
	Errors []error // one error per chip, in the order of the chips: mostly *RefusedError, *LostError or *OutcomeUnknownError
}

// Error names the chips and what happened at each chip.
func (e *MulticastError) Error() string {
	var b strings.Builder
	for i, m := range e.Errors {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(m.Error())
	}
	return "multicast: " + b.String()
}

// Unwrap returns the chips' errors, for errors.Is and errors.As.
func (e *MulticastError) Unwrap() []error { return e.Errors }

func multicastFailure(r *flow.Request, res *flow.Result) error {
	e := &MulticastError{}
	for _, m := range res.Members {
		one := *r
		one.Dst = m.Node
		e.Errors = append(e.Errors, failure(&one, &flow.Result{Fate: m.Fate, Outcome: m.Outcome, Drop: m.Drop, At: m.At, Doubt: m.Doubt}))
	}
	return e
}

// Line returns ranges that cover n consecutive chips in one direction, as in the linear
// API. The first of the n chips is "start" hops away. On an axis that wraps, the chips
// may lie across the wrap. Line returns empty ranges if start or n is below 1, or if the
// last chip is more than 255 hops away.
func Line(d wire.Direction, start, n int) (r wire.Ranges) { return device.Line(d, start, n) }

// Away returns the chip at a distance of "hops" hops in one direction. The linear API names the
// destination of a unicast by its distance in hops.
func (s *Session) Away(d wire.Direction, hops int) (wire.FabricNodeID, error) {
	return device.Away(s.Topology(), s.Self(), d, hops)
}

// MulticastWrite writes data to address a of each chip within ranges, in packets of up to
// 4 KiB. The ranges start from this Session's chip, which MulticastWrite leaves out.
// After an error, some chips may have performed some of the packets. If data needs several
// packets, MulticastWrite does not repeat a packet that a chip refused for lack of room.
func (s *Session) MulticastWrite(ctx context.Context, to wire.Ranges, a wire.NocAddr, data []byte, o ...Option) error {
	if len(data) <= wire.MaxPayload {
		return s.multicast(ctx, to, flow.Request{Command: wire.Command{Type: a.ForWrite(), Addr: a}, Payload: data}, o)
	}
	if err := somewhere(to); err != nil {
		return err
	}
	return s.pieces(ctx, len(data), func(off, n int) flow.Request {
		return with(flow.Request{Dst: s.Self(), Ranges: to, Command: wire.Command{Type: a.ForWrite(), Addr: a.Add(off)}, Payload: data[off : off+n]}, o)
	}, nil)
}

// MulticastInlineWrite writes one 32-bit word at all chips within ranges. The address
// must be a multiple of 4.
func (s *Session) MulticastInlineWrite(ctx context.Context, to wire.Ranges, a wire.NocAddr, value uint32, o ...Option) error {
	return s.multicast(ctx, to, flow.Request{Command: wire.Command{Type: wire.NocInlineWrite, Addr: a, Value: value}}, o)
}

// MulticastInc adds the value "add" to a 32-bit counter at all chips within ranges. With
// flush, each chip first performs this Session's earlier multicasts to the same ranges on
// the same plane. A flush does not wait for other writes, because other writes belong to
// another flow. The address must be a multiple of 4.
func (s *Session) MulticastInc(ctx context.Context, to wire.Ranges, a wire.NocAddr, add uint32, flush bool, o ...Option) error {
	return s.multicast(ctx, to, flow.Request{Command: wire.Command{Type: a.ForInc(), Addr: a, Value: add, Flush: flush}}, o)
}

// MulticastWriteInc writes up to 4 KiB at all chips within ranges, and then adds to a
// counter at each of these chips, in one packet.
func (s *Session) MulticastWriteInc(ctx context.Context, to wire.Ranges, a wire.NocAddr, data []byte, counter wire.NocAddr, add uint32, flush bool, o ...Option) error {
	return s.multicast(ctx, to, flow.Request{Payload: data,
		Command: wire.Command{Type: wire.NocFusedInc, Addr: a, Sem: counter, Value: add, Flush: flush}}, o)
}

// MulticastScatter writes two to four chunks, up to 4 KiB together, at all chips within
// ranges, in one packet.
func (s *Session) MulticastScatter(ctx context.Context, to wire.Ranges, chunks []Chunk, o ...Option) error {
	r, err := scatter(chunks)
	if err != nil {
		return err
	}
	return s.multicast(ctx, to, r, o)
}

// somewhere returns an error for ranges without hops.
func somewhere(r wire.Ranges) error {
	if !r.Any() {
		return errors.New("a multicast to no chips: want 1 to 255 hops in at least one direction")
	}
	return nil
}

// multicast submits one request to many chips and waits for the request's end. If a chip did not
// perform the request, and a repetition can succeed, multicast sends the request to this chip
// again, as a unicast. The function "repeats" says when a repetition can succeed.
func (s *Session) multicast(ctx context.Context, to wire.Ranges, r flow.Request, o []Option) error {
	if err := somewhere(to); err != nil {
		return err
	}
	r.Dst, r.Ranges = s.Self(), to
	r = with(r, o)
	res, err := s.do(ctx, r)
	if res.Members == nil {
		return err
	}
	return again(ctx, r, &res, s.submit)
}

// The function "again" sends a multicast again, as unicasts by the function "submit", to the
// members for which the function "repeats" returns true. again returns the errors of all members
// that have not performed the multicast.
func again(ctx context.Context, r flow.Request, res *flow.Result, submit submit) error {
	left := &MulticastError{}
	for _, m := range res.Members {
		one := r
		one.Dst, one.Ranges, one.Members = m.Node, wire.Ranges{}, wire.Members{}
		end := flow.Result{Fate: m.Fate, Outcome: m.Outcome, Drop: m.Drop, At: m.At, Doubt: m.Doubt}
		failed := failure(&one, &end)
		if repeats(&r, &end, 0) {
			_, failed = perform(ctx, one, end, attempts(submit))
		}
		if failed != nil {
			left.Errors = append(left.Errors, failed)
		}
	}
	if len(left.Errors) == 0 {
		return nil
	}
	return left
}
