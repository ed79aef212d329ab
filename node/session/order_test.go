package session

import (
	"context"
	"errors"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// held is a Fabric that hands each request to the test. The test ends the request.
type held struct{ sent chan *heldRequest }

type heldRequest struct {
	flow.Request
	end func(r flow.Result)
}

// Submit hands the requests to the test.
func (f *held) Submit(_ context.Context, rs []flow.Request, done func(int, flow.Result)) (int, error) {
	for i, r := range rs {
		f.sent <- &heldRequest{r, func(r flow.Result) { done(i, r) }}
	}
	return len(rs), nil
}

// Self returns M0D0.
func (f *held) Self() wire.FabricNodeID { return wire.FabricNodeID{} }

// Topology returns nil, because the tests do not use a topology.
func (f *held) Topology() *topo.Topology { return nil }

func newHeld() (*held, *Session) {
	f := &held{make(chan *heldRequest, 2*InFlight)}
	return f, New(f)
}

// The ends of requests in these tests.
var (
	ended     = flow.Result{Fate: flow.FateDone}
	droppedAt = flow.Result{Fate: flow.FateLost, Drop: wire.DropNextHopDead}
)

// TestIncrementComesLast starts a long write with increment, and loses its first packet. The packet
// with the increment leaves only when the destination has performed all others.
func TestIncrementComesLast(t *testing.T) {
	f, s := newHeld()
	h := flow.Request{Dst: at(1), Command: device.FusedAtomicInc(0, 0x9000, 1, false)}
	c, err := s.Start(t.Context(), &h, make([]byte, (InFlight+1)*wire.MaxPayload+10))
	if err != nil {
		t.Fatal(err)
	}
	var first *heldRequest
	for i := range InFlight + 1 {
		r := <-f.sent
		if r.Command.Type != wire.NocUnicastWrite {
			t.Fatalf("packet %d: %s", i, r.Command.Type)
		}
		if i == 0 {
			first = r
		} else {
			r.end(ended)
		}
	}
	first.end(droppedAt)
	if again := <-f.sent; again.Command.Addr != first.Command.Addr {
		t.Fatalf("%s to %s came before the repetition", again.Command.Type, again.Command.Addr)
	} else {
		again.end(ended)
	}
	last := <-f.sent
	if last.Command.Type != wire.NocFusedInc || len(last.Payload) != 10 {
		t.Errorf("last: %s, %d bytes", last.Command.Type, len(last.Payload))
	}
	last.end(ended)
	if err := c.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNoIncrementAfterALoss ends the first packet of a long write with increment as refused. No
// increment leaves.
func TestNoIncrementAfterALoss(t *testing.T) {
	f, s := newHeld()
	h := flow.Request{Dst: at(1), Command: device.FusedAtomicInc(0, 0x9000, 1, false)}
	c, err := s.Start(t.Context(), &h, make([]byte, wire.MaxPayload+10))
	if err != nil {
		t.Fatal(err)
	}
	(<-f.sent).end(flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeBadAddress})
	var refused *RefusedError
	if err := c.Wait(t.Context()); !errors.As(err, &refused) || len(f.sent) != 0 {
		t.Errorf("%v, and %d further packets", err, len(f.sent))
	}
	h.Posted = true
	if _, err := s.Start(t.Context(), &h, make([]byte, wire.MaxPayload+10)); err == nil || len(f.sent) != 0 {
		t.Errorf("a posted write with increment of two packets: %v", err)
	}
}

// TestRepetitionsKeepTheOrder starts a command and a later command, and loses the first. The
// session must repeat the first command only if the later command belongs to another flow.
func TestRepetitionsKeepTheOrder(t *testing.T) {
	write := func(s *Session, dst int, n int, o ...Option) *Call {
		c, err := s.StartWrite(t.Context(), at(dst), 64, make([]byte, n), o...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	to := func(s *Session, members ...wire.ChipID) *Call {
		c, err := s.Start(t.Context(), &flow.Request{Members: wire.MembersOf(members...), Command: device.InlineWrite(64, 1)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	lost := droppedAt
	lostAt := flow.Result{Fate: flow.FateLost, Drop: wire.DropNextHopDead, Members: []flow.MemberResult{{Node: at(2), Fate: flow.FateLost, Drop: wire.DropNextHopDead}}}
	for _, x := range []struct {
		name   string
		first  func(s *Session) *Call
		then   func(s *Session) *Call
		end    flow.Result
		repeat bool
	}{
		{"one write", func(s *Session) *Call { return write(s, 1, 1) }, nil, lost, true},
		{"two writes", func(s *Session) *Call { return write(s, 1, 1) }, func(s *Session) *Call { return write(s, 1, 1) }, lost, false},
		{"to another chip", func(s *Session) *Call { return write(s, 1, 1) }, func(s *Session) *Call { return write(s, 2, 1) }, lost, true},
		{"on another plane", func(s *Session) *Call { return write(s, 1, 1) }, func(s *Session) *Call { return write(s, 1, 1, OnPlane(1)) }, lost, true},
		{"a refusal", func(s *Session) *Call { return write(s, 1, 1) }, func(s *Session) *Call { return write(s, 1, 1) },
			flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeOverflow}, false},
		{"a long write", func(s *Session) *Call { return write(s, 1, wire.MaxPayload+1) }, func(s *Session) *Call { return write(s, 1, 1) }, lost, false},
		{"one long write", func(s *Session) *Call { return write(s, 1, wire.MaxPayload+1) }, nil, lost, true},
		{"two multicasts", func(s *Session) *Call { return to(s, 1, 2) }, func(s *Session) *Call { return to(s, 1, 2) }, lostAt, false},
		{"to other members", func(s *Session) *Call { return to(s, 1, 2) }, func(s *Session) *Call { return to(s, 1, 3) }, lostAt, true},
		{"a read", func(s *Session) *Call {
			c, err := s.StartRead(t.Context(), at(1), 64, make([]byte, 1))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}, func(s *Session) *Call { return write(s, 1, 1) }, lost, true},
	} {
		f, s := newHeld()
		c := x.first(s)
		rs := []*heldRequest{<-f.sent}
		for len(f.sent) > 0 {
			rs = append(rs, <-f.sent)
		}
		if x.then != nil {
			d := x.then(s)
			(<-f.sent).end(ended)
			if err := d.Wait(t.Context()); err != nil {
				t.Errorf("%s: the later command: %v", x.name, err)
			}
		}
		for _, r := range rs[1:] {
			r.end(ended)
		}
		rs[0].end(x.end)
		if x.repeat {
			(<-f.sent).end(flow.Result{Fate: flow.FateDone, Data: []byte("x")})
		}
		if err := c.Wait(t.Context()); (err == nil) != x.repeat || len(f.sent) > 0 {
			t.Errorf("%s: %v; %d packets too many", x.name, err, len(f.sent))
		}
		if len(s.lines) > 0 {
			t.Errorf("%s: %d flows are left", x.name, len(s.lines))
		}
	}
}

// TestWaitingCallsCountAsLater starts a write, and then writes to the same chip with a call that
// waits. The session must not repeat the first write after the second write.
func TestWaitingCallsCountAsLater(t *testing.T) {
	f, s := newHeld()
	c, err := s.StartWrite(t.Context(), at(1), 64, []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	one := <-f.sent
	go func() { (<-f.sent).end(ended) }()
	if err := s.Write(t.Context(), at(1), 64, []byte("2")); err != nil {
		t.Fatal(err)
	}
	one.end(droppedAt)
	var lost *LostError
	if err := c.Wait(t.Context()); !errors.As(err, &lost) || len(f.sent) > 0 {
		t.Errorf("%v", err)
	}
}

// TestEmptyWrites writes no bytes by a call that waits and by a Call. Both send the same packet.
func TestEmptyWrites(t *testing.T) {
	for _, data := range [][]byte{nil, {}} {
		f := &scripted{ends: []flow.Result{ended, ended}}
		s := New(f)
		if err := s.Write(t.Context(), at(1), 64, data); err != nil {
			t.Error(err)
		}
		if c, err := s.StartWrite(t.Context(), at(1), 64, data); err != nil || c.Wait(t.Context()) != nil {
			t.Error(err)
		}
		if len(f.asked) != 2 || len(f.asked[0].Payload)+len(f.asked[1].Payload) > 0 || f.asked[0].Command != f.asked[1].Command {
			t.Errorf("%+v", f.asked)
		}
	}
}
