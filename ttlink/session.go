package ttlink

import "ttfabric/wire/mono"

// sessionEnded closes the packet counts of the session, and reports the end of the session.
func (l *Link) sessionEnded(now mono.Time, why SessionEnd) {
	l.books.close(l.sess.id, l.sess.peer)
	l.events.push(Event{Kind: EventSessionEnded, At: now, Session: l.sess.id, Retrains: l.history.retrains, SessionNews: SessionNews{Peer: l.sess.peer, End: why},
		Unknown: l.tx.unacked(), UnknownWrites: l.writes.abandon()})
}

// renew ends the session, and takes a new incarnation for this end. The process stays the same, so
// the life does not change. Forsake calls renew. comeUp calls renew if unacknowledged frames are
// too long for the path. This end cannot cut the packets of these frames again, because the peer
// may have received some of the frames.
func (l *Link) renew(now mono.Time, why SessionEnd) {
	l.sessionEnded(now, why)
	l.cfg.Incarnation = l.cfg.Incarnation.Renewed(l.rng.Uint32())
	l.tx.abandon()
	l.sess = session{last: l.sess.last, ended: l.sess.ended, endedNext: l.sess.endedNext}
	l.train.number++
	l.restartHellos(now)
}

// Forsake ends the session of a link that is down if the session has unacknowledged packets or
// writes. The fate of these packets and writes is then unknown, and the link never sends these
// packets and writes again. The owner calls Forsake after routes have changed to avoid the link.
// Without Forsake, a packet could arrive long after the sender has given up the packet.
func (l *Link) Forsake(now mono.Time) {
	l.now = now
	if l.sess.id != 0 && l.state != StateUp && l.state != StateClosed && (l.tx.slab.used > 0 || l.writes.wait) {
		l.renew(now, EndForsaken)
	}
}
