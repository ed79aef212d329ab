package chip

import (
	"ttfabric/node/flow"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// request handles a request or a probe that has arrived.
func (c *machine) request(now mono.Time, p *wire.Packet) {
	if !c.waits(now, p) {
		c.performNow(now, p)
	}
}

// performNow performs a request that must not wait.
func (c *machine) performNow(now mono.Time, p *wire.Packet) {
	if !c.sink.HandleRequest(p) {
		return
	}
	if o := c.perform(now, p); o != wire.OutcomeDone {
		c.sink.Refuse(p, o)
	}
}

// perform executes a request on this chip's memory.
func (c *machine) perform(now mono.Time, p *wire.Packet) wire.Outcome {
	if p.Command.Type == wire.NocRead {
		if p.Group != 0 {
			return wire.OutcomeBadCommand
		}
		return c.performRead(now, p)
	}
	o := c.memory.Execute(&p.Command, p.Payload)
	if o == wire.OutcomeDone {
		c.counters.Performed++
		c.resetBy(now, p.Src)
		if c.program.client != nil {
			c.program.client.Performed(now, p.Src, p.Plane, p.Other, &p.Command, c.memory)
		}
	}
	return o
}

// performRead reads the data at once, because a chip performs the requests of a flow in
// order. performRead then puts the reply into the outbox.
func (c *machine) performRead(now mono.Time, p *wire.Packet) wire.Outcome {
	if p.Command.Size > wire.MaxPayload {
		return wire.OutcomeBadCommand
	}
	if o := c.memory.Check(p.Command.Addr, int(p.Command.Size)); o != wire.OutcomeDone {
		return o
	}
	return c.reply(now, p, false, nil)
}

// reply puts the reply to a read into the outbox. If the read is of host memory, "hosted" is true, and
// "from" holds the bytes that the host has read. Otherwise, reply reads the memory.
func (c *machine) reply(now mono.Time, p *wire.Packet, hosted bool, from []byte) wire.Outcome {
	if len(c.outbox.replies) >= MaxReplies {
		return wire.OutcomeAgain
	}
	w, epoch := c.way(flow.Key{Node: p.Src, Plane: p.Plane, Other: p.Other}, wire.ClassReply)
	if !w.OK {
		if p.Src == c.cfg.Node {
			return wire.OutcomeBadCommand // this chip sent the read to itself with Request.Via, but the reply has no route from a chip to itself
		}
		return wire.OutcomeAgain // faults leave no route to the source
	}
	if c.scratch.read == nil {
		c.scratch.read = make([]byte, wire.MaxPayload)
	}
	data := c.scratch.read[:p.Command.Size]
	r := wire.Packet{Type: wire.PacketReply, Plane: p.Plane, Other: p.Other, Src: c.cfg.Node, Dst: p.Src, ID: p.ID,
		Epoch: epoch, Command: wire.Command{Type: wire.NocNone, Size: p.Command.Size}, Payload: data}
	address(w, &r, c.tables.ttl)
	s, ok := c.pool.Get(r.Len())
	if !ok {
		return wire.OutcomeAgain
	}
	if hosted {
		copy(data, from)
	} else if o := c.readHere(now, p.Command.Addr, data); o != wire.OutcomeDone { // a read of registers has side effects, so nothing may refuse it afterwards
		c.pool.Put(s)
		return o
	}
	r.Append(c.pool.Bytes(s)[:0])
	c.outbox.replies = append(c.outbox.replies, reply{s, c.ports.list[w.Port].Local.Channel})
	c.counters.Performed++
	return wire.OutcomeDone
}

// readHere reads memory or registers of this chip.
func (c *machine) readHere(now mono.Time, a wire.NocAddr, b []byte) wire.Outcome {
	c.refreshMailbox(now, a, len(b))
	return c.memory.Read(a, b)
}

// performHere executes a request of this chip to itself, without Via. The request never enters the
// fabric, and is not for host memory.
func (c *machine) performHere(now mono.Time, r flow.Request, by flow.Owner) {
	res := flow.Result{Fate: flow.FateDone}
	var o wire.Outcome
	switch {
	case r.Probe:
	case r.Command.Type == wire.NocRead:
		if c.firmware.Rung() { // an earlier request of this step has pushed an entry; a driver that polls sees the effect
			c.runFirmware(now)
		}
		if res.Data = r.Into; len(res.Data) < int(r.Command.Size) {
			res.Data = make([]byte, r.Command.Size)
		}
		res.Data = res.Data[:r.Command.Size]
		o = c.readHere(now, r.Command.Addr, res.Data)
	default:
		r.Command.Size = uint16(len(r.Payload))
		o = c.memory.Execute(&r.Command, r.Payload)
		c.resetBy(now, c.cfg.Node)
		if o == wire.OutcomeDone && c.program.client != nil {
			c.program.client.Performed(now, c.cfg.Node, r.Plane, r.Other, &r.Command, c.memory)
		}
	}
	if o != wire.OutcomeDone {
		res.Fate, res.Outcome, res.Data = flow.FateRefused, o, nil
	}
	c.source.Finish(now, &r, by, res)
}
