package chip

import (
	"time"

	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Client is a program inside the chip, such as a traffic generator: it is
// asked for requests as fast as the fabric takes them, is told the end of
// each, and sees every command that is performed on the chip's memory.
type Client interface {
	// Next returns the next request; false when there is none now.
	Next(now mono.Time) (Request, bool)
	// Undo says that the last request was not taken; it will be asked for again.
	Undo()
	// Done tells the end of a request.
	Done(now mono.Time, r Result)
	// Performed tells that src's command has been performed on m; other is that of its [Request]. It must not change m.
	Performed(now mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, m *noc.Memory)
}

// Waker is a [Client] that has a request at a certain time, and none before.
type Waker interface {
	// Deadline returns that time; false where only ends of requests make the next one.
	Deadline() (mono.Time, bool)
}

// SetClient installs the program inside the chip; nil removes it. The ends of requests of a removed client are dropped.
func (c *Chip) SetClient(cl Client) {
	if c.tap != nil {
		cl = c.tapClient(cl)
	}
	c.client = cl
}

// HandleRequest starts a request. Its end comes from [Chip.PollResult].
func (c *Chip) HandleRequest(now mono.Time, r Request) Admission {
	if c.tap != nil {
		c.tap.Request(now, r)
	}
	a := c.start(now, &r, false)
	if c.tap != nil {
		c.tap.Admission(a)
	}
	return a
}

// A client whose requests are refused at once, such as to a chip that no way
// leads to, is asked for no more than maxRefused of them, and then after a pause.
const (
	maxRefused   = 64
	refusedPause = time.Millisecond
)

// pull takes requests from the client while there is room.
func (c *Chip) pull(now mono.Time) bool {
	if c.client == nil {
		return false
	}
	if now.Before(c.pullAt) {
		return false
	}
	c.pullAt = 0
	moved := false
	for refused := 0; ; {
		if refused == maxRefused {
			c.pullAt = now.Add(refusedPause)
			return moved
		}
		r, ok := c.client.Next(now)
		if !ok {
			return moved
		}
		switch c.start(now, &r, true) {
		case Accepted:
			moved = true
		case Busy:
			c.client.Undo()
			return moved
		case Unreachable:
			c.finish(now, r.Dst, &op{token: r.Token, sent: now, client: true}, Result{Fate: FateLost, Drop: wire.DropUnreachable, At: c.cfg.Node})
			moved = true
			refused++
		default:
			c.finish(now, r.Dst, &op{token: r.Token, sent: now, client: true}, Result{Fate: FateRefused, Outcome: wire.OutcomeBadAddress})
			moved = true
			refused++
		}
	}
}
