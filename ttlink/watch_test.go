package ttlink

import (
	"encoding/binary"
	"fmt"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// watch holds an end's state after the last step of the simulation. With this state, see checks
// rules about changes, for example that a number only grows.
type watch struct {
	link     *Link
	session  wire.SessionID
	expected wire.Seq
	base     wire.Seq
	limit    [wire.NumVCs]uint32
	grant    [wire.NumVCs]uint32
	backs    uint64 // number of go-backs and timeouts
	timeouts uint64
	backAt   mono.Time // time of the last go-back or timeout
	again    uint64    // number of frames that were sent again before backAt
	ups      int       // number of trainings; the link sends all unacknowledged frames again after each training
}

// see compares an end with its state after the last step, and checks the rules L1, L3, L6 and C5.
func (x *watch) see(now mono.Time, l *Link) error {
	c := &l.counters
	backs := c.GoBacks + c.Timeouts
	if l != x.link || l.sess.id != x.session {
		*x = watch{link: l, session: l.sess.id, expected: l.rx.expected, base: l.tx.base, limit: l.tx.limit, grant: l.grants(),
			backs: backs, timeouts: c.Timeouts, again: c.Retransmitted}
		return nil
	}
	if d := l.rx.expected.Sub(x.expected); d < 0 || d > 1 {
		return fmt.Errorf("the expected number changed from %[2]d to %[1]d (L3)", l.rx.expected, x.expected)
	}
	if l.tx.base.Sub(x.base) < 0 {
		return fmt.Errorf("base changed from %[2]d to %[1]d (L1)", l.tx.base, x.base)
	}
	for v, g := range l.grants() {
		if int32(g-x.grant[v]) < 0 || int32(l.tx.limit[v]-x.limit[v]) < 0 {
			return fmt.Errorf("VC %d: grant %d after %d, limit %d after %d (C5)", v, g, x.grant[v], l.tx.limit[v], x.limit[v])
		}
	}
	x.expected, x.base, x.limit, x.grant = l.rx.expected, l.tx.base, l.tx.limit, l.grants()
	if l.history.retrains > x.ups {
		x.ups, x.again = l.history.retrains, c.Retransmitted
	}
	if n := c.Retransmitted - x.again; n > MaxFrames {
		return fmt.Errorf("%d frames sent again since the last go-back (L6)", n)
	}
	if backs > x.backs {
		least := goBackMin
		if c.Timeouts > x.timeouts {
			least = l.cfg.Profile.RTOMin
		}
		if d := now.Sub(x.backAt); backs > x.backs+1 || (x.backAt != 0 && d < least) {
			return fmt.Errorf("%d go-backs within %v, of which %d are timeouts (L6)", backs-x.backs+1, d, c.Timeouts-x.timeouts)
		}
		x.backs, x.timeouts, x.backAt, x.again = backs, c.Timeouts, now, c.Retransmitted
	}
	return nil
}

// checkPair compares the two ends of one session, and checks the rules L1, C2 and C3.
func (w *world) checkPair() {
	for i, e := range w.ends {
		t, r := &e.link.tx, &w.ends[1-i].link.rx
		if t.base.Sub(r.expected) > 0 || r.expected.Sub(t.sentTo) > 0 {
			w.fail("end %d: base %d, peer expects %d, sent to %d", i, t.base, r.expected, t.sentTo)
		}
		for v, g := range w.ends[1-i].link.grants() {
			if int32(t.limit[v]-g) > 0 {
				w.fail("end %d: VC %d: limit %d beyond grant %d (C2)", i, v, t.limit[v], g)
			}
			// Four numbers always add up to the size of the receiver channel. The four numbers
			// count packets that may be sent, packets under way, packets in slots, and grants under
			// way. The check is that no number is negative.
			if int32(r.recv[v]-t.acked[v]) < 0 || int32(t.sent[v]-r.recv[v]) < 0 || int32(t.limit[v]-t.sent[v]) < 0 {
				w.fail("end %d: VC %d: %d acknowledged, %d received, %d sent, limit %d (C3)", i, v, t.acked[v], r.recv[v], t.sent[v], t.limit[v])
			}
		}
	}
}

// sessionOf returns the session id in a datagram's envelope.
func sessionOf(b []byte) wire.SessionID { return wire.SessionID(binary.LittleEndian.Uint32(b[4:])) }
