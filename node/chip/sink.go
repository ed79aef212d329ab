package chip

import (
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// inFlow is the destination's end of a flow.
//
// Invariants: every request before next has been performed, or an exception
// names it, or the source knows its fate (it is before the source's base);
// at most wire.MaxExceptions exceptions, in order,
// of which the last is an overflow if there are so many.
type inFlow struct {
	key   flowKey // node is the source
	epoch uint32
	next  uint32
	exc   []wire.Exception
	void  bool // this life of the flow was known before the chip's own life; nothing of it is performed
	owed  bool // a completion is owed and the flow stands in Chip.owed

	home       *way   // of completions
	homeTables uint32 // epoch of the tables that it is by
}

// request takes a request or a probe that has arrived, and owes a completion for it.
func (c *Chip) request(now mono.Time, p *wire.Packet) {
	f := c.admit(p)
	if f == nil {
		return
	}
	c.owe(f)
	switch d := int32(p.FlowSeq - f.next); {
	case d < 0:
		c.counters.Duplicates++
		return
	case f.void:
		c.counters.StaleRequests++
		f.refuse(uint32(d))
		return
	case len(f.exc) >= wire.MaxExceptions-2:
		c.counters.Overflows++
		f.overflow(uint32(d))
		return
	case d > 0:
		c.counters.Gaps += uint64(d)
		f.except(f.next, uint32(d), wire.OutcomeLost)
	}
	f.next = p.FlowSeq + 1
	if p.Type == wire.PacketProbe {
		return
	}
	if o := c.perform(now, p); o != wire.OutcomeDone {
		f.except(p.FlowSeq, 1, o)
	}
}

// overflow takes a request, and n before it that did not come, where there may
// be no room for a gap and a refusal any more. None of them is performed, and
// one exception names all that comes until the source has taken note of the
// older ones, from the first gap on another one. Where there is room for one
// only, that is the latter.
func (f *inFlow) overflow(n uint32) {
	o := wire.OutcomeOverflow
	if k := len(f.exc); n > 0 || k > wire.MaxExceptions-2 && f.exc[k-1].Outcome != wire.OutcomeOverflow {
		o = wire.OutcomeLost
	}
	f.except(f.next, n+1, o)
	f.next += n + 1
}

// refuse takes a request of a void life, and n before it that did not come.
func (f *inFlow) refuse(n uint32) {
	if len(f.exc) >= wire.MaxExceptions-2 { // as above
		f.except(f.next, n+1, wire.OutcomeRestarted)
	} else {
		if n > 0 {
			f.except(f.next, n, wire.OutcomeRestarted)
		}
		f.except(f.next+n, 1, wire.OutcomeUnknownFlow)
	}
	f.next += n + 1
}

// owe notes that a completion is owed for a flow.
func (c *Chip) owe(f *inFlow) {
	if !f.owed {
		f.owed = true
		c.owed = append(c.owed, f)
	}
}

// admit finds the flow of a packet, or begins one. It returns nil for a packet of an older life of the flow.
func (c *Chip) admit(p *wire.Packet) *inFlow {
	k := flowKey{p.Src, p.Group, p.Plane, p.Other}
	f := c.lastIn
	if f == nil || f.key != k {
		f = c.in[k]
	}
	switch {
	case f == nil:
		f = &inFlow{key: k}
		c.in[k] = f
		f.begin(p)
	case f.epoch == p.FlowEpoch:
		f.forget(p.FlowBase)
		if int32(p.FlowBase-f.next) > 0 {
			f.next = p.FlowBase // the source knows already what became of those between
		}
	case olderLife(p.FlowEpoch, f.epoch):
		c.counters.StaleRequests++
		c.owe(f) // tells a source that is alive, and thought to be older, where to go on
		return nil
	default:
		f.begin(p)
	}
	c.lastIn = f
	return f
}

// begin starts a life of the flow with p. What the source has sent before p
// and not heard of went to an earlier life of this chip, if it arrived.
func (f *inFlow) begin(p *wire.Packet) {
	f.epoch, f.next, f.exc, f.void = p.FlowEpoch, p.FlowBase, f.exc[:0], p.Known
	if d := p.FlowSeq - p.FlowBase; d > 0 && d < 2*MaxOutstanding {
		f.except(p.FlowBase, d, wire.OutcomeRestarted)
		f.next = p.FlowSeq
	} else if d != 0 {
		f.next = p.FlowSeq
	}
}

// except notes that n requests from first on did not end as done.
func (f *inFlow) except(first, n uint32, o wire.Outcome) {
	if k := len(f.exc); k > 0 {
		if e := &f.exc[k-1]; e.Outcome == o && e.First+uint32(e.Count) == first && uint32(e.Count)+n <= 1<<16-1 {
			e.Count += uint16(n)
			return
		}
	}
	f.exc = append(f.exc, wire.Exception{First: first, Count: uint16(min(n, 1<<16-1)), Outcome: o})
}

// forget drops the exceptions that the source knows of.
func (f *inFlow) forget(base uint32) {
	k := 0
	for k < len(f.exc) && int32(f.exc[k].First+uint32(f.exc[k].Count)-base) <= 0 {
		k++
	}
	if k > 0 {
		f.exc = f.exc[:copy(f.exc, f.exc[k:])]
	}
}

// perform executes a request on this chip's memory.
func (c *Chip) perform(now mono.Time, p *wire.Packet) wire.Outcome {
	if p.Command.Type == wire.NocRead {
		if p.Group != 0 {
			return wire.OutcomeBadCommand
		}
		return c.performRead(now, p)
	}
	o := c.memory.Execute(&p.Command, p.Payload)
	if o == wire.OutcomeDone {
		c.counters.Performed++
		if c.client != nil {
			c.client.Performed(now, p.Src, p.Plane, p.Other, &p.Command, c.memory)
		}
	}
	return o
}

// performRead takes the data now, in the flow's order, and queues it for the reply channel.
func (c *Chip) performRead(now mono.Time, p *wire.Packet) wire.Outcome {
	if p.Command.Size > wire.MaxPayload {
		return wire.OutcomeBadCommand
	}
	if o := c.memory.Check(p.Command.Addr, int(p.Command.Size)); o != wire.OutcomeDone {
		return o
	}
	if len(c.replies) >= MaxReplies {
		return wire.OutcomeAgain
	}
	c.refreshMailbox(now, p.Command.Addr, int(p.Command.Size))
	var buf [wire.MaxPayload]byte
	data := buf[:p.Command.Size]
	if o := c.memory.Read(p.Command.Addr, data); o != wire.OutcomeDone {
		return o
	}
	w := c.way(flowKey{node: p.Src, plane: p.Plane, other: p.Other}, wire.ClassReply)
	if !w.ok {
		if p.Src == c.cfg.Node {
			return wire.OutcomeBadCommand // a read that went round in a circle
		}
		return wire.OutcomeAgain // faults leave no way home
	}
	r := wire.Packet{Type: wire.PacketReply, Plane: p.Plane, Other: p.Other, Src: c.cfg.Node, Dst: p.Src, ID: p.ID,
		Epoch: c.epoch, Command: wire.Command{Type: wire.NocNone, Size: p.Command.Size}, Payload: data}
	w.address(&r, c.ttl)
	s, ok := c.build(&r)
	if !ok {
		return wire.OutcomeAgain
	}
	c.replies = append(c.replies, s)
	c.counters.Performed++
	return wire.OutcomeDone
}

// performHere executes a request whose destination is this chip: it never enters the fabric.
func (c *Chip) performHere(now mono.Time, r Request, client bool) {
	res := Result{Fate: FateDone}
	var o wire.Outcome
	switch {
	case r.Probe:
	case r.Command.Type == wire.NocRead:
		c.refreshMailbox(now, r.Command.Addr, int(r.Command.Size))
		res.Data = make([]byte, r.Command.Size)
		o = c.memory.Read(r.Command.Addr, res.Data)
	default:
		r.Command.Size = uint16(len(r.Payload))
		o = c.memory.Execute(&r.Command, r.Payload)
		if o == wire.OutcomeDone && c.client != nil {
			c.client.Performed(now, c.cfg.Node, r.Plane, r.Other, &r.Command, c.memory)
		}
	}
	if o != wire.OutcomeDone {
		res.Fate, res.Outcome, res.Data = FateRefused, o, nil
	}
	c.finish(now, c.cfg.Node, &op{token: r.Token, sent: now, client: client}, res)
}

// emitCompletions sends what is owed, as far as the control channels have room.
func (c *Chip) emitCompletions(now mono.Time) bool {
	kept := c.owed[:0]
	sent := false
	for _, f := range c.owed {
		if f.home == nil || f.homeTables != c.epoch {
			f.home, f.homeTables = c.way(f.key, wire.ClassControl), c.epoch
		}
		if f.home.ok && !c.hasRoom(f.home) {
			kept = append(kept, f)
			continue
		}
		m := wire.Completion{FlowEpoch: f.epoch, Next: f.next, Exceptions: f.exc}
		if f.key.node == c.cfg.Node { // it went round in a circle
			f.owed = false
			sent = true
			c.completion(now, &wire.Packet{Src: c.cfg.Node, Plane: f.key.plane, Other: f.key.other, Payload: m.Append(nil)})
			continue
		}
		if !c.injectControl(now, f.key, wire.PacketCompletion, m.Append(c.scratch[:0])) {
			kept = append(kept, f)
			continue
		}
		f.owed = false
		sent = true
	}
	c.owed = kept
	return sent
}

// report is a drop report on its way to a source.
type report struct {
	to wire.FabricNodeID
	wire.DropReport
}
