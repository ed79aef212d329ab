package chip

import (
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Client is a program inside the chip, such as a traffic generator. The chip
// asks it for requests as fast as the fabric takes them, tells it the end of
// each, and shows it every command that is performed on the chip's memory.
type Client interface {
	// Next returns the next request; false when there is none now.
	Next(now mono.Time) (flow.Request, bool)
	// Undo says that the last request was not taken; the chip will ask for the request again.
	Undo()
	// Done tells the end of a request.
	Done(now mono.Time, r flow.Result)
	// Performed tells that src's command has been performed on m; other is that of its [Request]. The client must not change m.
	Performed(now mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, m *noc.Memory)
}

// Waker is a [Client] that has a request at a certain time, and none before.
type Waker interface {
	// Deadline returns that time; false where only ends of requests make the next request.
	Deadline() (mono.Time, bool)
}

// A client whose requests are refused at once, such as requests to a chip that
// no route leads to, is asked for no more than maxRefused of them, and then after a pause.
const (
	maxRefused   = 64
	refusedPause = time.Millisecond
)

// program is the program inside a chip.
type program struct {
	client Client    // nil: none
	pullAt mono.Time // when the client is asked next, after refusals; 0: at once
}

// deadline is when the program wants to be asked.
func (p *program) deadline() (mono.Time, bool) {
	at := mono.Never
	if p.client != nil && p.pullAt != 0 {
		at = p.pullAt
	}
	if w, ok := p.client.(Waker); ok {
		if d, ok := w.Deadline(); ok {
			at = mono.Min(at, d)
		}
	}
	return at, at != mono.Never
}

// SetClient installs the program inside the chip; nil removes it.
func (c *machine) SetClient(cl Client) { c.program.client = cl }

// Done tells the program the end of one of its requests. The ends for a removed program are dropped.
func (n *network) Done(r flow.Result) {
	if cl := n.program.client; cl != nil {
		cl.Done(r.Done, r)
	}
}

// pull takes requests from the program while there is room.
func (c *machine) pull(now mono.Time) bool {
	p := &c.program
	if p.client == nil || now.Before(p.pullAt) {
		return false
	}
	p.pullAt = 0
	moved := false
	for refused := 0; ; {
		if refused == maxRefused {
			p.pullAt = now.Add(refusedPause)
			return moved
		}
		r, ok := p.client.Next(now)
		if !ok {
			return moved
		}
		switch c.start(now, &r, true) {
		case flow.Accepted:
		case flow.Busy:
			p.client.Undo()
			return moved
		case flow.Unreachable:
			c.source.Finish(now, &r, true, flow.Result{Fate: flow.FateLost, Drop: wire.DropUnreachable, At: c.cfg.Node})
			refused++
		default:
			c.source.Finish(now, &r, true, flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeBadAddress})
			refused++
		}
		moved = true
	}
}
