package chip

import (
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Client is a program inside the chip, such as a traffic generator. The chip asks the
// client for requests as fast as the fabric takes requests. The chip tells the client
// how each request ended. The chip also shows the client every requested command that it
// performs on its memory, except reads.
type Client interface {
	// Next returns the client's next request. Next returns false if the client has no
	// request now.
	Next(now mono.Time) (flow.Request, bool)
	// Undo tells the client that the chip did not take the last request. The next call of
	// Next must return this request again.
	Undo()
	// Done tells the client how a request ended.
	Done(now mono.Time, r flow.Result)
	// Performed tells the client that the chip has performed a command of chip src on
	// m. The command is not a read. The parameter "other" is the field Other of the
	// command's request, see [flow.Request]. The client must not change m.
	Performed(now mono.Time, src wire.FabricNodeID, plane wire.Plane, other bool, cmd *wire.Command, m *noc.Memory)
}

// Waker is a [Client] that can name the time of its next request.
type Waker interface {
	// Deadline returns the time of the next request. Deadline returns false if the
	// client has no request before another request ends.
	Deadline() (mono.Time, bool)
}

// The chip refuses some requests at once, for example requests to a chip without a
// route. After maxRefused such refusals in one call of pull, the chip asks the client
// again only after refusedPause.
const (
	maxRefused   = 64
	refusedPause = time.Millisecond
)

// program is the program inside a chip.
type program struct {
	client Client    // nil: no program
	pullAt mono.Time // time at which the chip asks the client again after refusals; 0: at once
}

// deadline returns the time at which the chip calls the client's Next again. deadline
// returns false if no such time is known.
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

// SetClient installs the program inside the chip, see [Inputs]. A nil cl removes the
// program.
func (c *machine) SetClient(cl Client) { c.program.client = cl }

// Done tells the program inside the chip, or a kernel, how one of its requests ended. Done discards
// the result if its owner is gone.
func (n *network) Done(by flow.Owner, r flow.Result) {
	if by == flow.Kernel && r.Token&noticeBit != 0 && r.Token&verdictBit != 0 {
		n.kernels.answered(&r)
	} else if by == flow.Kernel && r.Token&noticeBit != 0 {
		n.kernels.noticed(&r)
	} else if by == flow.Kernel {
		n.kernels.Done(&r)
	} else if cl := n.program.client; cl != nil {
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
		switch c.start(now, &r, flow.Program) {
		case flow.Accepted:
		case flow.Busy:
			p.client.Undo()
			return moved
		case flow.Unreachable:
			c.source.Finish(now, &r, flow.Program, r.Unreachable(c.cfg.Node, now))
			refused++
		case flow.TooLarge, flow.BadPosted:
			c.source.Finish(now, &r, flow.Program, flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeBadCommand})
			refused++
		default:
			c.source.Finish(now, &r, flow.Program, flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeBadAddress})
			refused++
		}
		moved = true
	}
}
