package chip

import (
	"bytes"
	"fmt"
	"slices"

	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// A request to host memory waits at the chip until the host has performed the request, at most
// [noc.HostWait]. The later packets of the same flow wait behind this request, because the chip performs
// the requests of a flow in order. The chip's own requests to its own memory do not wait: on the chip,
// requests to different tiles have no order.

// Limits of the requests that wait. The values are our own choices.
const (
	MaxWaiting      = 2 * flow.MaxOutstanding // packets of one flow that wait; a source never sends more
	MaxWaitingBytes = 16 << 20                // payload of all packets that wait, in bytes; the chip refuses further packets with [wire.OutcomeAgain]
)

// waiting holds the requests that wait.
//
// Invariants: flows and list hold the same flows, and none of them is empty; bytes is the sum of the
// payloads, and at most MaxWaitingBytes.
type waiting struct {
	flows map[flow.Key]*waitingFlow
	list  []*waitingFlow // the flows, in the order in which they began to wait
	own   waitingFlow    // requests of the chip to itself without Via
	first int            // flow that has the first turn
	bytes int            // payload of the requests that wait
	last  uint64         // number of the last transfer
	open  map[uint64]*waitingRequest
}

// waitingFlow is a flow whose first request is for host memory, and waits.
type waitingFlow struct {
	key  flow.Key
	list []*waitingRequest // oldest first
}

// waitingRequest is a request or a probe that waits.
type waitingRequest struct {
	p       wire.Packet   // the packet; of an own request, only Command and Payload
	own     *flow.Request // nil: the request came in a packet
	by      flow.Owner    // of an own request
	since   mono.Time
	full    bool           // there was no room for the payload
	begun   bool           // parts is valid
	parts   []noc.HostPart // parts that the host must still perform
	moving  bool           // a transfer is under way
	outcome wire.Outcome   // of the last transfer
	data    []byte         // what the host has read
}

// until returns the time at which the request ends at the latest.
func (r *waitingRequest) until() mono.Time { return r.since.Add(noc.HostWait) }

// waits reports whether a packet must wait: the packet is for host memory, or packets of its flow wait. If
// so, waits keeps a copy of the packet.
func (c *machine) waits(now mono.Time, p *wire.Packet) bool {
	w := &c.waiting
	key := flow.Key{Node: p.Src, Group: p.Group, Plane: p.Plane, Other: p.Other}
	var f *waitingFlow
	if len(w.flows) > 0 {
		f = w.flows[key]
	}
	switch {
	case f == nil && (p.Type != wire.PacketRequest || !c.memory.Hosted(&p.Command)):
		return false
	case f == nil:
		f = &waitingFlow{key: key}
		if w.flows == nil {
			w.flows = map[flow.Key]*waitingFlow{}
		}
		w.flows[key] = f
		w.list = append(w.list, f)
	case len(f.list) >= MaxWaiting:
		c.counters.Dropped[wire.DropMalformed]++
		return true
	}
	r := &waitingRequest{p: *p, since: now}
	r.p.Route = nil
	r.full = !w.keep(&r.p)
	f.list = append(f.list, r)
	return true
}

// keep copies the payload of a packet that must wait. If there is no room for the payload, keep returns
// false, and the packet has no payload.
func (w *waiting) keep(p *wire.Packet) bool {
	if w.bytes+len(p.Payload) > MaxWaitingBytes {
		p.Payload = nil
		return false
	}
	p.Payload = bytes.Clone(p.Payload)
	w.bytes += len(p.Payload)
	return true
}

// here handles a request of this chip to itself, without Via.
func (c *machine) here(now mono.Time, r *flow.Request, by flow.Owner) flow.Admission {
	if r.Probe || !c.memory.Hosted(&r.Command) {
		c.performHere(now, *r, by)
		return flow.Accepted
	}
	w := &c.waiting
	own := *r
	x := &waitingRequest{p: wire.Packet{Command: r.Command, Payload: r.Payload}, own: &own, by: by, since: now}
	if len(w.own.list) >= flow.MaxOutstanding || !w.keep(&x.p) {
		return flow.Busy
	}
	if own.Payload, own.Into = nil, nil; r.Command.Type != wire.NocRead {
		x.p.Command.Size = uint16(len(x.p.Payload))
	}
	w.own.list = append(w.own.list, x)
	return flow.Accepted
}

// runWaiting lets the requests that wait go on. runWaiting returns true if anything moved.
func (c *machine) runWaiting(now mono.Time) bool {
	w := &c.waiting
	if len(w.list)+len(w.own.list) == 0 {
		return false
	}
	moved := c.runFlow(now, &w.own)
	w.first++
	for i := range w.list {
		moved = c.runFlow(now, w.list[(w.first+i)%len(w.list)]) || moved
	}
	w.list = slices.DeleteFunc(w.list, func(f *waitingFlow) bool {
		if len(f.list) == 0 {
			delete(w.flows, f.key)
		}
		return len(f.list) == 0
	})
	return moved
}

// runFlow lets the requests of a flow go on, as far as they need not wait. runFlow returns true if anything
// moved.
func (c *machine) runFlow(now mono.Time, f *waitingFlow) (moved bool) {
	for len(f.list) > 0 {
		r := f.list[0]
		if r.own == nil && !r.full && (!c.memory.Hosted(&r.p.Command) || !c.sink.Wants(&r.p)) {
			c.waiting.pop(f)
			c.performNow(now, &r.p)
			moved = true
			continue
		}
		o, began, over := c.goOn(now, r)
		if moved = moved || began || over; !over {
			break
		}
		c.waiting.pop(f)
		if c.endWaiting(now, r, o); r.moving {
			c.waiting.forget(r)
		}
	}
	return moved
}

// pop removes the first request of a flow.
func (w *waiting) pop(f *waitingFlow) {
	w.bytes -= len(f.list[0].p.Payload)
	f.list[0] = nil
	f.list = f.list[1:]
}

// forget makes the end of a request's transfer have no effect.
func (w *waiting) forget(r *waitingRequest) {
	for id, x := range w.open {
		if x == r {
			delete(w.open, id)
		}
	}
}

// goOn starts the next transfer of a request to host memory. If the request has ended, "over" is true, and
// o is the outcome. If goOn has started a transfer, "began" is true.
func (c *machine) goOn(now mono.Time, r *waitingRequest) (o wire.Outcome, began, over bool) {
	cmd, n, w := &r.p.Command, len(r.p.Payload), &c.waiting
	read := cmd.Type == wire.NocRead
	if read {
		n = int(cmd.Size)
	}
	switch {
	case r.full:
		return wire.OutcomeAgain, false, true
	case r.moving && now.Before(r.until()):
		return 0, false, false
	case r.moving:
		return wire.OutcomeHostGone, false, true
	case r.outcome != wire.OutcomeDone:
		return r.outcome, false, true
	case read && (r.p.Group != 0 || n > wire.MaxPayload):
		return wire.OutcomeBadCommand, false, true
	case !r.begun:
		if r.parts, o = c.memory.HostParts(cmd, n); o != wire.OutcomeDone {
			return o, false, true
		}
		r.begun = true
	}
	for ; len(r.parts) > 0; r.parts = r.parts[1:] {
		p := r.parts[0]
		if p.Len == 0 {
			continue
		}
		t := firmware.Transfer{ID: w.last + 1, Write: !read, Addr: p.Addr}
		if t.Len = p.Len; t.Write {
			t.Len, t.Data = 0, r.p.Payload[p.From:][:p.Len]
		}
		if !c.lent.start(ofRequests, t) {
			return wire.OutcomeHostGone, false, !now.Before(r.until())
		}
		w.last++
		if w.open == nil {
			w.open = map[uint64]*waitingRequest{}
		}
		r.parts, r.moving, w.open[t.ID] = r.parts[1:], true, r
		return 0, true, false
	}
	return wire.OutcomeDone, false, true
}

// moved notes that a transfer has ended.
func (w *waiting) moved(e *endedTransfer) {
	r := w.open[e.id]
	if r == nil {
		return // the request has already ended, because the host did not answer in time
	}
	delete(w.open, e.id)
	if r.moving, r.outcome = false, e.outcome; r.p.Command.Type != wire.NocRead || r.outcome != wire.OutcomeDone {
		return
	}
	if r.data = e.data; len(r.data) != e.n {
		r.outcome = wire.OutcomeBadAddress // the host has not read all bytes
	}
}

// endWaiting ends a request to host memory with outcome o.
func (c *machine) endWaiting(now mono.Time, r *waitingRequest, o wire.Outcome) {
	if o == wire.OutcomeDone && r.p.Command.Type == wire.NocFusedInc {
		o = c.increment(now, r)
	}
	if r.own != nil {
		res := flow.Result{Sent: r.since, Fate: flow.FateDone, Data: r.data}
		switch o {
		case wire.OutcomeDone:
		case wire.OutcomeHostGone:
			res.Fate, res.Doubt, res.Data = flow.FateUnknown, flow.DoubtHost, nil
		default:
			res.Fate, res.Outcome, res.Data = flow.FateRefused, o, nil
		}
		c.source.Finish(now, r.own, r.by, res)
		return
	}
	if !c.sink.HandleRequest(&r.p) {
		return
	}
	switch {
	case o != wire.OutcomeDone:
	case r.p.Command.Type == wire.NocRead:
		o = c.reply(now, &r.p, true, r.data)
	default:
		c.counters.Performed++
	}
	if o != wire.OutcomeDone {
		c.sink.Refuse(&r.p, o)
	}
}

// increment performs the increment of a fused command whose data is in host memory. If the chip's memory has
// become full since the start of the command, the increment is refused, although the host has the data.
func (c *machine) increment(now mono.Time, r *waitingRequest) wire.Outcome {
	inc := wire.Command{Type: wire.NocAtomicInc, Addr: r.p.Command.Sem, Value: r.p.Command.Value}
	src, plane, other := r.p.Src, r.p.Plane, r.p.Other
	if r.own != nil {
		src, plane, other = c.cfg.Node, r.own.Plane, r.own.Other
	}
	o := c.memory.Execute(&inc, nil)
	c.resetBy(now, src)
	if o == wire.OutcomeDone && c.program.client != nil {
		c.program.client.Performed(now, src, plane, other, &inc, c.memory)
	}
	return o
}

// deadline returns the time at which the first request ends because the host has not answered.
func (w *waiting) deadline() mono.Time {
	at := mono.Never
	if len(w.own.list) > 0 {
		at = w.own.list[0].until()
	}
	for _, f := range w.list {
		at = mono.Min(at, f.list[0].until())
	}
	return at
}

// check returns an error if the requests that wait are inconsistent.
func (w *waiting) check() error {
	sum := 0
	for _, f := range append([]*waitingFlow{&w.own}, w.list...) {
		for _, r := range f.list {
			sum += len(r.p.Payload)
		}
		if f != &w.own && (len(f.list) == 0 || w.flows[f.key] != f) {
			return fmt.Errorf("the flow %+v waits for host memory, and has %d requests", f.key, len(f.list))
		}
	}
	if sum != w.bytes || sum > MaxWaitingBytes || len(w.flows) != len(w.list) || len(w.open) > MaxTransfers {
		return fmt.Errorf("%d flows wait for host memory with %d bytes, and %d transfers; the chip counted %d flows and %d bytes", len(w.list), sum, len(w.open), len(w.flows), w.bytes)
	}
	return nil
}
