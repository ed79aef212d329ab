package session

import (
	"context"
	"errors"
	"fmt"

	"ttfabric/node/flow"
)

// A repetition must not change the order of started commands. A line therefore notes the commands
// of one flow while a Call of the flow is open. A Call repeats its packets only while no later
// command of the flow has been started.

// lineKey names a flow from the session's chip.
type lineKey struct {
	to   flow.Key
	tree flow.Tree // tree of a multicast; zero for a unicast
}

func lineOf(r *flow.Request) lineKey {
	if r.Many() {
		return lineKey{tree: r.Tree()}
	}
	return lineKey{to: flow.Key{Node: r.Dst, Plane: r.Plane, Other: r.Other}}
}

// line is the order of the commands of one flow.
type line struct {
	turn  chan struct{} // holds a value while a goroutine hands packets of the flow to the fabric
	last  uint64        // number of the latest command of the flow; guarded by turn
	calls int           // number of open Calls of the flow; guarded by Session.mu
}

// errLater is the error of a repetition that would come after a later command.
var errLater = errors.New("a later command was started")

// join adds a Call to the line of its flow.
func (s *Session) join(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[c.key]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		s.lines[c.key] = l
	}
	l.calls++
	c.line = l
}

// leave removes an ended Call from its line.
func (s *Session) leave(c *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.line.calls--; c.line.calls == 0 {
		delete(s.lines, c.key)
	}
}

// take waits for the caller's turn. The caller gives the turn back by a receive from l.turn.
func (l *line) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("an earlier command waits for room: %w", ctx.Err())
	}
}

// submit is the type of the functions that hand the requests of one command to the fabric, see
// [Fabric].
type submit func(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error)

// lined reports whether a Call is open. While a Call is open, the session notes the order of Calls
// and blocking calls.
func (s *Session) lined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines) > 0
}

// submit hands the requests of a blocking call to the fabric. All requests belong to one flow.
func (s *Session) submit(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	s.mu.Lock()
	var l *line
	if len(s.lines) > 0 {
		l = s.lines[lineOf(&rs[0])]
	}
	s.mu.Unlock()
	if l == nil {
		return s.f.Submit(ctx, rs, done)
	}
	if err := l.take(ctx); err != nil {
		return 0, err
	}
	defer func() { <-l.turn }()
	l.last++
	return s.f.Submit(ctx, rs, done)
}

// submit hands packets of the Call to the fabric for the first time.
func (c *Call) submit(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	if err := c.line.take(ctx); err != nil {
		return 0, err
	}
	defer func() { <-c.line.turn }()
	if c.number == 0 {
		c.line.last++
		c.number = c.line.last
	}
	return c.s.f.Submit(ctx, rs, done)
}

// repeat hands packets of the Call to the fabric again. If a later command of the flow has been
// started, and the Call is no read, the error is errLater.
func (c *Call) repeat(ctx context.Context, rs []flow.Request, done func(i int, r flow.Result)) (int, error) {
	if err := c.line.take(ctx); err != nil {
		return 0, err
	}
	defer func() { <-c.line.turn }()
	if c.line.last != c.number && !c.reads {
		return 0, errLater
	}
	return c.s.f.Submit(ctx, rs, done)
}
