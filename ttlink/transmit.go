package ttlink

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Transmit is what to send next: consecutive frames of Seg bytes each, one datagram per frame. Data
// is valid until the next call of any method.
type Transmit struct {
	Data []byte
	Seg  int
	Path Path // the cable to use; [Own] unless the link has fallback paths
}

// PollTransmit returns what to send next: a close frame, then hellos, then batches of data, then at
// most one sequence update. The owner calls PollTransmit until it returns false.
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
	if l.tx.sendable() {
		return l.pollData(now), true
	}
	if l.rx.updateDue || l.rx.nackDue || l.tx.solicitDue {
		return l.pollUpdate(now), true
	}
	return Transmit{}, false
}

// pollData seals and returns frames, beginning at the cursor. The frames have the same size and lie
// directly one after another.
func (l *Link) pollData(now mono.Time) Transmit {
	t := &l.tx
	first := t.slab.at(t.cursor)
	size := first.size()
	start, end := int(first.off), int(first.off)
	if !t.outstanding() {
		t.outSince = now
		t.rtoAt = now.Add(l.rtt.timeout(&l.cfg.Profile, t.backoff))
	}
	f := wire.Frame{Channel: l.cfg.Peer.Channel, Session: l.sess.id, Kind: wire.KindData, RxSeq: l.rx.expected, Padded: int(first.padded)}
	for n := 0; n < MaxBatchFrames && t.sendable(); n++ {
		m := t.slab.at(t.cursor)
		if int(m.off) != end || m.size() != size || end+size-start > MaxBatchBytes {
			break
		}
		frame := t.slab.bytes(m)
		f.VC, f.Flags, f.Dest, f.TxSeq = m.vc, m.flags, m.dest, t.cursor
		f.Payload = frame[wire.EnvelopeLen+wire.HeaderLen:][:m.length]
		f.Seal(frame)
		end += size
		l.counters.DataSent++
		if t.cursor.Before(t.sentTo) {
			l.counters.Retransmitted++
		} else {
			t.sentTo = t.cursor.Add(1)
			if !t.timing {
				t.timing, t.timed, t.timedAt = true, t.cursor, now
			}
		}
		t.cursor = t.cursor.Add(1)
	}
	l.rx.updateDue = l.rx.grantsDue // the data carries the acknowledgement
	l.rx.acked()
	l.sentOfSession(now)
	return l.count(Transmit{Data: t.slab.buf[start:end:end], Seg: size, Path: l.paths.now})
}

// pollUpdate returns one sequence update with every acknowledgement, grant and answer that this end
// owes.
func (l *Link) pollUpdate(now mono.Time) Transmit {
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
	f.Payload = u.Append(l.control[wire.EnvelopeLen+wire.HeaderLen : wire.EnvelopeLen+wire.HeaderLen])
	l.rx.updateDue, l.rx.grantsDue, l.rx.nackDue, l.tx.solicitDue = false, false, false, false
	l.counters.UpdatesSent++
	l.sentOfSession(now)
	return l.sealControl(&f, l.paths.now)
}

// sealControl finishes a frame whose payload lies in the control buffer.
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
	l.counters.FramesSent += uint64(len(t.Data) / t.Seg)
	l.counters.BytesSent += uint64(len(t.Data))
	return t
}

// sentOfSession postpones the keepalive.
func (l *Link) sentOfSession(now mono.Time) {
	l.tx.keepaliveAt = now.Add(l.cfg.Profile.Keepalive)
}

// deadAt returns when the link goes down if no frame comes that prevents it.
func (l *Link) deadAt() mono.Time { return mono.Min(l.silentAt(), l.stuckAt()) }

// stuckAt returns when the link goes down because its oldest frame does not get through, although
// other frames may get through. A path that has become narrower drops only the long frames.
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

// silentAt returns when silence takes the link down. While frames are under way, the link allows a
// shorter silence. The silence begins with the latest sign of life, or when these frames were first
// sent.
func (l *Link) silentAt() mono.Time {
	p := &l.cfg.Profile
	at := l.sess.life.Add(max(p.DeadIdle, min(l.rtt.patience(), maxDead)))
	if l.tx.outstanding() {
		from := l.sess.life
		if from.Before(l.tx.outSince) {
			from = l.tx.outSince
		}
		at = mono.Min(at, from.Add(l.rtt.dead(p)))
	}
	return at
}

// Deadline returns when the owner must call [Link.Tick] next, if ever.
func (l *Link) Deadline() (mono.Time, bool) {
	at := mono.Never
	if l.saysHello() {
		at = l.train.helloAt
	}
	if l.state == StateUp {
		at = mono.Min(at, mono.Min(l.deadAt(), l.tx.keepaliveAt))
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

// Tick runs the timers. If Tick comes much later than [Link.Deadline], the owner's loop stood
// still. The link then does not count the delay as silence of the peer.
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
				l.tx.keepaliveAt = now.Add(l.jitter(l.cfg.Profile.Keepalive))
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

// forgive moves the silence clock forward by a stall. Measurements of frames sent before the stall
// tell nothing about the path.
func (l *Link) forgive(now mono.Time, stall time.Duration) {
	l.stalled = now
	l.tx.timing = false
	l.sess.life = mono.Min(now, l.sess.life.Add(stall))
	l.tx.outSince = mono.Min(now, l.tx.outSince.Add(stall))
	l.tx.ackedAt = mono.Min(now, l.tx.ackedAt.Add(stall))
}
