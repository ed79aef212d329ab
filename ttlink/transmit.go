package ttlink

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Transmit holds one or more frames, one after another in Data. Each frame has Seg bytes, but the
// last frame may be shorter. The owner sends each frame as a datagram of its own. Data is valid until
// the next call of any method of the link.
type Transmit struct {
	Data []byte
	Seg  int
	Path Path // the path by which the owner must send the frames
}

// PollTransmit returns the next frames to send. A close frame comes first, then hellos, then data
// frames. At most one sequence update follows the data frames of a batch, or comes last. If the link
// has nothing to send, PollTransmit returns false.
func (l *Link) PollTransmit(now mono.Time) (Transmit, bool) {
	l.now = now
	if l.closePending {
		l.closePending = false
		f := wire.Frame{Kind: wire.KindClose, Session: l.sess.id, RxSeq: l.rx.expected}
		return l.sealControl(&f, l.paths.now), true
	}
	if t, ok := l.pollHello(now); ok {
		return t, true
	}
	if l.state != StateUp {
		return Transmit{}, false
	}
	if l.writes.wait {
		l.placeWrites()
	}
	if l.tx.sendable() {
		return l.pollData(now), true
	}
	if l.rx.updateDue || l.rx.nackDue || l.tx.solicitDue {
		return l.pollUpdate(now), true
	}
	return Transmit{}, false
}

// pollData returns data frames from the cursor on, as many as have equal size and lie in the slab
// one after another. The limits MaxBatchFrames, MaxBatchBytes and flight apply. The last frame of a
// super-packet may be shorter. So pollData adds one shorter frame to the equal frames: the next data
// frame, or a sequence update. A sequence update that is not due joins only several frames, because
// the kernel sends a single frame faster.
func (l *Link) pollData(now mono.Time) Transmit {
	t := &l.tx
	first := t.slab.at(t.cursor)
	size, start := first.size(), int(first.off)
	end, last := start, size // end of the frames, and size of the last frame
	if !t.outstanding() {
		t.outSince = now
		t.rtoAt = now.Add(l.rtt.timeout(&l.cfg.Profile, t.backoff))
	}
	f := wire.Frame{Channel: l.cfg.Peer.Channel, Session: l.sess.id, RxSeq: l.rx.expected}
	n := 0 // number of data frames
	for ; n < MaxBatchFrames && last == size && t.sendable(); n++ {
		m := t.slab.at(t.cursor)
		if int(m.off) != end || m.size() > size || end+m.size()-start > MaxBatchBytes {
			break
		}
		frame := t.slab.bytes(m)
		f.Padded, f.Kind, f.VC, f.Flags, f.Dest, f.TxSeq = int(m.padded), m.kind, m.vc, m.flags, m.dest, t.cursor
		f.Payload = frame[wire.EnvelopeLen+wire.HeaderLen:][:m.length]
		if !m.packet() {
			l.sendWrite(m, f.Payload)
		}
		f.Seal(frame)
		last = m.size()
		end += last
		l.counters.DataSent++
		if t.cursor.Before(t.sentTo) {
			l.counters.Retransmitted++
			if !l.damping.proved {
				l.damping.unproved++
			}
		} else {
			t.sentTo = t.cursor.Add(1)
			if !t.timing {
				t.timing, t.timed, t.timedAt = true, t.cursor, now
			}
		}
		t.cursor = t.cursor.Add(1)
	}
	if last == size && n < MaxBatchFrames && (l.rx.grantsDue || n > 1 && l.grantsHelp()) {
		if room := min(size, start+MaxBatchBytes-end, t.slab.behind(end)); room >= updateBytes {
			end += len(l.update(t.slab.buf[end : end+room]))
		}
	}
	l.rx.updateDue = l.rx.grantsDue // the data frames carry the acknowledgement
	l.rx.acked()
	l.sentOfSession(now)
	return l.count(Transmit{Data: t.slab.buf[start:end:end], Seg: size, Path: l.paths.now})
}

// pollUpdate returns a sequence update.
func (l *Link) pollUpdate(now mono.Time) Transmit {
	l.long = nil
	b := l.update(l.control[:])
	l.sentOfSession(now)
	return l.count(Transmit{Data: b, Seg: len(b), Path: l.paths.now})
}

// updateBytes is the length of the longest frame with a sequence update, in bytes.
const updateBytes = wire.FrameOverhead + wire.FullUpdateLen

// update writes the frame of a sequence update into b, and returns the frame. The sequence update
// has the acknowledgement, the grants, and a NACK or SOLICIT if due. The length of b must be at
// least updateBytes.
func (l *Link) update(b []byte) []byte {
	f := wire.Frame{Channel: l.cfg.Peer.Channel, Session: l.sess.id, Kind: wire.KindUpdate, RxSeq: l.rx.expected}
	if l.rx.nackDue {
		f.Flags |= wire.FlagNACK
		l.counters.NACKsSent++
	}
	if l.tx.solicitDue {
		f.Flags |= wire.FlagSolicit
		l.counters.SolicitsSent++
	}
	l.rx.granted = l.grants()
	l.rx.acked()
	u := wire.Update{Grants: l.rx.granted}
	f.Payload = u.Append(b[wire.EnvelopeLen+wire.HeaderLen : wire.EnvelopeLen+wire.HeaderLen])
	l.rx.updateDue, l.rx.grantsDue, l.rx.nackDue, l.tx.solicitDue = false, false, false, false
	l.counters.UpdatesSent++
	b = b[:f.WireLen()]
	f.Seal(b)
	return b
}

// sealControl completes and counts a frame whose payload lies in l.control: it fills in the
// destination channel, the header, the padding and the checksum.
func (l *Link) sealControl(f *wire.Frame, p Path) Transmit {
	f.Channel = l.cfg.Peer.Channel
	n, b := f.WireLen(), l.control[:]
	if n > len(b) {
		if len(l.long) != n {
			l.long = make([]byte, n)
		}
		b = l.long
		copy(b[wire.EnvelopeLen+wire.HeaderLen:], f.Payload)
	} else {
		l.long = nil
	}
	b = b[:n]
	f.Seal(b)
	return l.count(Transmit{Data: b, Seg: len(b), Path: p})
}

func (l *Link) count(t Transmit) Transmit {
	l.counters.FramesSent += uint64((len(t.Data) + t.Seg - 1) / t.Seg)
	l.counters.BytesSent += uint64(len(t.Data))
	return t
}

// sentOfSession postpones the next keepalive, because a data frame or a sequence update is sent at
// the instant now. Keepalives are sent on a grid of time. All links of a chip, and all chips of a
// machine, share the grid. The chips' processes therefore wake up once for many frames.
func (l *Link) sentOfSession(now mono.Time) {
	k := l.cfg.Profile.Keepalive
	next := now.Add(l.cfg.Profile.spare())
	wait := l.cfg.Phase.Sub(next) % k // Phase may lie before or after the instant next
	if wait < 0 {
		wait += k
	}
	l.tx.keepaliveAt = next.Add(wait)
}

// deadAt returns the instant at which the link goes down unless a frame comes from the peer before.
func (l *Link) deadAt() mono.Time { return mono.Min(l.silentAt(), l.stuckAt()) }

// stuckAt returns the instant at which the link goes down if the oldest frame stays unacknowledged.
// If no frame is under way, stuckAt returns mono.Never. Other frames may still arrive, because a
// path that has become narrower drops only long frames.
func (l *Link) stuckAt() mono.Time {
	if !l.tx.outstanding() {
		return mono.Never
	}
	from := l.tx.ackedAt
	if from.Before(l.tx.outSince) {
		from = l.tx.outSince
	}
	return from.Add(max(stuckMin, stuckTimeouts*l.rtt.timeout(&l.cfg.Profile, 0)))
}

// silentAt returns the instant at which the link goes down if no frame comes from the peer. While
// frames are under way, or after a refusal, the link goes down sooner.
func (l *Link) silentAt() mono.Time {
	at := l.sess.life.Add(l.idleDead())
	if l.tx.outstanding() {
		from := l.sess.life
		if from.Before(l.tx.outSince) {
			from = l.tx.outSince
		}
		at = mono.Min(at, from.Add(l.rtt.dead(&l.cfg.Profile)+l.sess.late))
	}
	if l.refused() {
		at = mono.Min(at, l.sess.refused.Add(l.refusedDead()))
	}
	return at
}

// idleDead returns the time without a frame from the peer after which an idle link goes down.
func (l *Link) idleDead() time.Duration {
	return max(l.cfg.Profile.DeadIdle, min(l.rtt.patience(), maxDead)) + l.sess.late
}

// askAt returns the instant at which the link next asks the peer for a frame because the peer has
// been silent. The link asks asksInSilence times before silence takes it down. If the owner's loop
// comes late, the link asks less often. After a refusal, the link asks at once and more often.
func (l *Link) askAt() mono.Time {
	if l.refused() {
		return l.sess.asked.Add(l.refusedDead() / refusedAsks)
	}
	quiet := l.cfg.Profile.quiet()
	every := max((l.idleDead()-quiet)/asksInSilence+1, l.sess.late/lateFactor)
	return max(l.sess.life.Add(quiet), l.sess.asked.Add(every))
}

// alive notes that a frame of the session has come from the peer.
func (l *Link) alive(now mono.Time) {
	l.sess.life, l.sess.forgiven = now, 0
	if l.sess.late != 0 && now.Sub(l.sess.lateAt) > lateRemember {
		l.sess.late = 0
	}
}

// Deadline returns the instant at which the owner must call [Link.Tick] next. If no timer of the
// link runs, Deadline returns false.
func (l *Link) Deadline() (mono.Time, bool) {
	at := mono.Never
	if l.saysHello() {
		at = l.train.helloAt
	}
	if l.state == StateUp {
		at = mono.Min(mono.Min(at, l.deadAt()), mono.Min(l.askAt(), l.tx.keepaliveAt))
		if l.tx.outstanding() {
			at = mono.Min(at, l.tx.rtoAt)
		}
		if l.rx.gap {
			at = mono.Min(at, l.rx.nackAt)
		}
		if l.rx.ackAt != 0 {
			at = mono.Min(at, l.rx.ackAt)
		}
		if l.tx.probeAt != 0 {
			at = mono.Min(at, l.tx.probeAt)
		}
	}
	if l.held() {
		at = mono.Min(at, l.holdEnd())
	}
	at = mono.Min(at, l.sizeDeadline())
	if l.tx.slab.buf != nil && l.tx.slab.count == 0 {
		at = mono.Min(at, l.tx.ackedAt.Add(slabIdle))
	}
	return at, at != mono.Never
}

// Tick runs the timers that have expired. If the owner calls Tick more than [StallTolerance] after
// [Link.Deadline], the link does not count the delay as silence of the peer. An idle link counts
// delays up to [StallSilence].
func (l *Link) Tick(now mono.Time) {
	if at, ok := l.Deadline(); ok && now.Sub(at) > StallTolerance {
		l.forgive(now, now.Sub(at))
	}
	l.now = now
	if l.state == StateUp {
		if !now.Before(l.deadAt()) {
			why := DownSilence
			if now.Before(l.silentAt()) {
				why = DownStuck
			}
			if l.goDown(now, why); l.paths.now == Own {
				l.ownFailed(now)
			}
		} else {
			l.tickSend(now)
			l.tickReceive(now)
			if !now.Before(l.tx.keepaliveAt) {
				l.rx.updateDue, l.rx.grantsDue = true, true
				l.sentOfSession(now)
			}
			if !now.Before(l.askAt()) {
				l.sess.asked, l.tx.solicitDue = now, true
			}
		}
	}
	l.tickHold(now)
	l.tickHello(now)
	l.tickSize(now)
	if s := &l.tx.slab; s.buf != nil && s.count == 0 && now.Sub(l.tx.ackedAt) >= slabIdle {
		s.drop()
	}
}

// forgive notes that the owner's loop stood still until the instant now, and stops the running
// measurement of the round trip. If frames are under way, or if the stall was longer than
// StallSilence, the stall does not count as silence. forgive then moves the times at which silence
// begins forward by the length of the stall, but not beyond now. Frames of the peer may wait in the
// owner's socket. The peer's process may also stand still for as long as this process. The link
// therefore also waits longer for a silent peer.
func (l *Link) forgive(now mono.Time, stall time.Duration) {
	if l.stalled = now; stall >= l.cfg.Profile.RTOMin {
		l.damping.quality.stalled = now
	}
	l.tx.timing = false
	if stall <= StallSilence && !l.tx.outstanding() {
		return
	}
	if l.refused() {
		l.sess.refused = mono.Min(now, l.sess.refused.Add(stall))
	}
	l.sess.lateAt = now
	l.sess.late = max(l.sess.late, min(lateFactor*stall, l.cfg.Profile.DeadIdle))
	life := mono.Min(now, l.sess.life.Add(stall))
	l.sess.life, l.sess.forgiven = life, l.sess.forgiven+life.Sub(l.sess.life)
	l.tx.outSince = mono.Min(now, l.tx.outSince.Add(stall))
	l.tx.ackedAt = mono.Min(now, l.tx.ackedAt.Add(stall))
}
