package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// sender holds the state of the direction from this end to the peer.
//
// Invariant: base ≤ cursor ≤ next and base ≤ sentTo ≤ next in wrapping order, next-base ≤ MaxFrames.
// Invariant: sent[v] ≤ limit[v] ≤ sent[v]+slots[v].
// Invariant: minFlight ≤ flight ≤ MaxFrames.
type sender struct {
	slab   slab
	base   wire.Seq // oldest unacknowledged frame
	cursor wire.Seq // next frame to transmit, for the first time or again
	sentTo wire.Seq // one past the newest frame that was ever transmitted
	next   wire.Seq // next frame to place

	slots   [wire.NumVCs]uint32 // the peer's receiver channel sizes, in packets
	slot    [wire.NumVCs]uint32 // number of the next packet, modulo slots
	sent    [wire.NumVCs]uint32 // packets placed
	acked   [wire.NumVCs]uint32 // packets acknowledged whole
	limit   [wire.NumVCs]uint32 // packets that this end may have placed according to the latest grants
	starved [wire.NumVCs]bool   // the link refused a packet for lack of credit, or has heard no grant yet

	outSince    mono.Time // when the oldest frame under way was sent; frames have been under way without a pause since then
	rtoAt       mono.Time
	backoff     int
	flight      int       // frames after base that the link may have under way
	goBackSeq   wire.Seq  // base at the latest go-back
	goBackAt    mono.Time // time of the latest go-back
	wentBack    bool
	timed       wire.Seq  // frame whose round trip the link measures; the link sent this frame only once (Karn)
	timedAt     mono.Time // when the timed frame was sent
	timing      bool
	probeAt     mono.Time // when the link asks the peer for credits; 0: not armed
	probeTries  int
	solicitDue  bool
	keepaliveAt mono.Time
	ackedAt     mono.Time // when a frame was last acknowledged, or the link came up
}

// reset begins a session.
func (s *sender) reset(first wire.Seq, slots [wire.NumVCs]uint16) {
	old := s.slab
	old.clear()
	*s = sender{slab: old, base: first, cursor: first, sentTo: first, next: first, flight: MaxFrames}
	for v, n := range slots {
		s.slots[v] = uint32(n)
		s.starved[v] = n > 0 // until the end hears the first grant
	}
}

// resume sends all unacknowledged frames again.
func (s *sender) resume(now mono.Time, rtt *rttEstimate, p *Profile) {
	s.cursor = s.base
	s.timing, s.wentBack, s.backoff, s.flight = false, false, 0, MaxFrames
	s.outSince = now
	s.rtoAt = now.Add(rtt.timeout(p, 0))
	s.probeAt, s.probeTries, s.solicitDue = 0, 0, false
	s.ackedAt = now
}

// abandon forgets the unacknowledged frames and gives the slab back.
func (s *sender) abandon() {
	s.slab.drop()
	s.base, s.cursor, s.sentTo = s.next, s.next, s.next
}

// unacked counts, per VC, the packets that were placed and are not yet wholly acknowledged.
func (s *sender) unacked() (n [wire.NumVCs]int) {
	for v := range n {
		n[v] = int(s.sent[v] - s.acked[v])
	}
	return n
}

// widest returns the padded payload of the largest unacknowledged frame.
func (s *sender) widest() int {
	n := 0
	for q := s.base; q != s.next; q = q.Add(1) {
		n = max(n, int(s.slab.at(q).padded))
	}
	return n
}

func (s *sender) outstanding() bool { return s.sentTo != s.base }

// sendable reports whether there is a frame at the cursor that the link may transmit.
func (s *sender) sendable() bool { return s.cursor != s.next && s.cursor.Sub(s.base) < s.flight }

// pieces returns the number of equal frames into which a packet of size bytes is cut, and their
// padded payload.
func (l *Link) pieces(size int) (n, padded int) {
	if size <= l.agreed {
		return 1, wire.PadTo(size)
	}
	n = (size + l.agreed - 1) / l.agreed
	return n, wire.PadTo((size + n - 1) / n)
}

// CanSend reports whether the link would take a packet of size bytes now; size is 1 to [MaxPacket].
// The link takes a packet if the link is up, and has credit on vc and room in the slab. If CanSend
// or [Link.Send] refuses a packet for lack of credit, the link arms a probe. The probe asks the
// peer for its grants in case the grants were lost. If size or vc is out of range, CanSend panics.
func (l *Link) CanSend(vc wire.VC, size int) bool {
	if size <= 0 || size > MaxPacket || vc >= wire.NumVCs {
		panic(fmt.Sprintf("ttlink: packet of %d bytes on VC %d: want 1 to %d on a VC below %d", size, vc, MaxPacket, wire.NumVCs))
	}
	if l.state != StateUp {
		return false
	}
	if l.tx.sent[vc] == l.tx.limit[vc] {
		l.tx.starved[vc] = l.tx.slots[vc] > 0
		l.armProbe(l.now)
		return false
	}
	n, padded := l.pieces(size)
	return l.tx.slab.fits(n, wire.FrameOverhead+padded, l.cfg.Window)
}

// Send copies a packet into the retransmit slab, as equal pieces with consecutive sequence numbers.
// Send reports whether it took the packet; see [Link.CanSend]. The link delivers a packet that Send
// took once and in order, unless the session ends first. [EventSessionEnded] counts the packets
// whose session ended first.
func (l *Link) Send(now mono.Time, vc wire.VC, packet []byte) bool {
	l.now = now
	if !l.CanSend(vc, len(packet)) {
		return false
	}
	if len(packet) <= l.agreed {
		copy(l.placeOne(vc, len(packet)), packet)
		return true
	}
	n, padded := l.pieces(len(packet))
	each := (len(packet) + n - 1) / n
	for off := 0; off < len(packet); off += each {
		m := frameMeta{
			dest: wire.SlotAddress(l.tx.slot[vc], off), padded: uint16(padded),
			length: uint16(min(each, len(packet)-off)), vc: vc,
		}
		if off+each >= len(packet) {
			m.flags = wire.FlagEnd
		}
		body := l.place(m)
		clear(body[copy(body, packet[off:off+int(m.length)]):])
	}
	l.placed(vc, len(packet))
	return true
}

// Place does the same as [Link.Send] for a packet that fits into one frame and whose bytes the
// caller writes. Place returns the packet's bytes in the slab. The caller fills these bytes before
// any other call to the link. If Send would report false, or if the packet needs several frames,
// Place reports false and changes nothing.
func (l *Link) Place(now mono.Time, vc wire.VC, size int) ([]byte, bool) {
	l.now = now
	if size > l.agreed || !l.CanSend(vc, size) {
		return nil, false
	}
	return l.placeOne(vc, size), true
}

// placeOne makes the frame of a packet that fits into one frame, and returns the room for the
// packet.
func (l *Link) placeOne(vc wire.VC, size int) []byte {
	body := l.place(frameMeta{dest: wire.SlotAddress(l.tx.slot[vc], 0), padded: uint16(wire.PadTo(size)), length: uint16(size), vc: vc, flags: wire.FlagEnd})
	clear(body[size:])
	l.placed(vc, size)
	return body[:size]
}

// place makes the next frame and returns the room for its padded payload.
func (l *Link) place(m frameMeta) []byte {
	frame := l.tx.slab.place(l.tx.next, m, l.cfg.Window)
	l.tx.next = l.tx.next.Add(1)
	return frame[wire.EnvelopeLen+wire.HeaderLen : len(frame)-wire.TrailerLen]
}

// placed counts a packet of size bytes after its frames have been placed.
func (l *Link) placed(vc wire.VC, size int) {
	l.tx.sent[vc]++
	if l.tx.slot[vc]++; l.tx.slot[vc] == l.tx.slots[vc] {
		l.tx.slot[vc] = 0
	}
	l.books.all[vc.Class()].Sent++
	l.counters.PayloadSent += uint64(size)
}

// handleAck takes a cumulative acknowledgement. The argument ack is the next sequence number that
// the peer expects.
func (l *Link) handleAck(now mono.Time, ack wire.Seq) {
	t := &l.tx
	n := ack.Sub(t.base)
	if n <= 0 {
		return // an old or repeated acknowledgement
	}
	if ack.Sub(t.sentTo) > 0 {
		l.counters.BadAcks++
		return
	}
	if t.timing && t.timed.Before(ack) {
		t.timing, t.backoff = false, 0
		l.rtt.sample(now.Sub(t.timedAt))
	}
	t.flight = min(t.flight+n, MaxFrames)
	for ; t.base != ack; t.base = t.base.Add(1) {
		if m := t.slab.at(t.base); m.flags&wire.FlagEnd != 0 {
			t.acked[m.vc]++
			l.books.all[m.vc.Class()].Acked++
		}
		t.slab.release(t.base)
	}
	if t.cursor.Before(t.base) {
		t.cursor = t.base
	}
	// The backoff stays until the link has timed a frame that it sent only once (RFC 6298 §5.7). If
	// the path has become slower than the timeout, the link sends each frame twice. Without the
	// backoff, the link would then never send a frame only once.
	t.rtoAt = now.Add(l.rtt.timeout(&l.cfg.Profile, t.backoff))
	t.ackedAt = now
}

// handleGrants takes absolute credits. Grants older than the latest grants change nothing.
func (l *Link) handleGrants(grants [wire.NumVCs]uint32) {
	t := &l.tx
	for v, g := range grants {
		switch {
		case int32(g-t.limit[v]) <= 0:
		case g-t.sent[v] > t.slots[v]:
			l.counters.CreditViolations++
		default:
			t.limit[v] = g
			t.starved[v] = false
		}
	}
	if !t.anyStarved() {
		t.probeAt, t.probeTries = 0, 0
	}
}

func (s *sender) anyStarved() bool {
	for _, b := range s.starved {
		if b {
			return true
		}
	}
	return false
}

// armProbe sets the time at which a sender without credit asks the peer for its grants.
func (l *Link) armProbe(now mono.Time) {
	if t := &l.tx; t.probeAt == 0 && t.anyStarved() {
		wait := min(l.rtt.timeout(&l.cfg.Profile, t.probeTries), max(l.cfg.Profile.Keepalive, l.rtt.timeout(&l.cfg.Profile, 0)))
		t.probeAt = now.Add(l.jitter(wait))
	}
}

// handleNACK goes back to the missing frame, at most once per round trip. A NACK that comes sooner
// after a go-back answers frames that were sent before that go-back.
func (l *Link) handleNACK(now mono.Time, missing wire.Seq) {
	t := &l.tx
	l.counters.NACKsReceived++
	if missing != t.base || !t.outstanding() {
		return
	}
	if t.wentBack && now.Sub(t.goBackAt) < max(l.rtt.least, goBackMin) {
		return
	}
	l.counters.GoBacks++
	l.goBack(now)
}

// goBack sends the frames again, from the oldest unacknowledged frame on. The receiver drops all
// frames sent after a lost frame. For that reason goBack limits the frames under way to a few times
// what came through since the last go-back. One call cuts the limit at most by half.
// Acknowledgements double the limit again each round trip. Without the limit, a path that loses or
// reorders many frames would carry hundreds of frames for each frame that the receiver takes.
func (l *Link) goBack(now mono.Time) {
	t := &l.tx
	through := 0
	if t.wentBack {
		through = t.base.Sub(t.goBackSeq)
	}
	t.flight = max(t.flight/2, min(flightGain*through, t.flight), minFlight)
	t.cursor = t.base
	t.wentBack, t.goBackSeq, t.goBackAt = true, t.base, now
	t.timing = false
	t.rtoAt = now.Add(l.rtt.timeout(&l.cfg.Profile, t.backoff))
}

// tickSend runs the sender's timers while the link is up.
func (l *Link) tickSend(now mono.Time) {
	t := &l.tx
	if t.outstanding() && !now.Before(t.rtoAt) {
		l.counters.Timeouts++
		t.backoff = min(t.backoff+1, maxBackoff)
		l.goBack(now)
	}
	l.armProbe(now)
	if t.probeAt != 0 && !now.Before(t.probeAt) {
		t.solicitDue = true
		t.probeTries = min(t.probeTries+1, maxBackoff)
		t.probeAt = 0
		l.armProbe(now)
	}
}

// rttEstimate is a smoothed round trip with its variation (RFC 6298 §2).
type rttEstimate struct {
	smoothed, variation time.Duration // smoothed round trip and its variation; 0 before the first sample
	least               time.Duration // shortest round trip; rises slowly
}

func (r *rttEstimate) sample(d time.Duration) {
	d = max(min(d, MaxRTT), time.Microsecond)
	if r.smoothed == 0 {
		r.smoothed, r.variation, r.least = d, d/2, d
		return
	}
	if d < r.smoothed/staleRTT {
		// A stall at either end made the earlier estimate far too long.
		r.smoothed, r.variation, r.least = d, d/2, d
		return
	}
	r.least = min(d, r.least+(r.smoothed-r.least)/64)
	r.variation = (3*r.variation + (r.smoothed - d).Abs()) / 4
	r.smoothed = (7*r.smoothed + d) / 8
}

// timeout returns the retransmission timeout after backoff doublings.
func (r *rttEstimate) timeout(p *Profile, backoff int) time.Duration {
	base := max(p.RTOMin, initialRTO)
	if r.smoothed > 0 {
		base = max(p.RTOMin, 2*r.smoothed, r.smoothed+4*r.variation)
	}
	return min(base<<backoff, max(p.RTOMax, base))
}

// dead returns the silence after which the path counts as lost while frames are under way.
func (r *rttEstimate) dead(p *Profile) time.Duration {
	if r.smoothed == 0 {
		return max(p.DeadTraffic, unknownDead)
	}
	return max(p.DeadTraffic, min(r.patience(), maxDead))
}

// patience returns four round trips with four times their variation.
func (r *rttEstimate) patience() time.Duration { return 4*r.smoothed + 4*r.variation }

// doubtful reports whether the estimate is so long that the link takes longer than the profile says
// to notice a dead peer.
func (r *rttEstimate) doubtful(p *Profile) bool { return r.patience() > p.DeadTraffic }
