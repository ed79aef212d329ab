package kernel

import (
	"fmt"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Sender returns the kernel's connection to the fabric, for the packages linear and mesh (tt-metal:
// WorkerToFabricEdmSender).
func (k *Context) Sender() device.Sender { return sender{k} }

type sender struct{ k *Context }

// Self returns the chip.
func (s sender) Self() wire.FabricNodeID { return s.k.Self() }

// Topology returns the fabric's topology.
func (s sender) Topology() *topo.Topology { return s.k.p.m.cfg.Topology }

// Pending is a command of a kernel in the fabric.
type Pending struct {
	p      *process
	head   flow.Request
	rest   []byte // payload of the packets that the chip has not taken yet
	first  bool   // the chip has taken no packet yet
	open   int    // packets under way
	err    error
	ended  bool
	fused  *wire.Command // increment that follows when all packets have ended
	cut    bool          // the payload needs several packets
	result flow.Result
}

// A ResultError says that the fabric did not perform a command.
type ResultError struct{ Result flow.Result }

// Error returns the fate of the command, and the reason.
func (e *ResultError) Error() string {
	r := &e.Result
	s := fmt.Sprintf("command for chip %s: %s", r.Dst, r.Fate)
	switch {
	case r.Err != nil:
		s += ": " + r.Err.Error()
	case r.Fate == flow.FateRefused:
		s += ": " + r.Outcome.String()
	case r.Drop != 0:
		s += fmt.Sprintf(": %s at chip %s", r.Drop, r.At)
	case r.Doubt != 0:
		s += ": " + r.Doubt.String()
	}
	return s
}

// Start starts a command, see [device.Sender]. Start copies the packets of the command, and waits
// until the chip has taken all of them. The calls of packages linear and mesh then wait until the
// destinations have performed the command. For posted headers, these calls wait only until the chip
// has sent the command.
func (s sender) Start(h *flow.Request, payload []byte) (device.Pending, error) {
	p := s.k.p
	p.call()
	q := &Pending{p: p, head: *h, rest: payload, first: true, cut: len(payload) > wire.MaxPayload}
	if q.cut {
		switch h.Command.Type {
		case wire.NocUnicastWrite:
		case wire.NocFusedInc:
			if h.Posted {
				return nil, fmt.Errorf("a posted write with increment of %d bytes: want at most %d", len(payload), wire.MaxPayload)
			}
			fused := h.Command
			q.fused, q.head.Command = &fused, wire.Command{Type: wire.NocUnicastWrite, Addr: h.Command.Addr}
		default:
			return nil, fmt.Errorf("a command of %d bytes: want at most %d", len(payload), wire.MaxPayload)
		}
	}
	if !q.push(p.m) {
		p.pause(wait{kind: forRoom, pending: q})
	}
	if q.err != nil && q.open == 0 {
		return nil, q.err
	}
	return q, nil
}

// push gives the chip packets of the command while there is room. push returns true when the chip has
// taken all of them, or has refused one.
func (q *Pending) push(m *Machine) bool {
	for q.err == nil && (q.first || len(q.rest) > 0) {
		n := min(len(q.rest), wire.MaxPayload)
		if q.fused != nil && n == len(q.rest) {
			if q.open > 0 {
				return false // the increment must come last
			}
			q.head.Command.Type, q.head.Command.Sem, q.head.Command.Value, q.head.Command.Flush = wire.NocFusedInc, q.fused.Sem, q.fused.Value, q.fused.Flush
		}
		r := q.head
		m.token++
		r.Token, r.Payload = m.token, q.rest[:n]
		q.open++
		m.requests[r.Token] = q
		switch a := m.cfg.Host.Start(m.now, &r); a {
		case flow.Accepted:
		case flow.Busy:
			q.open--
			delete(m.requests, r.Token)
			return false
		default:
			q.open--
			delete(m.requests, r.Token)
			q.err = fmt.Errorf("command for chip %s: %s", r.Dst, a)
		}
		q.rest, q.first = q.rest[n:], false
		q.head.Command.Addr = q.head.Command.Addr.Add(n)
	}
	q.ended = q.open == 0
	return true
}

// end takes the result of one packet.
func (q *Pending) end(r *flow.Result) {
	q.open--
	if r.Fate != flow.FateDone && r.Fate != flow.FatePosted && q.err == nil {
		q.err = &ResultError{*r}
	}
	q.result = *r
	if q.open == 0 && !q.first && (len(q.rest) == 0 || q.err != nil) {
		q.ended = true
	}
}

// Wait waits until the command has ended, and returns the command's error.
func (q *Pending) Wait() error {
	q.p.call()
	if !q.ended {
		q.p.pause(wait{kind: forEnd, pending: q})
	}
	return q.err
}

// Poll reports whether the command has ended, and returns the command's error.
func (q *Pending) Poll() (bool, error) {
	q.p.call()
	return q.ended, q.err
}

// FabricRead reads n bytes, at most [wire.MaxPayload], from address a of another chip, and stores them
// at address dst of the kernel's tile.
func (k *Context) FabricRead(from wire.FabricNodeID, plane wire.Plane, a wire.NocAddr, dst uint32, n int) error {
	if n < 0 || n > wire.MaxPayload {
		return fmt.Errorf("a read of %d bytes: want 0 to %d", n, wire.MaxPayload)
	}
	h := flow.Request{Dst: from, Plane: plane, Command: wire.Command{Type: wire.NocRead, Addr: a, Size: uint16(n)}}
	d, err := k.Sender().Start(&h, nil)
	if err != nil {
		return err
	}
	if err := d.Wait(); err != nil {
		return err
	}
	k.Store(dst, d.(*Pending).result.Data)
	return nil
}
