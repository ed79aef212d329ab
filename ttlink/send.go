package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// sender holds what this end knows about the frames and packets that it sends.
//
// Invariant: base ≤ cursor ≤ next and base ≤ sentTo ≤ next in wrapping order, next-base ≤ MaxFrames.
// Invariant: sent[v] ≤ limit[v] ≤ sent[v]+slots[v].
// Invariant: minFlight ≤ flight ≤ MaxFrames.
type sender struct {
	slab   slab
	base   wire.Seq // number of the oldest unacknowledged frame
	cursor wire.Seq // number of the next frame to transmit, for the first time or again
	sentTo wire.Seq // number after the newest frame that was ever transmitted
	next   wire.Seq // number of the next frame to place into the slab

	slots   [wire.NumVCs]uint32 // sizes of the peer's receiver channels, in packets
	slot    [wire.NumVCs]uint32 // slot of the next packet at the peer
	sent    [wire.NumVCs]uint32 // packets placed into the slab in this session
	acked   [wire.NumVCs]uint32 // packets of which all frames are acknowledged
	limit   [wire.NumVCs]uint32 // number of packets that the latest grants allow this end to place in this session
	starved [wire.NumVCs]bool   // the link lacks credit for a packet, or has received no grant yet

	outSince    mono.Time // start of the present period in which at least one transmitted frame is unacknowledged
	rtoAt       mono.Time
	backoff     int
	flight      int       // the link may transmit at most this many frames, counted from base on
	goBackSeq   wire.Seq  // value of base at the latest go-back
	goBackAt    mono.Time // time of the latest go-back
	wentBack    bool
	timed       wire.Seq  // number of the frame whose round trip the link measures; the link has sent this frame only once (Karn's algorithm)
	timedAt     mono.Time // when the timed frame was sent
	timing      bool
	probeAt     mono.Time // when the link asks the peer for its grants; 0: the link need not ask
	probeTries  int
	solicitDue  bool
	keepaliveAt mono.Time
	ackedAt     mono.Time // when a frame was last acknowledged, or when the link came up if that was later
}

// reset prepares the sender for a new session.
func (s *sender) reset(first wire.Seq, slots [wire.NumVCs]uint16) {
	old := s.slab
	old.clear()
	*s = sender{slab: old, base: first, cursor: first, sentTo: first, next: first, flight: MaxFrames}
	for v, n := range slots {
		s.slots[v] = uint32(n)
		s.starved[v] = n > 0 // until the first grant comes
	}
}

// resume makes the link send all unacknowledged frames again, after the link has come up.
func (s *sender) resume(now mono.Time, rtt *rttEstimate, p *Profile) {
	s.cursor = s.base
	s.timing, s.wentBack, s.backoff, s.flight = false, false, 0, MaxFrames
	s.outSince = now
	s.rtoAt = now.Add(rtt.timeout(p, 0))
	s.probeAt, s.probeTries, s.solicitDue = 0, 0, false
	s.ackedAt = now
}

// abandon drops the unacknowledged frames and frees the slab's memory.
func (s *sender) abandon() {
	s.slab.drop()
	s.base, s.cursor, s.sentTo = s.next, s.next, s.next
}

// unacked returns, for each VC, the number of packets that were placed and have an unacknowledged
// frame.
func (s *sender) unacked() (n [wire.NumVCs]int) {
	for v := range n {
		n[v] = int(s.sent[v] - s.acked[v])
	}
	return n
}

// Unacked calls f for each packet with an unacknowledged frame, the oldest first. The argument
// "piece" is the first piece of the packet, or the packet's headers if the first piece is
// acknowledged. The argument is valid only during the call.
func (l *Link) Unacked(f func(piece []byte)) {
	if l.tx.base != l.tx.next {
		if m := l.tx.slab.at(l.tx.base); m.packet() && !m.first() {
			f(l.tx.slab.cut)
		}
	}
	for q := l.tx.base; q != l.tx.next; q = q.Add(1) {
		if m := l.tx.slab.at(q); m.first() {
			f(l.tx.slab.payload(m))
		}
	}
}

// headMost is the largest number of bytes before the payload of a packet.
const headMost = wire.MaxPacket - wire.MaxPayload

// widest returns the padded payload of the largest unacknowledged frame, in bytes. If there is no
// such frame, widest returns 0.
func (s *sender) widest() int {
	n := 0
	for q := s.base; q != s.next; q = q.Add(1) {
		n = max(n, int(s.slab.at(q).padded))
	}
	return n
}

func (s *sender) outstanding() bool { return s.sentTo != s.base }

// sendable reports whether a frame waits at the cursor, and the limit flight allows its
// transmission.
func (s *sender) sendable() bool { return s.cursor != s.next && s.cursor.Sub(s.base) < s.flight }

// Waiting reports whether frames wait for [Link.PollTransmit].
func (l *Link) Waiting() bool { return l.tx.cursor != l.tx.next }

// pieces returns the number n of frames into which a packet of size bytes is cut, and the padded
// payload of each frame.
func (l *Link) pieces(size int) (n, padded int) {
	if size <= l.agreed {
		return 1, wire.PadTo(size)
	}
	n = (size + l.agreed - 1) / l.agreed
	return n, wire.PadTo((size + n - 1) / n)
}

// CanSend reports whether [Link.Send] would accept a packet of size bytes on vc now. The link must
// be up, have a credit on vc, and have room in the slab. If a link that is up has no credit on vc,
// it later asks the peer for its grants. A frame with grants may have been lost. If size is not 1
// to the size of the VC's slots, or vc is out of range, CanSend panics.
func (l *Link) CanSend(vc wire.VC, size int) bool {
	if vc >= wire.NumVCs || size <= 0 || size > vc.SlotSize() {
		panic(fmt.Sprintf("ttlink: packet of %d bytes on VC %d: want 1 to %d, or %d for control, on a VC below %d", size, vc, MaxPacket, wire.ControlLen, wire.NumVCs))
	}
	if l.state != StateUp {
		return false
	}
	if l.tx.sent[vc] == l.tx.limit[vc] {
		l.tx.starved[vc] = l.tx.slots[vc] > 0
		l.ranDry(l.now, vc, int(l.tx.slots[vc]))
		l.armProbe(l.now)
		return false
	}
	n, padded := l.pieces(size)
	return (!l.writes.wait || l.packetShare(n, n*(wire.FrameOverhead+padded))) &&
		l.tx.slab.fits(n, wire.FrameOverhead+padded, l.cfg.Window)
}

// Send copies a packet into the retransmit slab, cut into frames. If the link does not accept the
// packet (see [Link.CanSend]), Send returns false. The peer gets each accepted packet once and in
// order, unless the session ends (see [EventSessionEnded]) or the owner closes the link. Send
// panics for the same sizes and VCs as CanSend.
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
			dest: wire.SlotAddress(vc, l.tx.slot[vc], off), padded: uint16(padded),
			length: uint16(min(each, len(packet)-off)), vc: vc, kind: wire.KindData,
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

// Place reserves a frame in the slab for a packet of size bytes, and returns the memory for the
// packet. The caller must write the packet into this memory before any other call to the link. If
// the link does not accept the packet, or if the packet needs several frames, Place returns false.
func (l *Link) Place(now mono.Time, vc wire.VC, size int) ([]byte, bool) {
	l.now = now
	if size > l.agreed || !l.CanSend(vc, size) {
		return nil, false
	}
	return l.placeOne(vc, size), true
}

// placeOne places a packet that fits into one frame, and returns the packet's memory.
func (l *Link) placeOne(vc wire.VC, size int) []byte {
	body := l.place(frameMeta{dest: wire.SlotAddress(vc, l.tx.slot[vc], 0), padded: uint16(wire.PadTo(size)), length: uint16(size), vc: vc, flags: wire.FlagEnd, kind: wire.KindData})
	clear(body[size:])
	l.placed(vc, size)
	return body[:size]
}

// place reserves the next frame in the slab, and returns the memory for the frame's padded payload.
func (l *Link) place(m frameMeta) []byte {
	frame := l.tx.slab.place(l.tx.next, m, l.cfg.Window)
	l.tx.next = l.tx.next.Add(1)
	return frame[wire.EnvelopeLen+wire.HeaderLen : len(frame)-wire.TrailerLen]
}

// placed counts a packet of size bytes whose frames have all been placed.
func (l *Link) placed(vc wire.VC, size int) {
	l.tx.sent[vc]++
	if l.tx.slot[vc]++; l.tx.slot[vc] == l.tx.slots[vc] {
		l.tx.slot[vc] = 0
	}
	l.books.all[vc.Class()].Sent++
	l.counters.PayloadSent += uint64(size)
}

// handleAck releases the frames that the peer acknowledges. The argument ack is the next sequence
// number that the peer expects. handleAck ignores and counts an acknowledgement of frames that were
// never sent.
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
	var first frameMeta // first frame of the packet that base is in, if this call releases the frame
	for ; t.base != ack; t.base = t.base.Add(1) {
		m := t.slab.at(t.base)
		if !m.packet() {
			l.writes.acked(m)
		} else if m.flags&wire.FlagEnd != 0 {
			t.acked[m.vc]++
			l.books.all[m.vc.Class()].Acked++
			first.length = 0
		} else if m.first() {
			first = *m
		}
		t.slab.release(t.base)
	}
	if first.length > 0 {
		t.slab.cut = append(t.slab.cut[:0], t.slab.payload(&first)[:min(int(first.length), headMost)]...)
	}
	if t.cursor.Before(t.base) {
		t.cursor = t.base
	}
	// The backoff stays until the link has measured the round trip of a frame that the link sent
	// only once (RFC 6298 §5.7). If the path has become slower than the timeout, the link sends
	// each frame twice. With the longer timeout, the link sends some frames only once, and can
	// measure the round trips of these frames.
	t.rtoAt = now.Add(l.rtt.timeout(&l.cfg.Profile, t.backoff))
	t.ackedAt = now
}

// handleGrants stores the peer's newer grants. handleGrants ignores a grant above the number of
// packets sent plus the peer's slots, and counts a violation.
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

// armProbe sets the time at which the link asks the peer for its grants. If no VC lacks credit, or
// a time is already set, armProbe does nothing.
func (l *Link) armProbe(now mono.Time) {
	if t := &l.tx; t.probeAt == 0 && t.anyStarved() {
		wait := min(l.rtt.timeout(&l.cfg.Profile, t.probeTries), max(l.cfg.Profile.Keepalive, l.rtt.timeout(&l.cfg.Profile, 0)))
		t.probeAt = now.Add(l.jitter(wait))
	}
}

// handleNACK goes back to the missing frame, at most once per round trip. If the missing frame is
// not the oldest unacknowledged frame, handleNACK only counts the NACK. A NACK that comes within a
// round trip after a go-back was sent before the frames of that go-back arrived.
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
	l.goBack(now, true)
}

// goBack makes the link send all unacknowledged frames again, the oldest first. goBack also reduces
// the number of frames that may be under way, because the receiver drops all frames after a lost
// frame. The new limit is flightGain times the number of frames acknowledged since the last
// go-back. The new limit is at least half of the old limit and at least minFlight, and at most the
// old limit. Without the limit, a path that loses many frames would carry hundreds of frames for
// each frame that the receiver accepts. The argument "proved" says whether the peer was alive when
// the peer missed a frame.
func (l *Link) goBack(now mono.Time, proved bool) {
	t := &l.tx
	through := 0
	if t.wentBack {
		through = t.base.Sub(t.goBackSeq)
	}
	t.flight = max(t.flight/2, min(flightGain*through, t.flight), minFlight)
	t.cursor = t.base
	t.wentBack, t.goBackSeq, t.goBackAt = true, t.base, now
	l.damping.proved = proved
	t.timing = false
	t.rtoAt = now.Add(l.rtt.timeout(&l.cfg.Profile, t.backoff))
}

// tickSend goes back if the retransmission timeout has expired, and asks for grants if it is time.
// Half of the timeout is at least a round trip. If a frame of the peer came in the second half, the
// timeout proves a loss. A peer that was silent may merely have stalled.
func (l *Link) tickSend(now mono.Time) {
	t := &l.tx
	if t.outstanding() && !now.Before(t.rtoAt) {
		l.counters.Timeouts++
		lately := t.rtoAt.Add(-l.rtt.timeout(&l.cfg.Profile, t.backoff) / 2)
		t.backoff = min(t.backoff+1, maxBackoff)
		l.goBack(now, l.sess.life.After(lately))
	}
	l.armProbe(now)
	if t.probeAt != 0 && !now.Before(t.probeAt) {
		t.solicitDue = true
		t.probeTries = min(t.probeTries+1, maxBackoff)
		t.probeAt = 0
		l.armProbe(now)
	}
}

// rttEstimate estimates the round-trip time of a path from measurements (RFC 6298 §2).
type rttEstimate struct {
	smoothed, variation time.Duration // smoothed round trip and its variation; 0 before the first measurement
	least               time.Duration // shortest measured round trip, which slowly rises towards smoothed
}

func (r *rttEstimate) sample(d time.Duration) {
	d = max(min(d, MaxRTT), time.Microsecond)
	if r.smoothed == 0 {
		r.smoothed, r.variation, r.least = d, d/2, d
		return
	}
	if d < r.smoothed/staleRTT {
		// The earlier estimate is far too long, for example because an end was stalled during a
		// measurement.
		r.smoothed, r.variation, r.least = d, d/2, d
		return
	}
	r.least = min(d, r.least+(r.smoothed-r.least)/64)
	r.variation = (3*r.variation + (r.smoothed - d).Abs()) / 4
	r.smoothed = (7*r.smoothed + d) / 8
}

// timeout returns the retransmission timeout after the given number of doublings. The timeout is at
// least RTOMin, and doubling does not lead beyond RTOMax. Before the first measurement, the timeout
// starts from at least initialRTO.
func (r *rttEstimate) timeout(p *Profile, backoff int) time.Duration {
	base := max(p.RTOMin, initialRTO)
	if r.smoothed > 0 {
		base = max(p.RTOMin, 2*r.smoothed, r.smoothed+4*r.variation)
	}
	return min(base<<backoff, max(p.RTOMax, base))
}

// dead returns the time without a frame from the peer after which a link with frames under way goes
// down. The time is at least DeadTraffic.
func (r *rttEstimate) dead(p *Profile) time.Duration {
	if r.smoothed == 0 {
		return max(p.DeadTraffic, unknownDead)
	}
	return max(p.DeadTraffic, min(r.patience(), maxDead))
}

// patience returns four times the smoothed round trip plus four times its variation.
func (r *rttEstimate) patience() time.Duration { return 4*r.smoothed + 4*r.variation }

// doubtful reports whether the measured round trip is so long that the link needs more time than
// DeadTraffic to detect a dead peer.
func (r *rttEstimate) doubtful(p *Profile) bool { return r.patience() > p.DeadTraffic }
