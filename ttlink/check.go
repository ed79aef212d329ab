package ttlink

import (
	"fmt"

	"ttfabric/wire"
)

// CheckInvariants checks the invariants of this end, and returns an error that names the first
// broken one. Tests and the simulator's checkers call CheckInvariants.
func (l *Link) CheckInvariants() error {
	if err := l.checkWindow(); err != nil {
		return err
	}
	for v := range wire.NumVCs {
		t, r := &l.tx, &l.rx
		if c := t.limit[v] - t.sent[v]; c > t.slots[v] {
			return fmt.Errorf("VC %v: sent %d, limit %d, %d slots: credits out of range", wire.VC(v), t.sent[v], t.limit[v], t.slots[v])
		}
		if t.acked[v]-t.sent[v] != 0 && int32(t.acked[v]-t.sent[v]) > 0 {
			return fmt.Errorf("VC %v: %d packets acknowledged of %d sent", wire.VC(v), t.acked[v], t.sent[v])
		}
		held := r.occupied(v)
		if r.partial && int(r.vc) == v {
			held++
		}
		if held < 0 || held > l.cfg.Slots[v] {
			return fmt.Errorf("VC %v: %d of %d slots held (C1)", wire.VC(v), held, l.cfg.Slots[v])
		}
	}
	if l.state == StateUp && (l.sess.id == 0 || l.agreed < MinPayload) {
		return fmt.Errorf("up with session %#x and frame payload %d", l.sess.id, l.agreed)
	}
	if s := &l.size; s.searching && (l.agreed >= s.asks || s.asks > s.high || s.asks > l.payload) {
		return fmt.Errorf("the search asks for frame payloads of %d, but payloads of %d pass, and the largest that may pass is %d", s.asks, l.agreed, s.high)
	}
	if l.held() && (l.state == StateClosed || l.state == StateUp && l.paths.now == Own) {
		return fmt.Errorf("state %s by the link's own cable, which is held until %v", l.state, l.damping.until)
	}
	return nil
}

// checkWindow checks the limit flight and the order of the sender's sequence numbers (invariant
// L1). checkWindow also checks that the frames lie in the slab in the order of their numbers and
// without overlap.
func (l *Link) checkWindow() error {
	t := &l.tx
	if t.flight < minFlight || t.flight > MaxFrames {
		return fmt.Errorf("flight of %d frames: want %d to %d", t.flight, minFlight, MaxFrames)
	}
	inFlight, cursor, sentTo := t.next.Sub(t.base), t.cursor.Sub(t.base), t.sentTo.Sub(t.base)
	if inFlight < 0 || inFlight > MaxFrames || cursor < 0 || cursor > inFlight || sentTo < 0 || sentTo > inFlight || cursor > sentTo {
		return fmt.Errorf("window: base %d, cursor +%d, sent +%d, next +%d (L1)", t.base, cursor, sentTo, inFlight)
	}
	if t.slab.count != inFlight {
		return fmt.Errorf("slab holds %d frames, window %d", t.slab.count, inFlight)
	}
	used, wraps, end := 0, 0, t.slab.tail
	writes, ends := 0, [wire.NumQueues]int{}
	for s := t.base; s != t.next; s = s.Add(1) {
		m := t.slab.at(s)
		off, size := int(m.off), m.size()
		if off < end {
			wraps++
		}
		used += size
		if !m.packet() {
			writes += size
			if m.flags&wire.FlagEnd != 0 {
				ends[m.vc]++
			}
		}
		end = off + size
		if wraps > 1 || end > len(t.slab.buf) || (wraps == 1 && end > t.slab.tail) {
			return fmt.Errorf("slab: frame %d at %d to %d overlaps (tail %d, head %d)", s, m.off, end, t.slab.tail, t.slab.head)
		}
	}
	if used != t.slab.used || (t.slab.count > 0 && end != t.slab.head) {
		return fmt.Errorf("slab: %d bytes in frames, %d counted; end %d, head %d", used, t.slab.used, end, t.slab.head)
	}
	if writes != t.slab.writes {
		return fmt.Errorf("slab: %d bytes in frames of writes, %d counted", writes, t.slab.writes)
	}
	wait := false
	for q, c := range l.writes.queue {
		if c.kind != 0 {
			wait = true
			ends[q]++
		}
	}
	if wait != l.writes.wait || ends != l.writes.open {
		return fmt.Errorf("writes: waiting %v, noted %v; %v open commands, %v counted", wait, l.writes.wait, ends, l.writes.open)
	}
	return nil
}
