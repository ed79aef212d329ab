package ttlink

import (
	"encoding/binary"
	"fmt"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// watch is what the harness remembers of one end from event to event, to see
// that what may only grow does, and that nothing is sent again too often.
type watch struct {
	link     *Link
	session  wire.SessionID
	expected wire.Seq
	base     wire.Seq
	limit    [wire.NumVCs]uint32
	grant    [wire.NumVCs]uint32
	backs    uint64 // go-backs and timeouts
	timeouts uint64
	backAt   mono.Time // when the last of them was
	again    uint64    // frames sent again at that time
	ups      int       // trainings since then; each sends what is unacknowledged again
}

// see compares an end with what it was after the last event: L3, L6 and C5.
func (x *watch) see(now mono.Time, l *Link) error {
	c := &l.counters
	backs := c.GoBacks + c.Timeouts
	if l != x.link || l.sess.id != x.session {
		*x = watch{link: l, session: l.sess.id, expected: l.rx.expected, base: l.tx.base, limit: l.tx.limit, grant: l.grants(),
			backs: backs, timeouts: c.Timeouts, again: c.Retransmitted}
		return nil
	}
	if d := l.rx.expected.Sub(x.expected); d < 0 || d > 1 {
		return fmt.Errorf("expects %d after %d (L3)", l.rx.expected, x.expected)
	}
	if l.tx.base.Sub(x.base) < 0 {
		return fmt.Errorf("base %d after %d (L1)", l.tx.base, x.base)
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

// checkPair compares the two ends of one session: L1, C2 and C3.
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
			// What may be sent, what is under way, what is held and what is granted and not yet heard of add up to
			// the channel's size by their definitions; that none is negative is what there is to see.
			if int32(r.recv[v]-t.acked[v]) < 0 || int32(t.sent[v]-r.recv[v]) < 0 || int32(t.limit[v]-t.sent[v]) < 0 {
				w.fail("end %d: VC %d: %d acknowledged, %d received, %d sent, limit %d (C3)", i, v, t.acked[v], r.recv[v], t.sent[v], t.limit[v])
			}
		}
	}
}

// sessionOf is the session that a datagram names.
func sessionOf(b []byte) wire.SessionID { return wire.SessionID(binary.LittleEndian.Uint32(b[4:])) }
